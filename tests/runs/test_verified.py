"""Earlier evaluations of another function are an error, and repeated evaluations count in the budget."""

import numpy as np
import pytest
from scipy.stats import norm

import bqvi
from bqvi.models import LogJoint
from gp.measures import Uniform
from tests.runs.doors import CASES, MEASURE, Calls

KEEPING = ("integrate bq", "integrate wsabi-l", "fit bq with gradients", "vbmc")
OTHERS = ("integrate qmc", "integrate monte-carlo", "fit bq from several starts")


@pytest.mark.parametrize("name", KEEPING)
def test_the_same_function_goes_on_and_another_is_reported_and_leaves_the_checkpoint_as_it_is(name, tmp_path):
    case = CASES[name]
    path = tmp_path / "run.npz"
    case.run(case.function, budget=case.budget - 8).save(path)

    same = Calls(case.function)
    found = case.run(same, resume=path, run=bqvi.Run(verify=3))
    assert found.n_evaluations == case.budget
    assert same.count == 8
    assert len(same.returned[:3]) == len(set(same.returned[:3]))

    other, before = Calls(lambda x: 1.0001 * case.function(x)), path.read_bytes()
    with pytest.raises(bqvi.RunError, match=r"not that of the run to resume: \d of 3 evaluations") as caught:
        case.run(other, resume=path, run=bqvi.Run(checkpoint=path, verify=3))
    assert other.count == 3
    assert path.read_bytes() == before
    assert caught.value.n_evaluations == case.budget - 8 + 3
    # no evaluation of the other function is kept
    assert len(case.known(caught.value.state)) == case.budget - 8


def test_evaluations_of_a_log_joint_of_rows_are_compared_with_all_its_rows():
    """Each counts as many evaluations as there are rows; with a row less the values differ."""
    rows = np.linspace(-1.0, 2.0, 50)

    def fit(data, budget, **more):
        model = LogJoint(
            log_likelihood=lambda theta, rows: -0.5 * (rows - theta[:, :1]) ** 2,
            prior=[norm(0.0, 1.0)],
            data=data,
        )
        return bqvi.fit(model, method="bq", budget=budget, steps=3, tolerance=None, **more)

    first = fit(rows, 300)
    again = {"resume": first, "run": bqvi.Run(verify=1)}
    assert fit(rows, 350, **again).n_evaluations == first.n_evaluations + 50
    with pytest.raises(ValueError, match="verify is 1, and budget leaves no evaluation for it"):
        fit(rows, first.n_evaluations + 49, **again)
    with pytest.raises(ValueError, match="had data with other numbers"):
        fit(rows + 1.0, 350, **again)


@pytest.mark.parametrize("name", KEEPING)
def test_without_room_in_the_budget_verify_is_refused_before_any_call(name, tmp_path):
    case = CASES[name]
    path = tmp_path / "run.npz"
    case.run(case.function).save(path)
    other = Calls(lambda x: 2.0 * case.function(x))
    with pytest.raises(
        ValueError, match=f"verify is 3, and budget leaves no .* {case.budget} have been made"
    ):
        case.run(other, resume=path, run=bqvi.Run(verify=3))
    assert other.count == 0


@pytest.mark.parametrize("name", KEEPING)
def test_an_interrupted_comparison_counts_what_returned_and_goes_on(name):
    """Ctrl-C at the third of four evaluations: two have returned."""
    case = CASES[name]
    first, calls = case.run(case.function, budget=case.budget - 8), Calls(case.function)

    def interrupted(x):
        if calls.count == 2:
            raise KeyboardInterrupt
        return calls(x)

    with pytest.raises(bqvi.RunInterrupted) as caught:
        case.run(interrupted, resume=first, run=bqvi.Run(verify=4))
    assert caught.value.n_evaluations == case.budget - 8 + calls.count == case.budget - 6
    again = Calls(case.function)
    assert case.run(again, resume=caught.value).n_evaluations == case.budget
    assert again.count == 6


def _log_density(theta):
    return -0.5 * float(theta @ theta)


BOX = {"plausible_lower": [-2.0, -2.0], "plausible_upper": [2.0, 2.0]}
ENDED = {
    "vbmc": lambda f, budget, **more: bqvi.vbmc(f, **BOX, budget=budget, seed=0, **more),
    "integrate": lambda f, budget, **more: bqvi.integrate(
        lambda x: np.exp([f(one) for one in x]), MEASURE, budget=budget, seed=0, tolerance=0.01, **more
    ),
}


@pytest.mark.parametrize("door", ENDED)
def test_a_run_that_has_ended_is_compared_too(door):
    run = ENDED[door]
    ended = run(_log_density, 60)
    assert ended.stopped not in ("budget", None)
    n = ended.n_evaluations
    with pytest.raises(bqvi.RunError, match=r"not that of the run to resume: \d of 3 evaluations") as caught:
        run(lambda theta: 2.0 * _log_density(theta), 80, resume=ended, run=bqvi.Run(verify=3))
    # the right advice is in the message; to resume the exception is not
    assert "pass it as resume" not in str(caught.value)
    again = run(_log_density, 80, resume=ended, run=bqvi.Run(verify=3))
    assert again.n_evaluations == n + 3
    assert again.stopped == ended.stopped


