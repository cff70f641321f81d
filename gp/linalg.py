"""The linear algebra of a Gaussian process: a Cholesky factor, triangular solves, an extension.

A covariance matrix K = L L^T is factorised once and only ever used through triangular solves; new
rows extend the factor in O(n^2):

    [K   C]   [L    0][L^T  B]
    [C^T S] = [B^T  M][0  M^T],   L B = C,   M M^T = S - B^T B.

Numerically, K may fail to be positive definite (points too close for the kernel to tell apart).
Then the smallest jitter that helps is added to the diagonal, *and how much is returned*: it is a
noise variance that nobody asked for.

NumPy goes to LAPACK directly: at n = 50 SciPy's wrappers cost more than the work. Factors are
stored in column order, which is what LAPACK reads without a copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from gp.arrays import Array, is_torch, namespace

_MOST_ROWS = 64
_FIRST_JITTER, _LAST_JITTER = 1e2, 1e8
_SMALLEST_PIVOT = 10.0
"""In units of the rounding error of the largest variance: below it a pivot is noise."""


class NotPositiveDefiniteError(ValueError):
    """A covariance matrix that no reasonable jitter makes positive definite."""


@dataclass(frozen=True, eq=False)
class Factor:
    """K + jitter I = C C^T, with the last k rows of C kept apart.

    Adding a row to a matrix means copying it, which costs more than the O(n^2) arithmetic. So C is
    kept as a head and a few later rows, [B^T M], and put together again now and then.

    Attributes
    ----------
    head : (n - k, n - k), lower triangular, zero above the diagonal.
    jitter : the variance that was added to the diagonal (the most, where rows differ); 0 if none.
    rows : (k, n), the rows below, lower triangular in their last k columns; ``None`` if k = 0.
    """

    head: Array
    jitter: float = 0.0
    rows: Array | None = None

    @cached_property
    def lower(self) -> Array:
        """The whole factor C, (n, n)."""
        return self.head if self.rows is None else _joined(self.head, self.rows)

    @cached_property
    def _diagonal(self) -> Array:
        xp = namespace(self.head)
        diagonal = xp.linalg.diagonal(self.head)
        if self.rows is None:
            return diagonal
        corner = xp.linalg.diagonal(self.rows[:, self.head.shape[0] :])
        return xp.concat([diagonal, corner])

    def solve(self, b: Array, transposed: bool = False) -> Array:
        """Return C^-1 b, or C^-T b; b has shape (n,) or (n, m)."""
        if self.rows is None:
            return solve_lower(self.head, b, transposed)
        split = self.head.shape[0]
        first, last = b[:split, ...], b[split:, ...]
        below, corner = self.rows[:, :split], self.rows[:, split:]
        if transposed:
            last = solve_lower(corner, last, transposed)
            first = solve_lower(self.head, first - below.T @ last, transposed)
        else:
            first = solve_lower(self.head, first)
            last = solve_lower(corner, last - below @ first)
        return namespace(b).concat([first, last], axis=0)

    def continue_solution(self, known: Array, b: Array) -> Array:
        """Return the last m entries of C^-1 b, given b's last m and the solution of the others."""
        m = b.shape[0]
        rows = self.head[-m:, :] if self.rows is None else self.rows[-m:, :]
        split = known.shape[0]
        return solve_lower(rows[:, split:], b - rows[:, :split] @ known)

    @property
    def log_determinant(self) -> Array:
        """The logarithm of det (K + jitter I)."""
        xp = namespace(self.head)
        return 2 * xp.sum(xp.log(self._diagonal))


def cholesky(matrix: Array, scale: float | None = None) -> Factor:
    """Factorise a covariance matrix, with as little jitter as makes it positive definite.

    Parameters
    ----------
    matrix : (n, n), symmetric; left as it is.
    scale : the variance that rounding errors and jitter are relative to; by default the largest
        on the diagonal. Give the prior variance for a posterior covariance, which may be all but 0.

    Raises
    ------
    NotPositiveDefiniteError
        If a jitter of 1e8 rounding errors (2e-8 of ``scale`` in float64) does not suffice.
    """
    if matrix.shape[0] == 0:
        return Factor(matrix)
    xp = namespace(matrix)
    largest = float(xp.linalg.diagonal(matrix).max()) if scale is None else scale
    rounding = float(xp.finfo(matrix.dtype).eps) * largest
    jitter, identity = 0.0, None
    while rounding == 0 or jitter <= _LAST_JITTER * rounding:
        lower = _lower(matrix if identity is None else matrix + jitter * identity)
        if lower is not None and _smallest_pivot(lower) >= _SMALLEST_PIVOT * rounding:
            return Factor(lower, jitter)
        if not largest > 0:
            break
        identity = xp.eye(matrix.shape[0], dtype=matrix.dtype, device=matrix.device)
        jitter = max(10 * jitter, _FIRST_JITTER * rounding)
    raise NotPositiveDefiniteError(_explanation(matrix, largest, jitter))


