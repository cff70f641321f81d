"""The linear algebra of a Gaussian process: Cholesky factors, triangular solves, extension by rows.

A covariance matrix K = L L^T is factorised once, and K^-1 is applied by triangular solves; new rows extend
the factor in O(n^2):

    [K   C]   [L    0][L^T  B]
    [C^T S] = [B^T  M][0  M^T],   L B = C,   M M^T = S - B^T B.

Where K is not positive definite in floating point, or its factor consists of rounding errors,
the diagonal is multiplied by 1 + jitter, with the smallest jitter that suffices. The jitter is returned, as
it acts as a noise variance that the user did not state.

A factorisation K = C C^T in floating point is exact for K + E, |E| about eps times the variances D
(Higham, Accuracy and Stability of Numerical Algorithms, 2002, Theorem 10.3). With K_s = D^-1/2 K D^-1/2,
rounding moves log |K| by about eps tr K_s^-1: once the smallest eigenvalue of K_s is a few eps, rounding
decides whether the factorisation succeeds, and the log evidence can be wrong by hundreds of nats. The pivots
may be large all the same, with derivatives 10^3 to 10^5 times that eigenvalue,

    smallest eigenvalue of K_s = 1 / |C^-1 D^1/2|^2,

which is computed by one step of inverse iteration (it errs upwards), and only where some pivot is small. When
rows [B^T M] are added below C, C^-1 grows by the rows M^-1 [-B^T C^-1, I]: their squared norms, weighted by
D, are added to tr K_s^-1, in O(n^2).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gp import matrices
from gp.arrays import Array, as_like, is_torch, namespace
from gp.matrices import lapack, solve_lower
from gp.threads import of_few

_BLOCK = 64
"""The number of rows that are mirrored at once."""
_SMALL = 512
"""The most rows of a matrix that is copied rather than mirrored block by block."""
FIRST_JITTER, LAST_JITTER = 1e2, 1e8
"""The jitters that are tried, in rounding errors: from the first, tenfold each time, to the last."""
_LARGEST_JITTER = 1e-2
"""The largest jitter where rounding errors are large (float32): a larger one would be another model."""
SMALLEST_EIGENVALUE = 10.0
"""The smallest eigenvalue, in rounding errors of the variances, of a covariance that counts as regular."""
LARGE_PIVOT = 1e9
"""In the same units: where all pivots are larger, the smallest eigenvalue is not estimated."""

_EPS = float(np.finfo(np.float64).eps)
LEAST_SCALE = 1e-24
"""Fraction of the largest variance, for rows of variance zero, such as a linear kernel at its offset."""


class NotPositiveDefiniteError(np.linalg.LinAlgError):
    """A covariance matrix that no reasonable jitter makes positive definite."""


@dataclass(frozen=True, eq=False)
class Factor:
    """K + jitter diag(K) = C C^T.

    Attributes
    ----------
    lower : C, (n, n), lower triangular, zero above the diagonal.
    jitter : the fraction of each diagonal entry that was added to it (the largest, where rows
        differ); 0 if none was needed.
    """

    lower: Array
    jitter: float = 0.0

    @cached_property
    def variances(self) -> Array:
        """The diagonal of C C^T, (n,)."""
        return (self.lower**2).sum(axis=1)

    def solve(self, b: Array, transposed: bool = False) -> Array:
        """Return C^-1 b, or C^-T b; b has shape (n,) or (n, m)."""
        return solve_lower(self.lower, b, transposed)

    def continue_solution(self, known: Array, b: Array) -> Array:
        """Return the last m entries of C^-1 b, given b's last m and the solution of the others."""
        split, rows = known.shape[0], self.lower[-b.shape[0] :, :]
        return solve_lower(rows[:, split:], b - rows[:, :split] @ known)

    @property
    def pivots(self) -> Array:
        """The squares of the diagonal of C, (n,)."""
        return self.lower.diagonal() ** 2

    @property
    def whitening(self) -> np.ndarray:
        """C^-1, (n, n), which is computed anew at each use. NumPy only."""
        return matrices.triangular_inverse(self.lower)

    @property
    def log_determinant(self) -> Array:
        """The logarithm of the determinant of C C^T."""
        xp = namespace(self.lower)
        return 2 * xp.sum(xp.log(self.lower.diagonal()))


