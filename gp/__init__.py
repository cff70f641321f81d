"""Gaussian processes: kernels, posteriors, hyperparameters, measures and kernel embeddings."""

from gp import kernels

__all__ = ["kernels"]
