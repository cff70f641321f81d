"""The state of a run and its file: one .npz of plain arrays with a JSON header, no pickles.

A result and an exception that ended a run each hold a `Checkpoint`; ``resume`` takes either, or the path of
its file. Files are written whole or not at all: an interrupted write leaves the previous file as it was.

Evaluations of a run that is resumed, or those with which the user begins a run, are verified to be of this
function, by repeating a few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bqvi.calls import Ledger
from bqvi.records import record_of, write_record
from gp.arrays import shown
from gp.files import read_arrays
from gp.user_warnings import warn_user

if TYPE_CHECKING:
    from bqvi.runs.engine import VerifiableEngine

_PROGRAM, _FORMAT = "bqvi", 3
_FINGERPRINTS = ("bounds", "data", "gradient_noise_sd", "measure", "prior", "proposal")
"""Settings that say whether arrays are the same, and not what they are."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of a run, with the choices with which it was made.

    Attributes
    ----------
    door : name of the function that began the run: "fit", "integrate", "vbmc" or "evidence_bounds".
    settings : these choices, numbers and text.
    state : the state, which determines the continuation of the run.
    n_evaluations : evaluations of the user's function so far, which count in the budget.
    records : a function that returns the saved part of a state, made of records, arrays and numbers;
        picklable.
    n_cheap_evaluations : evaluations of a cheap model so far, which do not count in the budget.
    """

    door: str
    settings: Mapping[str, Any]
    state: Any
    n_evaluations: int
    records: Callable[[Any], Any] | None = field(default=None, repr=False)
    n_cheap_evaluations: int = 0

    @property
    def n_all_evaluations(self) -> int:
        """The number of all evaluations in the state."""
        return self.n_evaluations + self.n_cheap_evaluations

    def save(self, path: str | Path, compressed: bool = True, answer: Any = None) -> None:
        """Write the run to an .npz file at ``path`` that ``resume`` takes, ``compressed`` or not.

        An ``answer`` is what `bqvi.load` has of its result.
        """
        header = {
            "program": _PROGRAM,
            "format": _FORMAT,
            "door": self.door,
            "settings": dict(self.settings),
            "n_evaluations": self.n_evaluations,
            "n_cheap_evaluations": self.n_cheap_evaluations,
        }
        state = self.state if self.records is None else self.records(self.state)
        write_record(path, header, state, compressed, answer)


def require_run(path: str | Path, header: Mapping[str, Any]) -> None:
    """Raise ValueError unless the ``header`` of the file at ``path`` is one that `Checkpoint.save` writes."""
    if header.get("program") != _PROGRAM or "door" not in header:
        what = header.get("kind", "something else")
        raise ValueError(f"{path} is no saved run: it holds {what}, or a run of an earlier version")
    if header.get("format") != _FORMAT:
        message = f"{path} is a saved run of format {header.get('format')}"
        raise ValueError(f"{message}; this version reads {_FORMAT}")


def require_unused(path: str | Path, made: int) -> None:
    """Raise ValueError where a run would overwrite more evaluations than its own, or another file.

    Parameters
    ----------
    path : the file that the run is to write. An empty one may be overwritten.
    made : the number of all evaluations of the run, if it is resumed, or 0.
    """
    file = Path(path)
    if not file.is_file() or not file.stat().st_size:
        return
    try:
        header, _ = read_arrays(file, "run")
    except (ValueError, OSError):
        header = {}
    if header.get("program") != _PROGRAM or "door" not in header:
        raise ValueError(
            f"checkpoint is {path}, a file that exists and is no saved run; give another path, or remove it"
        )
    count = header["n_evaluations"] + header["n_cheap_evaluations"]
    if count > made:
        more = f", more than the {made} of the run that is resumed" if made else ""
        raise ValueError(
            f"checkpoint is {path}, which exists, with {count} evaluations of a run of bqvi.{header['door']}"
            f"{more}: give that path as resume too, and the run goes on from there; or remove the file"
        )


def resumed(
    resume: object, door: str, classes: Mapping[str, type], same: Mapping[str, Any] | None = None
) -> Checkpoint:
    """The checkpoint of the run to resume, given by its result, a path, or the exception that ended it.

    Parameters
    ----------
    door : the door of the run. classes : the classes of the records in a saved run of the door.
    same : settings that the run must have, which are compared before its state is read.

    Raises
    ------
    ValueError, TypeError
        It is no run, of another door, another format or other settings, or damaged; the message says which.
    OSError
        The file cannot be opened.
    """
    if isinstance(path := getattr(resume, "_path", resume), str | Path):
        header, arrays = read_arrays(path, "run")
        require_run(path, header)
        _require_same(path, door, header["door"], header["settings"], same or {})
        counts = {name: header[name] for name in ("settings", "n_evaluations", "n_cheap_evaluations")}
        return Checkpoint(door, state=record_of(path, header, arrays, classes), **counts)
    found = getattr(resume, "checkpoint", None)
    if not isinstance(found, Checkpoint):
        raise TypeError(
            f"resume is {shown(resume)}; it must be a result of bqvi.{door}, the path of a saved one, or the "
            "exception that ended a run"
        )
    _require_same("resume", door, found.door, found.settings, same or {})
    return found


def _require_same(
    what: object, door: str, its: str, settings: Mapping[str, Any], same: Mapping[str, Any]
) -> None:
    """Raise ValueError unless a run, ``what``, is of the ``door`` and has the settings ``same``."""
    if its != door:
        raise ValueError(f"{what} holds a run of bqvi.{its}; this is bqvi.{door}")
    for name, now in same.items():
        if name == "function":
            _warn_of_another(settings.get(name, ""), now)
        elif name not in settings:
            raise ValueError(
                f"{what} was written by another version of bqvi: {name} is not in it; start anew"
            )
        elif settings[name] != now:
            before = _difference(name, settings[name], now)
            raise ValueError(f"the run to resume {before}; resume with what it was begun with, or start anew")


def _warn_of_another(before: str, now: str) -> None:
    """Warn if two digests of functions differ, and are of one version of Python."""
    if before != now and before.partition(" ")[0] == now.partition(" ")[0]:
        warn_user(
            "the code of the function, or a number in it, is not that of the run to resume, whose values are "
            "kept: run=bqvi.Run(verify=3) makes three of them again and compares; if they differ, start anew"
        )


def _difference(name: str, before: object, now: object) -> str:
    """What the run to resume had in the place of the setting ``now``."""
    if name in _FINGERPRINTS:
        return f"had {name} with other numbers than this call has"
    if isinstance(now, bool):
        return f"was begun {'without' if now else 'with'} {name}, which this call {'has' if now else 'lacks'}"
    return f"had {name} {before}, this call has {now}"


@dataclass(frozen=True)
class VerifySettings:
    """The largest differences of repeated evaluations."""

    same: float = 1e-6
    """The largest difference of exact values, relative to their size and range, as due to other threads or
    another machine."""
    sds: float = 7.0
    """The largest difference of noisy values, in sds: one false alarm in 10^11 normal values."""
    rounded: float = 1e-3
    """The largest difference from exact values that a user gives besides, in nats of a log density, otherwise
    relative to their range."""


_VERIFY = VerifySettings()


class OtherFunctionError(ValueError):
    """The user's function returns other values than in the run that is resumed, or than the user gave."""


