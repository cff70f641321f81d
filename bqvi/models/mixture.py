"""The pass over the data that all mixtures use: whole, with missing values, and datum by datum.

For components in an exponential family the expected log joint of a datum and a component is affine in
a statistic T of the datum (the datum itself, or its `Lift`: products of its columns, for a Gaussian),

    rho_nk = <T(x_n), W_k> + b_k,      r_n = softmax(rho_n)                  (thesis Eqs 3.12, 3.23)
    N_k = sum_n w_n r_nk,   sum_n w_n r_nk T(x_n),   sum_n w_n logsumexp_k(rho_nk).

The dense pass processes blocks of rows that fit into the processor's cache, with the data on the last axis.
Sums over blocks are in float64; inside a block the arithmetic has the precision of the data.

Missing values (NaN) are integrated out: each pattern of observed columns takes one pass, and the expectations
of the missing columns are added to the statistics (`covariances`), or left out (`known_covariance`). Data
without missing values have one pattern.

A row's statistics are (r_n1, .., r_nK, r_n1 T(x_n - c), .., r_nK T(x_n - c)). An *estimate* of their sum
(with negative weights, or a control variate) may be impossible for any data. It is projected onto

    N_k >= 0,  sum_k N_k = N,      N_k min_n T(x_n - c) <= sum_n r_nk T(x_n - c) <= N_k max_n T(x_n - c).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import scipy.special

from bqvi.arrays import Values, total, transpose
from bqvi.models.contracts import LocalTerms
from bqvi.models.data import Data, as_table, has_missing, is_sparse, n_rows, patterns
from gp.arrays import Array, is_torch, to_numpy
from gp.threads import single_threaded, users_threads

if TYPE_CHECKING:
    from bqvi.models.components import Components

BLOCK_ENTRIES = 1 << 16
"""The number of responsibilities in memory (half a MiB in float64), within a core's second-level cache."""
_THREADED_ROWS = 1000
"""The size of a product from which BLAS uses several threads, which do not make a block's products faster."""
_SMALLEST = {np.dtype(np.float32): -80.0, np.dtype(np.float64): -700.0}
"""The floor of rho - max rho, nats: below it exp is subnormal, for which processors are tens of times slower,
and so small a responsibility changes no sum."""


LARGE_PASS = 1 << 21
"""The number of exponentials in one pass from which torch is imported for them: its exp takes a third of
NumPy's time on processors without AVX-512, and importing it takes seconds, once."""


class Lift(NamedTuple):
    """The statistic T(x): functions of the columns of the data."""

    size: int
    """P, the number of columns of T(x)."""
    fill: Callable[[Any, Any], None]
    """Writes T of columns (D, n) to an array (P, n), NumPy or torch."""


@dataclass(frozen=True)
class AffineLogJoint:
    """rho_nk = <T(x_n - shift), slope_k> + offset_k."""

    slope: np.ndarray
    """W, (K, P); P = D without a lift."""
    offset: np.ndarray
    """b, (K,)."""
    shift: np.ndarray | None = None
    """The vector (D,) that is subtracted from the data before the product, which keeps digits where the data
    are far from 0. Its numbers are exact in float32, so that it is equal for data of both precisions."""
    lift: Lift | None = None
    """T; None for the datum itself."""

    def rho(self, x: Array) -> Array:
        """rho, (N, K), or (L, N, K) of draws."""
        shifted = x if self.shift is None else x - beside(self.shift, x)
        return lifted(shifted, self.lift) @ transpose(self.slope) + self.offset[..., None, :]


def beside(parameter: np.ndarray, x: Array) -> Array:
    """``parameter`` as an array of the kind of ``x``; NumPy's keep their precision."""
    return x.new_tensor(parameter) if is_torch(x) else parameter


def lifted(x: Array, lift: Lift | None) -> Array:
    """T(x), (N, P), of rows ``x`` (N, D), an array or a tensor."""
    if lift is None:
        return x
    shape = lift.size, len(x)
    out = x.new_empty(shape) if is_torch(x) else np.empty(shape, x.dtype if x.dtype.kind == "f" else float)
    lift.fill(x.T, out)
    return out.T


MixtureSums: TypeAlias = tuple[np.ndarray, np.ndarray, float]
"""N_k (K,), sum_n w_n r_nk T(x_n - shift) (K, P), and sum_n w_n logsumexp_k rho_nk."""


def mixture_pass(x: Data, affine: AffineLogJoint, weights: Array | None = None) -> MixtureSums:
    """Responsibilities of all rows of ``x`` (N, D), summed up; weights (N,) default to one."""
    # a tensor that NumPy cannot read where it is: on a device, or of a type of numbers that NumPy lacks
    if is_torch(x) and (x.device.type != "cpu" or str(x.dtype) == "torch.bfloat16"):
        with users_threads():
            return _torch_pass(x, affine, weights)
    if is_sparse(x):
        return _sparse_pass(x, affine, weights)
    # a tensor on the CPU is read as NumPy's, in blocks: in one piece a pass over it took five times as long
    part = None if weights is None else to_numpy(weights)
    with single_threaded() if len(x) >= _THREADED_ROWS else nullcontext():
        return _dense_pass(to_numpy(x), affine, part)


