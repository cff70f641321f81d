"""The covariance of observations at fixed points, while a kernel's parameters change.

Quantities that depend on the points alone (differences of pairs, inner products) are computed once in a fit:

    gram = gram_of(kernel, observed)
    matrix, pullback = gram(kernel)          # and again for kernels with other parameters

The pull-back is that of :meth:`gp.kernels.base.PulledBack.with_pullback`, for values and derivatives of f. A
kernel class without a function of its own here, registered by ``@gram_of.register``, computes its covariance
anew each time; its pull-back is its own method or, with derivatives, torch's reverse mode. Where
a kernel has few parameters its pull-back is a `Changes`, which also gives products of the derivatives with
vectors, from which a search computes the curvature of the evidence (`gp.evidence`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce, singledispatch
from operator import mul
from typing import Any, TypeAlias

import numpy as np

from gp.arrays import to_numpy
from gp.kernels import Constant, Kernel, Multiple, Product, QuadraticTrend, Sum
from gp.kernels.base import Pullback
from gp.observations import Functional, Gradients, Observations, Values, blocks_of, covariance, moved

MOST_PAIRED = 500
"""The most points whose pairs are kept by coordinate: beyond it the memory outweighs the time saved."""
_BLOCK = 1_000_000
"""The most gaps that are computed at a time where pairs are not kept: 8 MB."""

Gram: TypeAlias = Callable[[Any], tuple[np.ndarray, Pullback]]
"""A function of a kernel that returns the covariance (N, N) and its pull-back, which may read that matrix."""


_Parts: TypeAlias = tuple[
    Callable[[], np.ndarray],
    Callable[[np.ndarray, np.ndarray], np.ndarray],
    Callable[[np.ndarray], np.ndarray],
]
Profile: TypeAlias = Callable[[np.ndarray, Any], _Parts]
"""From gaps (D, P) and a kernel it makes three functions: one returns the covariances k (P,) of the pairs;
one, of weights w (P,) and of k, the gradient (C + 1,) of sum w k, its last entry the sum itself; and
one, of k, its derivatives (C, P) in the parameters but the last, the variance."""


@dataclass(frozen=True, eq=False)
class Changes:
    """A pull-back that also has products of the derivatives of K in the P parameters with vectors.

    The matrices of derivatives need not be formed for these products.

    Attributes
    ----------
    pullback : a function of weights (N, N) that returns the gradient (P,).
    times : a function of vectors (N, O) that returns the products of each dK_p with them, (P, N, O).
    """

    pullback: Pullback
    times: Callable[[np.ndarray], np.ndarray]

    @classmethod
    def of(cls, sizes: Sequence[float], matrices: Sequence[np.ndarray]) -> Changes:
        """Make the record from P ``sizes`` times ``matrices`` (N, N), which are the derivatives."""
        pairs = list(zip(sizes, matrices, strict=True))
        return cls(
            lambda weights: np.array([size * np.vdot(weights, each) for size, each in pairs]),
            lambda vectors: np.stack([size * (each @ vectors) for size, each in pairs]),
        )

    def __call__(self, weights: np.ndarray) -> np.ndarray:
        """The gradient (P,) of sum W K."""
        return self.pullback(weights)

    def among(self, parameters: slice) -> Changes:
        """Return the changes of some of the parameters."""
        return Changes(
            lambda weights: self(weights)[parameters], lambda vectors: self.times(vectors)[parameters]
        )


def scaled(
    gram: Callable[[np.ndarray], tuple[np.ndarray, Pullback]], diagonal: np.ndarray
) -> Callable[[np.ndarray], tuple[np.ndarray, Pullback]]:
    """Return s^2 (K + N) as a function of psi, of which the last is ln s^2, and the others are those of K.

    Parameters
    ----------
    gram : a function of psi that returns K (N, N) and its pull-back, a `Changes`. diagonal : that of N, (N,).
    """

    def of(psi: np.ndarray) -> tuple[np.ndarray, Pullback]:
        matrix, pullback = gram(psi[:-1])
        assert isinstance(pullback, Changes)
        scale = float(np.exp(psi[-1]))
        whole = scale * matrix
        np.einsum("ii->i", whole)[:] += scale * diagonal
        return whole, Changes(
            lambda weights: np.append(scale * pullback(weights), np.vdot(weights, whole)),
            lambda vectors: np.concatenate([scale * pullback.times(vectors), (whole @ vectors)[None]]),
        )

    return of


@singledispatch
def gram_of(kernel: Kernel, observed: Functional) -> Gram:
    """Return the covariance of ``observed`` as a function of a kernel of the same kind as ``kernel``.

    Parameters
    ----------
    kernel : an example of the class; a composite kernel has to have the same parts whenever it is evaluated.
    observed : N values and derivatives at fixed points. NumPy only.
    """
    return lambda changed: covariance_with_pullback(changed, observed)


def covariance_with_pullback(kernel: Kernel, observed: Functional) -> tuple[np.ndarray, Pullback]:
    """Return the covariance (n, n) of values and gradients, and its pull-back. NumPy only.

    The pull-back takes symmetric weights (n, n) to the gradient (P,) in the kernel's parameters, as
    that of a kernel's ``with_pullback`` does. TypeError for a kernel without
    derivatives where gradients are observed.
    """
    own = getattr(kernel, "with_pullback", None)
    if own is not None and isinstance(observed, Values):
        return own(observed.x)
    return covariance(kernel, observed, observed), lambda weights: _reverse_mode(kernel, observed, weights)


def _reverse_mode(kernel: Kernel, observed: Functional, weights: np.ndarray) -> np.ndarray:
    """Return the gradient (P,) of sum weights * covariance, positive parameters on the log scale."""
    import torch

    leaves, values = [], []
    for parameter in kernel.parameters():
        value = torch.tensor(np.asarray(to_numpy(parameter.value), dtype=float))
        leaf = (value.log() if parameter.positive else value).requires_grad_()
        leaves.append(leaf)
        values.append(leaf.exp() if parameter.positive else leaf)
    at = Observations(tuple(moved(block, torch.from_numpy) for block in blocks_of(observed)))
    with torch.enable_grad():
        matrix = covariance(kernel.with_parameters(values), at, at)
        total = (matrix * torch.from_numpy(np.ascontiguousarray(weights))).sum()
        gradients = torch.autograd.grad(total, leaves, materialize_grads=True)
    return np.concatenate([np.ravel(gradient.numpy()) for gradient in gradients])


def laid_out(observed: Functional, at: Callable[[np.ndarray, int], Gram | None]) -> Gram:
    """Return the covariance of ``observed`` from that of values at points and all derivatives at the first.

    Parameters
    ----------
    observed : values and derivatives.
    at : a function of n points (n, D) and of a number m that returns the covariance of n values and of all
        derivatives at the first m points, n + m D observations; None where it cannot.
    """
    blocks = blocks_of(observed)
    gram = rows = None
    if all(type(block) in (Values, Gradients) for block in blocks):
        x, m, rows = _layout(blocks)
        gram = at(x, m)
    if gram is None:
        return lambda changed: covariance_with_pullback(changed, observed)
    return gram if rows is None else _among(gram, rows)


def _layout(blocks: Sequence[Any]) -> tuple[np.ndarray, int, np.ndarray | None]:
    """Return points and m of `laid_out`, and which of its observations are in the blocks; None for all."""
    kinds = [type(block) for block in blocks]
    if kinds == [Values]:
        return blocks[0].x, 0, None
    if kinds == [Values, Gradients] and blocks[1].dimensions is None:
        x, m = blocks[0].x, len(blocks[1].x)
        if m <= len(x) and np.array_equal(blocks[1].x, x[:m]):
            return x, m, None
    first = sorted(blocks, key=lambda block: isinstance(block, Values))
    x, m = np.concatenate([b.x for b in first]), sum(len(b.x) for b in blocks if isinstance(b, Gradients))
    (n, dimension), start, rows = x.shape, {Gradients: 0, Values: m}, []
    for block in blocks:
        places = start[type(block)] + np.arange(len(block.x))
        start[type(block)] += len(block.x)
        if isinstance(block, Gradients):
            chosen = range(dimension) if block.dimensions is None else block.dimensions
            places = (n + places[:, None] * dimension + np.array(chosen)).reshape(-1)
        rows.append(places)
    return x, m, np.concatenate(rows)


def _among(gram: Gram, rows: np.ndarray) -> Gram:
    """Return the covariance of some of the observations, by their indices among all."""
    index = np.ix_(rows, rows)

    def of(changed: Kernel) -> tuple[np.ndarray, Pullback]:
        matrix, whole = gram(changed)

        def pullback(weights: np.ndarray) -> np.ndarray:
            padded = np.zeros_like(matrix)
            padded[index] = weights
            return whole(padded)

        if not isinstance(whole, Changes):
            return matrix[index], pullback

        def times(vectors: np.ndarray) -> np.ndarray:
            padded = np.zeros((len(matrix), vectors.shape[1]))
            padded[rows] = vectors
            return whole.times(padded)[:, rows]

        return matrix[index], Changes(pullback, times)

    return of


@gram_of.register
def _sum(kernel: Sum, observed: Functional) -> Gram:
    parts = [gram_of(term, observed) for term in kernel.terms]

    def gram(changed: Sum) -> tuple[np.ndarray, Pullback]:
        matrix, first = parts[0](changed.terms[0])  # not changed in place, as its pull-back may read it
        pulled = [first]
        for place, (part, term) in enumerate(zip(parts[1:], changed.terms[1:], strict=True)):
            more, pulled_back = part(term)
            matrix = np.add(matrix, more, out=matrix if place else None)
            pulled.append(pulled_back)
            del more  # large, and the next one is made before the name is free

        def pullback(weights: np.ndarray) -> np.ndarray:
            return np.concatenate([each(weights) for each in pulled])

        having = [each for each in pulled if isinstance(each, Changes)]
        if len(having) < len(pulled):
            return matrix, pullback
        return matrix, Changes(
            pullback, lambda vectors: np.concatenate([each.times(vectors) for each in having])
        )

    return gram


@gram_of.register
def _product(kernel: Product, observed: Functional) -> Gram:
    """Return the product of the factors: each is pulled back with the weights times the other factors."""
    if not isinstance(observed, Values):
        return lambda changed: covariance_with_pullback(changed, observed)
    parts = [gram_of(factor, observed) for factor in kernel.factors]

    def gram(changed: Product) -> tuple[np.ndarray, Pullback]:
        pairs = [part(factor) for part, factor in zip(parts, changed.factors, strict=True)]
        matrices = [matrix for matrix, _ in pairs]

        def pullback(weights: np.ndarray) -> np.ndarray:
            parts = []
            for index, (_, pull) in enumerate(pairs):
                others = (*matrices[:index], *matrices[index + 1 :])
                parts.append(pull(reduce(mul, others, weights)))
            return np.concatenate(parts)

        return reduce(mul, matrices), pullback

    return gram


@gram_of.register
def _constant(kernel: Constant, observed: Functional) -> Gram:
    of_values = np.concatenate([np.full(len(b), isinstance(b, Values), float) for b in blocks_of(observed)])
    n, whole = len(of_values), bool(of_values.all())

    def gram(changed: Constant) -> tuple[np.ndarray, Pullback]:
        variance = float(changed.variance)
        if whole:  # of values alone, a view of one number
            return np.broadcast_to(variance, (n, n)), Changes(
                lambda weights: np.array([variance * weights.sum()]),
                lambda vectors: np.broadcast_to(variance * vectors.sum(0), (1, *vectors.shape)),
            )
        matrix = np.outer(variance * of_values, of_values)
        return matrix, Changes.of([1.0], [matrix])

    return gram


@gram_of.register
def _quadratic_gram(kernel: QuadraticTrend, observed: Functional) -> Gram:
    """Return linear L + quadratic Q as a function of the two variances."""
    return laid_out(observed, _of_trend)


def _of_trend(x: np.ndarray, m: int) -> Gram:
    # L of x . y and Q of (x . y)^2 / 2, with the derivatives at the first m of n points
    t, (n, dimension) = x @ x.T, x.shape
    size = n + m * dimension
    linear, quadratic = np.zeros((size, size)), np.empty((size, size))
    linear[:n, :n], quadratic[:n, :n] = t, 0.5 * t * t
    linear[:n, n:] = np.broadcast_to(x[:, None, :], (n, m, dimension)).reshape(n, -1)
    quadratic[:n, n:] = (t[:, :m, None] * x[:, None, :]).reshape(n, -1)
    for matrix in (linear, quadratic):
        matrix[n:, :n] = matrix[:n, n:].T
    both = quadratic[n:, n:].reshape(m, dimension, m, dimension)  # [i, d, j, e]: x_jd x_ie
    both[:] = x[:m, None, None, :] * x[:m].T[None, :, :, None]
    for d in range(dimension):
        both[:, d, :, d] += t[:m, :m]
        linear[n:, n:].reshape(m, dimension, m, dimension)[:, d, :, d] = 1.0
    together = linear + quadratic

    def gram(changed: QuadraticTrend) -> tuple[np.ndarray, Pullback]:
        b1, b2 = changed.linear, changed.quadratic
        matrix = b1 * together if b1 == b2 else b1 * linear + b2 * quadratic
        return matrix, Changes.of([b1, b2], [linear, quadratic])

    return gram


@gram_of.register
def _multiple_gram(kernel: Multiple, observed: Functional) -> Gram:
    """Return variance g g^T as a function of the variance, g the function as it is observed."""

    def at(x: np.ndarray, m: int) -> Gram:
        slopes = kernel.function.gradient(x[:m]).reshape(-1) if m else np.zeros(0)
        return _of_function(np.concatenate([kernel.function(x), slopes]))

    return laid_out(observed, at)


def _of_function(g: np.ndarray) -> Gram:
    whole = np.outer(g, g)

    def gram(changed: Multiple) -> tuple[np.ndarray, Pullback]:
        variance = float(changed.variance)
        return variance * whole, Changes(
            lambda weights: np.array([variance * (g @ weights @ g)]),
            lambda vectors: variance * np.outer(g, g @ vectors)[None],
        )

    return gram


def of_gaps(x: np.ndarray, profile: Profile, squared: bool = False) -> Gram:
    """Return the covariance of values at points x (n, D) under a kernel that is a function of their gaps.

    Parameters
    ----------
    x : the points.
    profile : a function of the gaps |x_d - y_d| of P pairs, (D, P), and a kernel, which has one variance.
    squared : whether it takes the squares of the gaps.
    """
    n = len(x)
    if n > MOST_PAIRED:
        return lambda kernel: _of_rows(x, kernel, profile, squared)
    first, second = np.triu_indices(n, 1)
    pair = np.full((n, n), len(first))  # the index of each entry's pair; beyond the last on the diagonal
    pair[first, second] = pair[second, first] = np.arange(len(first))
    places, gaps = first * n + second, np.abs(x[first] - x[second]).T.copy()
    gaps = gaps**2 if squared else gaps

    def gram(kernel: Any) -> tuple[np.ndarray, Pullback]:
        variance = float(kernel.diagonal(x[:1])[0])
        of_values, contracted, changes = profile(gaps, kernel)
        values = of_values()
        matrix = np.append(values, variance).take(pair)

        def pullback(weights: np.ndarray) -> np.ndarray:
            gradient = contracted(2 * weights.reshape(-1).take(places), values)
            gradient[-1] += variance * weights.trace()
            return gradient

        def times(vectors: np.ndarray) -> np.ndarray:
            rows = [np.append(row, 0.0).take(pair) @ vectors for row in changes(values)]
            return np.stack([*rows, matrix @ vectors])

        return matrix, Changes(pullback, times)

    return gram


def _of_rows(x: np.ndarray, kernel: Any, profile: Profile, squared: bool) -> tuple[np.ndarray, Pullback]:
    """The same for points too many for pairs to be kept, whose gaps are computed again at each use."""
    n, dimension = x.shape
    columns, size = x.T.copy(), max(_BLOCK // (n * dimension), 1)

    def blocks() -> Iterator[tuple[slice, _Parts]]:
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            gaps = np.abs(columns[:, rows, None] - columns[:, None, :]).reshape(dimension, -1)
            yield rows, profile(np.square(gaps, out=gaps) if squared else gaps, kernel)

    matrix = np.empty((n, n))
    for rows, (values, _, _) in blocks():
        matrix[rows] = values().reshape(-1, n)

    def pullback(weights: np.ndarray) -> np.ndarray:
        parts = ((weights[rows], matrix[rows], contracted) for rows, (_, contracted, _) in blocks())
        return sum((contracted(w.reshape(-1), k.reshape(-1)) for w, k, contracted in parts), np.zeros(()))

    def times(vectors: np.ndarray) -> np.ndarray:
        parts = []
        for rows, (_, _, changes) in blocks():
            change = changes(matrix[rows].reshape(-1))
            parts.append(change.reshape(len(change), -1, n) @ vectors)
        return np.concatenate([np.concatenate(parts, axis=1), (matrix @ vectors)[None]])

    return matrix, Changes(pullback, times)
