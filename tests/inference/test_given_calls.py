"""Bounds, workers and known evaluations of `fit`, against closed forms and counts of calls."""

import functools
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch

import bqvi
from bqvi.families import Gaussian
from bqvi.models import LogJoint

SHAPES, RATES = np.array([6.0, 3.0]), np.array([2.0, 0.5])


def log_gamma(theta):
    """Two independent gammas, normalised: the evidence is 1."""
    return scipy.stats.gamma(SHAPES, scale=1.0 / RATES).logpdf(theta).sum(-1)


def slope(theta):
    return (SHAPES - 1.0) / theta - RATES


BOX = {"lower": 0.0, "plausible_lower": [1.0, 1.5], "plausible_upper": [6.0, 14.0]}


@pytest.mark.parametrize("gradient", [None, slope], ids=["values", "gradients"])
def test_half_bounded_parameters(gradient):
    """The density of ln of a gamma variable is near Gaussian: in the coordinates q has its moments to a few
    per cent.
    """
    model = LogJoint(log_gamma, 2, gradient=gradient, **BOX)
    found = bqvi.fit(model, method="bq", budget=80, tolerance=None, seed=0)
    posterior = found.posterior
    np.testing.assert_allclose(posterior.mean, SHAPES / RATES, rtol=0.02)
    np.testing.assert_allclose(np.sqrt(np.diag(posterior.covariance)), np.sqrt(SHAPES) / RATES, rtol=0.1)
    assert -0.2 < found.elbo < 0.01  # below the log evidence, 0, by KL(q || p)
    assert found.n_evaluations == 80


def test_the_elbo_of_fresh_draws_has_the_jacobian():
    model = LogJoint(log_gamma, 2, gradient=slope, **BOX)
    kept = bqvi.fit(model, method="bq", budget=60, seed=0)
    fresh = bqvi.fit(model, method="bq", budget=60 + 400, record=bqvi.Record(elbo_samples=400), seed=0)
    np.testing.assert_array_equal(kept.q.mean, fresh.q.mean)
    assert abs(kept.elbo - fresh.elbo) < 4.0 * fresh.trace["elbo_sd"][-1] + 4.0 * kept.trace["elbo_sd"][-1]


def test_a_fixed_and_a_bounded_parameter():
    """Uniform on (2, 5): its coordinate is exactly Gaussian, and the log evidence is ln 3."""

    def log_joint(theta):
        assert theta[1] == 7.0
        return 0.0

    model = LogJoint(
        log_joint, 2, gradient=lambda theta: np.zeros(2), vectorised=False, lower=[2.0, 7.0], upper=[5.0, 7.0]
    )
    found = bqvi.fit(model, method="bq", budget=30, seed=0)
    assert found.elbo == pytest.approx(np.log(3.0), abs=1e-3)
    np.testing.assert_allclose(found.posterior.mean, [3.5, 7.0], atol=0.01)


def test_runs_with_bounds_are_saved_and_resumed(tmp_path):
    model = LogJoint(log_gamma, 2, gradient=slope, **BOX)
    whole = bqvi.fit(model, method="bq", steps=12, seed=0)
    bqvi.fit(model, method="bq", steps=5, seed=0).save(tmp_path / "run.npz")
    found = bqvi.fit(model, method="bq", steps=12, resume=tmp_path / "run.npz")
    np.testing.assert_array_equal(found.posterior.mean, whole.posterior.mean)
    other = LogJoint(log_gamma, 2, gradient=slope, **(BOX | {"lower": -1.0}))
    with pytest.raises(ValueError, match="the run to resume had bounds"):
        bqvi.fit(other, method="bq", budget=40, resume=tmp_path / "run.npz")


def test_workers_change_no_number():
    model = LogJoint(log_gamma, 2, gradient=slope, **BOX)
    alone = bqvi.fit(model, method="bq", samples=3, budget=31, tolerance=None)
    with ThreadPoolExecutor(2) as executor:
        found = bqvi.fit(
            model, method="bq", samples=3, budget=31, tolerance=None, run=bqvi.Run(executor=executor)
        )
    np.testing.assert_allclose(found.q.mean, alone.q.mean, rtol=1e-9)
    assert found.n_evaluations == alone.n_evaluations == 31


def test_known_evaluations_are_not_made_again_and_count():
    calls = []

    def counted(theta):
        calls.extend(theta)
        return log_gamma(theta)

    theta = np.array([[2.0, 4.0], [4.0, 8.0], [3.0, 6.0], [1.5, 3.0], [3.0, 9.0]])
    model = LogJoint(counted, 2, gradient=slope, **BOX)
    known = (theta, log_gamma(theta), slope(theta))
    found = bqvi.fit(model, method="bq", budget=25, evaluations=known, tolerance=None)
    assert len(calls) == 20
    assert found.n_evaluations == 25
    np.testing.assert_allclose(found.problem.model.coordinates.to_user(found.state.memory.points)[:5], theta)


