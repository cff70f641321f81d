"""Errors that stop a run, errors that make an infeasible point, and their messages."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import bqvi
from bqvi.calls import Caller, EvaluationError, Evaluations, Function, Range
from bqvi.calls.faults import described, gradient_warnings, is_numerical, is_of_the_code, require_consistent
from bqvi.calls.table import Ledger
from bqvi.models import LogJoint
from gp.measures import Gaussian, Uniform

POINTS = np.linspace(-2.0, 2.5, 10).reshape(5, 2)
BOX = {"plausible_lower": [-2.0, -2.0], "plausible_upper": [2.0, 2.0]}


class OfASimulatorError(Exception):
    pass


@pytest.mark.parametrize(
    "error",
    [NameError, AttributeError, TypeError, ImportError, KeyError, IndexError, AssertionError, MemoryError],
)
def test_errors_of_the_code_stop_at_the_first(error):
    calls = []

    def function(x):
        calls.append(x)
        if len(calls) == 3:
            raise error("undefined_name")
        return -float(x @ x)

    with pytest.raises(EvaluationError, match=rf"raised {error.__name__}.*undefined_name") as caught:
        Caller(Function(function)).evaluate(POINTS)
    plain = error in (NameError, AttributeError, TypeError)  # no author raises these for a point
    assert ("infeasible" in str(caught.value)) != plain
    assert isinstance(caught.value.__cause__, error)
    assert len(calls) == 3
    np.testing.assert_array_equal(caught.value.point, POINTS[2])
    assert len(caught.value.evaluations) == 2
    assert caught.value.evaluations.n_evaluations == 3


@pytest.mark.parametrize("vectorised", [True, False])
@pytest.mark.parametrize("errors", ["numerical", "infeasible", "raise"])
@pytest.mark.parametrize(
    "error",
    [ZeroDivisionError, np.linalg.LinAlgError, ValueError, RuntimeError, OfASimulatorError, NameError],
)
def test_what_becomes_of_an_error_at_one_point(error, errors, vectorised):
    def function(x):
        if (np.atleast_2d(x)[:, 0] > 1.5).any():
            raise error("too far")
        return -(x**2).sum(-1)

    caller = Caller(Function(function, vectorised=vectorised, errors=errors))
    if errors == "raise" or (errors == "numerical" and error is NameError):
        with pytest.raises(EvaluationError, match="too far"):
            caller.evaluate(POINTS)
        return
    found = caller.evaluate(POINTS)
    assert found.failed.tolist() == [False, False, False, False, True]
    assert found.n_evaluations == (10 if vectorised else 5)


def test_a_first_batch_that_always_raises_is_the_last():
    for vectorised in (True, False):
        calls = []

        def function(x, calls=calls):
            calls.append(len(np.atleast_2d(x)))
            raise ValueError("no root in the interval")

        with pytest.raises(EvaluationError, match="at each of the 5 first points") as caught:
            Caller(Function(function, vectorised=vectorised)).evaluate(POINTS, first=True)
        assert isinstance(caught.value.__cause__, ValueError)
        assert sum(calls) == (10 if vectorised else 5)
        assert Caller(Function(function, vectorised=vectorised)).evaluate(POINTS).failed.all()


def test_a_function_of_one_point_that_is_given_many_gets_advice():
    for of_one in (
        lambda x: x[0] + x[1],
        lambda x: -(x @ x),
        lambda x: -float(x @ np.ones(2)) if x[0] else 0,
    ):
        with pytest.raises(EvaluationError, match="vectorised=False"):
            Caller(Function(of_one, vectorised=True)).evaluate(POINTS, first=True)
    with pytest.raises(bqvi.RunError, match="vectorised=False"):
        bqvi.evidence_bounds(lambda x: -float(x[0] ** 2 + x[1] ** 2), Gaussian(np.zeros(2), np.eye(2)))
    identity = torch.eye(2, dtype=torch.float64)
    with pytest.raises(bqvi.RunError, match=r"cannot be multiplied.*vectorised=False"):
        bqvi.fit(LogJoint(lambda x: -(identity @ x).square().sum(), 2), method="bq", budget=20)


def test_that_advice_is_not_given_where_it_cannot_help():
    def singular(x):
        raise np.linalg.LinAlgError("Singular matrix")

    def misspelt(x):
        raise NameError("name 'thetta' is not defined")

    for function, vectorised in ((singular, True), (lambda x: x[2], False), (misspelt, True)):
        with pytest.raises(EvaluationError) as caught:
            Caller(Function(function, vectorised=vectorised)).evaluate(POINTS, first=True)
        assert "vectorised" not in str(caught.value)
    ledger = Ledger(2)
    caller = Caller(Function(lambda x: -(x**2).sum(1) if (x < 3.0).all() else x[:, 2], vectorised=True))
    caller.evaluate(POINTS, ledger=ledger, first=True)
    with pytest.raises(EvaluationError) as caught:
        caller.evaluate(POINTS + 3.0, ledger=ledger)
    assert "vectorised" not in str(caught.value)


@pytest.mark.parametrize("errors", ["numerical", "raise", "infeasible"])
def test_values_that_are_not_finite(errors):
    returned = [0.0, -np.inf, np.nan, 1.0, 2.0]
    caller = Caller(Function(lambda x: returned[int(x[0])], errors=errors))
    points = np.arange(5.0)[:, None]
    if errors == "raise":
        with pytest.raises(EvaluationError, match="is -inf at x0 = "):
            caller.evaluate(points)
    else:
        assert caller.evaluate(points).failed.tolist() == [False, True, True, False, False]
    returned[3] = np.inf
    if errors == "infeasible":
        assert caller.evaluate(points).failed.tolist() == [False, True, True, True, False]
    elif errors == "numerical":
        with pytest.raises(EvaluationError, match="must be finite, or -inf"):
            caller.evaluate(points)


def test_a_vectorised_batch_with_one_bad_row_keeps_the_others():
    caller = Caller(Function(lambda x: np.where(x[:, 0] == POINTS[3, 0], np.inf, 0.0), vectorised=True))
    with pytest.raises(EvaluationError, match="is inf") as caught:
        caller.evaluate(POINTS)
    np.testing.assert_array_equal(caught.value.evaluations.points, POINTS[[0, 1, 2, 4]])
    np.testing.assert_array_equal(caught.value.point, POINTS[3])


def test_numpy_under_autodiff_gets_advice():
    for function in (lambda t: np.exp(-t.numpy().sum()), lambda t: -0.5 * np.dot(t.copy(), t)):
        for model in (LogJoint(function, 2, vectorised=False), LogJoint(function, 2)):
            with pytest.raises(bqvi.RunError, match="gradient=None"):
                bqvi.fit(model, method="bq", steps=3, record=bqvi.Record(elbo_samples=2))


@pytest.mark.parametrize("returned", ["text", None, 1j, [[1.0], [2.0, 3.0]]])
def test_what_is_no_number_is_named_by_methods_that_draw_from_q(returned):
    for method in ("dreg", "score"):
        model = LogJoint(lambda t: returned, 2, gradient=lambda t: -t)
        with pytest.raises(bqvi.RunError, match=r"the log joint returned .*; it must return real numbers"):
            bqvi.fit(model, method=method, steps=1)


def test_torch_without_autodiff_gets_advice():
    with pytest.raises(EvaluationError, match='gradient="autodiff"'):
        Caller(Function(lambda t: -torch.sum(t**2))).evaluate(POINTS)


def test_a_gradient_may_use_autograd():
    def gradient(theta):
        leaf = torch.tensor(theta, requires_grad=True)
        (-0.5 * leaf.square().sum()).backward()
        return leaf.grad.numpy()

    model = LogJoint(lambda t: -0.5 * (t**2).sum(1), 2, gradient=gradient)
    for method, steps in (("bq", 10), ("pathwise", 3)):
        fit = bqvi.fit(model, method=method, steps=steps, record=bqvi.Record(elbo_samples=2))
        assert np.isfinite(fit.q.mean).all()
    with pytest.raises(EvaluationError, match="requires_grad=True"):
        Caller(Function(lambda t: -float(t @ t), lambda t: torch.tensor(t).sum().backward())).evaluate(POINTS)


def _mismatched(x, of_torch):
    values = torch.tensor(x) if of_torch else x
    wide = torch.ones(5, dtype=torch.float64) if of_torch else np.ones(5)
    return values, wide


@pytest.mark.parametrize("of_torch", [False, True])
@pytest.mark.parametrize(
    "wrong",
    [
        lambda x, wide: x + wide,
        lambda x, wide: x @ wide,
        lambda x, wide: wide.reshape(2, 2),
        lambda x, wide: float("nan") if (wide > 0) else 0.0,
    ],
)
def test_arrays_of_another_length_are_errors_of_the_code(of_torch, wrong):
    """The messages are those of the NumPy and the torch that are installed."""
    with pytest.raises((ValueError, RuntimeError)) as caught:
        wrong(*_mismatched(np.ones(2), of_torch))
    assert not is_numerical(caught.value)
    assert is_numerical(ValueError("math domain error"))

    def in_part(theta):
        if theta[0] > 1.0:
            wrong(*_mismatched(theta, of_torch))
        return -0.5 * float(theta @ theta)

    with pytest.raises(bqvi.RunError, match="error of its code"):
        bqvi.vbmc(in_part, **BOX, budget=30)


def _part(theta):
    if theta[0] > 1.0:
        raise ArithmeticError("the solver did not converge")
    return -0.5 * float(theta @ theta)


def test_exceptions_at_some_points_are_said_in_the_result_of_each_door():
    vbmc = bqvi.vbmc(_part, **BOX, budget=30)
    failed = vbmc.evaluations.failed
    first = vbmc.theta[failed][0]
    said = next(one for one in vbmc.warnings if "of an exception" in one)
    assert said.startswith(f"{failed.sum()} of 30 evaluations")
    assert f"ArithmeticError: the solver did not converge, at x0 = {first[0]:.6g}" in said
    assert f"30 evaluations ({failed.sum()} failed)" in repr(vbmc)
    fit = bqvi.fit(LogJoint(_part, 2, gradient=None, vectorised=False, **BOX), method="bq", budget=40)
    raised = fit.state.memory.failures.n_raised
    assert raised > 0
    assert any(f"{raised} of 40 evaluations" in one and "solver" in one for one in fit.warnings)
    assert f"({raised} failed)" in repr(fit)
    bounds = bqvi.evidence_bounds(
        _part, Gaussian(np.zeros(2), np.eye(2)), 400, vectorised=False, replicates=2
    )
    (told,) = bounds.warnings
    assert told.startswith(f"{bounds.n_failed} of {bounds.n_evaluations} evaluations have no value")
    assert "the solver did not converge, at" in told
    # a density that is zero is no exception
    zero = bqvi.vbmc(lambda t: -0.5 * float(t @ t) if t[0] < 1.0 else -np.inf, **BOX, budget=30)
    assert not any("exception" in one for one in zero.warnings)


def test_memory_errors_and_code_errors_are_not_numerical():
    assert not is_numerical(MemoryError())
    assert not is_numerical(OSError("disk full"))
    assert not is_numerical(RecursionError())
    assert not is_numerical(NotImplementedError())
    assert not is_numerical(torch.cuda.OutOfMemoryError())
    assert is_numerical(RuntimeError("solver diverged"))
    assert is_numerical(torch.linalg.LinAlgError("singular"))


def test_doors_name_a_point_in_the_same_way():
    """The first evaluation of each is near the middle of its box or measure."""

    def mistaken(theta):
        raise NameError("undefined")

    model = LogJoint(mistaken, 2, gradient=None, vectorised=False)
    for call in (
        lambda: bqvi.vbmc(mistaken, **BOX, budget=20),
        lambda: bqvi.fit(model, method="bq", budget=20),
        lambda: bqvi.integrate(mistaken, Uniform(-np.ones(2), np.ones(2)), vectorised=False),
        lambda: bqvi.evidence_bounds(mistaken, Gaussian(np.zeros(2), np.eye(2)), 400, vectorised=False),
    ):
        with pytest.raises(bqvi.RunError, match=r"NameError: undefined, at x0 = [-.e\d]+, x1 = [-.e\d]+\."):
            call()


@pytest.mark.parametrize(
    "error",
    [
        NameError("x"), KeyError("x"), MemoryError(), FileNotFoundError("x"), ModuleNotFoundError("x"),
        torch.cuda.OutOfMemoryError(), ValueError("operands could not be broadcast together"),
        ValueError("math domain error"), ZeroDivisionError(), TimeoutError(), RuntimeError("diverged"),
        np.linalg.LinAlgError("singular"), OfASimulatorError("diverged"),
    ],
)  # fmt: skip
def test_a_reason_tells_an_error_of_the_code_as_the_exception_does(error):
    assert is_of_the_code(described(error)) is not is_numerical(error)
    assert not is_of_the_code("the value is -inf")


@pytest.mark.parametrize("seed", range(4))
def test_a_right_gradient_is_not_accused_where_distant_values_are_huge(seed):
    """Of a sum of exponentials, which is e^100 at one point and about 1 at the others."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([0.7 * rng.normal(size=(60, 3)), [[100.0, 3.0, -2.0]]])
    values = -np.exp(x).sum(1)
    assert gradient_warnings(x, values, -np.exp(x)) == []


