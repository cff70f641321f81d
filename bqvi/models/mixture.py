"""The one pass over the data that every mixture shares.

For components in an exponential family the expected log joint of a datum and a component is affine in
a statistic of the datum (here the datum itself),

    rho_nk = <x_n, W_k> + b_k,      r_n = softmax(rho_n)                     (thesis Eqs 3.12, 3.23)

so the local step is two matrix products around a softmax:

    N_k = sum_n w_n r_nk,   sum_n w_n r_nk x_n,   sum_n w_n logsumexp_k(rho_nk).

The dense pass works through blocks of rows that stay in the processor's cache, data on the last axis so
that what is done to each component or column is vectorised over them. The softmax is never normalised:
1 / sum exp is moved to the columns of x, which are fewer numbers. Sums over blocks are in float64; inside a
block the arithmetic has the precision of the data. Memory beyond the data is a few blocks, whatever N.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.special

from bqvi.models.data import Data, is_sparse, n_rows
from gp.arrays import Array, is_torch, to_numpy

BLOCK_ENTRIES = 1 << 16
"""Responsibilities held at once (half a MiB in float64): within a core's second-level cache."""
SMALLEST = {"float32": -80.0, "float64": -700.0}
"""Floor of rho - max rho, nats: below it exp is subnormal, on which processors are tens of times slower,
and a responsibility that small changes no sum."""


@dataclass(frozen=True)
class Affine:
    """rho_nk = <x_n - shift, slope_k + tilt> + offset_k + level.

    What all components share (tilt, level) changes no responsibility; it is added to the sums, where it
    costs no digits.
    """

    slope: np.ndarray
    """W, (K, D)."""
    offset: np.ndarray
    """b, (K,)."""
    shift: np.ndarray | None = None
    """(D,), taken off the data before the product: keeps digits when the data lie far from 0. Of numbers
    that float32 holds exactly, so that it is the same shift for data of either precision."""
    tilt: np.ndarray | None = None
    """(D,)."""
    level: float = 0.0

    def common(self, total: np.ndarray, count: float) -> float:
        """What is shared, summed over data whose sum of x - shift is ``total`` and number ``count``."""
        return 0.0 if self.tilt is None else float(self.tilt @ total + self.level * count)

    def rho(self, x: np.ndarray) -> np.ndarray:
        """rho, (N, K)."""
        shifted = x if self.shift is None else x - self.shift
        shared = 0.0 if self.tilt is None else (shifted @ self.tilt)[:, None] + self.level
        table: np.ndarray = shifted @ self.slope.T + self.offset + shared
        return table


@dataclass(frozen=True)
class MixtureSums:
    """What the pass accumulates."""

    counts: np.ndarray
    """N_k, (K,)."""
    sums: np.ndarray
    """sum_n w_n r_nk (x_n - shift), (K, D)."""
    log_normaliser: float
    """sum_n w_n logsumexp_k rho_nk."""
    total: np.ndarray
    """sum_n w_n (x_n - shift), (D,): in float64 whatever the data, since ``tilt`` multiplies it."""


def mixture_pass(x: Data, affine: Affine, weights: Array | None = None) -> MixtureSums:
    """Responsibilities of all rows of ``x`` (N, D), summed up; weights (N,) default to one."""
    if is_torch(x):
        sums = _torch_pass(x, affine, weights)
    elif is_sparse(x):
        sums = _sparse_pass(x, affine, weights)
    else:
        sums = _dense_pass(x, affine, weights)
    count = n_rows(x) if weights is None else float(weights.sum())
    shared = affine.common(sums.total, count)
    return MixtureSums(sums.counts, sums.sums, sums.log_normaliser + shared, sums.total)


def responsibilities(x: Data, affine: Affine) -> np.ndarray:
    """r, (N, K)."""
    return np.asarray(scipy.special.softmax(affine.rho(x), axis=1))


