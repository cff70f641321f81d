"""Rows on which kernels over data are evaluated: data with similar rows should have similar gradients.

A model may define these rows (`representation`). Otherwise they are the standardised columns of the data,
with labels that have the weight of all other columns together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from acquisition.minibatch import standardised
from bqvi.models.data import Data, is_sparse
from gp.arrays import to_numpy


def representation(model: Any, data: Data) -> np.ndarray:
    """(N, D), finite.

    Raises
    ------
    TypeError
        The data are sparse, and the model defines no rows.
    """
    own = getattr(model, "representation", None)
    if own is not None:
        return np.asarray(own(data), float)
    parts = data if isinstance(data, tuple) else (data,)
    if any(is_sparse(part) for part in parts):
        raise TypeError(
            "the data are sparse, and a kernel needs rows of numbers; give a strategy with features of your "
            "own, or minibatch=Reshuffled(S)"
        )
    tables = [standardised(_table(part)) for part in parts]
    widest = max(table.shape[1] for table in tables)
    return np.column_stack([np.sqrt(widest / table.shape[1]) * table for table in tables])


def _table(part: Data) -> np.ndarray:
    rows = to_numpy(part).astype(float)
    return np.asarray(rows.reshape(len(rows), -1))
