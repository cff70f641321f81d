"""A run that begins with the search of a plausible box, for any door.

    Searching(evaluations) --one step: bqvi.calls.plausible_search--> box, evaluations
                           --begin--> the door's own run, in coordinates of that box, with the evaluations

The search is a step of the run: its evaluations are in the ledger and in the budget, a search that is cut
short is resumed, and the evaluations replace the first design of the door's own run. A saved run has the box
among its settings, so that it is resumed in the same coordinates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bqvi.arrays import whole_seed
from bqvi.calls import Budget, Caller, Coordinates, Evaluations, Function, Ledger, Run, make_coordinates
from bqvi.calls.plausible_search import PlausibleBoxSearch
from bqvi.calls.settings import PLAUSIBLE, PlausibleSearch
from bqvi.calls.target_model import box_around
from bqvi.records import named
from bqvi.runs.checkpoint import Checkpoint, resumed
from bqvi.runs.driver import Steps
from bqvi.runs.engine import RunStatus
from bqvi.runs.two_phases import TwoPhases

_BOX = ("plausible_lower", "plausible_upper")


@dataclass(frozen=True, eq=False)
class Searching:
    """The state of a run that has no plausible box yet.

    Attributes
    ----------
    evaluations : in coordinates of the first box. coordinates : the map from these to the user's parameters.
    """

    evaluations: Evaluations
    coordinates: Coordinates


_RECORDS = named(Searching, Evaluations, Coordinates)
"""The classes of the records in a saved search."""


class Locating:
    """The first phase of a run (:class:`bqvi.runs.two_phases.First`): the search of a plausible box.

    Parameters
    ----------
    door : name of the door. steps : makes a run of the door from a mapping of ``arguments`` by name.
    caller : the log joint in coordinates without bounds, with the first plausible box.
    start : (m, P); the search begins at the first point.
    prior : the box of the prior (P,), (P,), where it is known. settings : settings of the search.
    """

    alone = False
    advice = "resume it, or give plausible_lower and plausible_upper"

    def __init__(
        self,
        door: str,
        steps: Callable[..., Steps[Any, Any]],
        arguments: Mapping[str, Any],
        caller: Caller,
        start: np.ndarray,
        prior: tuple[np.ndarray, np.ndarray] | None,
        settings: PlausibleSearch = PLAUSIBLE,
    ) -> None:
        coordinates = caller.coordinates
        assert coordinates is not None  # `located` has coordinates
        self._settings = settings
        self._door, self._steps, self._arguments, self._caller = door, steps, arguments, caller
        self._coordinates = coordinates
        self._starts, self._start = start, coordinates.from_user(start)[0]
        self._prior = None if prior is None else coordinates.from_user(np.stack(prior))
        self.ledger = Ledger(caller.dimension)
        self._box: tuple[np.ndarray, np.ndarray] | None
        self.second: Any
        """The engine of the door's own run."""
        self.checked = self._begun(coordinates.plausible_lower, coordinates.plausible_upper)
        """A first state of the door's own run, made so that all arguments are checked."""
        self._box = self.second = None

    def init(self) -> Searching:
        return Searching(Evaluations.none(self._caller.dimension), self._coordinates)

    def resumed(self, before: Checkpoint, resume: object) -> Any:
        """The state of an earlier run."""
        state = before.state
        if not isinstance(state, Searching):
            lower, upper = (np.array(before.settings[name], float) for name in _BOX)
            return self._begun(lower, upper, resume=resume)
        self._coordinates.require_like(state.coordinates)
        self.budget_of(state).require_enough()
        return state

    def step(self, state: Searching) -> Any:
        """Make the whole search, and return the first state of the door's own run."""
        began = time.monotonic()
        settings = self._settings
        most = settings.most(self._arguments["budget"], self._caller.dimension)
        budget = Budget(most, min(state.evaluations.n_evaluations, most))
        seconds = self._arguments["run"].max_seconds
        first = bool(state.evaluations.failed.all())

        def evaluate(points: np.ndarray) -> Evaluations | None:
            late = seconds is not None and time.monotonic() - began > settings.of_budget * seconds
            if late or budget.room(len(points)) < len(points):
                return None
            self._caller.evaluate(points, self.ledger, budget, first and not len(self.ledger.entries()))
            return state.evaluations.joined(self.ledger.entries())

        search = PlausibleBoxSearch(
            state.evaluations, evaluate, self._start, self._arguments["seed"], settings, self._prior
        )
        lower, upper = self._coordinates.to_user(np.stack(search.run()))
        spent = time.monotonic() - began
        return self._begun_with(search.made, lower, upper, spent)

    def second_start(self, state: Searching) -> Any:
        """The first state of the door's own run in the first box, as a run that is asked makes no search."""
        coordinates = self._coordinates
        lower, upper = coordinates.plausible_lower, coordinates.plausible_upper
        return self._begun_with(state.evaluations, lower, upper, 0.0)

    @property
    def caller(self) -> Caller:
        return self._caller if self.second is None else self.second.caller

    def budget_of(self, state: Searching) -> Budget:
        return Budget(self._arguments["budget"], state.evaluations.n_evaluations)

    def kept(self, state: Searching) -> Evaluations:
        return state.evaluations[~state.evaluations.failed]

    def again(self, state: Searching, points: np.ndarray, ledger: Ledger) -> Evaluations:
        return self._caller.evaluate(points, ledger, self.budget_of(state))

    def require_consistent(self, before: Searching, after: Searching) -> None:
        """Check nothing, as gradients are checked after the search."""

    def with_evaluations(self, state: Searching, evaluations: Evaluations) -> Searching:
        """The state with the evaluations of a step that was cut short."""
        return replace(state, evaluations=state.evaluations.joined(evaluations))

    def checkpoint(self, state: Searching) -> Checkpoint:
        """The state."""
        return Checkpoint(self._door, {}, state, state.evaluations.n_evaluations)

    def recorded(self, checkpoint: Checkpoint) -> Checkpoint:
        assert self._box is not None  # found by the search before
        box: Mapping[str, Any] = dict(zip(_BOX, (end.tolist() for end in self._box), strict=True))
        return replace(checkpoint, settings={**checkpoint.settings, **box})

    def status(self, state: Searching) -> RunStatus:
        """The progress of the search."""
        count, phase = state.evaluations.n_evaluations, "in search of a plausible box"
        where = f"in its search for a plausible box, after {count} evaluations"
        return RunStatus(count, self._arguments["budget"], "evaluations", phase, where)

    def _begun(
        self,
        lower: np.ndarray,
        upper: np.ndarray,
        made: tuple[Any, ...] | None = None,
        resume: object = None,
        seconds: float = 0.0,
    ) -> Any:
        """The first state of the door's own run, from box, evaluations and seconds of the search."""
        arguments = {**self._arguments, "plausible_lower": lower, "plausible_upper": upper, "resume": resume}
        run: Run = self._arguments["run"]
        left = None if run.max_seconds is None else max(run.max_seconds - seconds, 1e-3)
        quiet = replace(run, max_seconds=left, callback=None, progress=False, checkpoint=None, verify=0)
        arguments |= {"evaluations": made, "run": quiet}
        if made is not None and "start" in arguments:
            arguments["start"] = np.concatenate([made[0][:1], self._starts[1:]])
        steps = self._steps(**arguments)
        self._box, self.second = (lower, upper), steps.engine
        self.second.ledger = self.ledger
        return steps.state

    def _begun_with(self, made: Evaluations, lower: np.ndarray, upper: np.ndarray, seconds: float) -> Any:
        """The first state of the door's own run, in which all evaluations count, also those not used."""
        if not len(made):
            return self._begun(lower, upper, seconds=seconds)
        state = self._begun(lower, upper, self._in_users_units(made), seconds=seconds)
        missing = made.n_evaluations - self.second.checkpoint(state).n_evaluations
        if not missing:
            return state
        none = replace(Evaluations.none(self._caller.dimension), n_evaluations=missing)
        return self.second.with_evaluations(state, none)

    def _in_users_units(self, made: Evaluations) -> tuple[Any, ...]:
        """theta, values, gradients and noise sds, the highest value first, as a climb begins there."""
        best = int(np.argmax(made.values))
        made = made[np.r_[best, np.delete(np.arange(len(made)), best)]]
        coordinates, slopes = self._coordinates, made.gradients
        values = made.values - coordinates.log_jacobian(made.points)
        if slopes is not None:
            half = 0.5 * (coordinates.plausible_upper - coordinates.plausible_lower)
            slopes = slopes / half
        sds = None if made.noise_variance is None else np.sqrt(made.noise_variance)
        found = (coordinates.to_user(made.points), values, slopes, sds)
        return found if sds is not None else found[:3] if slopes is not None else found[:2]


