"""The standard deviation of the evidence due to unknown hyperparameters.

Hyperparameters psi_j are drawn from Laplace's approximation of their posterior, at scrambled Sobol points,
and weighted by posterior over approximation (importance sampling, as in :func:`gp.marginalise`). Each draw
defines a surrogate with mean m_j and therefore an evidence, to second order in d_s = m_j(u_s) - m(u_s)

    log Z_j - log Z = log sum_s P_s exp(d_s) = E_P[d] + Var_P[d] / 2 + ...,      u_s draws, P_s their weights,

which is exact where d is Gaussian; the logarithm of the mean itself can depend on a single one of 512 draws
in a tail. The root mean square of the differences log Z_j - log Z is a standard deviation that is added, as a
variance, to that of the surrogate.
"""

from __future__ import annotations

import numpy as np

from bqvi.importance import resampled
from bqvi.variational_bmc.correction import Correction
from bqvi.variational_bmc.settings import FITTING
from bqvi.variational_bmc.surrogate import Surrogate, log_posterior, posterior_mean
from gp.laplace import root, weighed
from gp.low_discrepancy import normal_sobol


def spread(surrogate: Surrogate, found: Correction, seed: int) -> float:
    """The standard deviation of log Z over the hyperparameters' posterior; infinite if Laplace's fails."""
    data, psi = surrogate.data, surrogate.psi
    objective = log_posterior(data.thinned)
    try:
        best = objective.expanded(psi)
    except np.linalg.LinAlgError:  # the covariance matrix is singular within rounding
        return np.inf
    sd = objective.prior.sd  # no standard deviation exceeds that of the prior
    scale = sd[:, None] * root(best.curvature * np.outer(sd, sd), 1.0)
    u = found.u[resampled(found.weights, FITTING.set_draws, seed)]
    known = surrogate.mean(u)
    steps = np.clip(normal_sobol(len(psi), FITTING.sets, seed), -FITTING.furthest, FITTING.furthest)

    def evaluate(at: np.ndarray) -> tuple[float, float]:
        value, change = objective.value(at), posterior_mean(data, at)(u) - known
        return value, float(np.mean(change) + 0.5 * np.var(change))

    shifts, weights = weighed(evaluate, psi, (best.value, 0.0), scale, steps, 2.0)
    return float(np.sqrt(weights @ np.square(shifts)))