@dataclass(frozen=True, eq=False)
class Whitening:
    """C^-1 of a covariance matrix C C^T: products with it take the place of solves. NumPy only.

    They are faster than solves for some hundreds of rows, and lose digits where the matrix is nearly
    singular.

    Attributes
    ----------
    whitening : C^-1, lower triangular, (n, n). jitter : 0, as none is added.
    """

    whitening: np.ndarray
    jitter: float = 0.0

    @classmethod
    def of(cls, matrix: np.ndarray) -> Whitening:
        """That of a covariance (n, n), which is overwritten; LinAlgError where it has no factor."""
        factor = matrices.cholesky(matrix, overwrite=True)
        return cls(np.ascontiguousarray(matrices.triangular_inverse(factor)))

    def extended(self, cross: np.ndarray, corner: np.ndarray) -> Whitening:
        """That of m more rows, in O(n^2 m): C^-1 grows by rows M^-1 [-X^T C^-1, I], M M^T = S - X^T X.

        Parameters
        ----------
        cross : X, C^-1 times the covariances of old and new rows, (n, m).
        corner : the covariance S of the new rows, (m, m), which is overwritten.
        """
        n, m = cross.shape
        corner -= cross.T @ cross
        last = matrices.triangular_inverse(matrices.cholesky(corner, overwrite=True))
        whitening = np.zeros((n + m, n + m))
        whitening[:n, :n] = self.whitening
        whitening[n:, :n] = -(last @ cross.T) @ self.whitening
        whitening[n:, n:] = last
        return Whitening(whitening)

    @property
    def lower(self) -> np.ndarray:
        """C, (n, n), which is computed anew at each use."""
        return matrices.triangular_inverse(self.whitening)

    def solve(self, b: np.ndarray, transposed: bool = False) -> np.ndarray:
        """Return C^-1 b, or C^-T b; b has shape (n,) or (n, m)."""
        return np.asarray((self.whitening.T if transposed else self.whitening) @ b)

    @property
    def log_determinant(self) -> float:
        """The logarithm of the determinant of C C^T."""
        return -2.0 * float(np.log(np.einsum("ii->i", self.whitening)).sum())


def cholesky(matrix: Array, scale: Array | None = None, jitter: float = 0.0) -> Factor:
    """Factorise a covariance matrix, with as little jitter as makes it positive definite.

    Parameters
    ----------
    matrix : (n, n), symmetric; left as it is.
    scale : (n,), variances that rounding errors and jitter are relative to, row by row (rows may
        have different units); by default the diagonal. Give the prior variances for a posterior
        covariance, whose diagonal may be nearly 0.
    jitter : the first jitter that is tried.

    Raises
    ------
    NotPositiveDefiniteError
        If a jitter of 1e8 rounding errors (2e-8 of ``scale`` in float64), or of 1e-2 where that is less
        (float32), does not suffice.
    """
    if matrix.shape[0] == 0:
        return Factor(matrix)
    scale = matrix.diagonal() if scale is None else scale
    if jitter == 0 and (lower := _lower(matrix)) is not None and is_sound(lower, scale):
        return Factor(lower)
    xp = namespace(matrix)
    largest = float((scale.detach() if is_torch(scale) else scale).max())
    rounding = float(xp.finfo(matrix.dtype).eps)
    last = max(jitter, min(LAST_JITTER * rounding, _LARGEST_JITTER))
    while jitter <= last:
        lower = _lower(matrix) if jitter == 0 else _lower(raised(matrix, jitter * scale), overwrite=True)
        if lower is not None and is_sound(lower, scale):
            return Factor(lower, jitter)
        if not largest > 0:
            break
        scale = xp.clip(scale, LEAST_SCALE * largest, None)
        jitter = next_jitter(jitter, matrix)
    raise NotPositiveDefiniteError(_explanation(matrix, largest, jitter))


def is_sound(lower: Array, scale: Array) -> bool:
    """Tell whether the smallest eigenvalue of C C^T, relative to ``scale``, exceeds rounding errors.

    Parameters
    ----------
    lower : C, (n, n).
    scale : D, (n,), the variances that rounding errors are relative to.
    """
    if is_torch(lower):
        lower, scale = lower.detach(), scale.detach()
    rounding = _EPS if lower.dtype == np.float64 else float(namespace(lower).finfo(lower.dtype).eps)
    pivots = lower.diagonal() ** 2
    if bool((pivots >= LARGE_PIVOT * rounding * scale).all()):
        return True
    least = SMALLEST_EIGENVALUE * rounding
    return bool((pivots >= least * scale).all()) and smallest_eigenvalue(lower, scale) >= least