def blocks(n: int, n_components: int) -> Iterator[slice]:
    """Slices of rows such that a block of responsibilities has about BLOCK_ENTRIES entries."""
    step = max(256, BLOCK_ENTRIES // n_components)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def short_mantissa(x: np.ndarray) -> np.ndarray:
    """``x`` rounded to the 24 bits that float32 has, at any exponent: what `Affine.shift` is made of."""
    fraction, exponent = np.frexp(x)
    rounded: np.ndarray = np.ldexp(np.round(fraction * 2.0**24), exponent - 24)
    return rounded


def working_dtype(x: Data) -> np.dtype:
    """float32 data are worked on in float32, all else in float64."""
    return np.dtype(np.float32 if x.dtype == np.float32 else np.float64)


def _dense_pass(x: np.ndarray, affine: Affine, weights: Array | None) -> MixtureSums:
    dtype = working_dtype(x)
    n_components, dimension = affine.slope.shape
    # the offset rides along as the weight of a column of ones, and that column returns N_k
    slope = np.column_stack([affine.slope, affine.offset]).astype(dtype, copy=False)
    floor = dtype.type(SMALLEST[dtype.name])
    totals = np.zeros((n_components, dimension + 1))
    log_normaliser = 0.0
    total = np.zeros(dimension)
    size = min(len(x), max(256, BLOCK_ENTRIES // n_components))
    shift = None if affine.shift is None else affine.shift.astype(dtype, copy=False)[:, None]
    columns_buffer = np.empty((dimension + 1, size), dtype)
    rho_buffer = np.empty((n_components, size), dtype)
    for rows in blocks(len(x), n_components):
        width = rows.stop - rows.start
        whole = width == size
        columns = columns_buffer if whole else np.empty((dimension + 1, width), dtype)
        rho = rho_buffer if whole else np.empty((n_components, width), dtype)
        if shift is None:
            columns[:dimension] = x[rows].T
        else:
            np.subtract(x[rows].T, shift, out=columns[:dimension], casting="same_kind")
        columns[dimension] = 1.0
        np.matmul(slope, columns, out=rho)
        top = rho.max(axis=0)
        rho -= top
        np.maximum(rho, floor, out=rho)
        np.exp(rho, out=rho)
        normaliser = rho.sum(axis=0)
        top += np.log(normaliser)
        if weights is None:
            np.reciprocal(normaliser, out=normaliser)
            log_normaliser += float(top.sum(dtype=np.float64))
            total += columns[:dimension].sum(axis=1, dtype=np.float64)
        else:
            part = weights[rows]
            np.divide(part, normaliser, out=normaliser, casting="same_kind")
            log_normaliser += float(part @ top)
            total += columns[:dimension] @ part
        columns *= normaliser
        totals += rho @ columns.T
    return MixtureSums(totals[:, dimension], totals[:, :dimension], log_normaliser, total)


def _sparse_pass(x: Data, affine: Affine, weights: Array | None) -> MixtureSums:
    counts = np.zeros(len(affine.offset))
    sums = np.zeros(affine.slope.shape)
    log_normaliser = 0.0
    for rows in blocks(n_rows(x), len(affine.offset)):
        part = np.ones(rows.stop - rows.start) if weights is None else weights[rows]
        rho = x[rows] @ affine.slope.T + affine.offset
        log_sums = scipy.special.logsumexp(rho, axis=1)
        weighted = np.exp(rho - log_sums[:, None]) * part[:, None]
        counts += weighted.sum(axis=0)
        sums += (x[rows].T @ weighted).T
        log_normaliser += float(part @ log_sums)
    return MixtureSums(counts, sums, log_normaliser, sums.sum(0))


def _torch_pass(x: Array, affine: Affine, weights: Array | None) -> MixtureSums:
    """On the tensor's own device, in one piece: the parameters travel, the data do not."""
    slope, offset = x.new_tensor(affine.slope), x.new_tensor(affine.offset)
    shifted = x if affine.shift is None else x - x.new_tensor(affine.shift)
    rho = shifted @ slope.T + offset
    log_sums = rho.logsumexp(1)
    r = (rho - log_sums[:, None]).exp_()
    if weights is not None:
        part = x.new_tensor(to_numpy(weights))
        r, log_sums = r * part[:, None], log_sums * part
    counts, sums = r.sum(0).double(), (r.T @ shifted).double()
    total = shifted.double().sum(0) if weights is None else part.double() @ shifted.double()
    log_normaliser = float(log_sums.double().sum())
    return MixtureSums(to_numpy(counts), to_numpy(sums), log_normaliser, to_numpy(total))
