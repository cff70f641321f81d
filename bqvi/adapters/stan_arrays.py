"""Stan's flat vectors of variables, whose first index varies fastest, as arrays by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np


@dataclass(frozen=True)
class TitledColumns:
    """The variable and the index of each entry of a vector.

    Attributes
    ----------
    titles : the titles of the entries in Stan's notation: "mu", "z.1", "L.2.1".
    """

    titles: Sequence[str]

    def parted(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays (n, shape) of the ``rows`` (n, entries), by name."""
        found: dict[str, np.ndarray] = {}
        for name, places in self._places().items():
            shape = tuple(np.max([index for _, index in places], axis=0) + 1) if places[0][1] else ()
            array = np.empty((*shape, len(rows)))
            for column, index in places:
                array[index] = rows[:, column]
            found[name] = np.moveaxis(array, -1, 0)
        return found

    def _places(self) -> dict[str, list[tuple[int, tuple[int, ...]]]]:
        """For each name the columns with their indices, counted from 0."""
        found: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
        for column, title in enumerate(self.titles):
            name, *index = title.split(".")
            found.setdefault(name, []).append((column, tuple(int(i) - 1 for i in index)))
        return found


def from_zero(title: str) -> str:
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
        name: iter(map(from_zero, own[name]) if owners.count(name) == len(own[name]) else _counted(name))
        for name in set(owners)
    }
    return tuple(next(named[name]) for name in owners)


def _counted(name: str) -> Iterator[str]:
    return (f"{name}__[{i}]" for i in count())
