"""Variational Bayesian Monte Carlo: evidence and posterior of an expensive model in few evaluations.

The front door is `bqvi.vbmc`. This package exports diagnostics of its results and distances between
posteriors. The posterior itself is a `bqvi.posterior.Posterior`.
"""

from bqvi.importance import Smoothed, psis
from bqvi.runs import Trace
from bqvi.variational_bmc.diagnostics import (
    Agreement,
    PosteriorCheck,
    advice,
    agreement,
    check,
    gskl,
    mmtv,
    total_variation,
)
from bqvi.variational_bmc.result import VBMCResult
from bqvi.variational_bmc.run import vbmc

__all__ = [
    "Agreement", "PosteriorCheck", "Smoothed", "Trace", "VBMCResult", "advice", "agreement", "check", "gskl",
    "mmtv", "psis", "total_variation", "vbmc",
]  # fmt: skip
