"""`vbmc`: the evidence and the posterior of a log joint with bounds.

All arguments are checked here, before any work. The engine is :mod:`bqvi.variational_bmc.vbmc_run`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np

from bqvi.arguments import Above
from bqvi.calls import (
    HERE,
    USUAL,
    Caller,
    Coordinates,
    Design,
    Evaluations,
    Function,
    Run,
    TargetModel,
    make_coordinates,
)
from bqvi.calls.coordinates import Bound
from bqvi.calls.function import CHEAP_MODEL, VectorLayout, in_order
from bqvi.calls.given import evaluation_arrays, given, held_out, selected
from bqvi.calls.target_model import box_around, require_alone
from bqvi.priors import BOUNDS, posed
from bqvi.records import named
from bqvi.runs import Ended, Steps, door, resumed
from bqvi.variational_bmc.cheap_first import CheapFirst, OnCheap
from bqvi.variational_bmc.next_points import design
from bqvi.variational_bmc.result import VBMCResult
from bqvi.variational_bmc.state import Settings, begun
from bqvi.variational_bmc.vbmc_run import DOOR, RECORDS, Limits, VBMCRun
from gp.arrays import Array
from gp.checks import Seed, require_integer, require_numbers, require_one_of, require_seed, whole_seed

Bounds: TypeAlias = tuple[Bound, Bound, Bound, Bound]
"""Lower, upper, plausible lower and plausible upper ones."""


@door(VBMCResult)
def vbmc(
    log_joint: Callable[..., Any] | TargetModel | None = None,
    lower: Bound = None,
    upper: Bound = None,
    plausible_lower: Bound = None,
    plausible_upper: Bound = None,
    start: Array | Mapping[str, Any] = None,
    gradient: Callable[..., Any] | str | None = None,
    noise_sd: float | str | Callable[..., Any] | None = None,
    budget: int | None = None,
    *,
    log_likelihood: Callable[..., Any] | None = None,
    prior: Any = None,
    periodic: Sequence[int] | Sequence[bool] | Sequence[str] | np.ndarray = (),
    evaluations: Sequence[Array] | None = None,
    design: Design | None = None,
    tolerance: Annotated[float | None, Above(0.0)] = 0.05,
    seed: Annotated[Seed, require_seed] = 0,
    resume: VBMCResult | Ended | str | Path | None = None,
    run: Run = HERE,
) -> Steps[Any, VBMCResult]:
    """Evidence and posterior of an expensive model (Acerbi 2018, 2020; thesis 7.3.1).

    Parameters
    ----------
    log_joint : a function of theta (P,), or of the parameters by name (`bqvi.calls.function`), that returns
        the log of prior times likelihood, -inf where that is zero. It may return (value, sd) where values are
        noisy, and after these a dict of numbers, text and arrays, which is kept with the evaluation in
        ``result.evaluations.by_products`` and in saved runs. Or a `TargetModel` of `bqvi.adapters`, which has
        a gradient, names, a start and a plausible box of its own; start and box may also be given here, in
        the model's unconstrained parameters.
    lower, upper : bounds of the parameters, (P,) or a number; infinite or None: no bound, as an entry
        too. lower == upper fixes a parameter. A dict gives the parameters their names and their order, here
        as in the next three arguments.
    plausible_lower, plausible_upper : (P,), corners of a box that is likely to hold most of the posterior, by
        default 2 to either side of ``start``. The run begins with a search for a better box (with gradients a
        climb to a mode and the curvature there), and leaves it where the posterior lies elsewhere.
    start : (P,) or (m, P), points that are evaluated first; by default the middle of the plausible box.
    gradient : None, "autodiff" (log_joint takes and returns torch tensors) or a function (P,) -> (P,).
    noise_sd : standard deviation of the noise of log_joint's values, nats: None (exact), a number, a function
        of theta (P,), or "unknown". Where values that were declared exact may be noisy, the best point is
        evaluated again, slightly displaced; if its value differs, a noise is fitted, and there is a warning.
    budget : the number of evaluations in all; by default 50 (D + 2).
    log_likelihood, prior : both in the place of ``log_joint``: a function as that, and a prior as of
        `bqvi.models.LogJoint`, such as a dict of distributions of SciPy or torch by the parameters' names.
        Bounds, plausible box and start are the prior's ends and quantiles where none are given. ``gradient``
        and ``design.cheap`` are then of the likelihood; values in ``evaluations``, in ``tell`` and in the
        result are of the log joint.
    periodic : names, indices or booleans of periodic parameters, whose period is upper - lower.
    evaluations : (theta (n, P), values (n,)) made before, then gradients (n, P), None if there are none, and
        noise sds (n,), by default those of ``noise_sd``. They count in the budget and replace the first
        design. Of thousands some hundreds are used (`calls.given`), and only these count; at most 200 of
        the others are predicted at the end (``result.held_out``).
    design : where the log joint is evaluated (`bqvi.Design`): the sizes of the first design and of a step,
        the criterion for the next points, and a cheap model on which the run begins.
    tolerance : nats; a run counts as converged only where the surrogate's part of the sd of the log evidence
        is below it, and about eleven evaluations that could refute it have not. The sd also contains the mass
        of modes that few points lead to; ``result.hidden`` is beside it. ``None``: use the whole budget.
    seed : an integer or a generator; the same seed gives the same result.
    resume : a result, the path of a saved one, or the exception that ended a run: the run continues from
        there, with the same bounds; ``start``, ``design.initial`` and ``evaluations`` are then not
        used.
    run : how the run is carried out (`bqvi.Run`): executor, workers, time limit, callback, progress line,
        checkpoint, verify, the treatment of errors.

    Returns
    -------
    VBMCResult

    Raises
    ------
    ValueError, TypeError
        Bad input, before any evaluation.
    RunError
        log_joint is no log density, has an error in its code, or is not finite where the run begins (the
        cause is an `EvaluationError`), or the run failed. RunInterrupted : Ctrl-C. RunExit : SystemExit. Each
        of these exceptions has every evaluation that returned.

    ``vbmc.steps``, with the same arguments, returns the run itself, an iterator over its states.

    Examples
    --------
    A log joint whose evidence is known: ln 2 pi = 1.838.

    >>> import bqvi
    >>> box = {"plausible_lower": [-2, -2], "plausible_upper": [2, 2]}
    >>> found = bqvi.vbmc(lambda theta: -0.5 * float(theta @ theta), **box, budget=60, seed=0)
    >>> print(f"{found.log_evidence:.2f}", found.converged)
    1.84 True
    """
    given = dict(
        zip((*BOUNDS, "start"), (lower, upper, plausible_lower, plausible_upper, start), strict=True)
    )
    chosen = design or USUAL
    if chosen.acquisition is not None:
        require_one_of("design.acquisition", chosen.acquisition, ("imiqr", "viqr"))
    errors, usual = run.errors or "numerical", None
    names, cheap = None, chosen.cheap
    if isinstance(log_joint, TargetModel):
        require_alone(
            log_joint, gradient=gradient, noise_sd=noise_sd, log_likelihood=log_likelihood, prior=prior
        )
        function, names = log_joint.function(errors), log_joint.names
        *ends, start = in_order(given, VectorLayout.of(names))[1].values()
        start, bounds = _of_model(log_joint, _start(start), (*ends,), periodic)
    else:
        asked = posed(log_joint, log_likelihood, prior, gradient, False, given)
        function = Function(asked.value, asked.gradient, noise_sd=noise_sd, errors=errors, range=asked.range)
        *ends, start = asked.arguments.values()
        names, start, usual = asked.names, _start(start), asked.usual.get("start")
        bounds = _with_first_box((*ends,), start, resume)
        cheap = asked.of_the_same(cheap)
    each = any(isinstance(bound, Sequence) or getattr(bound, "ndim", 0) for bound in bounds)
    dimension = None if start is None or each else start.shape[1]
    coordinates = make_coordinates(*bounds, periodic=periodic, names=names, dimension=dimension)
    if start is None and usual is not None and coordinates.inside(usual[None]).all():
        start = usual[None]
    target = Caller(replace(function, names=coordinates.names), coordinates, run)
    limits = _limits("budget", target, budget, tolerance, run.max_seconds)
    settings = _settings(target, chosen)
    count = _first_count(target, chosen, limits.budget)
    made, rest = _given(target, evaluations, limits.budget)
    points = _first_points(coordinates, start, made, count, limits.budget, whole_seed(seed))
    first = replace(begun(points, made), coordinates=coordinates, held_out=rest)
    expensive = VBMCRun(target, coordinates, first, settings, limits, whole_seed(seed))
    engine, state = _begun(expensive, cheap, start, resume)
    return Steps(engine, state, run, evaluations is not None and resume is None)


def _of_model(
    model: TargetModel, start: np.ndarray | None, bounds: Bounds, periodic: object
) -> tuple[np.ndarray | None, Bounds]:
    """Start and bounds of a model, which has no bounds but those of its plausible box."""
    lower, upper, low, high = bounds
    require_alone(model, lower=lower, upper=upper, periodic=periodic)
    start = np.atleast_2d(np.asarray(model.start)) if start is None else start
    if low is None and high is None and not model.boxed:
        low, high = box_around(start)
    return start, (None, None, *model.box(low, high))


def _begun(
    expensive: VBMCRun,
    cheap: object,
    start: np.ndarray | None,
    resume: object,
) -> tuple[Any, Any]:
    """The engine, with a first phase where there is a cheap model, and the state to go on from, or None."""
    begins: Any = expensive if cheap is None else _cheap_first(cheap, expensive, start)
    state = None
    if resume is not None:
        same = {name: expensive.target.identity[name] for name in ("prior", "function")}
        records = RECORDS | named(OnCheap)
        before = resumed(resume, DOOR, records, same).state
        if cheap is None and isinstance(before, OnCheap):
            raise ValueError("the run to resume ended on its cheap model: give cheap")
        state = begins.resumed(before)
    return begins, state


def _first_count(target: Caller, chosen: Design, budget: int) -> int:
    """Evaluations of the first design."""
    usual = 3 if target.has_gradient else max(10, target.dimension + 1)
    return chosen.first(usual if chosen.cheap is None else min(usual, target.dimension + 3), budget)


def _start(start: object) -> np.ndarray | None:
    """The points (m, P) that the user gave as ``start``."""
    if start is None:
        return None
    points = np.atleast_2d(require_numbers("start", start))
    if points.ndim != 2 or points.size == 0:
        raise ValueError(f"start has shape {points.shape}; it must be (P,) or (m, P) with m >= 1")
    return points


def _with_first_box(bounds: Bounds, start: np.ndarray | None, resume: object) -> Bounds:
    """The bounds, with a plausible box around the start where none are given."""
    if any(bound is not None for bound in bounds):
        return bounds
    if start is not None:
        return (None, None, *box_around(start))
    if resume is None:
        raise ValueError(
            "neither start nor bounds are given, nor a prior that has them; give plausible_lower and "
            "plausible_upper, (P,) each, likely to hold most of the posterior, or start, (P,)"
        )
    return bounds


def _limits(
    name: str, target: Caller, budget: int | None, tolerance: float | None, seconds: float | None
) -> Limits:
    dimension = target.dimension
    total = 50 * (dimension + 2) if budget is None else require_integer(name, budget, dimension + 3)
    return Limits(total, tolerance, seconds)


def _cheap_first(cheap: Any, expensive: VBMCRun, start: np.ndarray | None) -> CheapFirst:
    """The first phase of a run with a cheap model, given the engine of the log joint's."""
    cheap, budget = cheap if isinstance(cheap, tuple) else (cheap, None)
    coordinates, errors = expensive.coordinates, expensive.target.function.errors
    if isinstance(cheap, TargetModel):
        if cheap.names != coordinates.names:
            raise ValueError(
                f"cheap has parameters {', '.join(cheap.names)}; the log joint has "
                f"{', '.join(coordinates.names)}: both must have the same, in the same order"
            )
        function = cheap.function(errors)
    else:
        function = Function(cheap, names=coordinates.names, errors=errors, range=CHEAP_MODEL)
    target = Caller(function, coordinates)
    limits = _limits("cheap[1]", target, budget, None, None)
    if expensive.limits.seconds is not None:  # at most half of the time is for the cheap model
        limits = replace(limits, seconds=0.5 * expensive.limits.seconds)
    count, none = _first_count(target, USUAL, limits.budget), Evaluations.none(target.dimension)
    points = _first_points(coordinates, start, none, count, limits.budget, expensive.seed)
    first = replace(begun(points, none), coordinates=coordinates)
    run = VBMCRun(target, coordinates, first, _settings(target, USUAL), limits, expensive.seed)
    return CheapFirst(run, expensive, 0 if start is None else min(len(start), len(expensive.first.pending)))


