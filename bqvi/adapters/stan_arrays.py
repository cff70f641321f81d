"""Stan's flat vectors of variables, whose first index varies fastest, as arrays by name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bqvi.calls.function import VectorLayout


def arrays_by_name(titles: Sequence[str], rows: np.ndarray) -> dict[str, np.ndarray]:
    """The arrays (n, shape) of the ``rows`` (n, entries), by name.

    Parameters
    ----------
    titles : the titles of the entries in Stan's notation: "mu", "z.1", "L.2.1".
    """
    shapes = VectorLayout.of([_from_zero(title) for title in titles]).shapes
    found = VectorLayout({name: shape[::-1] for name, shape in shapes.items()}).parted(rows)
    return {name: x.transpose(0, *range(x.ndim - 1, 0, -1)) for name, x in found.items()}


def _from_zero(title: str) -> str:
    """A title with indices counted from 0: "z[0]" for "z.1"."""
    name, *index = title.split(".")
    return f"{name}[{','.join(str(int(i) - 1) for i in index)}]" if index else name


def unconstrained_titles(owners: Sequence[str], constrained: Sequence[str]) -> tuple[str, ...]:
    """The names of unconstrained numbers, equal to the constrained ones' if a parameter has as many of both.

    Parameters
    ----------
    owners : for each unconstrained number the parameter to which it belongs.
    constrained : the titles of the constrained numbers in Stan's notation.

    Returns
    -------
    tuple of str
        The names, counted from 0; the two numbers of a simplex p of three are "p__[0]", "p__[1]".
    """
    own: dict[str, list[str]] = {}
    for title in constrained:
        own.setdefault(title.split(".")[0], []).append(title)
    named = {
        name: map(_from_zero, own[name])
        if owners.count(name) == len(own[name])
        else iter([f"{name}__[{i}]" for i in range(owners.count(name))])
        for name in set(owners)
    }
    return tuple(next(named[name]) for name in owners)
