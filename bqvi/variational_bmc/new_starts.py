"""New starts of an ascent: Gaussians where the surrogate has mass, by its mode or by population Monte Carlo.

*By the mode and the curvature there* (`laplace`). Newton's method (`gp.search`) is applied to the posterior
mean, whose curvature is a difference of its gradients; directions in which the mean is not concave get a
small curvature. The method finds the thin ellipsoid of a correlated posterior in a few steps, for which the
optimisation of a mixture from a distant start takes hundreds.

*Where the surrogate has mass and little variance* (`annealed`). Early on, and with gradients above all, the
surrogate's mean is highest where nothing was evaluated, and a mixture of highest ELBO lies far from the
evaluations. Here draws of a Gaussian are weighted by the density of :func:`correction.variance_penalised`,
which falls with the surrogate's variance; the weights are tempered to a given effective sample size, their
moments are those of the next Gaussian, and this is repeated until no tempering is needed (Cappe et al. 2008;
tempered weights as in Koblents & Miguez 2015). The Gaussian extends from the evaluated points as far as the
surrogate's variance is small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.importance import effective_size, normalised
from bqvi.variational_bmc.correction import variance_penalised
from bqvi.variational_bmc.feasibility import Feasibility
from bqvi.variational_bmc.settings import RESTARTS
from bqvi.variational_bmc.surrogate import Surrogate
from gp.laplace import curvature, spectrum
from gp.linear_maps import correlation_root
from gp.low_discrepancy import normal_sobol
from gp.search import Expansion, search


def laplace(
    surrogate: Surrogate, start: np.ndarray, lower: np.ndarray, upper: np.ndarray, widest: float | None = None
) -> tuple[np.ndarray, np.ndarray] | None:
    """The mean (D,) and covariance (D, D) in the frame; None where the mean has no mode inside the box.

    With ``widest`` there always is a result: in directions in which the mean is flatter than a Gaussian of
    that standard deviation, or not concave, the standard deviation is ``widest``.

    Parameters
    ----------
    surrogate : the surrogate, in the frame. start : (D,). lower, upper : the corners (D,) of the box.
    widest : the largest standard deviation, or None.
    """
    u = ascended(surrogate, start, lower, upper)
    values, vectors = spectrum(_curvature(surrogate, u), -np.inf if widest is None else widest**-2.0)
    inside = np.all((u > lower) & (u < upper))
    if widest is None and (values.min() < RESTARTS.flattest or not inside):
        return None
    return u, (vectors / values) @ vectors.T


def ascended(surrogate: Surrogate, start: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """The end (D,) of Newton's ascent of the mean from ``start``: a mode, or a point on the boundary.

    Parameters
    ----------
    surrogate : the surrogate, in the frame. start : (D,). lower, upper : the corners (D,) of the box.
    """
    return search(_Mean(surrogate), [start], (lower, upper), RESTARTS.ascent).psi


@dataclass(frozen=True, eq=False)
class _Mean:
    """The posterior mean as an objective, with a curvature of at least ``RESTARTS.flattest``."""

    surrogate: Surrogate

    def value(self, psi: np.ndarray) -> float:
        return float(self.surrogate.mean(psi[None])[0])

    def expanded(self, psi: np.ndarray) -> Expansion:
        def bowl() -> np.ndarray:
            values, vectors = spectrum(_curvature(self.surrogate, psi), RESTARTS.flattest)
            return (vectors * values) @ vectors.T

        return Expansion(self.value(psi), lambda: self.surrogate.function.gradient(psi[None])[0], bowl)


def _curvature(surrogate: Surrogate, u: np.ndarray) -> np.ndarray:
    """Minus the Hessian of the posterior mean at u (D,), (D, D)."""
    return curvature(surrogate.function.gradient, u, 1e-3)


_TEMPERATURES = 0.7 ** np.arange(120)


def annealed(
    surrogate: Surrogate, mean: np.ndarray, covariance: np.ndarray, seed: int, feasible: Feasibility
) -> tuple[np.ndarray, np.ndarray]:
    """The mean (D,) and covariance (D, D), in the frame, adapted from those given.

    Parameters
    ----------
    surrogate : the surrogate, in the frame. mean : (D,). covariance : (D, D). seed : of the draws.
    feasible : the probability that the log joint can be evaluated at a point.
    """
    dimension = len(mean)
    # effective draws
    least = max(0.2 * RESTARTS.draws, min(4.0 * dimension, 0.5 * RESTARTS.draws))
    for step in range(RESTARTS.rounds):
        z = normal_sobol(dimension, RESTARTS.draws, seed + step)
        factor = RESTARTS.widening * correlation_root(covariance, 1e-12)
        u = mean + z @ factor.T
        log_g = -0.5 * np.einsum("md,md->m", z, z)
        log_ratio = (
            variance_penalised(*surrogate.moments(u), surrogate.data.top) + np.log(feasible(u)) - log_g
        )
        if not np.isfinite(log_ratio).any():
            break
        weights, temperature = _tempered(log_ratio, least)
        mean = weights @ u
        centred = u - mean
        covariance = (centred.T * weights) @ centred
        covariance += 1e-3 * np.trace(covariance) / dimension * np.eye(dimension)
        if temperature == 1.0 and step:
            break
    return mean, covariance


def _tempered(log_ratio: np.ndarray, least: float) -> tuple[np.ndarray, float]:
    """The weights tempered to the largest power with an effective sample size ``least``, and that power."""
    weights = normalised(_TEMPERATURES[:, None] * log_ratio)
    enough = effective_size(weights) >= least
    best = int(np.argmax(enough)) if enough.any() else -1
    return weights[best], float(_TEMPERATURES[best])