@pytest.mark.parametrize("factor", [1.0, 1.2, 1.35, 0.6])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_an_entry_that_is_a_multiple_is_named(factor, d):
    """A quadratic with terms of third and fourth order; of 20 right gradients none is reported."""
    rng = np.random.default_rng(d)
    for _ in range(20):
        root = rng.standard_normal((d, d)) / np.sqrt(d)
        precision, c = root @ root.T + 0.3 * np.eye(d), 0.05 * rng.standard_normal(d)
        x = rng.standard_normal((40, d))
        values = -0.5 * np.einsum("nd,de,ne->n", x, precision, x) + x**3 @ c - 0.01 * (x**4).sum(1)
        gradients = -x @ precision + 3.0 * x**2 * c - 0.04 * x**3
        gradients[:, -1] *= factor
        found = gradient_warnings(x, values, gradients)
        if factor == 1.0:
            assert not found
        else:
            (message,) = found
            ((entry, multiple),) = (
                re.findall(r"entry (\d),.*? is ([0-9.]+) times", message)
                if d > 1
                else [(0, re.findall(r"is ([0-9.]+) times", message)[0])]
            )
            assert int(entry) == d - 1
            assert abs(float(multiple) - factor) < 0.1


@pytest.mark.parametrize("seed", range(3))
def test_after_few_evaluations_an_entry_is_named_and_right_gradients_are_not(seed):
    """A Gaussian in five dimensions after 24; right gradients of a quartic and Student's t, after each other.

    Errors of trapezoids were taken for multiples of entries; below 6 evaluations a dimension none was said.
    """
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((24, 5))
    (message,) = gradient_warnings(x, -0.5 * (x**2).sum(1), -x * [1.0, 1.0, 1.0, 1.3, 1.0])
    assert "entry 3, counted from 0, is 1.3 times that of" in message
    for d in (2, 4):
        x = rng.standard_normal((36, d)) * np.where(np.arange(36) < 24, 1.0, 0.3)[:, None]
        quartic = -0.25 * (x**4).sum(1) - 0.5 * (x**2).sum(1), -(x**3) - x
        student = -2.5 * np.log1p(x**2 / 4).sum(1), -1.25 * x / (1 + x**2 / 4)
        for n, (values, gradients) in itertools.product(range(6, 37, 2), (quartic, student)):
            assert gradient_warnings(x[:n], values[:n], gradients[:n]) == []


