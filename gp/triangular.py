"""Solves with a triangular matrix: by LAPACK's routines at once, or by torch.

At n = 50 SciPy's wrappers cost more than the work.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs

from gp.arrays import Array, is_torch


def solve_lower(lower: Array, b: Array, transposed: bool = False) -> Array:
    """Return L^-1 b, or L^-T b, for a lower triangular L (n, n) and b (n,) or (n, m)."""
    if b.shape[0] == 0:
        return b
    if is_torch(b):
        return _solve_torch(lower, b, transposed)
    if b.ndim == 2 and b.shape[1] == 1:
        return solve_lower(lower, b[:, 0], transposed)[:, None]
    if b.ndim == 1:
        trsv = blas("trsv", lower.dtype, b.dtype)
        return trsv(lower, b, lower=1, trans=int(transposed))
    trsm = blas("trsm", lower.dtype, b.dtype)
    return trsm(1.0, lower, b, lower=1, trans_a=int(transposed))


@cache
def blas(name: str, *dtypes: Any) -> Any:
    """Return the routine of BLAS with this name for the precision that the dtypes have together."""
    return get_blas_funcs(name, dtype=np.result_type(*dtypes))


def _solve_torch(lower: Array, b: Array, transposed: bool) -> Array:
    import torch

    matrix = lower.mT if transposed else lower
    columns = b[:, None] if b.ndim == 1 else b
    solution = torch.linalg.solve_triangular(matrix, columns, upper=transposed)
    return solution[:, 0] if b.ndim == 1 else solution
