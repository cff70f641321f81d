"""Whether a Cholesky factor is accurate: the smallest eigenvalue of its matrix, in rounding errors.

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

from typing import TYPE_CHECKING

import numpy as np

from gp.arrays import Array, is_torch, namespace
from gp.triangular import solve_lower

if TYPE_CHECKING:
    from gp.linalg import Factor

SMALLEST_EIGENVALUE = 10.0
"""The smallest eigenvalue, in rounding errors of the variances, of a covariance that counts as regular."""
LARGE_PIVOT = 1e9
"""In the same units: where all pivots are larger, the smallest eigenvalue is not estimated."""

_EPS = float(np.finfo(np.float64).eps)


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
