"""Runs with asynchronous workers, and runs by ask and tell.

The oracles: the function itself, which counts its calls; evidences and integrals known in closed form; the
same run with its values told by hand in the same order.
"""

import multiprocessing
import os
import signal
from functools import partial

import numpy as np
import pytest
from doors import CASES, Calls

import bqvi
from bqvi.models import LogJoint
from bqvi.runs import Steps
from bqvi.variational_bmc.state import with_pending
from experiments.problems.simulated_workers import SimulatedWorkers

BOX = {"plausible_lower": [-2.0, -2.0], "plausible_upper": [2.0, 2.0]}


FLAT = LogJoint(lambda x: 0.0, 2, gradient=None, vectorised=False)


def slope(x):
    return -x - np.array([0.4 * x[0] ** 3, 0.0])


def told(run: Steps, name: str, theta) -> None:
    case = CASES[name]
    gradients = [slope(x) for x in theta] if "gradients" in name else None
    run.tell(theta, [case.function(x) for x in theta], gradients)


@pytest.mark.parametrize("name", ["integrate bq", "integrate monte-carlo", "vbmc", "fit bq"])
def test_the_budget_is_kept_and_the_same_order_gives_the_same_digits(name):
    case = CASES[name]
    calls, workers = Calls(case.function), SimulatedWorkers(4, 0.7, seed=2)
    found = case.run(calls, run=bqvi.Run(executor=workers, workers=4))
    assert calls.count == found.n_evaluations == case.budget
    assert len({tuple(x) for x in calls.returned}) == case.budget
    assert workers.busy / workers.clock > 2.0
    again = case.run(case.function, run=bqvi.Run(executor=SimulatedWorkers(4, 0.7, seed=2), workers=4))
    assert case.numbers(found) == case.numbers(again)


@pytest.mark.parametrize("name", ["integrate wsabi-l", "integrate qmc", "vbmc with gradients", "fit bq"])
def test_a_run_by_ask_and_tell_is_the_one_with_workers(name):
    """With one worker the values return in the order of the points."""
    case = CASES[name]
    found = case.run(case.function, run=bqvi.Run(executor=SimulatedWorkers(1, 0.0, seed=0), workers=1))
    run = case.steps(case.function)
    while len(theta := run.ask()):
        told(run, name, theta)
    assert case.numbers(run.result())[:3] == case.numbers(found)[:3]
    assert run.stopped == found.stopped


@pytest.mark.parametrize("name", ["integrate bq", "vbmc with gradients", "fit bq with gradients"])
def test_a_run_that_is_resumed_asks_again_for_what_was_pending(name, tmp_path):
    """The run is saved with points under way, whose values are then told in the order of the uninterrupted
    run.
    """
    case = CASES[name]
    run = case.steps(case.function)
    told(run, name, run.ask(9)[::-1])
    first = run.ask(4)
    run.save(tmp_path / "run.npz")
    again = case.steps(case.function, resume=tmp_path / "run.npz")
    np.testing.assert_array_equal(again.ask(4), first)
    for one in (run, again):
        told(one, name, first[[2, 0, 1]])
    np.testing.assert_array_equal(run.ask(3), again.ask(3))
    for one in (run, again):
        told(one, name, first[[3]])
    np.testing.assert_array_equal(run.ask(5), again.ask(5))


def test_values_that_were_never_asked_for_are_refused():
    run = bqvi.vbmc.steps(lambda x: 0.0, **BOX, budget=20)
    points = run.ask(3)
    with pytest.raises(ValueError, match=r"theta\[1\] is \[0.123, 0.5\], which was never asked for"):
        run.tell([points[0], [0.123, 0.5]], [0.0, 0.0])
    run.tell(points[1], [-1.0])
    with pytest.raises(ValueError, match="never asked for, or has a value already"):
        run.tell(points[1], [-1.0])
    with pytest.raises(ValueError, match="one for each theta"):
        run.tell(points[[0, 2]], [-1.0])
    with pytest.raises(ValueError, match="must be finite"):
        run.tell(points[0], [np.inf])
    run.tell(points[[2, 0]], [np.nan, -2.0])
    assert run.n_evaluations == 3
    assert run.state.evaluations.reasons == ("", "was told as nan", "")


