"""The covariance of observations at fixed points, while a kernel's parameters change.

A fit evaluates the covariance of the same observations, with its pull-back to the parameters, hundreds of
times. What depends on the points alone (the differences of pairs, the inner products) is computed once:

    gram = gram_of(kernel, observed)
    matrix, pullback = gram(kernel)          # and again for kernels with other parameters

The pull-back is that of :meth:`gp.kernels.base.Kernel.with_pullback`, for values and derivatives of f. A
kernel without a shorter way is asked for it anew each time; a new one registers its own:
``@gram_of.register``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, TypeAlias

import numpy as np

from gp.grams import blocks_of, covariance_with_pullback
from gp.kernels import Constant, Kernel, Sum
from gp.kernels.base import Pullback
from gp.observations import Functional, Gradients, Values

Gram: TypeAlias = Callable[[Any], tuple[Any, Pullback]]
"""A kernel of the same kind to the covariance (N, N), and its pull-back, which may read that matrix."""


@singledispatch
def gram_of(kernel: Kernel, observed: Functional) -> Gram:
    """Return the covariance of ``observed`` as a function of a kernel of the same kind as ``kernel``.

    Parameters
    ----------
    kernel : says which kind; composite kernels have to have the same parts throughout.
    observed : N values and derivatives at fixed points. NumPy only.
    """
    return lambda changed: covariance_with_pullback(changed, observed)


def slopes_at(observed: Functional) -> tuple[Any, int] | None:
    """Return the points (n, D) of values, and the number m of them whose derivatives follow the values.

    ``None`` for any other layout: derivatives have to be all D of them, at the first m points.
    """
    blocks = blocks_of(observed)
    if type(blocks[0]) is not Values:
        return None
    x = blocks[0].x
    if len(blocks) == 1:
        return x, 0
    second = blocks[1]
    if len(blocks) > 2 or not isinstance(second, Gradients) or second.dimensions is not None:
        return None
    m = len(second.x)
    return (x, m) if m <= len(x) and np.array_equal(second.x, x[:m]) else None


@gram_of.register
def _sum(kernel: Sum, observed: Functional) -> Gram:
    if isinstance(observed, Values) and len(kernel.terms) == 2 and isinstance(kernel.terms[0], Constant):
        return _beside_constant(gram_of(kernel.terms[1], observed))
    parts = [gram_of(term, observed) for term in kernel.terms]

    def gram(changed: Sum) -> tuple[Any, Pullback]:
        found = [part(term) for part, term in zip(parts, changed.terms, strict=True)]
        pulled = [pullback for _, pullback in found]
        matrix = found[0][0]  # which its pull-back may read: it is left as it is
        for place, (more, _) in enumerate(found[1:]):
            matrix = np.add(matrix, more, out=matrix if place else None)
        return matrix, lambda weights: np.concatenate([pullback(weights) for pullback in pulled])

    return gram


def _beside_constant(part: Gram) -> Gram:
    """Of values under a constant and another kernel: no matrix is made of the constant."""

    def gram(changed: Sum) -> tuple[Any, Pullback]:
        constant, other = changed.terms
        assert isinstance(constant, Constant)  # as it was when this was made
        variance = float(constant.variance)
        matrix, pullback = part(other)
        return matrix + variance, lambda weights: np.array([variance * weights.sum(), *pullback(weights)])

    return gram


@gram_of.register
def _constant(kernel: Constant, observed: Functional) -> Gram:
    of_values = np.concatenate([np.full(len(b), isinstance(b, Values), float) for b in blocks_of(observed)])

    def of_all(changed: Constant) -> tuple[Any, Pullback]:
        variance = float(changed.variance)
        size = len(of_values)
        return np.full((size, size), variance), lambda weights: np.array([variance * weights.sum()])

    def gram(changed: Constant) -> tuple[Any, Pullback]:
        variance = float(changed.variance)
        return np.outer(variance * of_values, of_values), lambda weights: np.array(
            [variance * (of_values @ weights @ of_values)]
        )

    return of_all if of_values.all() else gram
