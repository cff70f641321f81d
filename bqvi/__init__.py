"""Bayesian quadrature and Gaussian processes for estimating ELBOs and their gradients."""

# before the imports of gp and acquisition: other packages of these names may be installed
from typing import TYPE_CHECKING

import bqvi._siblings  # noqa: F401
from gp.names import attach

if TYPE_CHECKING:
    from bqvi import adapters, families, gradients, inference, models, quadrature
    from bqvi.calls import Design, EvaluationError, Run
    from bqvi.inference import (
        Adam,
        Constant,
        Cosine,
        Euclidean,
        Exponential,
        Fit,
        Natural,
        Record,
        Riemannian,
        RobbinsMonro,
        TrustRegion,
    )
    from bqvi.inference.fit import fit
    from bqvi.loading import load
    from bqvi.posterior import Posterior
    from bqvi.quadrature.integral import Integral
    from bqvi.quadrature.integrate import integrate
    from bqvi.runs import RunError, RunExit, RunInterrupted, RunStopped
    from bqvi.sampled_bounds import EvidenceBounds, evidence_bounds
    from bqvi.variational_bmc.result import VBMCResult
    from bqvi.variational_bmc.run import vbmc
else:
    __getattr__, __dir__ = attach(__name__)

__version__ = "0.2.0"

__all__ = [
    "Adam", "Constant", "Cosine", "Design", "Euclidean", "EvaluationError", "EvidenceBounds", "Exponential",
    "Fit", "Integral", "Natural", "Posterior", "Record", "Riemannian", "RobbinsMonro", "Run", "RunError",
    "RunExit", "RunInterrupted", "RunStopped", "TrustRegion", "VBMCResult", "adapters", "evidence_bounds",
    "families", "fit", "gradients", "inference", "integrate", "load", "models", "quadrature", "vbmc",
]  # fmt: skip
