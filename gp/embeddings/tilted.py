"""Mapped kernels k(A (x - c), A (y - c)), and tilted ones a(u) k(u, u') a(u'), a(u) = exp(beta |u|^2 / 2).

Against a Gaussian their integrals are those of k against a wider one, for a(u) N(u; m, Sigma) is

    C N(u; m', Sigma'),   Sigma'^-1 = Sigma^-1 - beta I,   m' = Sigma' Sigma^-1 m,
    C = (|Sigma'| / |Sigma|)^(1/2) exp((m'^T Sigma'^-1 m' - m^T Sigma^-1 m) / 2),

as in importance sampling from N(m', Sigma') instead of N(m, Sigma).
"""

from __future__ import annotations

import numpy as np

from gp.arrays import Array, as_like, namespace, to_numpy
from gp.embeddings.embed import Formulas, embed, embedding
from gp.kernels import Mapped, Tilted
from gp.measures import Gaussian, GaussianMixture, Measure
from gp.measures.pushed import pushed


def tilted_measure(measure: Measure, growth: float) -> tuple[Array, Measure]:
    """Return C, (), and the normalised measure of a(u) times a Gaussian or a mixture of them.

    Raises
    ------
    ValueError
        A component is so wide that the integral diverges.
    """
    components = measure.components if isinstance(measure, GaussianMixture) else (measure,)
    found = [_tilted_gaussian(part, growth) for part in components]
    if not isinstance(measure, GaussianMixture):
        return found[0]
    xp = namespace(measure.weights)
    weights = measure.weights * xp.stack([constant for constant, _ in found])
    total = xp.sum(weights)
    means = xp.stack([part.mean for _, part in found])
    return total, GaussianMixture(weights / total, means, xp.stack([part.covariance for _, part in found]))


def _tilted_gaussian(measure: Measure, growth: float) -> tuple[Array, Gaussian]:
    assert isinstance(measure, Gaussian)  # the components of a mixture are Gaussian too
    xp, own = namespace(measure.mean), measure.mean
    precision = xp.linalg.inv(measure.covariance)
    smaller = precision - growth * xp.eye(measure.dimension, dtype=own.dtype, device=own.device)
    least = np.linalg.eigvalsh(to_numpy(smaller)).min()
    if least <= 0:
        raise ValueError(f"growth is {growth}; the integral is finite below {growth + least:.4g}")
    covariance = xp.linalg.inv(smaller)
    mean = covariance @ precision @ own
    log = 0.5 * (xp.linalg.slogdet(precision)[1] - xp.linalg.slogdet(smaller)[1])
    log = log + 0.5 * (mean @ smaller @ mean - own @ precision @ own)
    return xp.exp(log), Gaussian(mean, (covariance + covariance.T) / 2)


@embedding(Tilted, Gaussian)
@embedding(Tilted, GaussianMixture)
def _tilted_kernel(kernel: Tilted, measure: Gaussian | GaussianMixture) -> Formulas:
    """Return the integrals of k against the tilted measure."""
    constant, wider = tilted_measure(measure, kernel.growth)
    inner = embed(kernel.kernel, wider)

    def cross(other: Measure) -> Array:
        more, also_wider = (constant, wider) if other is measure else tilted_measure(other, kernel.growth)
        return constant * more * inner.double(also_wider)

    def mean_gradient(x: Array) -> Array:
        slope = kernel.growth * x * inner.mean(x)[:, None] + inner.mean_gradient(x)
        return constant * kernel.factor(x)[:, None] * slope

    return Formulas(
        mean=lambda x: constant * kernel.factor(x) * inner.mean(x), cross=cross, mean_gradient=mean_gradient
    )


@embedding(Mapped, Gaussian)
@embedding(Mapped, GaussianMixture)
def _mapped_kernel(kernel: Mapped, measure: Gaussian | GaussianMixture) -> Formulas:
    """Return the integrals of k against the measure of A (x - c)."""
    inner = embed(kernel.kernel, pushed(measure, kernel.centre, kernel.matrix))
    return Formulas(
        mean=lambda x: inner.mean(kernel.forward(x)),
        cross=lambda other: (
            inner.double() if other is measure else inner.double(pushed(other, kernel.centre, kernel.matrix))
        ),
        mean_gradient=lambda x: inner.mean_gradient(kernel.forward(x)) @ as_like(kernel.matrix, x),
    )
