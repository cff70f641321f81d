"""Any kernel against a finite set of points, and against mixtures by their components.

    z(x) = sum_i w_i k(x, x_i),     C = sum_ij w_i w_j k(x_i, x_j)

Points are taken in blocks, so that at most 2^22 kernel values are held at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from gp.arrays import Array
from gp.embeddings.embed import Formulas, choose, embedding, formulas
from gp.kernels import Constant, Kernel, Linear, Product, Stationary, White
from gp.kernels.crossed import contracted_gradient
from gp.measures import Empirical, GaussianMixture

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

    def mean_gradient(x: Array) -> Array:
        return sum(contracted_gradient(kernel, x, *part) for part in _blocks(measure, len(x)))

    return Formulas(
        mean=mean,
        cross=lambda other: choose(kernel, measure, other, {}),
        mean_gradient=mean_gradient if isinstance(kernel, Stationary) else None,
    )


def _blocks(measure: Empirical, n: int) -> Iterator[tuple[Array, Array]]:
    size = max(1, _BLOCK // max(n, 1))
    for start in range(0, measure.points.shape[0], size):
        yield measure.points[start : start + size], measure.weights[start : start + size]


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

    known = all(part.mean_gradient is not None for part in parts)
    return Formulas(
        mean=lambda x: total([part.mean(x) for part in parts]),
        cross=lambda other: total([part.cross(other) for part in parts]),
        mean_gradient=mean_gradient if known else None,
    )
