"""The Gram matrix of multiples of a known function at fixed points: the variance times an outer product."""

from __future__ import annotations

import numpy as np

from gp.fixed_points.gram import Changes, Gram, gram_of
from gp.grams import blocks_of, covariance_with_pullback
from gp.kernels.base import Pullback
from gp.kernels.multiple import Multiple
from gp.observations import Functional, Gradients, Values


@gram_of.register
def _multiple_gram(kernel: Multiple, observed: Functional) -> Gram:
    """Return variance g g^T as a function of the variance, g the function as it is observed."""
    rows = []
    for block in blocks_of(observed):
        if type(block) is Values:
            rows.append(kernel.function(block.x))
        elif type(block) is Gradients and block.dimensions is None:
            rows.append(kernel.function.gradient(block.x).reshape(-1))
        else:
            return lambda changed: covariance_with_pullback(changed, observed)
    g = np.concatenate(rows)
    whole = np.outer(g, g)

    def gram(changed: Multiple) -> tuple[np.ndarray, Pullback]:
        variance = float(changed.variance)
        return variance * whole, Changes(
            lambda weights: np.array([variance * (g @ weights @ g)]),
            lambda vectors: variance * np.outer(g, g @ vectors)[None],
        )

    return gram