def located(
    door: str,
    steps: Callable[..., Steps[Any, Any]],
    arguments: Mapping[str, Any],
    function: Function,
    start: np.ndarray,
    prior: tuple[np.ndarray, np.ndarray] | None,
    records: Callable[[Any], Mapping[str, type]],
    settings: PlausibleSearch = PLAUSIBLE,
) -> Steps[Any, Any] | None:
    """The run of a door that was given no plausible box; None where ``resume`` is of a run that had one.

    Parameters
    ----------
    door : name of the door. steps : makes a run of the door from the user's ``arguments`` by name.
    function : the log joint over R^P. start : (P,) or (m, P), the centre of the first plausible box.
    prior : the box of the prior, (P,) and (P,), where it is known.
    records : a function of the first state that returns the classes of its records. settings : of the search.

    Raises
    ------
    ValueError, TypeError
        The door refuses one of its arguments, or ``resume`` is no run of the door.
    """
    resume, number = arguments["resume"], whole_seed(arguments["seed"])
    names, start = function.names or None, np.atleast_2d(start)
    box = box_around(start)
    coordinates = make_coordinates(None, None, *box, names=names, dimension=start.shape[1])
    function = replace(function, names=coordinates.names)
    caller = Caller(function, coordinates, arguments["run"])
    search = Locating(door, steps, {**arguments, "seed": number}, caller, start, prior, settings)
    before = None if resume is None else resumed(resume, door, {**records(search.checked), **_RECORDS})
    if before is not None and not isinstance(before.state, Searching) and _BOX[0] not in before.settings:
        return None
    state = None if before is None else search.resumed(before, resume)
    return Steps(TwoPhases(search, Searching), state, arguments["run"])
