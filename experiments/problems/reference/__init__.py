"""Posteriors with known moments and evidence: densities here, data from a folder of the user."""

from experiments.problems.reference.folder import MODELS, Reference, load_reference
from experiments.problems.reference.target import Target

__all__ = ["MODELS", "Reference", "Target", "load_reference"]