MODEL = LogJoint(log_gamma, 2, gradient=slope)
ONE = (np.ones((1, 2)), np.zeros(1))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"method": "pathwise", "evaluations": ONE},
            ValueError,
            "evaluations was given with method 'pathwise'",
        ),
        (
            {"method": "pathwise", "run": bqvi.Run(errors="infeasible")},
            ValueError,
            r"run\.errors='infeasible' was given with method 'pathwise'",
        ),
        ({"evaluations": ONE}, ValueError, "evaluations has no gradients, and the log joint has"),
        ({"evaluations": ONE, "starts": 2}, ValueError, "evaluations is given, and starts is 2"),
        ({"evaluations": 3}, TypeError, "evaluations is a int; it must be"),
        (
            {"evaluations": [1, 2, 3]},
            ValueError,
            r"evaluations' theta has shape \(1, 1\); it must be \(N, 2\)",
        ),
        ({"evaluations": (*ONE, np.ones((1, 2)), 0.1)}, ValueError, "evaluations has noise sds"),
        ({"evaluations": (*ONE, np.ones((1, 2))), "budget": 0}, ValueError, "which count in it"),
    ],
)
def test_what_has_no_place_is_named_before_any_work(options, error, message):
    with pytest.raises(error, match=message):
        bqvi.fit.steps(MODEL, **({"method": "bq"} | options))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lower": 0.0}, "plausible_lower of x0 is missing"),
        ({"lower": [0.0, 0.0, 0.0], "upper": 1.0}, "lengths disagree: lower 3, dimension 2"),
        ({"lower": {"a": 0.0, "b": 0.0}, "upper": {"a": 1.0}}, "upper has a, and lacks b"),
        (
            {"lower": {"a": 0.0, "b": 0.0}, "upper": {"a": 1.0, "c": 2.0}},
            "upper has c; the parameters are a, b",
        ),
        ({"lower": {"a": 0.0, "b": [0.0, 1.0]}}, "the lengths disagree"),
    ],
)
def test_bounds_that_are_not_those_of_the_parameters_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        LogJoint(log_gamma, 2, **given)


@pytest.mark.parametrize("gradient", ["autodiff", None])
def test_a_q_that_diverges_is_reported(gradient):
    """-theta_0^2 in two dimensions is improper: the ELBO has no maximum."""

    def improper(theta):
        return -(theta[0] ** 2)

    model = LogJoint(improper, 2, gradient=gradient, vectorised=False)
    with pytest.warns(UserWarning, match="q diverges"):
        found = bqvi.fit(model, method="bq", budget=40)
    assert "0% of the curvature" in found.warnings[0]
    proper = LogJoint(lambda theta: -(theta[0] ** 2) - 1e-4 * theta[1] ** 2, 2, vectorised=False)
    assert bqvi.fit(proper, method="bq", budget=100).warnings == ()


@pytest.mark.parametrize("gradient", ["autodiff", None])
@pytest.mark.parametrize("budget", [40, 100])
def test_a_q_that_still_moves_is_reported(gradient, budget):
    """theta_0 + 2 theta_1 rises without end; a Gaussian 100 standard deviations away is found at once."""
    rising = LogJoint(lambda t: t[0] + 2.0 * t[1], 2, gradient=gradient, vectorised=False)
    with pytest.warns(UserWarning, match="q still moves") as told:
        bqvi.fit(rising, method="bq", budget=budget, tolerance=None)
    (moving,) = (str(one.message) for one in told if "q still moves" in str(one.message))
    named = moving.split("(")[1].split(")")[0]
    axis = np.array([float(entry) for entry in named.split(", ")])
    assert axis @ [1.0, 2.0] > 0.7 * np.sqrt(5.0)  # an axis of q, upwards: one of two is that near the slope
    far = LogJoint(lambda t: -0.5 * ((t - 100.0) ** 2).sum(), 2, gradient="autodiff", vectorised=False)
    assert bqvi.fit(far, method="bq", budget=budget, tolerance=None).warnings == ()


def test_a_log_evidence_that_q_does_not_cover_is_reported():
    """N(1, 1) cut at 0, times exp(2 cos theta_1)."""

    def log_joint(theta):
        return -0.5 * (theta[..., 0] - 1.0) ** 2 + 2.0 * torch.cos(theta[..., 1])

    box = {"lower": [0.0, -np.pi], "upper": [np.inf, np.pi], "periodic": [1]}
    plausible = {"plausible_lower": [0.1, -1.0], "plausible_upper": [1.0, 1.0]}
    found = bqvi.fit(LogJoint(log_joint, 2, **box, **plausible), method="bq", budget=40)
    with pytest.warns(UserWarning, match="q does not cover the posterior") as told:
        assert found.pareto_k > 0.7
    assert found.warnings == (str(told[0].message),)
    assert f"Pareto k = {found.pareto_k:.2f}, above 0.7" in found.warnings[0]
    assert told[0].filename == __file__
    covered = bqvi.fit(LogJoint(lambda theta: -0.5 * (theta**2).sum(-1), 2), method="bq", budget=40)
    assert covered.warnings == ()
    assert covered.pareto_k < 0.7


