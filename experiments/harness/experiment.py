"""An experiment: cases to run, a function that runs one, functions that show results.

An experiment computes a table T[case, seed, record] and then draws and tabulates it. The two parts have
only that table in common:

    cases(quick, resources) -> the lines of the figure        run(case, seed)  -> T[case, seed, :]
    draw(T)                 -> figures and animations         tables(T)        -> summary tables
                                                              claims(T)        -> verdicts

`run` depends on its two arguments alone, so cells are computed in parallel, kept, and repeated one
at a time. The same seed reaches every case: draw the data from the seed, and the cases are compared
on the same data.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:  # not imported by `bqvi list`, which is to take little time
    import pandas as pd
    from matplotlib.figure import Figure

    from experiments.harness.claims import Claim

__all__ = [
    "RESERVED_COLUMNS",
    "Case",
    "Drawing",
    "Experiment",
    "Gif",
    "MissingResourceError",
    "ResourceName",
    "Resources",
    "Table",
    "UnfitFolderError",
    "grid",
    "looked_for",
]  # fmt: skip

ResourceName = Literal["data", "posteriors"]
RESERVED_COLUMNS = frozenset({"case", "seed"})


class MissingResourceError(ValueError):
    """An experiment needs a folder that was not given."""


class UnfitFolderError(ValueError):
    """A folder that was given lacks what an experiment reads, or holds it in another layout."""


_Found = TypeVar("_Found")


def looked_for(find: Callable[[Path], _Found], folder: Path) -> _Found:
    """Return the result of `find` in a folder that the user named.

    Raises
    ------
    UnfitFolderError
        `find` raises ValueError, whose message the command line shows without a traceback.
    """
    try:
        return find(folder)
    except ValueError as error:
        raise UnfitFolderError(str(error)) from None


@dataclass(frozen=True)
class Resources:
    """Folders outside the package that some experiments can read; `None` where not given.

    Attributes
    ----------
    data : Path or None
        Data sets (`--data DIR`).
    posteriors : Path or None
        Reference posteriors (`--posteriors DIR`).
    """

    data: Path | None = None
    posteriors: Path | None = None

    def missing(self, needs: Sequence[ResourceName]) -> tuple[ResourceName, ...]:
        """Return those of `needs` that were not given."""
        return tuple(name for name in needs if getattr(self, name) is None)


@dataclass(frozen=True)
class Case:
    """One line in a figure: a name and every choice that sets it apart.

    Attributes
    ----------
    name : str
        Label in legends and tables, unique in its experiment.
    settings : mapping
        JSON values. They identify the results: a changed setting is a new case, computed anew. They
        pass through JSON on the way in (a tuple becomes a list), so `run` sees the same object
        today as when a run is repeated from the file of its results.
    folder : Path or None
        Where `run` finds data from outside the package. Not part of the identity, as the same data
        may lie elsewhere tomorrow: put what identifies the data (a name, a checksum) in `settings`.

    Raises
    ------
    ValueError
        If the name is empty or a setting is not finite JSON.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ValueError(f"Case: name must not be blank, got {self.name!r}")
        clean = {str(key): _through_json(self.name, key, v) for key, v in self.settings.items()}
        object.__setattr__(self, "settings", clean)


def grid(
    name: str, shared: Mapping[str, Any] | None = None, folder: Path | None = None, **axes: Iterable[Any]
) -> list[Case]:
    """Return a case for each combination of the values of ``axes``, those of the last changing first.

    Parameters
    ----------
    name : of each case, by its settings: "{target}: {method}". shared : further settings of all cases.
    folder : of all cases. axes : the values of each setting.
    """
    chosen = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    return [Case(name.format(**one), {**one, **(shared or {})}, folder) for one in chosen]


def _through_json(case: str, key: str, value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Case {case!r}: settings[{key!r}] = {value!r} is not JSON ({error}); "
            "allowed are finite numbers, strings, booleans, None, and lists and dicts of these"
        ) from None


@dataclass(frozen=True)
class Gif:
    """An animation as the bytes of a GIF file (made by `animation.gif`)."""

    data: bytes


@dataclass(frozen=True)
class Drawing:
    """A figure or an animation, with its caption (plain text)."""

    name: str
    figure: Figure | Gif
    caption: str

    def __post_init__(self) -> None:
        _check_name("Drawing", self.name)