def smallest_eigenvalue(lower: Array, scale: Array) -> float:
    """Estimate the smallest eigenvalue of D^-1/2 C C^T D^-1/2, C = ``lower``, D = ``scale``, in O(n^2)."""
    xp = namespace(lower, scale)
    weights = xp.sqrt(scale)
    places = xp.arange(scale.shape[0], dtype=lower.dtype, device=lower.device)
    start = xp.cos(places**2)  # a fixed direction that is not special for any matrix
    inverse_times = weights * solve_lower(lower, solve_lower(lower, weights * start), transposed=True)
    whitened = solve_lower(lower, weights * inverse_times)
    return float(inverse_times @ inverse_times) / float(whitened @ whitened)


def extension_is_sound(factor: Factor, new: Array, schur: Array, scale: Array) -> bool:
    """Tell whether a factor is sound, as in `is_sound`, after rows [B^T M] are added to it.

    Parameters
    ----------
    factor : C, (n, n), sound itself.
    new : B^T, (m, n).
    schur : M, (m, m), lower triangular.
    scale : (m,), the variances of the new rows.
    """
    if is_torch(schur):
        new, schur, scale = new.detach(), schur.detach(), scale.detach()
    xp = namespace(schur)
    rounding = float(xp.finfo(schur.dtype).eps)
    if bool((schur.diagonal() ** 2 >= LARGE_PIVOT * rounding * scale).all()):
        return True
    left = factor.solve(new.T, transposed=True) * xp.sqrt(factor.variances)[:, None]
    left, right = solve_lower(schur, left.T), solve_lower(schur, xp.diag(xp.sqrt(scale)))
    growth = float((left**2).sum() + (right**2).sum())
    return SMALLEST_EIGENVALUE * rounding * growth <= 1


def next_jitter(jitter: float, like: Array) -> float:
    """Return the jitter that is tried after one that did not suffice, in the precision of ``like``."""
    return max(10 * jitter, FIRST_JITTER * float(namespace(like).finfo(like.dtype).eps))


def extend(factor: Factor, cross: Array, corner: Array) -> Factor:
    """Return the factor of [[K, C], [C^T, S]] from that of K, in O(n^2 m).

    Parameters
    ----------
    factor : of K, (n, n).
    cross : (n, m), C.
    corner : (m, m), S. The jitter of K is added to it as well.

    Raises
    ------
    NotPositiveDefiniteError
        If all rows, not only the new ones, need more jitter than K has.
    """
    xp = namespace(cross, corner)
    if cross.shape[0] == 0:
        return cholesky(corner)
    new = factor.solve(cross).T  # B^T
    scale = xp.linalg.diagonal(corner)
    if factor.jitter > 0:
        corner = raised(corner, factor.jitter * scale)
    schur = cholesky(corner - new @ new.T, scale)
    if not extension_is_sound(factor, new, schur.lower, scale):
        raise NotPositiveDefiniteError(
            f"a covariance matrix (n = {cross.shape[0]}) with {cross.shape[1]} rows more is singular up to "
            "rounding: factorise the whole matrix, which finds the jitter that it needs"
        )
    rows = xp.concat([new, schur.lower], axis=1)
    return Factor(_joined(factor.lower, rows), max(factor.jitter, schur.jitter))


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


def inverse(factor: Factor) -> np.ndarray:
    """Return (C C^T)^-1, (n, n). NumPy only; the gradient of the evidence needs it whole."""
    whitening = factor.whitening
    lower: np.ndarray = lapack("lauum", whitening.dtype)(whitening, lower=1, overwrite_c=1)[0]
    if len(lower) <= _SMALL:
        whole: np.ndarray = lower + lower.T  # the part above the diagonal is zero
        whole.reshape(-1)[:: len(lower) + 1] *= 0.5
        return whole
    for start in range(0, len(lower), _BLOCK):  # block by block, so that no second matrix is made
        stop = start + _BLOCK
        corner = lower[start:stop, start:stop]
        corner += np.tril(corner, -1).T
        lower[start:stop, stop:] = lower[stop:, start:stop].T
    return lower.T  # in row order, as the matrices that it is multiplied with


