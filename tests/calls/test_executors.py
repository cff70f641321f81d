"""Executors of several packages: the values are those of direct calls; lost workers cost no other evaluation.

Those of packages that are not installed are skipped.
"""

import os
import signal
import warnings
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from call_contracts import check_executor

import bqvi
from bqvi.calls import Caller, EvaluationError, Function, Ledger, RayExecutor
from bqvi.models import LogJoint

POINTS = np.random.default_rng(0).standard_normal((6, 2))


@pytest.fixture(autouse=True)
def global_state_is_left_alone():
    """The test of global generators is disabled here, as Dask draws from random's."""


@pytest.fixture(scope="module", autouse=True)
def functions_are_found_in_other_processes():
    """Ray and submitit start Python anew, and look for the functions of this module by its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.path.dirname(__file__), prepend=os.pathsep)
        yield


def value(x):
    return -0.5 * (x[0] - 1.0) ** 2 - x[1] ** 4


class Killing:
    """Kills its process at one point: the first time, or each time."""

    def __init__(self, point, once=None):
        self.point, self.once = point, once

    def __call__(self, x):
        if np.array_equal(x, self.point) and not (self.once and os.path.exists(self.once)):
            if self.once:
                open(self.once, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return value(x)


class Mixing:
    """A `map` that gives the results in another order."""

    def map(self, function, items):
        return [function(item) for item in items][::-1]


class Remembering:
    """A `map` that makes equal calls once."""

    def map(self, function, items):
        known = {}
        return [known.setdefault(np.asarray(x).tobytes(), function(x)) for x in items]


class CallingTwice:
    """A `map` that calls the function at each point a second time."""

    def map(self, function, items):
        return [(function(item), function(item))[0] for item in items]


def processes():
    return ProcessPoolExecutor(2)


@pytest.fixture(scope="module")
def dask_client():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def ray_executor():
    ray = pytest.importorskip("ray")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        yield RayExecutor(max_retries=2)
        ray.shutdown()


@pytest.fixture(params=["processes", "loky", "dask", "ray", "submitit"])
def cluster(request, tmp_path):
    if request.param == "processes":
        with processes() as executor:
            yield executor
    elif request.param == "loky":
        loky = pytest.importorskip("loky")
        with loky.ProcessPoolExecutor(2) as executor:
            yield executor
    elif request.param == "submitit":
        submitit = pytest.importorskip("submitit")
        yield submitit.LocalExecutor(tmp_path)
    else:
        yield request.getfixturevalue({"dask": "dask_client", "ray": "ray_executor"}[request.param])


def test_executors_keep_their_contract(cluster):
    check_executor(cluster)


@pytest.mark.parametrize(
    ("executor", "message"),
    [
        (Mixing(), "values have to be those of direct calls"),
        (Remembering(), "each of several equal points"),
        (CallingTwice(), "6 points had 12 calls"),
    ],
)
def test_what_is_wrong_with_an_executor_is_named(executor, message):
    with pytest.raises(AssertionError, match=message):
        check_executor(executor)


@pytest.mark.parametrize("kind", ["dask", "ray"])
def test_a_worker_that_is_killed_costs_nothing(kind, request, tmp_path):
    executor = request.getfixturevalue({"dask": "dask_client", "ray": "ray_executor"}[kind])
    function = Killing(POINTS[2], str(tmp_path / "killed"))
    found = Caller(Function(function), run=bqvi.Run(executor=executor)).evaluate(POINTS)
    np.testing.assert_array_equal(found.values, [value(x) for x in POINTS])
    assert (tmp_path / "killed").exists()


@pytest.mark.parametrize("kind", ["dask", "ray"])
def test_a_point_that_kills_each_worker_is_a_row_with_a_reason(kind, request):
    executor = request.getfixturevalue({"dask": "dask_client", "ray": "ray_executor"}[kind])
    found = Caller(Function(Killing(POINTS[2])), run=bqvi.Run(executor=executor)).evaluate(POINTS)
    assert found.failed.tolist() == [False, False, True, False, False, False]
    assert found.reasons[2].startswith("has no result (")
    np.testing.assert_array_equal(found.values[[0, 1, 3, 4, 5]], [value(x) for x in POINTS[[0, 1, 3, 4, 5]]])


def test_processes_that_break_keep_what_has_returned():
    with processes() as executor, pytest.raises(EvaluationError, match="resume with a new one") as caught:
        Caller(Function(Killing(POINTS[5])), run=bqvi.Run(executor=executor)).evaluate(POINTS)
    kept = caught.value.evaluations
    np.testing.assert_array_equal(kept.values, [value(x) for x in kept.points])


class Losing:
    """Futures of calls made at once, except at two points: one is cancelled, one exceeds its time."""

    def submit(self, function, x):
        future = Future()
        if np.array_equal(x, POINTS[1]):
            future.set_exception(CancelledError())
        elif np.array_equal(x, POINTS[4]):
            future.set_exception(TimeoutError("more than 10 s"))
        else:
            future.set_result(function(x))
        return future


def test_calls_without_a_result_are_rows_with_a_reason():
    found = Caller(Function(value), run=bqvi.Run(executor=Losing())).evaluate(POINTS)
    assert np.flatnonzero(found.failed).tolist() == [1, 4]
    assert "CancelledError" in found.reasons[1]
    assert found.reasons[4] == "has no result (TimeoutError: more than 10 s)"
    with pytest.raises(EvaluationError, match="has no result"):
        Caller(Function(value, errors="raise"), run=bqvi.Run(executor=Losing())).evaluate(POINTS)


class Polled:
    """A future of another package: it is done after it was asked ``often`` times."""

    def __init__(self, answer, often):
        self.answer, self.often = answer, often

    def done(self):
        self.often -= 1
        return self.often <= 0

    def result(self):
        return self.answer


class OfAnotherPackage:
    def __init__(self):
        self.often = 20

    def submit(self, function, x):
        self.often -= 3
        return Polled(function(x), self.often)


def test_futures_of_other_packages_are_taken_as_they_return():
    """The later ones here return first."""
    order = []
    ledger = Ledger(2, lambda: order.append(len(ledger.entries())))
    found = Caller(Function(value), run=bqvi.Run(executor=OfAnotherPackage())).evaluate(POINTS, ledger)
    np.testing.assert_array_equal(found.values, [value(x) for x in POINTS])
    assert order == [1, 2, 3, 4, 5, 6]


class Same:
    def __init__(self, what):
        self.what = what

    def submit(self, function, x):
        return self.what


@pytest.mark.parametrize(
    ("what", "message"),
    [(1.0, "submit returned 1.0; it must return a future"), (Future(), "same future for two points")],
)
def test_an_executor_that_gives_no_future_for_each_point_is_named(what, message):
    if isinstance(what, Future):
        what.set_result(None)
    with pytest.raises(EvaluationError, match=message) as error:
        Caller(Function(value), run=bqvi.Run(executor=Same(what))).evaluate(POINTS)
    assert "pickled" not in str(error.value)


def test_a_time_limit_of_the_function_is_a_matter_of_the_point():
    def limited(x):
        if x[0] > 0.5:
            raise TimeoutError("10 s")
        return value(x)

    with ThreadPoolExecutor(2) as executor:
        found = Caller(Function(limited), run=bqvi.Run(executor=executor)).evaluate(POINTS)
    np.testing.assert_array_equal(found.failed, POINTS[:, 0] > 0.5)
    assert "raised TimeoutError: 10 s" in found.reasons


class Forever:
    """A future of another package that is never done."""

    cancelled = False

    def done(self):
        return False

    def cancel(self):
        self.cancelled = True

    def result(self):
        raise AssertionError("this would be waited for without end")


class Forgetting:
    """An executor, from whose call ``first`` on every ``each``-th is never done."""

    def __init__(self, first=0, each=1, forever=Forever):
        self.first, self.each, self.forever, self.futures = first, each, forever, []

    def submit(self, function, *arguments):
        n = len(self.futures) - self.first
        lost = n >= 0 and n % self.each == 0
        self.futures.append(self.forever() if lost else Future())
        if not lost:
            self.futures[-1].set_result(function(*arguments))
        return self.futures[-1]


@pytest.mark.parametrize("forever", [Forever, Future])
def test_calls_that_never_return_are_given_up_and_the_others_kept(forever):
    losing = Forgetting(first=1, each=2, forever=forever)
    made = Caller(Function(value), run=bqvi.Run(executor=losing, call_seconds=0.01)).evaluate(POINTS)
    np.testing.assert_array_equal(made.failed, [False, True] * 3)
    np.testing.assert_allclose(made.values[::2], [value(x) for x in POINTS[::2]])
    assert all("none of the calls has returned for 0.01 s" in reason for reason in made.reasons[1::2])
    given_up = losing.futures[1::2]
    assert all(future.cancelled if forever is Forever else future.cancelled() for future in given_up)


BOX = {"plausible_lower": [-2.0, -2.0], "plausible_upper": [4.0, 2.0]}


@pytest.mark.parametrize("workers", [None, 2])
def test_a_run_whose_workers_are_lost_for_good_ends(workers):
    lost = bqvi.Run(executor=Forgetting(first=12), workers=workers, call_seconds=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = bqvi.vbmc(value, **BOX, budget=17, run=lost, seed=0)
    assert found.stopped == "budget"
    assert not found.converged
    np.testing.assert_array_equal(np.sort(found.evaluations.failed), np.arange(17) >= 12)
    assert any("has no result" in warning for warning in found.warnings)


DOORS = {
    "vbmc": lambda **run: bqvi.vbmc.steps(value, **BOX, **run),
    "fit": lambda **run: bqvi.fit.steps(LogJoint(value, 2, vectorised=False, **BOX), method="bq", **run),
    "integrate": lambda **run: bqvi.integrate.steps(
        value, lower=[0, 0], upper=[1, 1], vectorised=False, budget=20, **run
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_the_seconds_of_a_run_limit_its_calls(door):
    def limit(executor, **seconds):
        return DOORS[door](run=bqvi.Run(executor=executor, **seconds)).engine.caller.run.longest_call

    assert limit(Forgetting()) is None
    assert limit(Forgetting(), max_seconds=30.0) == 30.0
    assert limit(Forgetting(), call_seconds=2.0, max_seconds=30.0) == 2.0
