"""The front doors for the contract: a function of one point a call, and its evaluations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import bqvi
from gp.measures import Gaussian


class Calls:
    """A function that counts its calls, records where it returned, and does ``what`` at call ``at``."""

    def __init__(self, function: Callable[[Any], Any], at: int = 0, what: Callable[[], None] = lambda: None):
        self.function, self.at, self.what = function, at, what
        self.count, self.returned = 0, []

    def __call__(self, x):
        self.count += 1
        if self.count == self.at:
            self.what()
        value = self.function(x)
        self.returned.append(tuple(np.asarray(x, float)))
        return value


@dataclass(frozen=True)
class Case:
    """A door with a problem.

    Attributes
    ----------
    function : of one point. run, steps : the door for a function and further options.
    known : state -> the points (n, D) that it holds; None where a step that is over keeps none of its own.
    numbers : result -> what has to be the same to the digit.
    budget : of the runs. least : of the runs of this door that are to be short.
    """

    function: Callable[[Any], Any]
    run: Callable[..., Any]
    steps: Callable[..., Any]
    known: Callable[[Any], np.ndarray] | None
    numbers: Callable[[Any], Any]
    budget: int
    least: int = 16


MEASURE = Gaussian(np.array([0.2, -0.1]), np.array([[1.0, 0.3], [0.3, 0.5]]))


def _bump(x):
    return float(np.exp(-0.5 * np.sum((x - 0.3) ** 2)) * (1.5 + np.cos(x[0])))


def _integral(method: str) -> Case:
    def arguments(f, **options):
        return (f, MEASURE), {"budget": 24, "method": method, "vectorised": False, "seed": 1} | options

    def run(f, **options):
        args, kwargs = arguments(f, **options)
        return bqvi.integrate(*args, **kwargs)

    def steps(f, **options):
        args, kwargs = arguments(f, **options)
        return bqvi.integrate.steps(*args, **kwargs)

    def known(state):
        if method in ("qmc", "monte-carlo"):
            return state.nodes[state.known]
        return MEASURE.standardise().map.from_standard(state.u)

    return Case(_bump, run, steps, known, lambda r: (r.mean, r.sd, r.n_evaluations, r.stopped), 24)


CASES = {f"integrate {method}": _integral(method) for method in ("bq", "wsabi-l", "qmc", "monte-carlo")}


def _log_joint(x):
    return -0.5 * float(x @ x) - 0.1 * float(x[0] ** 4)


def _vbmc(budget: int = 20, **given: Any) -> Case:
    box = {"plausible_lower": [-2.0, -2.0], "plausible_upper": [2.0, 2.0]}

    def run(f, **options):
        return bqvi.vbmc(f, **box, **{"budget": budget, "seed": 1} | given | options)

    def steps(f, **options):
        return bqvi.vbmc.steps(f, **box, **{"budget": budget, "seed": 1} | given | options)

    def known(state):
        return state.coordinates.to_user(state.evaluations.points)

    return Case(
        _log_joint,
        run,
        steps,
        known,
        lambda r: (r.log_evidence, r.log_evidence_sd, r.elbo, r.n_evaluations, r.stopped),
        budget,
    )


def _fit(**given: Any) -> Case:
    gradient, box = given.pop("gradient", None), given.pop("box", {})

    def arguments(f, **options):
        model = bqvi.models.LogJoint(f, 2, vectorised=False, gradient=gradient, **box)
        return model, {"method": "bq", "budget": 24, "tolerance": None, "seed": 1} | given | options

    def run(f, **options):
        model, kwargs = arguments(f, **options)
        return bqvi.fit(model, **kwargs)

    def steps(f, **options):
        model, kwargs = arguments(f, **options)
        return bqvi.fit.steps(model, **kwargs)

    def known(state):
        states = getattr(state, "states", (state,))
        parts = [part for one in states for part in (one.memory, one.unfinished) if part is not None]
        return np.concatenate([part.points for part in parts])

    def numbers(found):
        return (*found.q.mean, found.elbo, found.start_elbos, found.n_evaluations, found.stopped)

    # evaluations of records are counted and not kept
    known_of = known if given.get("method", "bq") == "bq" and "record" not in given else None
    return Case(_log_joint, run, steps, known_of, numbers, given.get("budget", 24))


def _slope(x):
    return -x - np.array([0.4 * x[0] ** 3, 0.0])


CASES |= {
    "fit bq": _fit(),
    "fit bq with gradients": _fit(gradient=_slope),
    "fit bq that converges": _fit(
        gradient=_slope, tolerance=0.05, budget=20, record=bqvi.Record(1, elbo_samples=2)
    ),
    "fit bq from several starts": _fit(starts=2, start_from="random", gradient=_slope),
    "fit score": _fit(method="score", samples=5),
    "fit pathwise": _fit(method="pathwise", samples=3, gradient=_slope),
    "fit dreg from several starts": _fit(
        method="dreg", samples=3, starts=2, start_from="random", gradient=_slope
    ),
    "fit iwae within a box": _fit(
        method="iwae",
        samples=3,
        gradient=_slope,
        box={"lower": -9.0, "upper": 9.0, "plausible_lower": -2.0, "plausible_upper": 2.0},
    ),
    "vbmc": _vbmc(),
    "vbmc with gradients": _vbmc(gradient=_slope),
}

PROPOSAL = Gaussian(np.zeros(2), 2.0 * np.eye(2))


def _bounds() -> Case:
    given = {"budget": 60, "replicates": 2, "vectorised": False, "seed": 1}

    def run(f, **options):
        return bqvi.evidence_bounds(f, PROPOSAL, **given | options)

    def steps(f, **options):
        return bqvi.evidence_bounds.steps(f, PROPOSAL, **given | options)

    def numbers(found):
        return (found.lower, found.lower_sd, found.log_evidence, found.n_evaluations, found.stopped)

    return Case(_log_joint, run, steps, None, numbers, 60, least=40)


CASES["evidence_bounds"] = _bounds()