def least_squares(columns: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients (p, O) and residuals (n, O); columns (n, p) may have very different norms."""
    if columns.shape[1] == 1:
        column = columns[:, 0]
        coefficients = (column @ targets)[None] / ((column @ column) or 1.0)
        return coefficients, targets - column[:, None] * coefficients
    size = np.linalg.norm(columns, axis=0)
    size = np.where(size > 0, size, 1.0)
    coefficients = np.linalg.lstsq(columns / size, targets, rcond=None)[0] / size[:, None]
    return coefficients, targets - columns @ coefficients


def regression(design: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the coefficients (p,) of values (n,) on columns (n, p), n > p, and standard errors (p,)."""
    found = least_squares(design, values[:, None])[0][:, 0]
    left = values - design @ found
    variance = left @ left / (len(design) - design.shape[1]) * np.linalg.pinv(design.T @ design).diagonal()
    return found, np.sqrt(variance)


def ridge_regressions(design: np.ndarray, values: np.ndarray, ridge: float) -> np.ndarray:
    """Weights w (..., r) that minimise ||design w - values||^2 + ridge ||scaled w||^2, for many regressions.

    Parameters
    ----------
    design : (..., n, r). values : (..., n).
    ridge : penalty, over n, on the weights of columns that are scaled to a largest entry of one. It may be
        near the square of a rounding error, as orthogonal factors are used.
    """
    n, r = design.shape[-2:]
    sizes = np.maximum(np.abs(design).max(-2, keepdims=True), 1e-300)
    rows = np.zeros((*design.shape[:-2], n + r, r + 1))
    np.divide(design, sizes, out=rows[..., :n, :r])
    rows[..., :n, r] = values
    rows[..., n:, :r] = np.sqrt(ridge * n) * np.eye(r)
    # the last column is the product of the orthogonal factor and the values
    upper = np.asarray(np.linalg.qr(rows, mode="r"))[..., :r, :]
    return np.linalg.solve(upper[..., :r], upper[..., r:])[..., 0] / sizes[..., 0, :]


def complement(rows: np.ndarray, least: float) -> np.ndarray:
    """Return orthonormal directions (D - r, D) that are orthogonal to the span of rows (n, D).

    r is the number of singular values of the rows above ``least``.
    """
    _, lengths, directions = np.linalg.svd(rows)
    return directions[int((lengths > least).sum()) :]


def _lower(matrix: Array, overwrite: bool = False) -> Array | None:
    """Return the Cholesky factor, or None where there is none; with ``overwrite`` in its place."""
    if is_torch(matrix):
        import torch

        lower, info = torch.linalg.cholesky_ex(matrix)
        return lower if int(info) == 0 else None
    try:
        return matrices.cholesky(matrix, overwrite)
    except np.linalg.LinAlgError:
        return None


def raised(matrix: Array, values: Array, overwrite: bool = False) -> Array:
    """Return the matrix with ``values``, (n,) or a number, added to its diagonal; or ``overwrite`` it."""
    if is_torch(matrix):
        eye = namespace(matrix).eye(matrix.shape[0], dtype=matrix.dtype, device=matrix.device)
        return matrix + eye * as_like(values, matrix)
    matrix = matrix if overwrite and matrix.flags.writeable else np.array(matrix)
    np.einsum("ii->i", matrix)[:] += values
    return matrix


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


def sample_gaussian(
    mean: Array, covariance: Array, n: int, seed: int | np.random.Generator, scale: Array
) -> Array:
    """Return n draws (n, m) from N(mean, covariance).

    ``scale`` (m,) are the prior variances, which the jitter of the factorisation is relative to: a
    posterior covariance may be singular, and zero at noise-free observations.
    """
    if n < 0:
        raise ValueError(f"n = {n}: give the number of draws, 0 or more")
    rng = np.random.default_rng(seed)
    normal = as_like(rng.standard_normal((n, mean.shape[0])), mean)
    with of_few(len(covariance)):
        return mean + normal @ cholesky(covariance, scale).lower.T
