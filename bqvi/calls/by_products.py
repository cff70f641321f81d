"""By-products: numbers, text and arrays that a log joint returns after its value, kept with its row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Products = tuple[Mapping[str, Any] | None, ...]
"""The by-products of each row, None where a row has none; () where no row has any."""


def joined(first: Products, n: int, second: Products, m: int) -> Products:
    """The by-products of n rows, followed by those of m rows."""
    if not first and not second:
        return ()
    return (first or (None,) * n) + (second or (None,) * m)


def chosen(products: Products, rows: Sequence[int]) -> Products:
    """The by-products of some rows."""
    return tuple(products[i] for i in rows) if products else ()
