"""Kernels in other coordinates, k(A (x - c), A (y - c)), against Gaussians and mixtures of them."""

from __future__ import annotations

from gp.arrays import as_like
from gp.embeddings.embed import embed
from gp.embeddings.registry import Formulas, embedding
from gp.kernels import Mapped
from gp.measures import Gaussian, GaussianMixture
from gp.measures.pushed import pushed


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
