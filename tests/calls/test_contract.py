"""Properties of all kinds of functions and executors: values, gradients, counts, interrupts."""

import itertools
import math
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy as np
import pytest
import torch
from differences import central

import bqvi
from bqvi.calls import Caller, EvaluationError, Function, Ledger, Range, make_coordinates

POINTS = np.random.default_rng(1).standard_normal((7, 2))
SEVERAL = Range("integrand", outputs=True)


def value(x):
    """A function of one point or of many."""
    return -0.5 * (x[..., 0] - 1.0) ** 2 - x[..., 1] ** 4


def slope(x):
    return np.stack([1.0 - x[..., 0], -4.0 * x[..., 1] ** 3], axis=-1)


def two(x):
    return np.stack([value(x), x[..., 0] * x[..., 1]], axis=-1)


def two_slopes(x):
    return np.stack([slope(x), np.stack([x[..., 1], x[..., 0]], axis=-1)], axis=-2)


def torch_two(x):
    return torch.stack([value(x), x[..., 0] * x[..., 1]], dim=-1)


KINDS = {
    "values": (value, None, SEVERAL),
    "gradient": (value, slope, SEVERAL),
    "autodiff": (value, "autodiff", SEVERAL),
    "two outputs": (two, two_slopes, SEVERAL),
    "two outputs by autodiff": (torch_two, "autodiff", SEVERAL),
    "density": (value, slope, Range("log joint", density=True)),
}
each_kind = pytest.mark.parametrize("kind", KINDS)
each_way = pytest.mark.parametrize("vectorised", [True, False])
WORKERS = ("none", "submit", "map", "imap", "futures of map")


class Mapping:
    """An executor with nothing but a lazy `map`."""

    def map(self, function, items):
        return map(function, items)


class LikeADaskClient:
    """A `map` that gives futures, which must not be taken for what the function returns."""

    def __init__(self, pool):
        self.pool = pool

    def map(self, function, items):
        return [self.pool.submit(function, item) for item in items]


class Counted:
    """A function that counts the points at which it is called, and at one of them does something else."""

    def __init__(self, function, at=None, then=None):
        self.function, self.at, self.then, self.points = function, at, then, 0

    def __call__(self, x):
        self.points += len(x) if x.ndim == 2 else 1
        if self.points == self.at:
            return self.then()
        return self.function(x)


def raises(error):
    def then():
        raise error

    return then


@pytest.fixture(params=WORKERS)
def executor(request):
    if request.param in ("none", "map"):
        yield None if request.param == "none" else Mapping()
    elif request.param == "imap":
        with ThreadPool(2) as pool:
            yield pool
    else:
        with ThreadPoolExecutor(2) as pool:
            yield pool if request.param == "submit" else LikeADaskClient(pool)


@each_kind
@each_way
def test_values_and_gradients_are_those_of_direct_calls(kind, vectorised, executor):
    function, gradient, kinds = KINDS[kind]
    ledger, counted = Ledger(2), Counted(function)
    caller = Caller(Function(counted, gradient, vectorised, range=kinds), run=bqvi.Run(executor=executor))
    found = caller.evaluate(POINTS, ledger)
    expected, slopes = (two(POINTS), two_slopes(POINTS)) if "two" in kind else (value(POINTS), slope(POINTS))
    shape = expected.reshape(7, -1) if kinds.outputs else expected
    np.testing.assert_allclose(found.values, shape, rtol=1e-14)
    assert (found.gradients is None) == (gradient is None)
    if gradient is not None:
        np.testing.assert_allclose(found.gradients.reshape(slopes.shape), slopes, rtol=1e-13)
    np.testing.assert_array_equal(found.points, POINTS)
    np.testing.assert_array_equal(ledger.take().points, POINTS)
    assert counted.points == found.n_evaluations == 7
    assert found.values.dtype == float