def extend(factor: Factor, cross: Array, corner: Array) -> Factor:
    """Return the factor of [[K, C], [C^T, S]] from that of K, in O(n^2 m).

    Parameters
    ----------
    factor : of K, (n, n).
    cross : (n, m), C.
    corner : (m, m), S. The jitter of K is added to it, so that all rows carry the same.
    """
    xp = namespace(cross, corner)
    n, m = cross.shape
    if n == 0:
        return cholesky(corner)
    new = factor.solve(cross).T  # B^T
    if factor.jitter > 0:
        identity = xp.eye(m, dtype=corner.dtype, device=corner.device)
        corner = corner + factor.jitter * identity
    largest = float(xp.linalg.diagonal(corner).max())
    schur = cholesky(corner - new @ new.T, scale=largest)
    rows = xp.concat([new, schur.head], axis=1)
    if factor.rows is not None:
        rows = _stacked_rows(factor.rows, rows)
    jitter = factor.jitter + schur.jitter
    if rows.shape[0] > _MOST_ROWS:
        return Factor(_joined(factor.head, rows), jitter)
    return Factor(factor.head, jitter, rows)


def _stacked_rows(above: Array, below: Array) -> Array:
    """Return rows of a triangular matrix, (k, n), with m more, (m, n + m), below them."""
    xp = namespace(above, below)
    zeros = xp.zeros_like(below[0, above.shape[1] :]) * xp.zeros_like(above[:, :1])
    return xp.concat([xp.concat([above, zeros], axis=1), below], axis=0)


def _joined(head: Array, rows: Array) -> Array:
    """Return the triangular matrix of a head (n, n) and rows (k, n + k) below it."""
    xp = namespace(head, rows)
    n, k = head.shape[0], rows.shape[0]
    if is_torch(head):
        top = xp.concat([head, xp.zeros_like(rows[:, :n]).T], axis=1)
        return xp.concat([top, rows], axis=0)
    lower = np.empty((n + k, n + k), dtype=head.dtype, order="F")
    lower[:n, :n] = head
    lower[:n, n:] = 0
    lower[n:, :] = rows
    return lower


def solve_lower(lower: Array, b: Array, transposed: bool = False) -> Array:
    """Return L^-1 b, or L^-T b, for a lower triangular L (n, n) and b (n,) or (n, m)."""
    if b.shape[0] == 0:
        return b
    if is_torch(b):
        return _solve_torch(lower, b, transposed)
    if b.ndim == 2 and b.shape[1] == 1:
        return solve_lower(lower, b[:, 0], transposed)[:, None]
    if b.ndim == 1:
        trsv: Any = get_blas_funcs("trsv", (lower, b))
        return trsv(lower, b, lower=1, trans=int(transposed))
    trsm: Any = get_blas_funcs("trsm", (lower, b))
    return trsm(1.0, lower, b, lower=1, trans_a=int(transposed))


def _solve_torch(lower: Array, b: Array, transposed: bool) -> Array:
    import torch

    matrix = lower.mT if transposed else lower
    columns = b[:, None] if b.ndim == 1 else b
    solution = torch.linalg.solve_triangular(matrix, columns, upper=transposed)
    return solution[:, 0] if b.ndim == 1 else solution


def inverse(factor: Factor) -> Any:
    """Return (K + jitter I)^-1, (n, n). NumPy only; the gradient of the evidence needs it whole."""
    potri: Any = get_lapack_funcs("potri", (factor.lower,))
    lower, _ = potri(factor.lower, lower=1)
    full = lower + lower.T
    index = np.arange(full.shape[0])
    full[index, index] = lower[index, index]
    return full


def _lower(matrix: Array) -> Array | None:
    """Return the Cholesky factor, or None where there is none."""
    if is_torch(matrix):
        import torch

        lower, info = torch.linalg.cholesky_ex(matrix)
        return lower if int(info) == 0 else None
    potrf: Any = get_lapack_funcs("potrf", (matrix,))
    # the transpose of a symmetric matrix in row order is the matrix in LAPACK's column order
    lower, info = potrf(matrix.T, lower=1, clean=1)
    return lower if info == 0 else None


def _smallest_pivot(lower: Array) -> float:
    return float(namespace(lower).linalg.diagonal(lower).min()) ** 2


def _explanation(matrix: Array, largest: float, jitter: float) -> str:
    xp = namespace(matrix)
    if not bool(xp.all(xp.isfinite(matrix))):
        return (
            "the covariance matrix has entries that are not finite: look at the kernel's "
            "parameters and at the scale of the inputs"
        )
    return (
        f"the covariance matrix (n = {matrix.shape[0]}, largest variance {largest:.3g}) is not "
        f"positive definite, not even with a jitter of {jitter:.3g}: give the observations noise, "
        "remove points that (nearly) coincide, use a shorter lengthscale, or check that the kernel "
        "is positive semi-definite (gp.testing.check_kernel)"
    )
