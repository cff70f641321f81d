"""What a log joint returns beside its value: numbers, text and arrays that are kept with the evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Products = tuple[Mapping[str, Any] | None, ...]
"""One for each row, None where there are none; () where no row has any."""


def joined(first: Products, n: int, second: Products, m: int) -> Products:
    """Those of n rows, then those of m."""
    if not first and not second:
        return ()
    return (first or (None,) * n) + (second or (None,) * m)


def chosen(products: Products, rows: Sequence[int]) -> Products:
    """Those of some rows."""
    return tuple(products[i] for i in rows) if products else ()