def test_the_right_gradient_of_a_funnel_agrees_and_its_negative_does_not():
    """On x_0 in [-4, 4] the scale of the others changes by a factor of 55: trapezoids are inaccurate."""
    x = np.random.default_rng(0).uniform(-4.0, 4.0, (20, 8))
    squares, precision = np.square(x[:, 1:]).sum(1), np.exp(-x[:, 0])
    values = -(x[:, 0] ** 2) / 18 - 0.5 * precision * squares - 3.5 * x[:, 0]
    along = -x[:, 0] / 9 + 0.5 * precision * squares - 3.5
    gradients = np.column_stack([along, -precision[:, None] * x[:, 1:]])
    assert gradient_warnings(x, values, gradients) == []
    assert gradient_warnings(x, values, -gradients)[0].startswith("The gradient is not that of the values")


def test_right_gradients_never_stop_a_run_and_wrong_ones_do():
    """A correct gradient is rejected less than once in 1e5; here on 200 draws of funnels and quadratics."""
    rng = np.random.default_rng(1)
    function = Function(lambda x: 0.0, lambda x: x)
    for n in (8, 16, 24, 72):
        for _ in range(50):
            x = rng.uniform(-4.0, 4.0, (n, 4))
            squares, precision = np.square(x[:, 1:]).sum(1), np.exp(-x[:, 0])
            values = -(x[:, 0] ** 2) / 18 - 0.5 * precision * squares - 1.5 * x[:, 0]
            along = -x[:, 0] / 9 + 0.5 * precision * squares - 1.5
            gradients = np.column_stack([along, -precision[:, None] * x[:, 1:]])
            require_consistent(function, 0, rows(x, values, gradients))
            require_consistent(function, 0, rows(x, -0.5 * (x**2).sum(1), -x))
            solver = 1e-3 * rng.standard_normal(n)  # errors of a solver's values
            require_consistent(function, 0, rows(x / 40, -0.5 * (x**2).sum(1) / 1600 + solver, -x / 40))
        with pytest.raises(EvaluationError, match="-1 times that of the values; change its sign"):
            require_consistent(function, 0, rows(x, -0.5 * (x**2).sum(1), x))
        noise = np.full(n, 0.1)
        require_consistent(function, 0, replace(rows(x, -0.5 * (x**2).sum(1), x), noise_variance=noise))
        plane = x @ (1.0, -2.0, 3.0, 0.1)
        require_consistent(function, 0, rows(x, plane, np.tile((1.0, -2.0, 3.0, 0.1), (n, 1))))
    torch_own = Function(lambda x: 0.0, "autodiff")
    require_consistent(torch_own, 0, rows(x, -0.5 * (x**2).sum(1), -x))
    with pytest.raises(EvaluationError, match="leaves torch on the way"):
        require_consistent(torch_own, 0, rows(x, -0.5 * (x**2).sum(1), x))