@pytest.mark.parametrize("name", [*KEEPING, *OTHERS])
def test_verify_is_for_runs_that_are_resumed_and_keep_evaluations(name):
    case = CASES[name]
    with pytest.raises(ValueError, match="verify is 3; it is for a run with earlier evaluations"):
        case.run(case.function, run=bqvi.Run(verify=3))
    with pytest.raises((TypeError, ValueError), match="verify is"):
        case.run(case.function, run=bqvi.Run(verify=-1))
    if name in OTHERS:
        first = case.run(case.function)
        with pytest.raises(ValueError, match="verify is 3"):
            case.run(case.function, resume=first, run=bqvi.Run(verify=3))


def test_noise_that_is_stated_is_no_other_function():
    rng = np.random.default_rng(0)

    def noisy(x):
        return float(np.cos(3 * x[0])) + 0.1 * rng.standard_normal()

    given = {"vectorised": False, "noise_sd": 0.1}
    first = bqvi.integrate(noisy, Uniform(0.0, 1.0), 12, **given)
    assert (
        bqvi.integrate(
            noisy, Uniform(0.0, 1.0), 20, resume=first, run=bqvi.Run(verify=8), **given
        ).n_evaluations
        == 20
    )
    unknown = {"vectorised": False, "noise_sd": "unknown"}
    first = bqvi.integrate(noisy, Uniform(0.0, 1.0), 12, **unknown)
    with pytest.raises(ValueError, match="whose noise, if any, is known"):
        bqvi.integrate(noisy, Uniform(0.0, 1.0), 20, resume=first, run=bqvi.Run(verify=8), **unknown)


THETA = np.random.default_rng(1).uniform(-1.9, 1.9, (12, 2))
VALUES = np.array([_log_density(row) for row in THETA])
GIVEN = {
    "vbmc": bqvi.vbmc.steps,
    "fit": lambda f, plausible_lower, plausible_upper, **more: bqvi.fit.steps(
        LogJoint(
            f,
            2,
            vectorised=False,
            gradient=None,
            plausible_lower=plausible_lower,
            plausible_upper=plausible_upper,
        ),
        method="bq",
        **more,
    ),
    "integrate": lambda f, plausible_lower, plausible_upper, **more: bqvi.integrate.steps(
        f, Uniform(plausible_lower, plausible_upper), vectorised=False, method="wsabi-l", log=True, **more
    ),
}


def _begun(door, f, evaluations=(THETA, VALUES), **more):
    return GIVEN[door](f, **BOX, seed=0, **({"budget": 26, "evaluations": evaluations} | more))


@pytest.mark.parametrize("door", GIVEN)
def test_given_evaluations_of_another_function_are_reported_after_one_call(door):
    other = Calls(lambda theta: _log_density(theta) + 0.2)
    with pytest.raises(
        bqvi.RunError, match="not that of evaluations: 1 of 1 evaluations made again"
    ) as caught:
        _begun(door, other).finish()
    np.testing.assert_allclose(other.returned, [THETA[VALUES.argmax()]])
    assert caught.value.n_evaluations == 13


@pytest.mark.parametrize("door", GIVEN)
@pytest.mark.parametrize("kind", ["the same", "single precision", "verify=0"])
def test_given_evaluations_of_the_function_are_used(door, kind):
    """Of rows in single precision the values differ from those of the function by rounding only."""
    f = Calls(_log_density)
    points = THETA.astype(np.float32).astype(float) if kind == "single precision" else THETA
    run = _begun(door, f, (points, VALUES), run=bqvi.Run(verify=0 if kind == "verify=0" else None))
    next(run)
    at_best = np.isclose(np.reshape(f.returned, (-1, 2)), points[VALUES.argmax()]).all(1)
    assert at_best.sum() == (kind != "verify=0")
    assert run.n_evaluations == 12 + f.count <= 26


@pytest.mark.parametrize("door", ["vbmc", "fit"])
def test_given_evaluations_are_compared_by_the_noise_of_the_new_ones(door):
    rng = np.random.default_rng(0)
    f = Calls(lambda theta: (_log_density(theta) + 0.3 * rng.standard_normal(), 0.3))
    next(_begun(door, f, (THETA, VALUES + 0.3 * rng.standard_normal(12))))
    shifted = Calls(lambda theta: (_log_density(theta) + 9.0, 0.3))
    with pytest.raises(bqvi.RunError, match="not that of evaluations"):
        next(_begun(door, shifted))
    assert shifted.count == 1


@pytest.mark.parametrize("door", GIVEN)
def test_a_run_that_is_asked_for_points_compares_nothing(door):
    other = Calls(lambda theta: _log_density(theta) + 0.2)
    assert len(_begun(door, other).ask()) == 1
    assert other.count == 0
