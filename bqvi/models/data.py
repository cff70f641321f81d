"""Data as models take them: an array (N, D), a CSR matrix, a torch tensor, or a tuple of these by row.

``None`` stands for a model that has no data of its own (a `LogJoint`).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import scipy.sparse

Data: TypeAlias = Any


def n_rows(data: Data) -> int:
    """N; 0 for a model without data."""
    if data is None:
        return 0
    first = data[0] if isinstance(data, tuple) else data
    return int(first.shape[0])


def take(data: Data, indices: Any) -> Data:
    """The rows ``indices`` (S,) of ``data``."""
    if isinstance(data, tuple):
        return tuple(take(part, indices) for part in data)
    return data[indices]


def is_sparse(data: Data) -> bool:
    """Whether ``data`` is a SciPy sparse matrix."""
    return bool(scipy.sparse.issparse(data))
