"""Estimators that average over draws of q keep the promises of calls: one policy, one ledger, one budget.

The oracles are log joints that count themselves, also across processes, and finite differences.
"""

import itertools
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
import torch

import bqvi
from acquisition.minibatch import Saga, Uniform
from bqvi.calls import EvaluationError, make_coordinates
from bqvi.families import Gaussian
from bqvi.gradients import Batch, Pathwise, Score
from bqvi.models import LogJoint

METHODS = ("score", "pathwise", "iwae", "dreg")
X = np.random.default_rng(3).normal(1.0, 1.0, (40, 1))
START = {"start_from": Gaussian(np.zeros(1), np.eye(1))}
"""A start that is given, so that the run does not look for the mode."""
BOX = {"lower": 0.0, "plausible_lower": 0.5, "plausible_upper": 4.0}


class Mean:
    """The mean of normal data; ``changed`` changes its terms (L, S), at the call of this number."""

    def __init__(self, changed=None, at=1, prior=lambda theta: -0.5 * theta[:, 0] ** 2):
        self.changed, self.at, self.prior = changed, at, prior
        self.calls, self.returned = 0, 0

    def check(self, data):
        return torch.as_tensor(data)

    def initial(self, data, how, rng):
        return Gaussian(np.zeros(1), np.eye(1))

    def log_prior(self, theta):
        return self.prior(theta)

    def log_likelihood_terms(self, theta, rows):
        self.calls += 1
        terms = -0.5 * (rows[:, 0] - theta) ** 2
        if self.changed is not None and self.calls == self.at:
            terms = self.changed(terms, theta)
        if torch.is_tensor(terms) and terms.shape == (
            len(theta),
            len(rows),
        ):  # other results are no evaluations
            self.returned += len(theta) * len(rows)
        return terms


def raising(error):
    def changed(terms, theta):
        raise error

    return changed


def with_one(value):
    """Terms of which the last draw's at row 3 is ``value``."""

    def changed(terms, theta):
        own = terms.clone()
        own[-1, 3] = value
        return own

    return changed


def without_slope(terms, theta):
    return terms + 0.0 * torch.sqrt(torch.abs(theta - theta.detach()))


@cache
def whole_mean(method, minibatch):
    """Of the q of a run that never failed."""
    return bqvi.fit(Mean(), X, method, minibatch=minibatch, steps=5, **START).q.mean


@pytest.mark.parametrize(
    ("method", "minibatch"),
    [(method, size) for method in METHODS for size in (None, 8)] + [("pathwise", "balanced")],
)
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (with_one(np.nan), r"of the Mean is nan at x0 = .*, where the terms of 1 of \d+ data .*\(rows 3 of"),
        (
            with_one(-np.inf),
            r"is -inf at x0 = .* mean over draws of q has no place .* with one at -inf it is -inf",
        ),
        (with_one(np.inf), "is inf at x0 = "),
        (raising(ValueError("outside")), "raised ValueError: outside, at .*x0 = .*mean over draws of q"),
        (
            raising(NameError("thetta")),
            "log_likelihood_terms of the Mean raised NameError.*error of its code",
        ),
        (
            lambda terms, theta: terms.T[:, :1],
            r"returned a tensor of shape .*; it must return a torch tensor",
        ),
        (
            lambda terms, theta: terms.detach().numpy(),
            "returned a ndarray at .* draws; it must return a torch",
        ),
    ],
)
def test_a_model_with_data_names_the_draw_and_the_rows(changed, message, method, minibatch):
    model = Mean(changed, at=2)
    with pytest.raises(bqvi.RunError, match=message) as caught:
        bqvi.fit(model, X, method, minibatch=minibatch, steps=5, **START)
    cause = caught.value.__cause__
    assert isinstance(cause, EvaluationError)
    assert caught.value.state.iteration == 1
    assert caught.value.n_evaluations == model.returned
    if cause.no_value:
        assert cause.point.shape == (1,)
        assert f"x0 = {cause.point[0]:.6g}" in str(cause)
    # the state is usable: with the model mended the run goes on to the numbers of one that never failed
    found = bqvi.fit(Mean(), X, method, minibatch=minibatch, steps=5, resume=caught.value, **START)
    np.testing.assert_array_equal(found.q.mean, whole_mean(method, minibatch))


def steep(terms, theta):
    """Terms of which those of row 3 have the slope -inf at the first draw, and finite values."""
    own = terms.clone()
    own[0, 3] = own[0, 3] - torch.sqrt(theta[0, 0] - theta[0, 0].detach())
    return own


