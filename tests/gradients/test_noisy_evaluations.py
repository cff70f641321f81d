"""Noise of known size in values and gradients: dense regressions, statistics of whole runs, messages."""

import numpy as np
import pytest
from gradient_cases import between
from numpy.testing import assert_allclose

import bqvi
from bqvi.families import Gaussian
from bqvi.gradients.surrogates import Observed, OnFunction, OnGradients
from bqvi.gradients.whitened import WhitenedFrame
from bqvi.models import LogJoint
from gp.evidence import LogPosterior

RNG = np.random.default_rng(3)
U, Y = 0.6 * RNG.standard_normal((12, 2)), RNG.standard_normal((12, 3))
SCALE = 0.4
LOGS = np.log([1.5, 0.2, 0.1, SCALE])
FRAME = WhitenedFrame(np.zeros(2), np.array([[0.5, 0.0], [0.3, 1.2]]), False)


def dense(kernel, targets, variances, basis=None):
    """K^-1 (Y - b c) of s^2 K_0 + V, by one solve, times s^2."""
    gram = SCALE * between(kernel, U, U) + np.diag(variances)
    if basis is not None:
        solved = np.linalg.solve(gram, np.column_stack([targets, basis]))
        level = (basis @ solved[:, 0]) / (basis @ solved[:, 1])
        return SCALE * (solved[:, 0] - level * solved[:, 1])
    return SCALE * np.linalg.solve(gram, targets)


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("gradients", [True, False])
def test_a_function_with_known_noise_is_that_of_a_dense_regression(values, gradients):
    if not (values or gradients):
        pytest.skip("nothing is observed")
    kind = OnFunction(values, gradients)
    y = Y[:, 0 if values else 1 : None if gradients else 1]
    noise = RNG.uniform(0.1, 0.5, y.shape)
    process = kind.process(Observed(U, y, noise), LOGS)
    jitter = SCALE * process.given.noise(U).repeat(y.shape[1])
    basis = process.given.kernel.constant(process.given.points)
    expected = dense(process.given.kernel, y.reshape(-1), noise.reshape(-1) + jitter, basis)
    assert_allclose(process.given.weights.reshape(-1), expected, rtol=1e-8)
    first = kind.process(Observed(U[:8], y[:8], noise[:8]), LOGS)
    extended = first.extended(U[8:], y[8:], noise[8:] / SCALE)
    assert_allclose(extended.given.weights, process.given.weights, rtol=1e-8)


def test_gradients_with_known_noise_are_those_of_a_dense_regression():
    kind, noise = OnGradients(), RNG.uniform(0.1, 0.5, len(U))
    logs = np.append(np.log([1.5, 0.2, 0.1, 0.05]), LOGS[-1])
    process = kind.process(Observed(U, Y[:, 1:], noise), logs)
    jitter = SCALE * process.given.noise(U)
    assert_allclose(process.given.weights, dense(process.given.kernel, Y[:, 1:], noise + jitter), rtol=1e-8)


def test_noise_in_the_units_of_q_is_that_of_turned_draws():
    """L^T e for e of variances V: 4e5 draws, relative standard error of a variance .0022."""
    variances = np.array([[0.3, 0.5, 2.0]])
    draws = np.random.default_rng(0).standard_normal((400_000, 2)) * np.sqrt(variances[:, 1:])
    turned = (draws @ FRAME.scale).var(0)
    assert_allclose(OnFunction().noise(FRAME, variances)[0], [0.3, *turned], rtol=0.012)
    assert_allclose(OnGradients().noise(FRAME, variances), turned.mean(), rtol=0.012)
    assert OnGradients().noise(FRAME, np.array([[0.3, 0.0, 0.0]])) is None


def test_hyperparameters_are_a_mode_of_the_evidence_with_the_scale(monkeypatch):
    """By central differences at the end of a search to a thousandth of a nat."""
    from bqvi.gradients import surrogates

    seen = []

    def searched(posterior, starts, bounds, asked):
        seen.append(posterior)
        from gp.search import Search, search

        return search(posterior, starts, bounds, Search(iterations=100, settled=1e-8, gained=1e-10))

    monkeypatch.setattr(surrogates, "search", searched)
    u = RNG.standard_normal((30, 2))
    y = np.sin(u) + 0.3 * RNG.standard_normal((30, 2))
    psi = OnGradients().fit(Observed(u, y, np.full(30, 0.09)), None)
    assert psi.shape == (5,)
    assert isinstance(seen[0], LogPosterior)
    slopes = [(seen[0].value(psi + h) - seen[0].value(psi - h)) / 2e-4 for h in 1e-4 * np.eye(5)]
    assert_allclose(slopes, 0.0, atol=0.02)