fitted = partial(bqvi.fit.steps, FLAT)
explored = partial(bqvi.vbmc.steps, lambda x: 0.0, **BOX)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: fitted(method="bq", starts=2, start_from="random").ask(),
            TypeError,
            "this run of bqvi.fit cannot be asked",
        ),
        (lambda: fitted(method="score").ask(), TypeError, "use method='bq'"),
        (lambda: fitted(method="score").tell([[0.0, 0.0]], [1.0]), TypeError, "use method='bq'"),
        (
            lambda: fitted(method="bq", record=bqvi.Record(elbo_samples=20)).ask(),
            ValueError,
            "elbo_samples is 20",
        ),
        (lambda: explored().ask(0), ValueError, "count is 0"),
        (lambda: explored(gradient=slope).tell([[0.0, 0.0]], [1.0]), ValueError, "gradients is None"),
    ],
)
def test_bad_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_an_error_keeps_what_returns_of_the_others():
    def broken(x):
        if len(calls.returned) == 13:
            raise NameError("nowhere")
        return CASES["vbmc"].function(x)

    calls = Calls(broken)
    with pytest.raises(bqvi.RunError, match="nowhere") as failed:
        CASES["vbmc"].run(calls, run=bqvi.Run(executor=SimulatedWorkers(4, 0.7, seed=0), workers=4))
    assert failed.value.n_evaluations == len(calls.returned) == 13
    whole = CASES["vbmc"].run(CASES["vbmc"].function, resume=failed.value)
    assert whole.n_evaluations == 20


class Deadly:
    def __init__(self, function, at):
        self.function, self.at, self.calls = function, at, 0

    def __call__(self, x):
        self.calls += 1
        if self.calls == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.function(x)


def _killed(name, path):
    case = CASES[name]
    case.run(
        Deadly(case.function, 16),
        run=bqvi.Run(executor=SimulatedWorkers(4, 0.7, 3), workers=4, checkpoint=path),
    )


@pytest.mark.parametrize("name", ["integrate bq", "vbmc", "fit bq"])
def test_a_process_that_is_killed_loses_what_was_pending(name, tmp_path):
    process = multiprocessing.get_context("fork").Process(target=_killed, args=(name, tmp_path / "run.npz"))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    case = CASES[name]
    run = case.steps(case.function, resume=tmp_path / "run.npz")
    assert 15 - 4 <= run.n_evaluations < 16
    calls = Calls(case.function)
    before = run.n_evaluations
    found = case.run(
        calls, resume=tmp_path / "run.npz", run=bqvi.Run(executor=SimulatedWorkers(4, 0.7, 3), workers=4)
    )
    assert found.n_evaluations == case.budget
    assert calls.count == case.budget - before


@pytest.mark.parametrize("gradients", [True, False])
def test_a_fit_that_is_asked_for_points_begins_with_the_search_of_one_that_evaluates_itself(
    gradients, tmp_path
):
    """The mode is 60 sds of the first q away; the ELBO of a normalised Gaussian log joint is 0."""
    mean, precision = np.array([60.0, -4.0]), np.array([1.0, 9.0])
    calls = Calls(
        lambda x: 0.5 * np.log(precision).sum() - np.log(2 * np.pi) - 0.5 * (x - mean) ** 2 @ precision
    )
    model = LogJoint(
        calls, 2, gradient=(lambda x: precision * (mean - x)) if gradients else None, vectorised=False
    )
    first = bqvi.fit(model, method="bq", budget=60, seed=1)
    itself, asked = np.array(calls.returned), []
    run = bqvi.fit.steps(model, method="bq", budget=60, seed=1)
    while len(theta := run.ask()):
        if len(asked) == 12:  # within the search
            run.save(tmp_path / "run.npz")
            run = bqvi.fit.steps(model, method="bq", budget=60, seed=1, resume=tmp_path / "run.npz")
            np.testing.assert_array_equal(run.ask(), theta)
        slopes = [precision * (mean - x) for x in theta] if gradients else None
        run.tell(theta, [calls.function(x) for x in theta], slopes)
        asked.extend(theta)
    np.testing.assert_array_equal(
        asked[:16], itself[:16]
    )  # then steps begin, whose nodes are chosen together
    assert abs(run.result().elbo) < 0.05
    assert abs(first.elbo) < 0.05
    assert run.n_evaluations <= 60


def test_a_point_that_is_pending_twice_is_asked_for_twice():
    """A point that tests a claim may be one that a worker evaluates already."""
    run = CASES["vbmc"].steps(CASES["vbmc"].function)
    told(run, "vbmc", run.ask(10))
    first = run.ask(2)
    run._held = (with_pending(run.state, run.state.pending[:1]), False)
    told(run, "vbmc", first[:1])
    np.testing.assert_array_equal(run.ask(1), first[:1])