@pytest.mark.parametrize("changed", [without_slope, steep])
@pytest.mark.parametrize(
    ("method", "minibatch", "options"),
    [(method, size, {}) for method in ("pathwise", "iwae", "dreg") for size in (None, 8)]
    + [("pathwise", strategy, {}) for strategy in ("balanced", Saga(Uniform(8)))]
    + [(Pathwise(3, errors=True), None, {}), (Pathwise(3, entropy="sampled"), "balanced", {})],
)
def test_a_gradient_that_is_not_finite_names_the_draw(method, minibatch, options, changed):
    model = Mean(changed, at=2)
    with pytest.raises(
        bqvi.RunError, match=r"the gradient of the log joint of the Mean is not finite at x0 = "
    ) as caught:
        bqvi.fit(model, X, method, minibatch=minibatch, steps=3, **START, **options)
    assert caught.value.state.iteration == 1
    assert caught.value.n_evaluations == model.returned
    assert f"x0 = {caught.value.__cause__.point[0]:.6g}" in str(caught.value.__cause__)


@pytest.mark.parametrize("method", METHODS)
def test_the_prior_of_a_model_with_data_is_tested_too(method):
    for prior, message in (
        (lambda theta: torch.zeros(()), r"log_prior of the Mean returned a tensor of shape \(\)"),
        (lambda theta: theta[:, 0] / 0, "log_prior|is -?inf at x0 = "),
        (raising(KeyError("scale")), "log_prior of the Mean raised"),
    ):
        with pytest.raises(bqvi.RunError, match=message):
            bqvi.fit(Mean(prior=prior), X, method, steps=3)


@pytest.mark.parametrize("method", METHODS)
def test_a_density_that_ends_is_an_error_and_bounds_mend_it(method):
    """The gradient of a draw at -inf is zero under 'pathwise', which does not notice that q is too wide."""

    def log_joint(theta):
        x = theta[:, 0]
        return torch.where(x > 0.0, 3.0 * torch.log(x.clamp(min=1e-300)) - 2.0 * x, -torch.inf)

    with pytest.raises(
        bqvi.RunError, match=r"the log joint is -inf at x0 = -.*give bounds where the density"
    ):
        bqvi.fit(LogJoint(log_joint, 1), method=method, steps=50)
    found = bqvi.fit(LogJoint(log_joint, 1, **BOX), method=method, steps=300, samples=20)
    # E_q[x] = a / b where the ELBO of a log-normal q is stationary; the bound of IWAE is another one
    assert abs(found.posterior.mean[0] - 2.0) < (0.3 if method in ("score", "pathwise") else 1.5)


@pytest.mark.parametrize("estimator", [Score(6), Pathwise(6), Pathwise(6, entropy="sticking-the-landing")])
@pytest.mark.parametrize("vectorised", [True, False])
def test_a_log_joint_with_bounds_has_the_gradient_of_the_composed_function(estimator, vectorised):
    """The composed function is of NumPy, and its gradient is by central differences."""
    coordinates = make_coordinates(0.0, None, 0.5, 4.0, dimension=1)

    def value(theta):
        return 3.0 * np.log(theta[:, 0]) - 2.0 * theta[:, 0]

    def composed(v):
        return value(coordinates.to_user(v)) + coordinates.log_jacobian(v)

    def slope(v):
        return (composed(v + 1e-5) - composed(v - 1e-5))[:, None] / 2e-5

    def of_torch(theta):
        return 3.0 * torch.log(theta[..., 0]) - 2.0 * theta[..., 0]

    q = Gaussian(np.array([0.2]), np.array([[0.3]]))
    inside = LogJoint(of_torch, 1, vectorised=vectorised).within(coordinates, bqvi.Run())
    found = estimator(inside, q, Batch(None, 0), np.random.default_rng(5))
    expected = estimator(LogJoint(composed, 1, gradient=slope), q, Batch(None, 0), np.random.default_rng(5))
    for a, b in zip(found.values, expected.values, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7)
    assert found.bound == pytest.approx(expected.bound, rel=1e-12)


class Tally:
    """A log joint that counts its calls in a file, one byte each, from any process."""

    def __init__(self, path):
        self.path = str(path)

    def __call__(self, theta):
        with open(self.path, "ab") as file:
            file.write(b".")
        return float(-0.5 * (theta**2).sum())

    def slope(self, theta):
        return -theta

    @property
    def count(self):
        with open(self.path, "rb") as file:
            return len(file.read())


OPTIONS = (
    {},
    {"record": bqvi.Record(1, elbo_samples=3)},
    {"starts": 3, "start_from": "random"},
    {"starts": 2, "start_from": "random", "record": bqvi.Record(2, elbo_samples=2)},
)
WAYS = [
    *itertools.product([*METHODS, "bq"], OPTIONS, ["alone"]),
    *itertools.product([*METHODS, "bq"], (OPTIONS[0], OPTIONS[3]), ["threads", "bounds"]),
    *itertools.product(("score", "bq"), OPTIONS[:1], ["jobs"]),
]