def require_verifiable(verify: int | None, engine: Any, state: Any, given: bool) -> int:
    """Return ``verify``, if evaluations can be repeated.

    Parameters
    ----------
    verify : as of `Run`; None for one evaluation, where this is possible, of those that the
        user gave. engine : that of the run. state : the state with earlier evaluations, or None.
    given : whether the user gave these.
    """
    possible = state is not None and hasattr(engine, "kept") and engine.kept(state) is not None
    if verify is None:
        return int(given and possible and _room(engine, state, 1))
    if verify and not possible:
        raise ValueError(
            f"verify is {verify}; it is for a run with earlier evaluations, of one start, by a method that "
            "keeps evaluations whose noise, if any, is known, and has a budget for more ('bq', 'wsabi', vbmc)"
        )
    if verify and not _room(engine, state, verify):
        made = engine.checkpoint(state).n_evaluations
        raise ValueError(
            f"verify is {verify}, and budget leaves no evaluation for it, of which {made} have been made: "
            "raise budget, or leave verify out, and nothing is compared"
        )
    return verify


def _room(engine: VerifiableEngine[Any, Any], state: object, count: int) -> int:
    """The number of points, at most ``count``, at which the budget allows a call."""
    return engine.budget_of(state).room(engine.caller.cost * count) // engine.caller.cost


