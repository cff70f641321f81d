"""Kernel embeddings: integrals of kernels against measures, chosen by the pair."""

# The modules register their pairs when they are imported.
from gp.embeddings import (
    composite,
    empirical,
    scale_mixture,
    separable,
    squared_exponential,
    tilted,
)
from gp.embeddings.embed import (
    Formulas,
    KernelEmbedding,
    UnknownPairError,
    choose,
    embed,
    embedding,
    formulas,
)

__all__ = [
    "Formulas", "KernelEmbedding", "UnknownPairError", "choose", "composite", "embed",
    "embedding", "empirical", "formulas", "scale_mixture", "separable", "squared_exponential", "tilted",
]  # fmt: skip
