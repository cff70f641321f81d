"""Posteriors with known moments and evidence: densities here, data from a folder that the user brings."""

from bqvi.models.reference.folder import MODELS, Reference, load_reference
from bqvi.models.reference.target import Target

__all__ = ["MODELS", "Reference", "Target", "load_reference"]
