"""Constants of VBMC that affect results: what each is, and what it was chosen on.

Unless it says otherwise, a constant was chosen when VBMC was built, on Rosenbrock, cigar and lumpy targets of
2 to 6 dimensions and the bounded banana (`experiments.problems.known_posteriors`) at 40 to 160 evaluations,
by the error of the log evidence, gsKL and time, with a few seeds each; no study of these choices was kept.
The settings that a caller may change are in `state.Settings`.

    surrogate      the data of a surrogate, its hyperparameters, a cheap model
    frames         units, axes, and scales that depend on a coordinate
    mixture        components of q, new starts, modes
    weights        importance weights and proposals
    evaluations    climbs, the next points, feasibility, exploration
    convergence    predictions, comparisons, noise, fresh starts, time
    result         the result and its warnings

A factor of one step is the geometric mean, with its standard error, of errors of the log evidence (.001 nats
at least) after one step from the same state with another value, over those with the value here. Its 51 states
are of runs with seed 1101 on Rosenbrock 2, lumpy 2, Himmelblau, the half plane and cigar 4 from values, and
on Rosenbrock 2, cigar 4 and logistic 5 with gradients.
"""

from bqvi.variational_bmc.settings.convergence import (
    CLOCK,
    COMPARISON,
    CONVERGENCE,
    FRESH_START,
    NOISE,
    PREDICTIONS,
)
from bqvi.variational_bmc.settings.evaluations import CLIMBING, EXPLORATION, FEASIBILITY, NODES
from bqvi.variational_bmc.settings.frames import FRAMES, GRADIENT_SCALINGS, SCALINGS
from bqvi.variational_bmc.settings.mixture import COMPONENTS, MODES, RESTARTS
from bqvi.variational_bmc.settings.result import DIAGNOSTICS, RESULT
from bqvi.variational_bmc.settings.surrogate import CHEAP, FITTING, SHAPING
from bqvi.variational_bmc.settings.weights import LOCAL, POOLED, WEIGHTS

__all__ = [
    "CHEAP", "CLIMBING", "CLOCK", "COMPARISON", "COMPONENTS", "CONVERGENCE", "DIAGNOSTICS", "EXPLORATION",
    "FEASIBILITY", "FITTING", "FRAMES", "FRESH_START", "GRADIENT_SCALINGS", "LOCAL", "MODES", "NODES",
    "NOISE", "POOLED", "PREDICTIONS", "RESTARTS", "RESULT", "SCALINGS", "SHAPING", "WEIGHTS",
]  # fmt: skip