@dataclass(frozen=True)
class Table:
    """A table for the report, with its caption (plain text). The frame's index is not shown."""

    name: str
    frame: pd.DataFrame
    caption: str

    def __post_init__(self) -> None:
        _check_name("Table", self.name)


def _check_name(what: str, name: str) -> None:
    """Names become file names and anchors of the page."""
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise ValueError(f"{what}: name must be lower-case letters, digits and single hyphens, got {name!r}")


def _nothing(_: pd.DataFrame) -> tuple[()]:
    """Show nothing: the default of `Experiment.draw`, `Experiment.tables` and `Experiment.claims`."""
    return ()


@dataclass(frozen=True)
class Experiment:
    """A comparison that `bqvi run` computes and `bqvi report` shows.

    Attributes
    ----------
    name : str
        The name on the command line: lower-case letters, digits and hyphens.
    title, summary : str
        Heading and text of its section in the report; blank lines part the paragraphs of the
        summary.
    cases : (quick, resources) -> sequence of Case
        What is compared. With ``quick``, a version that takes seconds: other settings, so other
        results.
    run : (case, seed) -> DataFrame
        One run: a row per recorded iteration, numbers and strings in columns such as `iteration`,
        `seconds`, `evaluations`, `samples`, `elbo`, `log_likelihood_error`. The columns `case` and
        `seed` are added when the runs are read back. NaN means "not recorded here"; a run that
        diverged must record an infinity, since a run that ends early is drawn on at its last value.
        What it raises is recorded, but it must let KeyboardInterrupt through.
    draw : (DataFrame) -> sequence of Drawing
        Sees the rows of all finished runs with `case`, `seed`, and a column for each scalar setting
        that `run` did not return itself; cases come in the order in which `cases` lists them.
    tables : (DataFrame) -> sequence of Table
        As `draw`.
    claims : (DataFrame) -> sequence of Claim
        As `draw`: what a source says, checked on these results. The report gathers the claims of all
        experiments in one table at its top.
    seeds, quick_seeds : int
        How many seeds (0, 1, ...) when the command line does not say.
    needs : sequence of "data" | "posteriors"
        Folders without which `cases` has nothing to list.
    source : str
        The published figure that the first drawing repeats, such as "Gutteridge (2021), Figure 6.1".

    Raises
    ------
    ValueError
        If the name has other characters, or there is no seed.
    """

    name: str
    title: str
    summary: str
    cases: Callable[[bool, Resources], Sequence[Case]]
    run: Callable[[Case, int], pd.DataFrame]
    draw: Callable[[pd.DataFrame], Sequence[Drawing]] = _nothing
    tables: Callable[[pd.DataFrame], Sequence[Table]] = _nothing
    claims: Callable[[pd.DataFrame], Sequence[Claim]] = _nothing
    seeds: int = 10
    quick_seeds: int = 2
    needs: Sequence[ResourceName] = ()
    source: str = ""

    @property
    def asked(self) -> str:
        """The first sentence of the summary."""
        text = " ".join(self.summary.split("\n\n")[0].split())
        ends = [at + 1 for mark in (". ", "? ") if (at := text.find(mark)) >= 0]
        return text[: min(ends)] if ends else text

    def __post_init__(self) -> None:
        _check_name("Experiment", self.name)
        if min(self.seeds, self.quick_seeds) < 1:
            raise ValueError(
                f"Experiment {self.name}: seeds and quick_seeds must be at least 1, "
                f"got {self.seeds} and {self.quick_seeds}"
            )

    def checked_cases(self, quick: bool, resources: Resources) -> tuple[Case, ...]:
        """Return the cases.

        Raises
        ------
        MissingResourceError
            If a folder in `needs` was not given.
        ValueError
            If there is no case, or two share a name.
        """
        if missing := resources.missing(self.needs):
            options = " ".join(f"--{name} DIR" for name in missing)
            raise MissingResourceError(f"experiment {self.name} needs {options}")
        cases = tuple(self.cases(quick, resources))
        names = [case.name for case in cases]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"experiment {self.name}: several cases are named {', '.join(twice)}")
        if not cases:
            raise ValueError(f"experiment {self.name}: cases() returned no case")
        return cases