@pytest.mark.parametrize("factor", [1.0, -1.0, 2.0])
def test_right_gradients_of_bumps_and_waves_stop_no_integration_and_wrong_ones_do(factor):
    """Narrower than the distances of the nodes, where differences need not lie between the slopes."""
    function, stopped = Function(lambda x: 0.0, lambda x: x, range=Range("integrand")), 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        x, a = rng.normal(size=(rng.choice([16, 64]), 4)), rng.uniform(0.3, 2.5, 4)
        bump, phase = np.exp(-0.5 * np.square(x * a).sum(1)), x @ a + 1.0
        values = bump if seed % 2 else np.cos(phase)
        gradients = -bump[:, None] * x * a**2 if seed % 2 else -np.sin(phase)[:, None] * a
        try:
            require_consistent(function, 0, rows(x, values, factor * gradients))
        except EvaluationError:
            stopped += 1
    assert stopped == 0 if factor == 1.0 else stopped > 40, stopped


def test_a_point_far_out_does_not_decide_which_points_are_near():
    """cos(20 y) is known between points near in y; over the sds of the points, those near in x are near."""
    rng = np.random.default_rng(3)
    x = np.column_stack([1e-3 * rng.standard_normal(64), np.linspace(-1.0, 1.0, 64)])
    x[0, 1] = 1e4
    values = 10.0 * np.cos(20.0 * x[:, 1])
    gradients = np.column_stack([np.zeros(64), -200.0 * np.sin(20.0 * x[:, 1])])
    function = Function(lambda x: 0.0, lambda x: x)
    require_consistent(function, 0, rows(x, values, gradients))
    with pytest.raises(EvaluationError, match="not that of the values"):
        require_consistent(function, 0, rows(x, values, -gradients))