@pytest.mark.parametrize(("method", "options", "how"), WAYS)
def test_no_call_exceeds_the_budget_however_calls_are_made(method, options, how, tmp_path):
    for budget in (30,) if how == "jobs" else (11, 30):
        tally = Tally(tmp_path / str(budget))
        box = BOX if how == "bounds" else {}
        model = LogJoint(tally, 1, gradient=tally.slope, vectorised=False, **box)
        with ThreadPoolExecutor(2) as threads:
            runs = {"jobs": bqvi.Run(n_jobs=2), "threads": bqvi.Run(executor=threads)}
            way = {"run": runs.get(how, bqvi.Run())}
            found = bqvi.fit(model, method=method, budget=budget, seed=1, **way, **options)
            assert tally.count == found.n_evaluations <= budget
            more = bqvi.fit(model, method=method, budget=budget + 13, resume=found, seed=1, **way, **options)
        assert tally.count == more.n_evaluations <= budget + 13


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "options", [{}, {"minibatch": 7}, {"minibatch": 7, "starts": 2}, {"record": bqvi.Record(elbo_samples=2)}]
)
def test_the_terms_of_a_model_with_data_stay_within_the_budget(method, options):
    for budget in (130, 400, 1000):
        model = Mean()
        found = bqvi.fit(model, X, method, budget=budget, seed=1, **options)
        assert model.returned == found.n_evaluations <= budget
        more = bqvi.fit(model, X, method, budget=budget + 333, seed=1, resume=found, **options)
        assert model.returned == more.n_evaluations <= budget + 333


def test_a_start_without_a_value_does_not_end_the_others():
    """The log joint is NaN left of zero, where one of the starts is."""

    def log_joint(theta):
        return torch.where(theta[:, 0] > 0.0, -0.5 * (theta[:, 0] - 9.0) ** 2, torch.nan)

    q = {"start_from": "random", "seed": 0, "steps": 4, "schedule": bqvi.Constant(1e-6), "family": "point"}
    found = bqvi.fit(LogJoint(log_joint, 1), method="pathwise", starts=6, **q)
    assert np.isnan(found.start_elbos).any()
    assert np.isfinite(found.elbo)
    run = bqvi.Run(errors="raise")
    with pytest.raises(bqvi.RunError, match="the log joint is nan at x0 = -"):
        bqvi.fit(LogJoint(log_joint, 1), method="pathwise", starts=6, run=run, **q)


@pytest.mark.parametrize("method", ["pathwise", "iwae", "dreg", Pathwise(4)])
def test_a_log_joint_of_values_is_refused_before_any_work(method):
    calls = []
    model = LogJoint(lambda t: calls.append(t) or np.zeros(len(t)), 2, gradient=None)
    with pytest.raises(ValueError, match="values only; give it gradient"):
        bqvi.fit.steps(model, method=method, steps=2)
    assert not calls


@pytest.mark.parametrize("method", METHODS)
def test_networks_of_a_user_are_named(method):
    class Broken(bqvi.models.VariationalAutoencoder):
        def conditional_terms(self, q, z, rows, rng):
            raise ValueError("no decoder")

    model = Broken(latent=1, dimension=2, hidden=3)
    with pytest.raises(bqvi.RunError, match="conditional_terms of the Broken raised ValueError: no decoder"):
        bqvi.fit(model, np.zeros((9, 2)), method, steps=2)


def test_a_budget_without_a_step_is_said():
    with pytest.warns(UserWarning, match="No step was taken, as one needs more evaluations"):
        found = bqvi.fit(LogJoint(lambda t: -(t**2).sum(1), 2), method="score", budget=1)
    assert found.n_evaluations == 0
    assert found.warnings


def test_of_many_parameters_the_first_are_named():
    with pytest.raises(
        bqvi.RunError, match=r"is nan at x0 = [^=]*, x1 = .*, x7 = [-.\d]+, ... \(300 parameters\)"
    ):
        bqvi.fit(LogJoint(lambda t: t.sum(1) * np.nan, 300), method="score", budget=20)


@pytest.mark.parametrize("method", METHODS)
def test_noisy_values_are_not_compared_with_their_gradients(method):
    rng = np.random.default_rng(4)

    def noisy(theta):
        return -0.5 * float(theta @ theta) + 0.5 * rng.standard_normal(), 0.5

    model = LogJoint(noisy, 2, vectorised=False, gradient=lambda theta: -theta)
    found = bqvi.fit(model, method=method, steps=60, seed=0)  # with checks of gradients
    assert found.state.iteration == 60