@each_way
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_a_function_on_a_device_gets_its_points_there(vectorised):
    places = []

    def on_device(x):
        places.append(x.device.type)
        return value(x)

    like = torch.empty(0, dtype=torch.float64, device="cuda")
    found = Caller(Function(on_device, "autodiff", vectorised, like=like)).evaluate(POINTS)
    assert set(places) == {"cuda"}
    np.testing.assert_allclose(found.values, value(POINTS), rtol=1e-12)
    np.testing.assert_allclose(found.gradients, slope(POINTS), rtol=1e-12)


@each_way
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), NameError("nowhere")])
@pytest.mark.parametrize("at", range(1, 8))
def test_an_end_at_any_call_loses_none_before(at, error, vectorised):
    """A vectorised function that raises on the batch is a call of seven points, of which none returned."""
    ledger = Ledger(2)
    caller = Caller(Function(Counted(value, 7 if vectorised else at, raises(error)), None, vectorised))
    expected = EvaluationError if isinstance(error, Exception) else type(error)
    with pytest.raises(expected) as caught:
        caller.evaluate(POINTS, ledger)
    assert caught.value is error or caught.value.__cause__ is error
    left = ledger.take()
    assert len(left) == (0 if vectorised else at - 1)
    np.testing.assert_array_equal(left.values, value(POINTS[: len(left)]))


class Interrupting:
    """Raises KeyboardInterrupt after ``at`` lines of the package `bqvi.calls` have run, as a signal may."""

    def __init__(self, at):
        self.left = at

    def __call__(self, frame, event, _):
        inside = Path(frame.f_code.co_filename).parent == Path(bqvi.calls.__file__).parent
        if inside and event == "line":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self if inside else None


@each_way
def test_an_interrupt_at_any_line_finds_each_evaluation_with_its_count(vectorised):
    """Only the evaluation at whose return the interrupt comes may be missing; rows and counts agree."""
    for at in itertools.count(1):
        counted, ledger, before = Counted(value), Ledger(2), sys.gettrace()
        sys.settrace(Interrupting(at))
        try:
            Caller(Function(counted, None, vectorised)).evaluate(POINTS[:3], ledger)
            break
        except KeyboardInterrupt:
            left = ledger.take()
        finally:
            sys.settrace(before)
        assert len(left) == left.n_evaluations
        assert counted.points - (3 if vectorised else 1) <= len(left) <= counted.points
        np.testing.assert_array_equal(left.points, POINTS[: len(left)])
        np.testing.assert_array_equal(left.values, value(POINTS[: len(left)]))
    assert at > 50


def test_an_end_keeps_what_workers_have_returned():
    with ThreadPoolExecutor(1) as pool:
        ledger = Ledger(2)
        caller = Caller(Function(Counted(value, 4, raises(KeyboardInterrupt()))), run=bqvi.Run(executor=pool))
        with pytest.raises(KeyboardInterrupt):
            caller.evaluate(POINTS, ledger)
        kept = {tuple(point) for point in ledger.take().points}
    assert {tuple(point) for point in POINTS[:3]} <= kept


@each_way
def test_gradients_in_the_coordinates_are_those_of_the_values(vectorised):
    """All kinds of bounds at once, by central differences."""
    where = make_coordinates(
        [-np.inf, 0.0, -np.inf, -1.0, 0.0, 2.0],
        [np.inf, np.inf, 3.0, 4.0, 2 * math.pi, 2.0],
        [-1.0, 0.5, -1.0, 0.0, 1.0, 2.0],
        [2.0, 2.0, 2.0, 3.0, 3.0, 2.0],
        periodic=[4],
    )

    def log_joint(t):
        return torch.sin(t[..., 4]) - (t[..., :4] ** 2).sum(-1) * t[..., 5]

    function = Function(log_joint, "autodiff", vectorised, names=where.names)
    caller, points = Caller(function, where), 0.5 * np.random.default_rng(3).standard_normal((4, 5))
    numeric = central(lambda at: caller.evaluate(at).values, points)
    np.testing.assert_allclose(caller.evaluate(points).gradients, numeric, atol=1e-6)