@pytest.mark.parametrize(("method", "steps"), [("pathwise", 40), ("score", 40), ("score", 20)])
def test_a_q_across_four_modes_does_not_diverge(method, steps):
    """After 40 steps q extends past the modes; after 20 it does not yet, and the log joint rises on both
    sides.
    """
    centres = 5.0 * np.random.default_rng(2).standard_normal((4, 3))

    def log_joint(t):
        return scipy.special.logsumexp(-0.5 * ((t[:, None] - centres) ** 2).sum(-1), axis=1)

    def gradient(t):
        gaps = t[:, None] - centres
        return -(scipy.special.softmax(-0.5 * (gaps**2).sum(-1), axis=1)[..., None] * gaps).sum(1)

    model = LogJoint(log_joint, 3, gradient=gradient)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        start = Gaussian(np.zeros(3), np.eye(3))  # a search would end at one of the modes
        found = bqvi.fit(model, method=method, steps=steps, seed=2, start_from=start)
    assert np.sqrt(np.linalg.eigvalsh(found.q.covariance)[-1]) > 2.3  # past one mode's width
    assert [str(one.message)[:15] for one in told] == (["q still widens:"] if steps == 20 else [])


@pytest.mark.parametrize("method", ["pathwise", "score"])
def test_a_q_that_diverges_is_reported_by_methods_that_keep_no_evaluations(method):
    """For -theta_0^2 as above; a correlated Gaussian and a funnel are proper, and nothing is reported."""
    calls = []

    def improper(theta):
        calls.extend(theta)
        return -(theta[:, 0] ** 2)

    start = Gaussian(np.zeros(2), np.eye(2))  # from which steps are Adam's
    with pytest.warns(UserWarning, match="q diverges"):
        found = bqvi.fit(
            LogJoint(improper, 2), method=method, steps=120, samples=2, budget=200, start_from=start
        )
    assert found.n_evaluations == len(calls) <= 200
    for proper in (
        lambda t: -(t[:, 0] ** 2) - t[:, 0] * t[:, 1] - t[:, 1] ** 2,
        lambda t: -(t[:, 0] ** 2) / 4 - t[:, 0] / 2 - t[:, 1] ** 2 * (-t[:, 0]).exp() / 2,
    ):
        assert bqvi.fit(LogJoint(proper, 2), method=method, steps=50, samples=2).warnings == ()


@pytest.mark.parametrize("method", ["dreg", "iwae", "pathwise", "score"])
def test_a_log_joint_that_rises_without_end_is_a_reason_not_to_have_converged(method):
    """3 theta_0 - theta_1^2 has no integral; 'score' ends where a standard deviation is lost in rounding."""
    rising = LogJoint(lambda t: 3.0 * t[:, 0] - t[:, 1] ** 2, 2)
    with pytest.warns(UserWarning, match="improper"):
        found = bqvi.fit(rising, method=method, budget=600, seed=1)
    assert not found.converged
    assert "improper" in " ".join(found.reasons)


@pytest.mark.parametrize(("method", "dimension"), [("dreg", 3), ("iwae", 3), ("pathwise", 6)])
def test_one_wrong_entry_of_a_gradient_is_a_reason_not_to_have_converged(method, dimension):
    """An entry 1.3 times the derivative of a quartic; with the right one nothing is said."""
    centre = np.random.default_rng(5).normal(size=dimension)

    def log_joint(t):
        return -np.square(t - centre).sum(-1) - 0.1 * np.power(t - centre, 4).sum(-1)

    def gradient(t, factor):
        entries = -2.0 * (t - centre) - 0.4 * np.power(t - centre, 3)
        entries[:, 1] *= factor
        return entries

    for factor, said in ((1.0, False), (1.3, True)):
        model = LogJoint(log_joint, dimension, gradient=functools.partial(gradient, factor=factor))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = bqvi.fit(model, method=method, budget=1200, tolerance=0.1, seed=3)
        assert ("Gradients disagree with the values" in " ".join(found.reasons)) == said
        assert not (said and found.converged)


@pytest.mark.parametrize(("method", "budget"), [("dreg", 1200), ("iwae", 1200), ("pathwise", 720)])
def test_tests_of_convergence_leave_the_evaluations_that_are_reserved(method, budget):
    """A test that counts them as its own has fewer values than draws."""
    model = LogJoint(lambda t: -np.square(t).sum(-1), 3, gradient=lambda t: -2.0 * t)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = bqvi.fit(model, method=method, budget=budget, tolerance=0.1, seed=budget)
    assert found.n_evaluations <= budget