CENTRE = np.array([0.8, -0.5, 0.3])


def student(seed, sd, **noise):
    """A Student t with 5 degrees of freedom in three dimensions, with noise of sd."""
    rng = np.random.default_rng(seed)

    def log_prob(theta):
        squares = np.square(theta - CENTRE).sum(1)
        return -4.0 * np.log1p(squares / 5.0) + sd * rng.standard_normal(len(theta))

    def gradient(theta):
        gap = theta - CENTRE
        exact = -8.0 * gap / (5.0 + np.square(gap).sum(1, keepdims=True))
        return exact + sd * rng.standard_normal(theta.shape)

    return LogJoint(log_prob, 3, gradient=gradient, **noise)


def fitted(seed, **noise):
    start = Gaussian(np.zeros(3), np.eye(3))
    options = {"method": "bq", "start_from": start, "budget": 120, "tolerance": None, "seed": seed}
    return bqvi.fit(student(seed, 1.0, **noise), **options)


def test_runs_with_known_noise(tmp_path):
    """A mean of 120 gradients with noise of variance 1.4 in q's units is within .33 of zero, 3 sd."""
    found = fitted(0, noise_sd=1.0, gradient_noise_sd=1.0)
    assert np.square((found.q.mean - CENTRE) / 1.2).sum() < 3 * 0.33**2
    assert 0.03 < found.trace["elbo_sd"][-1] < 1.0
    assert found.warnings == ()
    found.save(tmp_path / "run.npz")
    model = student(0, 1.0, noise_sd=1.0, gradient_noise_sd=1.0)
    again = bqvi.fit(model, resume=tmp_path / "run.npz", method="bq", budget=120, tolerance=None)
    assert_allclose(again.q.mean, found.q.mean)
    assert_allclose(again.state.memory.noise_variances, 1.0)


def test_noise_that_the_log_joint_returns_is_used():
    rng = np.random.default_rng(0)

    def noisy(theta):
        return -0.5 * float(theta @ theta) + 0.5 * rng.standard_normal(), 0.5

    model = LogJoint(noisy, 2, vectorised=False, gradient=None)
    found = bqvi.fit(model, method="bq", budget=60, seed=1)
    assert_allclose(found.state.memory.noise_variances, 0.25)
    assert abs(found.elbo - np.log(2.0 * np.pi)) < 3.0 * found.trace["elbo_sd"][-1] + 0.2


@pytest.mark.parametrize(
    ("gradient", "noise", "message"),
    [
        (np.negative, {"noise_sd": 1.0}, "gradient_noise_sd was not"),
        (np.negative, {"gradient_noise_sd": 1.0}, "noise_sd was not"),
        (np.negative, {"noise_sd": 1.0, "gradient_noise_sd": [1.0, 2.0]}, r"a number or \(3,\)"),
        (np.negative, {"noise_sd": 1.0, "gradient_noise_sd": -1.0}, "not negative"),
        (np.negative, {"noise_sd": -1.0, "gradient_noise_sd": 1.0}, "noise_sd is -1.0"),
        (None, {"noise_sd": "unknown"}, "bqvi.vbmc fits it"),
        (None, {"noise_sd": 1.0, "gradient_noise_sd": 1.0}, "has no gradient"),
    ],
)
def test_noise_that_has_no_place_is_named(gradient, noise, message):
    with pytest.raises(ValueError, match=message):
        LogJoint(lambda t: -0.5 * np.square(t).sum(1), 3, gradient=gradient, **noise)


def test_noise_is_for_methods_that_keep_their_evaluations():
    noisy = LogJoint(lambda t: -0.5 * np.square(t).sum(1), 3, gradient=None, noise_sd=1.0)
    with pytest.raises(ValueError, match="it is for 'bq'"):
        bqvi.fit.steps(noisy, method="score")
