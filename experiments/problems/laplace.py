"""Laplace's approximation: the Gaussian at the mode of a density, to propose nodes for its integral.

With theta* the mode of an unnormalised log density l and H the Hessian of -l there,

    q = N(theta*, H^-1),        ln Z ~ l(theta*) + (D/2) ln 2 pi - (1/2) ln det H.

A likelihood far narrower than its prior is hard to integrate against the prior, as few nodes lie where it is
not negligible. Relative to q it is an integrand of the order of one,

    Z = int e^l = int (e^l / q) q,

near the mode. As the quotient must not be large in the tails, where few points are proposed, q is
widened (`widened`) or mixed with wider ones (`heavy_tailed`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize

from gp.checks import require_above
from gp.measures import Gaussian, GaussianMixture

__all__ = ["Laplace", "NoModeError", "laplace"]

_FARTHEST = 1e10
"""The size of a coordinate beyond which a search counts as diverging. Not studied."""
_STATIONARY = 1e-6
"""Largest derivative, nats over a unit of the coordinate, at which the search ends. Not studied."""


class NoModeError(ValueError):
    """The search did not end where the log density is finite and concave."""


@dataclass(frozen=True, eq=False)
class Laplace:
    """Laplace's approximation of a density.

    Attributes
    ----------
    gaussian : N(theta*, H^-1).
    log_evidence : ln Z of the approximation.
    n_evaluations : of the log density with its gradient, in the search; and D for the Hessian.
    """

    gaussian: Gaussian
    log_evidence: float
    n_evaluations: int

    def widened(self, factor: float) -> Gaussian:
        """Return the Gaussian with ``factor`` times the covariance."""
        require_above("factor", factor, 0.0)
        return Gaussian(self.gaussian.mean, factor * self.gaussian.covariance)

    def heavy_tailed(self, factors: tuple[float, ...] = (1.0, 4.0)) -> GaussianMixture:
        """Return the equal mixture of Gaussians with ``factors`` times the covariance.

        A scale mixture, as Student's t is one of infinitely many.
        """
        parts = [self.widened(factor) for factor in factors]
        return GaussianMixture(
            np.full(len(parts), 1.0 / len(parts)),
            np.stack([part.mean for part in parts]),
            np.stack([part.covariance for part in parts]),
        )


def laplace(log_density: Callable[[torch.Tensor], torch.Tensor], start: Any) -> Laplace:
    """Approximate a density by a Gaussian at the mode that is reached from ``start``.

    Parameters
    ----------
    log_density : torch function of points (L, D) to (L,), float64; -inf where there is no density.
    start : (D,), where the density is not zero.

    Raises
    ------
    NoModeError
        The density is zero at ``start``, grows without end, or is not concave where the search ended.
    """
    start = np.asarray(start, dtype=float)

    def objective(theta: Any) -> tuple[float, Any]:
        if np.abs(theta).max() > _FARTHEST:
            raise NoModeError(f"start = {start.tolist()}: the log density grows without end from there")
        value, gradient = _with_gradient(log_density, theta)
        return (-value, -gradient) if np.isfinite(value) else (np.inf, np.zeros_like(theta))

    if not np.isfinite(objective(start)[0]):
        raise NoModeError(f"start = {start.tolist()}: the log density is not finite there")
    found: Any = minimize(objective, start, jac=True, method="BFGS", options={"gtol": _STATIONARY})
    hessian = _hessian(log_density, found.x)
    if not np.all(np.isfinite(hessian)) or np.linalg.eigvalsh(hessian).min() <= 0:
        raise NoModeError(
            f"the log density is not concave at {found.x.tolist()}, where the search from "
            f"start = {start.tolist()} ended: start nearer to a mode"
        )
    covariance = np.linalg.inv(hessian)
    gaussian = Gaussian(found.x, (covariance + covariance.T) / 2)
    half = 0.5 * (len(start) * math.log(2 * math.pi) - np.linalg.slogdet(hessian)[1])
    return Laplace(gaussian, float(half - found.fun), int(found.nfev) + len(start))


def _with_gradient(log_density: Callable[..., Any], theta: Any) -> tuple[float, Any]:
    with torch.enable_grad():
        point = torch.tensor(theta[None], dtype=torch.float64, requires_grad=True)
        value = log_density(point).sum()
        (gradient,) = torch.autograd.grad(value, point)
    return float(value.detach()), gradient[0].numpy()


def _hessian(log_density: Callable[..., Any], theta: Any) -> Any:
    """That of minus the log density, (D, D), symmetric."""
    hessian: Callable[..., Any] = torch.autograd.functional.hessian
    point = torch.tensor(theta, dtype=torch.float64)
    with torch.enable_grad():
        matrix = hessian(lambda t: -log_density(t[None]).sum(), point).numpy()
    return (matrix + matrix.T) / 2
