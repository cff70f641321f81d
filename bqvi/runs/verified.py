"""A check that earlier evaluations are of this function, by repeating a few of them.

They are those of a run that is resumed, or the ones with which the user begins a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bqvi.calls import Ledger
from bqvi.runs.engine import VerifiableEngine


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