def compare(engine: VerifiableEngine[Any, Any], state: object, count: int, given: bool = False) -> None:
    """Repeat ``count`` of the kept evaluations, or as many as the budget allows, from the highest value down.

    They are counted in the engine's ledger. ``given`` is whether the user gave them as an argument.

    Raises
    ------
    OtherFunctionError
        A value differs by more than rounding and its noise, or an evaluation fails that had a value.
    """
    kept = engine.kept(state)
    assert kept is not None  # `require_verifiable` has checked this
    room = _room(engine, state, min(count, len(kept)))
    if not room:
        return
    whose, advice = (
        ("of evaluations", "give those of this function, or noise_sd; run=bqvi.Run(verify=0) compares none")
        if given
        else ("of the run to resume", "resume with the function that the run was begun with, or start anew")
    )
    order = np.argsort(-kept.values.reshape(len(kept), -1)[:, 0], kind="stable")
    chosen = kept[order[np.unique(np.linspace(0, len(kept) - 1, room).round().astype(int))]]
    returned = Ledger(chosen.points.shape[1])
    try:
        found = engine.caller.evaluate(chosen.points, returned, engine.budget_of(state))
    finally:  # of an interrupted comparison those that returned count, too
        engine.ledger.count(returned.entries().n_evaluations)
    before, now = (np.asarray(part.values).reshape(len(part), -1) for part in (chosen[: len(found)], found))
    if now.shape[1] != before.shape[1] and not found.failed.all():
        raise OtherFunctionError(
            f"the function is not that {whose}: it returned {now.shape[1]} numbers for a point, and "
            f"{before.shape[1]} in that {'argument' if given else 'run'}"
        )
    every = np.abs(np.asarray(kept.values)[np.isfinite(kept.values)])
    extent, function = float(np.ptp(every) if every.size else 0.0), engine.caller.function
    allowed = _VERIFY.same * (np.abs(before) + extent)
    if given:
        logs = function.range.logarithmic or function.range.density
        allowed = allowed + _VERIFY.rounded * (1.0 if logs else extent)
    noise = [part.noise_variance for part in (chosen[: len(found)], found) if part.noise_variance is not None]
    if noise:
        allowed = allowed + _VERIFY.sds * np.sqrt(2.0 * np.nan_to_num(noise).max(0)[:, None])
    with np.errstate(invalid="ignore"):  # -inf less -inf is NaN; these are equal values
        differ = ~((before == now) | (np.abs(now - before) <= allowed)).all(axis=1)
    if differ.any():
        i = int(np.argmax(differ))
        place = function.place(engine.caller.to_user(found.points[i : i + 1])[0])
        gave = (f"{part[i, int(np.argmax(before[i] != now[i]))]:.9g}" for part in (before, now))
        raise OtherFunctionError(
            f"the function is not that {whose}: {int(differ.sum())} of {len(found)} evaluations "
            f"made again differ, at {place} from {' to '.join(gave)}; {advice}"
        )
