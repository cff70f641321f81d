"""Any kernel against a finite set of points, and against mixtures by their components.

    z(x) = sum_i w_i k(x, x_i),     C = sum_ij w_i w_j k(x_i, x_j)

Points are taken in blocks, so that at most 2^22 kernel values are held at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gp.arrays import Array, as_like, namespace
from gp.embeddings.registry import Formulas, Parameters, choose, embedding, formulas
from gp.kernels import Constant, Kernel, Linear, Product, Stationary, White
from gp.measures import Empirical, GaussianMixture, MixtureParameters

_BLOCK = 2**22
"""The most entries of a block of covariances between inputs and points: 32 MiB in doubles."""


@embedding(object, Empirical)
@embedding(Product, Empirical)
@embedding(Constant, Empirical)
@embedding(Linear, Empirical)
@embedding(White, Empirical)
def _any_empirical(kernel: Kernel, measure: Empirical) -> Formulas:
    """Return weighted sums of kernel values."""

    def mean(x: Array) -> Array:
        return sum(kernel(x, points) @ weights for points, weights in _blocks(measure, len(x)))

    return Formulas(
        mean=mean,
        cross=lambda other: choose(kernel, measure, other, {}),
        mean_gradient=_stationary_gradient(kernel, measure) if isinstance(kernel, Stationary) else None,
    )


def _blocks(measure: Empirical, n: int) -> Iterator[tuple[Array, Array]]:
    size = max(1, _BLOCK // max(n, 1))
    for start in range(0, measure.points.shape[0], size):
        yield measure.points[start : start + size], measure.weights[start : start + size]


def _stationary_gradient(kernel: Stationary, measure: Empirical) -> Callable[[Array], Array]:
    """dz/dx_i = 2 variance sum_j w_j phi'(s_ij) (x_i - x_j) / lengthscale^2, as matrix products.

    The points are centred first, so that their differences keep their digits.
    """

    def block(x: Array, points: Array, weights: Array) -> Array:
        xp = namespace(x)
        slope = kernel.slope(kernel.squared_distance(x, points)) * weights
        centre = xp.mean(points, axis=0)
        difference = (x - centre) * xp.sum(slope, axis=1)[:, None] - slope @ (points - centre)
        return 2 * as_like(kernel.variance, x) * difference / as_like(kernel.lengthscale, x) ** 2

    return lambda x: sum(block(x, *part) for part in _blocks(measure, len(x)))


@embedding(object, GaussianMixture)
@embedding(Product, GaussianMixture)
@embedding(Constant, GaussianMixture)
@embedding(Linear, GaussianMixture)
def _mixture_by_component(kernel: Kernel, measure: GaussianMixture) -> Formulas:
    """Return the weighted sums of the components' integrals."""
    parts = [formulas(kernel, component) for component in measure.components]
    weights = measure.weights

    def total(values: list[Array]) -> Array:
        return sum(weights[k] * value for k, value in enumerate(values))

    def mean_gradient(x: Array) -> Array:
        return total([p.mean_gradient(x) for p in parts if p.mean_gradient is not None])

    def pullback(x: Array, alpha: Array, beta: Array) -> Parameters:
        xp = namespace(x)
        values = [alpha @ p.mean(x) for p in parts]
        slopes = [xp.sum(beta * p.mean_gradient(x)) for p in parts if p.mean_gradient is not None]
        pullbacks = [p.pullback(x, alpha, beta) for p in parts if p.pullback is not None]
        return MixtureParameters(
            xp.stack([a + b for a, b in zip(values, slopes, strict=True)]),
            weights[:, None] * xp.stack([p.mean for p in pullbacks]),
            weights[:, None, None] * xp.stack([p.covariance for p in pullbacks]),
        )

    known = all(part.mean_gradient is not None for part in parts)
    return Formulas(
        mean=lambda x: total([part.mean(x) for part in parts]),
        cross=lambda other: total([part.cross(other) for part in parts]),
        mean_gradient=mean_gradient if known else None,
        pullback=pullback if known and all(part.pullback is not None for part in parts) else None,
    )
