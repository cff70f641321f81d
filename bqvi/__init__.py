"""Bayesian quadrature and Gaussian processes for estimating ELBOs and their gradients."""

from bqvi import families, gradients, inference, models, quadrature
from bqvi.inference import (
    Adam,
    Constant,
    Cosine,
    Euclidean,
    Exponential,
    Fit,
    FitError,
    FitInterrupted,
    Natural,
    Riemannian,
    RobbinsMonro,
    TrustRegion,
    fit,
)
from bqvi.quadrature import Integral, integrate

__version__ = "0.1.0"

__all__ = [
    "Adam",
    "Constant",
    "Cosine",
    "Euclidean",
    "Exponential",
    "Fit",
    "FitError",
    "FitInterrupted",
    "Integral",
    "Natural",
    "Riemannian",
    "RobbinsMonro",
    "TrustRegion",
    "families",
    "fit",
    "gradients",
    "inference",
    "integrate",
    "models",
    "quadrature",
]
