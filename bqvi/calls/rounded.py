"""The log joint of a package's model to 34 binary digits, so that all packages give the same numbers.

PyMC, NumPyro and Stan sum the same terms in different orders, and their last digits differ. Where to evaluate
next is chosen by comparisons, which amplify such differences: two runs of VBMC on the eight schools end at
different evaluations. Values are rounded in units of 2^-34 of the power of two above them, or of 1 where that
is more, gradients in those of their largest entry. At 34 binary digits the numbers of two packages are equal
but for about one in 100,000, and a log joint of -1e6 is still known to 6e-5 nats.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqvi.calls.settings import ROUNDING


@dataclass(frozen=True)
class RoundedValue:
    """A log joint (P,) -> a number, or (n, P) -> (n,), rounded.

    Attributes
    ----------
    log_joint : what else it returns, as a tuple with its noise or a dict, is passed on as it is.
    """

    log_joint: Callable[[Any], Any]

    def __call__(self, theta: Any) -> Any:
        """The log joint at theta."""
        found = self.log_joint(theta)
        if isinstance(found, tuple) and found:
            return (_rounded_if_numbers(found[0]), *found[1:])
        return _rounded_if_numbers(found)


@dataclass(frozen=True)
class RoundedPair:
    """A log joint with its gradient, (P,) -> (a number, (P,)) or (n, P) -> ((n,), (n, P)), both rounded.

    Attributes
    ----------
    both : what else it returns is passed on as it is.
    """

    both: Callable[[Any], Any]

    def __call__(self, theta: Any) -> Any:
        """The log joint and its gradient at theta."""
        found = self.both(theta)
        if not isinstance(found, tuple) or len(found) < 2:
            return found
        return (_rounded_if_numbers(found[0]), _rounded_if_numbers(found[1], rows=True), *found[2:])


def _rounded_if_numbers(found: Any, rows: bool = False) -> Any:
    """Real numbers rounded, a number as one; anything else as it is, for the caller to judge."""
    if not isinstance(found, float | np.floating | np.ndarray) or np.asarray(found).dtype != np.float64:
        return found
    made = rounded(np.asarray(found), rows)
    return made if isinstance(found, np.ndarray) else float(made)


def rounded(numbers: np.ndarray, rows: bool = False) -> np.ndarray:
    """Numbers (...) rounded, each in its own units or, with ``rows``, in those of the largest of its row."""
    sizes = np.abs(numbers)
    if rows:
        sizes = np.where(np.isfinite(sizes), sizes, 0.0).max(axis=-1, keepdims=True, initial=0.0)
    with np.errstate(invalid="ignore"):
        units = np.ldexp(1.0, np.frexp(np.maximum(sizes, 1.0))[1] - ROUNDING.digits)
        return np.where(np.isfinite(numbers / units), np.round(numbers / units) * units, numbers)
