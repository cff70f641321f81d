"""The log joint of another package's model, rounded to 34 binary digits so that all packages agree.

PyMC, NumPyro and Stan sum the same terms in different orders, and their last digits differ. Where to evaluate
next is chosen by comparisons, which amplify such differences: two runs of VBMC on the eight schools end at
different evaluations. Values are rounded to multiples of 2^-34 times the power of two above them, or times 1
where that is larger; gradients likewise, with the power of two above their largest entry. With 34 binary
digits about one number in 100,000 differs between two packages, and a log joint of -1e6 has an error of at
most 6e-5 nats.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqvi.calls.settings import ROUNDING
from gp.arrays import Array

__all__ = ["RoundedPair", "RoundedValue", "rounded"]


@dataclass(frozen=True)
class RoundedValue:
    """A log joint (P,) -> a number, or (n, P) -> (n,), rounded.

    Attributes
    ----------
    log_joint : the log joint; a tuple with its noise, or a dict, is passed on unchanged.
    """

    log_joint: Callable[[Array], Array]

    def __call__(self, theta: object) -> Any:
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
    both : the log joint with its gradient; anything else that it returns is passed on unchanged.
    """

    both: Callable[[Array], Array]

    def __call__(self, theta: object) -> Any:
        """The log joint and its gradient at theta."""
        found = self.both(theta)
        if not isinstance(found, tuple) or len(found) < 2:
            return found
        return (_rounded_if_numbers(found[0]), _rounded_if_numbers(found[1], rows=True), *found[2:])


def _rounded_if_numbers(found: object, rows: bool = False) -> Any:
    """Real numbers rounded, a number as a number; anything else unchanged, for the caller to check."""
    if not isinstance(found, float | np.floating | np.ndarray) or np.asarray(found).dtype != np.float64:
        return found
    made = rounded(np.asarray(found), rows)
    return made if isinstance(found, np.ndarray) else float(made)


def rounded(numbers: np.ndarray, rows: bool = False) -> np.ndarray:
    """Numbers (...) rounded, each in its own units or, with ``rows``, in those of the row's largest entry."""
    sizes = np.abs(numbers)
    if rows:
        sizes = np.where(np.isfinite(sizes), sizes, 0.0).max(axis=-1, keepdims=True, initial=0.0)
    with np.errstate(invalid="ignore"):
        units = np.ldexp(1.0, np.frexp(np.maximum(sizes, 1.0))[1] - ROUNDING.digits)
        return np.where(np.isfinite(numbers / units), np.round(numbers / units) * units, numbers)
