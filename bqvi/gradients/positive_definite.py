"""Factor and inverse of a positive definite matrix, for hot loops over small ones."""

from __future__ import annotations

import numpy as np
import scipy.linalg


def cholesky_inverse(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower factor and inverse of a positive definite matrix; LinAlgError if it is not.

    LAPACK itself: NumPy's wrappers take longer than the arithmetic at these sizes.
    """
    factor, failed = scipy.linalg.lapack.dpotrf(matrix, lower=1, clean=1)
    if failed:
        raise np.linalg.LinAlgError("not positive definite")
    lower = scipy.linalg.lapack.dpotri(factor, lower=1)[0]
    inverse = lower + lower.T
    np.einsum("ii->i", inverse)[:] *= 0.5
    return factor, inverse
