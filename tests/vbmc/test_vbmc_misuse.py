"""Mistakes in calls of `bqvi.vbmc`: errors with advice, and no evaluation lost."""

import numpy as np
import pytest

import bqvi
from bqvi.calls import EvaluationError
from bqvi.variational_bmc.diagnostics import agreement, check

BOX = {"plausible_lower": [-2.0, -2.0], "plausible_upper": [2.0, 2.0]}
EVIDENCE = np.log(2 * np.pi)


def gaussian(x):
    return -0.5 * float(x @ x)


def never(x):
    raise AssertionError("evaluated")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"budget": 3}, ValueError, "budget is 3"),
        ({"design": 5}, TypeError, "design is 5; it must be a bqvi.Design"),
        ({"design": bqvi.Design(acquisition="eiv")}, ValueError, "design.acquisition is 'eiv'"),
        ({"design": bqvi.Design(initial=50), "budget": 20}, ValueError, "below initial"),
        ({"seed": None}, TypeError, "seed is None"),
        ({"resume": 3}, TypeError, "resume is 3"),
        ({"run": {"callback": print}}, TypeError, "run is {'callback': <built-in.*; it must be a bqvi.Run"),
        ({"noise_sd": "known"}, ValueError, "noise_sd"),
        ({"plausible_lower": [3.0, -2.0]}, ValueError, "plausible_lower"),
        ({"plausible_lower": [[1, 2], [3]], "start": [0.0, 0.0]}, ValueError, "rows differ in length"),
        ({"start": [[0.0, 0.0, 0.0]]}, ValueError, "theta|start"),
        ({"start": "a"}, TypeError, "start is 'a'"),
        ({"start": [1j, 0.0]}, TypeError, "start is"),
        ({"start": np.zeros((0, 2))}, ValueError, "start has shape"),
        ({"start": [9.0, 0.0], "upper": [5.0, 5.0]}, ValueError, "start has x0 = 9"),
        ({"start": 0.5}, ValueError, "start has shape"),
        ({"evaluations": 3}, TypeError, "evaluations is a int"),
        ({"evaluations": (np.zeros((3, 2)),)}, TypeError, "tuple of 1"),
        ({"evaluations": (np.zeros((3, 2)), 1j * np.ones(3))}, TypeError, "evaluations' values"),
        (
            {"evaluations": (np.zeros((3, 2)), np.zeros(3), None, np.ones(2))},
            ValueError,
            "noise_sd has shape",
        ),
        ({"evaluations": (np.zeros((30, 2)), np.zeros(30)), "budget": 20}, ValueError, "has 30"),
    ],
)
def test_bad_input_is_named(options, error, message):
    with pytest.raises(error, match=message):
        bqvi.vbmc(never, **(BOX | options))


def test_neither_start_nor_bounds():
    with pytest.raises(ValueError, match=r"neither start nor bounds are given.*; give plausible_lower"):
        bqvi.vbmc(gaussian)


@pytest.mark.parametrize("spread", [0.0, 1e-9])
def test_evaluations_all_in_one_place(spread):
    theta = spread * np.random.default_rng(0).standard_normal((12, 2))
    found = bqvi.vbmc(gaussian, **BOX, evaluations=(theta, np.zeros(12)), budget=25)
    assert found.log_evidence == pytest.approx(EVIDENCE, abs=0.02)


def test_evaluations_without_noise_beside_noisy_ones():
    rng = np.random.default_rng(0)
    theta = rng.standard_normal((12, 2))
    values = [gaussian(x) + 0.3 * rng.standard_normal() for x in theta]
    found = bqvi.vbmc(
        lambda x: (gaussian(x) + 0.3 * rng.standard_normal(), 0.3),
        **BOX,
        evaluations=(theta, values),
        budget=30,
    )
    assert abs(found.log_evidence - EVIDENCE) < 4 * found.log_evidence_sd < 1.0


class Counting:
    def __init__(self, change):
        self.change = change

    def map(self, function, items):
        return self.change([function(item) for item in items])


@pytest.mark.parametrize(("change", "kept"), [(lambda a: a[:-1], 9), (lambda a: a + a, 10)])
def test_an_executor_that_miscounts(change, kept):
    with pytest.raises(bqvi.RunError, match="for 10 points") as failed:
        bqvi.vbmc(gaussian, **BOX, run=bqvi.Run(executor=Counting(change)))
    assert failed.value.n_evaluations == kept


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_run_is_not_resumed_within_other_bounds(on_disk, tmp_path):
    found = bqvi.vbmc(gaussian, **BOX, budget=15)
    found.save(tmp_path / "run.npz")
    resume = tmp_path / "run.npz" if on_disk else found
    with pytest.raises(ValueError, match=r"resume has plausible_lower = .* of another model"):
        bqvi.vbmc(never, plausible_lower=[-9.0, -2.0], plausible_upper=[2.0, 2.0], resume=resume)
    with pytest.raises(ValueError, match=r"resume has upper = .* of another model"):
        bqvi.vbmc(never, **BOX, upper=[4.0, np.inf], resume=resume)


def test_a_check_without_density_keeps_what_it_spent():
    posterior = bqvi.vbmc(gaussian, **BOX, budget=12).posterior
    with pytest.raises(EvaluationError, match="finite at 0 of the 25") as failed:
        check(lambda x: -np.inf, posterior, 25)
    assert len(failed.value.evaluations) == 25


def test_a_gradient_that_fails_is_reported():
    found = bqvi.vbmc(gaussian, **BOX, gradient=lambda x: 1 / 0, budget=14)
    assert any(
        "14 of 14 gradients are missing" in message and "zero" in message for message in found.warnings
    )
    assert found.log_evidence == pytest.approx(EVIDENCE, abs=0.02)


def test_errors_of_a_results_methods_name_what_was_given():
    found = bqvi.vbmc(gaussian, **BOX, budget=12)
    with pytest.raises(KeyError, match="no column 'evidence'; there are n_evaluations"):
        found.trace["evidence"]
    with pytest.raises(ValueError, match=r"theta has shape \(2,\)"):
        found.surrogate_mean(np.zeros(2))
    with pytest.raises(ValueError, match="x0 = nan"):
        found.surrogate_mean(np.array([[np.nan, 0.0]]))
    with pytest.raises(TypeError, match="list of two or more results"):
        agreement(found)
    with pytest.raises(TypeError, match="list of two or more results"):
        agreement([found.posterior, found.posterior])


def test_an_improper_target_is_reported_and_never_converges():
    """-x_0^2 does not fall along x_1: there is no evidence that a run could converge to."""
    box = {"plausible_lower": [-1.0, -1.0], "plausible_upper": [1.0, 1.0]}
    found = bqvi.vbmc(lambda x: -(x[0] ** 2), **box, budget=24)
    assert not found.converged
    assert any("unbounded along x1" in message for message in found.warnings)
