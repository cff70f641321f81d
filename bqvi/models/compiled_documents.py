"""The sweeps of `document_step` as loops over documents, for numba (``pip install "bqvi[compiled]"``).

Importing numba takes a second, and compiling takes half a minute once for an installation. This module is
therefore imported only for data that are large enough. Without numba it runs as plain Python with the same
results, which only tests use. One body for both, array expressions for one document, takes 1.4 to 1.7 times
as long as these loops when it is compiled, and as NumPy 2.3 to 5.3 times as long as the blocks of
`document_step` (2,000 documents of 100 words, K = 100 and 20).

The digamma function psi(x) is taken from psi(x + 6), which its asymptotic series gives to rounding:

    psi(x) = ln y - 1 / (2 y) - 1 / (12 y^2) + ... - sum_i 1 / (x + i),   y = x + 6,  i = 0..5
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

_Loop = TypeVar("_Loop", bound=Callable[..., Any])
_LEAST = -340.0
"""The least exponent: the square of its exponential is representable in double precision."""


def _compiled(loop: _Loop) -> _Loop:
    """The ``loop``, compiled at its first call; unchanged where numba is not installed.

    Sums may be taken in any order, so that they can be vectorised; NaN and infinities keep their meaning.
    """
    if importlib.util.find_spec("numba") is None:
        return loop
    import numba

    flags = {"reassoc", "contract", "arcp", "nsz"}
    return cast(_Loop, numba.njit(cache=True, fastmath=flags, error_model="numpy")(loop))


@_compiled
def _below_log(x: float) -> float:
    """psi(x) - ln(x + 6)."""
    over, under = 0.0, 1.0
    for i in range(6):
        over = over * (x + i) + under
        under *= x + i
    y = 1.0 / (x + 6.0)
    s = y * y
    series = s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s * (1 / 132 - s * 691 / 32760)))))
    return -over / under - 0.5 * y - series


@_compiled
def _relative(gamma: np.ndarray, share: np.ndarray) -> None:
    """Fill ``share`` (K,) with a multiple of exp(psi(gamma))."""
    top = -np.inf
    for k in range(len(gamma)):
        share[k] = _below_log(gamma[k])
        top = max(top, share[k])
    for k in range(len(gamma)):
        share[k] = (gamma[k] + 6.0) * math.exp(max(share[k] - top, _LEAST))


@_compiled
def _sweep(
    rows: np.ndarray,
    counts: np.ndarray,
    alpha: np.ndarray,
    gamma: np.ndarray,
    share: np.ndarray,
    out: np.ndarray,
) -> None:
    """``out`` (K,): gamma after a sweep over the ``counts`` (L,) of words whose ``rows`` are (L, K)."""
    _relative(gamma, share)
    out[:] = 0.0
    for i in range(len(counts)):
        row = rows[i]
        likelihood = 0.0
        for k in range(len(alpha)):
            likelihood += row[k] * share[k]
        ratio = counts[i] / likelihood
        for k in range(len(alpha)):
            out[k] += ratio * row[k]
    for k in range(len(alpha)):
        out[k] = alpha[k] + share[k] * out[k]


@_compiled
def _settle(
    rows: np.ndarray,
    counts: np.ndarray,
    alpha: np.ndarray,
    tolerance: float,
    most: int,
    longest: float,
    share: np.ndarray,
    once: np.ndarray,
    gamma: np.ndarray,
    settled: np.ndarray,
) -> None:
    """``settled`` (K,), from ``gamma``, which is overwritten; as `document_step` extrapolates."""
    for _ in range(most // 2):
        _sweep(rows, counts, alpha, gamma, share, once)
        _sweep(rows, counts, alpha, once, share, settled)
        change, along, bend = 0.0, 0.0, 0.0
        for k in range(len(alpha)):
            change += abs(settled[k] - once[k])
            first = once[k] - gamma[k]
            along += first * first
            bend += (settled[k] - once[k] - first) ** 2
        if change <= tolerance * len(alpha):
            return
        length = min(max(math.sqrt(along / max(bend, 1e-300)), 1.0), longest)
        for k in range(len(alpha)):
            first = once[k] - gamma[k]
            second = settled[k] - once[k] - first
            gamma[k] = max(gamma[k] + 2.0 * length * first + length * length * second, alpha[k])


@_compiled
def settle_documents(
    indptr: np.ndarray,
    words: np.ndarray,
    counts: np.ndarray,
    alpha: np.ndarray,
    table: np.ndarray,
    tolerance: float,
    most: int,
    longest: float,
    gamma: np.ndarray,
) -> None:
    """Sweep ``gamma`` (n, K) of each document until it settles.

    The documents are rows of a CSR array: ``indptr``, ``words``, ``counts``. ``alpha`` (K,) and ``table``
    (V, K) as in `document_step`; ``tolerance``, ``most`` and ``longest`` of `document_step.Sweeps`.
    """
    size, length = len(alpha), 0
    share, once, moving = np.empty(size), np.empty(size), np.empty(size)
    for d in range(len(gamma)):
        length = max(length, indptr[d + 1] - indptr[d])
    all_rows = np.empty((length, size))
    for d in range(len(gamma)):
        first, last = indptr[d], indptr[d + 1]
        rows = all_rows[: last - first]
        for i in range(last - first):
            row, source = rows[i], table[words[first + i]]
            for k in range(size):
                row[k] = source[k]
        moving[:] = gamma[d]
        _settle(rows, counts[first:last], alpha, tolerance, most, longest, share, once, moving, gamma[d])
