"""The exponential of a row of numbers, as a loop that is vectorised without AVX-512.

    x = n ln 2 + r,  |r| <= ln 2 / 2,      exp x = 2^n sum_k r^k / k!,  k <= 13

The remainder of the series is below 5e-18. ln 2 is split into two parts, of which the first has so few digits
that its products with n are exact; the order of operations must therefore be kept. 2^n is constructed from
its bits. The error is at most a unit in the last place.
"""

from __future__ import annotations

import numpy as np

from bqvi.models.compiled import compiled_in_order

_LOG2_E = 1.4426950408889634
_LN2 = 0.693147180369123816490
_LN2_REST = 1.90821492927058770002e-10


@compiled_in_order
def exponentiate(row: np.ndarray, bits: np.ndarray, powers: np.ndarray) -> None:
    """Replace ``row`` (n,), with entries in [-708, 709], by its exponential.

    ``bits`` (n,), integers, and ``powers`` (n,), float64, are the same memory, which is overwritten.
    """
    for i in range(len(row)):
        whole = np.floor(row[i] * _LOG2_E + 0.5)
        r = (row[i] - whole * _LN2) - whole * _LN2_REST
        p = 1.0 / 6227020800.0
        p = p * r + 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        row[i] = p * r + 1.0
        # through 32-bit integers, for which there is a vector instruction
        bits[i] = np.int64(np.int32(whole) + 1023) << 52
    for i in range(len(row)):
        row[i] *= powers[i]