def test_right_gradients_beside_a_cliff_are_no_contradiction():
    """Right values and gradients of a Gaussian, -1e6 where a simulation fails; most are beside the edge."""
    y = np.linspace(-3.0, 3.0, 20)
    near = np.column_stack([np.tile([-0.01, 0.01], 20), np.repeat(y, 2)])
    x = np.concatenate([near, np.column_stack([np.full(12, -3.0), np.linspace(-3.0, 3.0, 12)])])
    fails = x[:, 0] > 0.0
    values = np.where(fails, -1e6, -0.5 * (x**2).sum(1))
    gradients = np.where(fails[:, None], 0.0, -x)
    require_consistent(Function(lambda x: 0.0, lambda x: x), 0, rows(x, values, gradients))


@pytest.mark.parametrize("depth", [14.0, 25.0, 60.0])
def test_right_gradients_beside_a_floor_within_sight_are_no_contradiction(depth):
    """A ball with a floor around it, no deeper than a cliff; in the plane its negative gradients are one."""
    accused, function = 0, Function(lambda x: 0.0, lambda x: x)
    for seed in range(40):
        for dimension in (7, 2):
            x = np.random.default_rng([5, seed]).normal(size=(32, dimension))
            squares = np.square(x).sum(1)
            inside = squares < 0.9 * dimension
            slope = np.append(-0.01, np.zeros(dimension - 1))
            values = np.where(inside, -0.5 * squares, -depth + x @ slope)
            gradients = np.where(inside[:, None], -x, slope)
            require_consistent(function, 0, rows(x, values, gradients))
        try:
            require_consistent(function, 0, rows(x, values, -gradients))
        except EvaluationError:
            accused += 1
    assert accused >= 30, accused