def blocks(n: int, n_components: int) -> Iterator[slice]:
    """Slices of rows such that a block of responsibilities has about BLOCK_ENTRIES entries."""
    step = max(256, BLOCK_ENTRIES // n_components)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def short_mantissa(x: np.ndarray) -> np.ndarray:
    """``x`` rounded to the 24 bits that float32 has, at any exponent: for `AffineLogJoint.shift`."""
    fraction, exponent = np.frexp(x)
    return np.ldexp(np.round(fraction * 2.0**24), exponent - 24)


def _dense_pass(x: np.ndarray, affine: AffineLogJoint, weights: Array | None) -> MixtureSums:
    dtype = np.dtype(np.float32 if x.dtype == np.float32 else np.float64)
    block = _RowBlock(affine, dtype, x.shape[1], len(x))
    n_components, width = affine.slope.shape
    totals = np.zeros((n_components, width + 1))
    log_normaliser = 0.0
    for rows in blocks(len(x), max(n_components, width)):
        columns, rho = block.evaluate(x[rows])
        top = rho.max(axis=0)
        rho -= top
        np.maximum(rho, block.floor, out=rho)
        block.exp(rho)
        normaliser = rho.sum(axis=0)
        top += np.log(normaliser)
        if weights is None:
            np.reciprocal(normaliser, out=normaliser)
            log_normaliser += float(top.sum(dtype=np.float64))
        else:
            part = weights[rows]
            np.divide(part, normaliser, out=normaliser, casting="same_kind")
            log_normaliser += float(part @ top)
        if width < n_components:
            columns *= normaliser
        else:
            rho *= normaliser
        totals += rho @ columns.T
    return totals[:, width], totals[:, :width], log_normaliser


class _RowBlock:
    """Buffers of one block of rows, and the functions that fill them."""

    def __init__(self, affine: AffineLogJoint, dtype: np.dtype, dimension: int, n: int) -> None:
        n_components, width = affine.slope.shape
        # the offset is the weight of a column of ones, whose sums are N_k; a product warns of minus infinity
        offset = np.where(np.isneginf(affine.offset), -0.1 * np.finfo(dtype).max, affine.offset)
        self.slope = np.column_stack([affine.slope, offset]).astype(dtype, copy=False)
        self.shift = None if affine.shift is None else affine.shift.astype(dtype, copy=False)[:, None]
        self.lift = affine.lift
        self.floor = dtype.type(_SMALLEST[dtype])
        large = dtype == np.float64 and n * n_components >= LARGE_PASS
        self.exp = _exp_in_place if large else _numpy_exp_in_place
        size = min(n, max(256, BLOCK_ENTRIES // max(n_components, width)))
        self.columns = np.empty((width + 1, size), dtype)
        self.rho = np.empty((n_components, size), dtype)
        self.shifted = None if affine.lift is None else np.empty((dimension, size), dtype)

    def evaluate(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """T(x - shift) with a column of ones, (P + 1, n), and rho, (K, n), overwritten by the next call."""
        n = len(x)
        whole = n == self.rho.shape[1]
        # a part of the buffer is not contiguous, so that matrix products would copy it
        columns = self.columns if whole else np.empty((len(self.columns), n), self.columns.dtype)
        rho = self.rho if whole else np.empty((len(self.rho), n), self.rho.dtype)
        shifted = columns[:-1] if self.shifted is None else self.shifted[:, :n]
        if self.shift is None:
            shifted[...] = x.T
        else:
            np.subtract(x.T, self.shift, out=shifted, casting="same_kind")
        if self.lift is not None:
            self.lift.fill(shifted, columns[:-1])
        columns[-1] = 1.0
        np.matmul(self.slope, columns, out=rho)
        return columns, rho


def _numpy_exp_in_place(x: np.ndarray) -> None:
    np.exp(x, out=x)


def _exp_in_place(x: np.ndarray) -> None:
    """By torch where it is installed; for float32 NumPy's exponential is as fast."""
    try:
        import torch
    except ImportError:
        np.exp(x, out=x)
    else:
        torch.exp(torch.from_numpy(x), out=torch.from_numpy(x))


def _sparse_pass(x: Data, affine: AffineLogJoint, weights: Array | None) -> MixtureSums:
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
    return counts, sums, log_normaliser


def _torch_pass(x: Array, affine: AffineLogJoint, weights: Array | None) -> MixtureSums:
    """The pass on the tensor's own device, in one block: parameters are copied there, data are not."""
    slope, offset = x.new_tensor(affine.slope), x.new_tensor(affine.offset)
    shifted = lifted(x if affine.shift is None else x - x.new_tensor(affine.shift), affine.lift)
    rho = shifted @ slope.T + offset
    log_sums = rho.logsumexp(1)
    r = (rho - log_sums[:, None]).exp_()
    if weights is not None:
        part = x.new_tensor(to_numpy(weights))
        r, log_sums = r * part[:, None], log_sums * part
    counts, sums = r.sum(0).double(), (r.T @ shifted).double()
    return to_numpy(counts), to_numpy(sums), float(log_sums.double().sum())


@dataclass(frozen=True)
class MixtureLimits:
    """The range of possible sums over the data."""

    n: int
    lower: np.ndarray
    """min_n T(x_n - c), (P,)."""
    upper: np.ndarray

    @classmethod
    def of(cls, data: Data, centre: np.ndarray, lift: Lift | None = None) -> MixtureLimits:
        """Of all the data."""
        lower: Any = np.inf
        upper: Any = -np.inf
        for rows in blocks(n_rows(data), len(centre) if lift is None else lift.size):
            part = lifted(as_table(data[rows]) - centre, lift)
            lower, upper = np.minimum(lower, part.min(axis=0)), np.maximum(upper, part.max(axis=0))
        return cls(n_rows(data), lower, upper)

    def feasible(self, total: np.ndarray, n_components: int) -> tuple[np.ndarray, np.ndarray]:
        """The possible counts (K,) and sums (K, P) nearest to those of ``total``."""
        counts = np.maximum(total[:n_components], 0.0)
        # where all weights are negative, the counts say nothing of the shares
        counts = (
            counts * (self.n / counts.sum()) if counts.any() else np.full(n_components, self.n / n_components)
        )
        sums = total[n_components:].reshape(n_components, -1)
        return counts, np.clip(sums, counts[:, None] * self.lower, counts[:, None] * self.upper)


def mixture_terms(x: np.ndarray, affine: AffineLogJoint, centre: np.ndarray) -> LocalTerms:
    """Terms of the rows of ``x`` (S, D): statistics (S, K + K P), bounds logsumexp_k rho_nk.

    Parameters
    ----------
    x : the rows (S, D). affine : the log joint ln p(x_n, z_n = k), affine in lifted rows of P entries.
    centre : (D,), subtracted from the rows before they are lifted.
    """
    rho = affine.rho(x)
    top = rho.max(axis=1)
    r = np.exp(rho - top[:, None])
    sums = r.sum(axis=1)
    r /= sums[:, None]
    moments = r[:, :, None] * lifted(x - centre, affine.lift)[:, None, :]
    return LocalTerms(np.concatenate([r, moments.reshape(len(x), -1)], axis=1), top + np.log(sums))


@dataclass(frozen=True)
class ExpectedLogJoint:
    """The expected log joint E ln p(x_n, z_n = k) - ln h(x_n) of rows, some with missing columns."""

    components: Components
    expected: Any
    """Their `Components.expectations`, of the K components and of a tied tail behind them."""
    log_weights: np.ndarray
    """E ln pi, as many."""

    def summed(
        self, rows: Data, weights: Array | None, n_components: int, incomplete: bool
    ) -> tuple[np.ndarray, Values, float]:
        """N_k, the contribution of ``rows`` to the natural parameters, and the bound.

        Parameters
        ----------
        rows : (S, D). weights : (S,), default one.
        n_components : K, the number of components that have parameters.
        incomplete : whether some columns are missing.
        """
        own = tuple(x[:n_components] for x in self.expected)

        def of_pattern(index: Any, block: Data, shown: np.ndarray | None) -> Values:
            part = None if weights is None else weights[index]
            counts, moments, level = mixture_pass(block, self.affine(shown), part)
            found = self.components.statistics(counts[:n_components], moments[:n_components], own, shown)
            return (counts, level, *found)

        counts, bound, *found = total(of_pattern(*group) for group in groups(rows, incomplete))
        return counts, tuple(found), float(bound)

    def statistics(self, rows: np.ndarray, r: np.ndarray) -> Values:
        """The natural parameters added by ``rows`` (N, D) with responsibilities ``r`` (N, K)."""
        own = tuple(x[: r.shape[1]] for x in self.expected)

        def of_pattern(index: Any, block: Data, shown: np.ndarray | None) -> Values:
            affine, part = self.affine(shown), r[index]
            table = lifted(block if affine.shift is None else block - affine.shift, affine.lift)
            return self.components.statistics(part.sum(0), part.T @ table, own, shown)

        return total(of_pattern(*group) for group in groups(rows, self.incomplete(rows)))

    def incomplete(self, rows: Data) -> bool:
        """Whether ``rows`` have missing columns for which each pattern takes a pass of its own."""
        return self.components.by_pattern and has_missing(rows)

    def rho(self, rows: Data) -> np.ndarray:
        """(N, K)."""
        out = np.empty((n_rows(rows), len(self.log_weights)))
        for index, block, shown in groups(rows, self.incomplete(rows)):
            out[index] = self.affine(shown).rho(block)
        return out

    def affine(self, shown: np.ndarray | None = None) -> AffineLogJoint:
        """As a function of the columns ``shown`` (D,), default all."""
        return self.components.affine(self.expected, self.log_weights, shown)


def groups(rows: Data, incomplete: bool) -> Iterator[tuple[Any, Data, np.ndarray | None]]:
    """The rows with the same columns: indices, these columns of them, and which; None where all are there."""
    if not incomplete:
        yield slice(None), rows, None
        return
    for index, block, shown in patterns(rows):
        yield index, np.ascontiguousarray(block[:, shown]), None if shown.all() else shown
