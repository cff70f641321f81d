"""Unconstrained coordinates R of positive definite matrices L L^T.

R is lower triangular: below its diagonal it has the entries of the Cholesky factor L, on its diagonal the
logarithms of L's.
"""

from __future__ import annotations

from bqvi.arrays import diagonal, diagonal_matrix, namespace, symmetric_from_lower, transpose
from gp.arrays import Array


def coordinates(factor: Array) -> Array:
    """R of L (..., D, D)."""
    xp = namespace(factor)
    return xp.tril(factor, k=-1) + diagonal_matrix(xp.log(diagonal(factor)))


def factor_at(raw: Array) -> Array:
    """L at R (..., D, D)."""
    xp = namespace(raw)
    return xp.tril(raw, k=-1) + diagonal_matrix(xp.exp(diagonal(raw)))


def pulled_back(slope: Array, factor: Array) -> Array:
    """d/dR of the symmetric derivative ``slope`` by L L^T, both (..., D, D)."""
    return from_factor(2.0 * slope @ factor, factor)


def from_factor(slope: Array, factor: Array) -> Array:
    """d/dR of the derivative ``slope`` by L, of which the upper triangle is not used, both (..., D, D)."""
    lower = namespace(factor).tril(slope, k=-1)
    return lower + diagonal_matrix(diagonal(slope) * diagonal(factor))


def pushed_forward(raw: Array, factor: Array, inverse: Array) -> Array:
    """The derivative by L L^T whose ``pulled_back`` is ``raw``; ``inverse`` is L^-1, all (..., D, D)."""
    xp = namespace(factor)
    lower = xp.tril(raw, k=-1) + diagonal_matrix(diagonal(raw) / diagonal(factor))
    return 0.5 * transpose(inverse) @ symmetric_from_lower(transpose(factor) @ lower) @ inverse