def _settings(target: Caller, chosen: Design) -> Settings:
    return Settings(
        batch=chosen.batch or (3 if target.has_gradient else 5),
        few=chosen.batch,
        noise_unknown=target.noise_unknown,
        variational=chosen.acquisition == "viqr",
    )


def _given(target: Caller, evaluations: Any, budget: int) -> tuple[Evaluations, Evaluations | None]:
    """The evaluations that are given and used, and those that are held out or None."""
    if evaluations is None:
        return Evaluations.none(target.dimension), None
    known = given(target, *evaluation_arrays(evaluations))
    made = selected(known, budget, target.noise_unknown)
    return made, held_out(known, made, target.noise_unknown)


def _first_points(
    coordinates: Coordinates, start: np.ndarray | None, made: Evaluations, count: int, budget: int, seed: int
) -> np.ndarray:
    """The points (m, D) at which the run begins: the start, and the first design as far as it is needed.

    Parameters
    ----------
    made : evaluations that are given.
    count : the number of values that the first design needs, those of ``made`` included.
    """
    points = design(coordinates.dimension, min(count, budget), seed)
    needed = count - int((~made.failed).sum())
    if start is not None:
        begin = coordinates.from_user(start, "start")
        begin = begin[[i for i, point in enumerate(begin) if not (point == made.points).all(1).any()]]
        points = np.concatenate([begin, points[1:]])[: max(len(points), len(begin))]
        needed = max(needed, min(1, len(begin)))
    return points[: max(0, min(needed, budget - len(made)))]
