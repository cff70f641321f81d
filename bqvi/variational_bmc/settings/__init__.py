"""Constants of VBMC that affect results.

The settings that a caller may change are in `state.Settings`.

    surrogate      the data of a surrogate, its hyperparameters, a cheap model
    frames         units, axes, and scales that depend on a coordinate
    mixture        components of q, new starts, modes
    weights        importance weights and proposals
    evaluations    climbs, the next points, feasibility, exploration
    convergence    predictions, comparisons, noise

The studies behind them are rows of `experiments/studies`.
"""

from bqvi.variational_bmc.settings.convergence import (
    COMPARISON,
    CONVERGENCE,
    NOISE,
    PREDICTIONS,
)
from bqvi.variational_bmc.settings.evaluations import EXPLORATION, FEASIBILITY, NODES
from bqvi.variational_bmc.settings.frames import FRAMES, SCALINGS
from bqvi.variational_bmc.settings.mixture import COMPONENTS, MODES, RESTARTS
from bqvi.variational_bmc.settings.surrogate import CHEAP, FITTING, SHAPING
from bqvi.variational_bmc.settings.weights import POOLED, WEIGHTS

__all__ = [
    "CHEAP", "COMPARISON", "COMPONENTS", "CONVERGENCE", "EXPLORATION",
    "FEASIBILITY", "FITTING", "FRAMES", "MODES", "NODES",
    "NOISE", "POOLED", "PREDICTIONS", "RESTARTS", "SCALINGS", "SHAPING", "WEIGHTS",
]  # fmt: skip