def rows(points, values, gradients):
    n = len(points)
    return Evaluations(points, values, gradients, None, np.zeros(n, bool), ("",) * n)


def _gaussian(x):
    return -0.5 * (x**2).sum(-1)


def _of_fit(method):
    return lambda slope: bqvi.fit(LogJoint(_gaussian, 2, gradient=slope), method=method, budget=100, seed=0)


SLOPED = {
    "vbmc": lambda slope: bqvi.vbmc(_gaussian, **BOX, gradient=slope, budget=40),
    "bq": _of_fit("bq"),
    "pathwise": _of_fit("pathwise"),
    "iwae": _of_fit("iwae"),
    "dreg": _of_fit("dreg"),
    "integrate": lambda slope: bqvi.integrate(
        lambda x: np.exp(_gaussian(x)), lower=[0.0, 0.0], upper=[1.0, 1.0], budget=30,
        gradient=lambda x: slope(x) * np.exp(_gaussian(x))[:, None],
    ),
    "evidence_bounds": lambda slope: bqvi.evidence_bounds(
        _gaussian, Gaussian(np.zeros(2), 4.0 * np.eye(2)), 4000, gradient=slope
    ),
}  # fmt: skip
"""Doors, and the methods of `fit` that differentiate a log joint, with a gradient."""


@pytest.mark.parametrize("door", SLOPED)
@pytest.mark.parametrize("factor", [-1.0, 3.0])
def test_a_wrong_gradient_stops_each_door_within_few_evaluations(door, factor):
    with pytest.raises(bqvi.RunError, match="gradient is") as caught:
        SLOPED[door](lambda x: -factor * x)
    said = "not that" if door == "integrate" else f"{factor:g} times that"  # where trapezoids are exact
    assert f"{said} of the values" in str(caught.value)
    assert 0 < caught.value.n_evaluations < (200 if door == "evidence_bounds" else 80)


@pytest.mark.parametrize("error", [NameError("nowhere"), ValueError("nowhere")])
def test_what_is_asked_for_beside_the_value_is_named_where_it_fails(error):
    def failing(x):
        raise error

    options = {"budget": 12, "vectorised": False, "seed": 0}
    measure = Gaussian(np.zeros(2), np.eye(2))
    for name in ("noise_sd", "log_density"):
        with pytest.raises(bqvi.RunError, match=rf"EvaluationError: {name} raised .*: nowhere") as caught:
            bqvi.integrate(lambda x: 1.0, measure, **options, **{name: failing})
        assert caught.value.__cause__.__cause__ is error
    with pytest.raises(bqvi.RunError, match=r"EvaluationError: noise_sd raised .*: nowhere"):
        bqvi.vbmc(lambda x: -float(x @ x), start=[0.0, 0.0], noise_sd=failing, budget=12)


@pytest.mark.parametrize("method", ["score", "pathwise", "iwae", "dreg"])
@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (ValueError("outside"), "The mean over draws of q has no place for a draw without a value"),
        (NameError("thetta"), "This is an error of its code or of the system, not of a point"),
        (MemoryError(), "This is an error of its code or of the system, not of a point"),
    ],
)
@pytest.mark.parametrize("of_torch", [True, False])
def test_estimators_that_draw_from_q_name_the_point_of_an_exception(method, error, advice, of_torch):
    calls = []

    def log_joint(theta):
        calls.append(theta)
        if len(calls) == 3:
            raise error
        return -0.5 * (theta**2).sum()

    gradient = "autodiff" if of_torch else lambda theta: -theta
    model = LogJoint(log_joint, 2, vectorised=False, gradient=gradient)
    start = bqvi.families.Gaussian(np.zeros(2), np.eye(2))
    with pytest.raises(bqvi.RunError, match=advice) as caught:
        bqvi.fit(model, method=method, budget=60, start_from=start)
    raised = caught.value.__cause__
    assert isinstance(raised, EvaluationError)
    assert raised.__cause__ is error
    np.testing.assert_allclose(raised.point, np.asarray(calls[2].detach() if of_torch else calls[2]))
    assert f"the log joint raised {type(error).__name__}" in str(raised)
    assert caught.value.n_evaluations == 2
