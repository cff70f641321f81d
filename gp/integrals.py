"""Integrals of a Gaussian process: linear functionals pi[f] like values and derivatives.

    cov(f(x), pi[f])        = z(x)
    cov(df/dx_j, pi[f])     = dz/dx_j
    cov(pi[f], rho[f])      = C(pi, rho)

with z and C the kernel embedding (:mod:`gp.embeddings`). Integrals are registered as functionals, so that
they can be predicted (Bayesian quadrature, thesis Eqs 7.9 to 7.12; O'Hagan 1991) and also observed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gp.arrays import Array, namespace
from gp.embeddings.embed import embed
from gp.kernels import Kernel
from gp.kernels.base import Differentiable
from gp.means import Mean
from gp.measures import Measure
from gp.observations import Gradients, Values, register_covariance

if TYPE_CHECKING:
    from gp.regression.posterior import Posterior


@dataclass(frozen=True, eq=False)
class Integrals:
    """pi_i[f] for several measures pi_i on the same space, of one kind of array."""

    measures: tuple[Measure, ...]

    def __post_init__(self) -> None:
        measures = tuple(self.measures)
        if not measures or not all(isinstance(measure, Measure) for measure in measures):
            raise TypeError(f"measures = {self.measures!r}: give one measure or more")
        dimensions = sorted({measure.dimension for measure in measures})
        if len(dimensions) > 1:
            raise ValueError(f"measures have dimensions {dimensions}: give those of one space")
        object.__setattr__(self, "measures", measures)

    @property
    def x(self) -> Array:
        means = [measure.mean for measure in self.measures]
        return namespace(*means).stack(means)

    def __len__(self) -> int:
        return len(self.measures)

    def apply(self, function: Differentiable) -> Array:
        """Return the integrals of a prior mean, (m,); raises TypeError for other functions."""
        if not isinstance(function, Mean):
            raise TypeError(
                f"{type(function).__name__} has no expectation in closed form: only prior means do (gp.means)"
            )
        values = [function.expectation(m.mean, m.covariance) for m in self.measures]
        return namespace(self.x).stack(values)

    def variance(self, kernel: Kernel) -> Array:
        values = [embed(kernel, m).double() for m in self.measures]
        return namespace(self.x).stack(values)


@dataclass(frozen=True, eq=False)
class Integral:
    """The Gaussian distribution of one integral: mean () and variance (), never negative."""

    mean: Array
    variance: Array

    @property
    def sd(self) -> Array:
        """The standard deviation, ()."""
        return namespace(self.variance).sqrt(self.variance)


@dataclass(frozen=True, eq=False)
class JointIntegral:
    """The joint Gaussian distribution of several integrals: mean (m,) and covariance (m, m)."""

    mean: Array
    covariance: Array

    @property
    def sd(self) -> Array:
        """The standard deviations, (m,)."""
        xp = namespace(self.covariance)
        return xp.sqrt(xp.linalg.diagonal(self.covariance))


def without_rounding(matrix: Array, prior: Array, posterior: Posterior) -> Array:
    """Return the covariance, symmetric and with variances that rounding made negative set to zero.

    The term subtracted from the prior variance has rounding errors of the triangular solve: n eps times the
    condition number of the factor, for which its pivots give a lower bound.

    Parameters
    ----------
    matrix : the posterior covariance (m, m). prior : the prior covariance (m, m).
    posterior : the process, whose factor was used.
    """
    xp = namespace(matrix)
    variance, prior = xp.linalg.diagonal(matrix), xp.linalg.diagonal(prior)
    n = len(posterior.observations)
    condition = 1.0
    if n:
        pivots = xp.linalg.diagonal(posterior.factor.lower)
        condition = float(xp.max(pivots) / xp.min(pivots))
    rounding = 100 * max(n, 1) * float(xp.finfo(matrix.dtype).eps) * condition
    if bool(xp.any(variance < -rounding * prior)):
        raise ArithmeticError(
            f"a posterior variance of an integral is {float(xp.min(variance)):.3g}, prior variance "
            f"{float(xp.max(prior)):.3g}: more than rounding, so the embedding of "
            f"{type(posterior.kernel).__name__} is not that of the kernel: compare it with a "
            "quadrature rule"
        )
    eye = xp.eye(matrix.shape[0], dtype=matrix.dtype, device=matrix.device)
    lifted = xp.where(variance < 0, -variance, xp.zeros_like(variance))
    return (matrix + matrix.T) / 2 + eye * lifted


def _values_integrals(kernel: Kernel, a: Values, b: Integrals) -> Array:
    columns = [embed(kernel, measure).mean(a.x) for measure in b.measures]
    return namespace(a.x).stack(columns, axis=1)


def _gradients_integrals(kernel: Kernel, a: Gradients, b: Integrals) -> Array:
    columns = [a.take(embed(kernel, measure).mean_gradient(a.x), 1).reshape(-1) for measure in b.measures]
    return namespace(a.x).stack(columns, axis=1)


def _integrals_integrals(kernel: Kernel, a: Integrals, b: Integrals) -> Array:
    xp, pairs = namespace(a.x), [embed(kernel, measure) for measure in a.measures]
    return xp.stack([xp.stack([pair.double(other) for other in b.measures]) for pair in pairs])


register_covariance(Values, Integrals, _values_integrals)
register_covariance(Gradients, Integrals, _gradients_integrals)
register_covariance(Integrals, Integrals, _integrals_integrals)
