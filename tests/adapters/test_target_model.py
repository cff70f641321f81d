"""A `TargetModel` instead of a log joint: front doors give the same results as for the function."""

import dataclasses

import numpy as np
import pytest
import scipy.stats
import torch
from adapter_models import X, Y, check, log_lkj, regression, regression_evidence

import bqvi
from bqvi.adapters import TargetModel, from_torch
from bqvi.adapters.pymc_model import log_normaliser
from bqvi.adapters.variables import start_within
from bqvi.calls import Caller
from bqvi.calls.target_model import Rounded, rounded
from gp.measures import Gaussian

LOG_NORMALISER = np.log(2 * np.pi)
LOW, HIGH = np.array([-2.0, -1.5]), np.array([2.0, 2.5])


def value(theta):
    return -0.5 * float(theta @ theta) - LOG_NORMALISER


def both(theta):
    return value(theta), -theta


def gaussian(**others):
    """N(0, I) as the log joint of a model with one variable "pair" and a function of this variable."""
    return TargetModel(
        value,
        ("pair[0]", "pair[1]"),
        both,
        plausible_lower=LOW,
        plausible_upper=HIGH,
        to_named=lambda theta: {"pair": theta, "total": theta.sum(axis=1)},
        from_named=lambda values: np.asarray(values["pair"]),
        coords={"side": ["left", "right"]},
        dims={"pair": ("side",)},
        observed={"y": np.arange(3.0)},
        **others,
    )


def test_evidence_bounds_find_what_they_find_of_the_function():
    proposal = Gaussian(np.zeros(2), 4.0 * np.eye(2))
    ours = bqvi.evidence_bounds(gaussian(), proposal, 2_000, seed=1)
    theirs = bqvi.evidence_bounds(
        value, proposal, 2_000, gradient=lambda theta: -theta, vectorised=False, seed=1
    )
    assert abs(ours.lower - theirs.lower) < 1e-8
    with pytest.raises(ValueError, match="gradient is given beside a TargetModel"):
        bqvi.evidence_bounds(gaussian(), proposal, gradient="autodiff")
    with pytest.raises(ValueError, match="is one problem"):
        bqvi.evidence_bounds(gaussian(), [proposal] * 2)
    with pytest.raises(ValueError, match=r"over R\^3; the model, or the prior, is one problem of 2"):
        bqvi.evidence_bounds(gaussian(), Gaussian(np.zeros(3), np.eye(3)))


def summed(order):
    """The log joint and gradient of a regression, whose terms are added in this order, as packages do."""
    x, y = np.linspace(-1.0, 1.0, 7), np.array([0.3, -0.2, 0.9, 1.4, 1.1, 2.0, 2.3])

    def log_joint(theta):
        gap = (y - theta[0] - theta[1] * x)[order]
        return float(np.sum(-0.5 * gap * gap)) - 0.5 * float(theta @ theta)

    def gradient(theta):
        gap = (y - theta[0] - theta[1] * x)[order]
        return np.array([gap.sum(), gap @ x[order]]) - theta

    return log_joint, gradient


def test_terms_in_another_order_give_the_same_run_to_the_digit():
    """Rounded log joints are equal, although the log joints themselves differ in their last digits."""
    orders = np.arange(7), np.array([6, 1, 4, 0, 5, 2, 3])
    (first, slope), (second, other) = map(summed, orders)
    rng = np.random.default_rng(0)
    points = rng.standard_normal((40, 2))
    assert any(first(point) != second(point) for point in points)
    runs = [
        bqvi.vbmc(TargetModel(one, 2, lambda t, one=one, of=of: (one(t), of(t))), budget=20, seed=1)
        for one, of in ((first, slope), (second, other))
    ]
    assert runs[0].log_evidence == runs[1].log_evidence
    np.testing.assert_array_equal(runs[0].theta, runs[1].theta)


def test_numbers_are_rounded_relative_to_their_row():
    numbers = np.array([np.pi, -1e6 * np.pi, 1e-3 * np.pi, -np.inf, np.nan, 0.0])
    made = rounded(numbers)
    assert (np.abs(made[:3] - numbers[:3]) <= 2.0**-34 * np.array([4.0, 2.0**22, 2.0]) / 2).all()
    np.testing.assert_array_equal(made[3:], numbers[3:])
    assert (made[:3] != numbers[:3]).all()
    np.testing.assert_array_equal(rounded(made), made)
    row = rounded(np.array([[1e6 * np.pi, np.pi], [np.nan, np.pi]]), rows=True)
    assert abs(row[0, 1] - np.pi) > abs(row[1, 1] - np.pi) > 0.0


def test_what_else_a_log_joint_returns_is_not_rounded():
    told = {"note": "kept"}
    for found in ((1.0 / 3.0, 0.1), (1.0 / 3.0, told), (1.0 / 3.0, 0.1, told)):
        made = Rounded(lambda theta, found=found: found)(0.0)
        assert made[1:] == found[1:]
        assert 0.0 < abs(made[0] - 1.0 / 3.0) < 1e-10
    for odd in (None, "text", 1, (), np.float32(0.1)):
        assert Rounded(lambda theta, odd=odd: odd)(0.0) is odd
        assert Rounded(lambda theta, odd=odd: odd, True)(0.0) is odd


def test_vbmc_begins_around_the_start_whatever_is_known_of_the_prior():
    """PyMC and NumPyro tell of the prior, by draws of their own; Stan does not."""
    told = TargetModel(value, ("a", "b"), both, prior_box=(10.0 * LOW, 9.0 * HIGH), start=np.zeros(2))
    plain = TargetModel(value, ("a", "b"), both)
    first, second = (bqvi.vbmc(model, budget=9, seed=0) for model in (told, plain))
    np.testing.assert_array_equal(first.theta, second.theta)


def test_a_run_begins_at_zero_where_the_prior_contains_it():
    low, high = np.array([-1.0, 3.0, -9.0]), np.array([2.0, 5.0, -1.0])
    np.testing.assert_array_equal(start_within(low, high), [0.0, 4.0, -5.0])


@pytest.mark.parametrize("vectorised", [False, True])
def test_fit_and_integrate_find_the_evidence(vectorised):
    model = gaussian()
    if vectorised:
        model = dataclasses.replace(
            model,
            log_joint=lambda theta: -0.5 * (theta**2).sum(axis=1) - LOG_NORMALISER,
            log_joint_and_gradient=lambda theta: (-0.5 * (theta**2).sum(axis=1) - LOG_NORMALISER, -theta),
            vectorised=True,
        )
    fit = bqvi.fit(model, method="bq", budget=15, seed=0)
    assert abs(fit.log_evidence) < 1e-3
    assert fit.posterior.variables(4, 0)["pair"].shape == (4, 2)
    fit = bqvi.fit(model, method="pathwise", steps=3, samples=2, seed=0)
    assert fit.posterior.model is model
    integral = bqvi.integrate(model, budget=16, seed=0)
    assert abs(integral.log_mean) < 2 * integral.log_sd + 1e-6


def test_value_and_gradient_are_one_call():
    calls = []

    def counted(theta):
        calls.append(theta)
        return both(theta)

    model = dataclasses.replace(gaussian(), log_joint_and_gradient=counted)
    made = Caller(model.function()).evaluate(np.array([[1.0, 2.0], [0.5, 0.0], [0.0, 0.0]]))
    assert len(calls) == 3
    np.testing.assert_array_equal(made.gradients, [[-1.0, -2.0], [-0.5, 0.0], [0.0, 0.0]])
    assert abs(made.values[0] - value(np.array([1.0, 2.0]))) < 1e-9


def test_points_alone_and_together():
    model = gaussian()
    theta = np.array([[1.0, 2.0], [0.5, 0.0]])
    np.testing.assert_array_equal(model.value(theta), [model.value(point) for point in theta])
    np.testing.assert_array_equal(model.value_and_gradient(theta)[1], -theta)
    assert model.constrain(theta[0])["total"] == 3.0
    np.testing.assert_array_equal(model.unconstrain(model.constrain(theta[1])), theta[1])
    plain = TargetModel(value, ["a", "b"])
    np.testing.assert_array_equal(plain.unconstrain({"b": 2.0, "a": 1.0}), [1.0, 2.0])
    assert [one.has_gradient for one in (model, model.without_gradient(), plain)] == [True, False, False]
    np.testing.assert_array_equal(plain.plausible_upper, [2.0, 2.0])


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"lower": [0, 0]}, "lower is given beside a TargetModel.*unconstrained"),
        ({"gradient": "autodiff"}, r"gradient is given beside.*without_gradient\(\)"),
        ({"prior": [scipy.stats.norm()] * 2}, "prior is given beside"),
        ({"noise_sd": 1.0}, "noise_sd is given beside"),
        ({"periodic": [0]}, "periodic is given beside"),
    ],
)
def test_what_a_model_says_itself_is_not_given_beside_it(others, message):
    with pytest.raises(ValueError, match=message):
        bqvi.vbmc(gaussian(), **others)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: TargetModel("f", ("a",)), TypeError, "log_joint is 'f'"),
        (lambda: TargetModel(value, ()), ValueError, "names is empty"),
        (lambda: TargetModel(value, ("a", "a")), ValueError, "must differ"),
        (lambda: TargetModel(value, 0), ValueError, "names is empty"),
        (lambda: TargetModel(value, 2, start=[0, 0, 0]), ValueError, r"start has shape \(3,\)"),
        (lambda: TargetModel(value, 2, start=[0, np.nan]), ValueError, "not finite"),
        (lambda: TargetModel(value, 1, plausible_lower=1, plausible_upper=0), ValueError, "must be below"),
        (lambda: gaussian().value([1.0]), ValueError, r"theta has shape \(1,\)"),
        (lambda: gaussian().unconstrain({"total": 1.0}), ValueError, "it lacks pair"),
        (lambda: gaussian().without_gradient().value_and_gradient([0, 0]), ValueError, "no gradient"),
        (lambda: from_torch(value), TypeError, "must be a torch.nn.Module"),
        (lambda: from_torch(torch.nn.Identity()), ValueError, "no parameters"),
        (
            lambda: from_torch(linear(1)),
            ValueError,
            r"module.double\(\)",
        ),
    ],
)
def test_bad_models_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


def linear(n):
    """Weights (n, n) and n offsets, all zero, so that torch's generator is not used."""
    layer = torch.nn.utils.skip_init(torch.nn.Linear, n, n)
    for x in layer.parameters():
        x.data.zero_()
    return layer


class Regression(torch.nn.Module):
    """Its parameters are a, b and ln s."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.log_s = (
            torch.nn.Parameter(torch.zeros((), dtype=torch.float64)) for _ in range(3)
        )

    def forward(self, x, y):
        normal = torch.distributions.Normal
        prior = normal(0.0, 2.0).log_prob(self.a) + normal(0.0, 2.0).log_prob(self.b)
        prior = prior + normal(0.0, 1.0).log_prob(self.log_s)
        return prior + normal(self.a + self.b * x, self.log_s.exp()).log_prob(y).sum()


def test_a_torch_module():
    module = Regression()
    model = from_torch(module, torch.as_tensor(X), y=torch.as_tensor(Y))
    assert model.names == ("a", "b", "log_s")

    def variables(theta):
        found = model.constrain(theta)
        return {"a": found["a"], "b": found["b"], "s": np.exp(found["log_s"])}

    check(model, regression, variables, ["a", "b", "s"])
    fit = bqvi.fit(model, method="bq", budget=40, seed=0)
    assert abs(fit.log_evidence - regression_evidence()) < 2 * fit.log_evidence_sd
    assert module.a.item() == 0.0
    with pytest.raises(TypeError, match="one number"):
        from_torch(linear(2).double(), torch.zeros(3, 2).double()).value(np.zeros(6))


def test_the_normaliser_of_lkj_by_a_sum_over_a_grid():
    """The integral of |R|^(eta - 1) over three correlations for which R is positive definite."""
    grid = (np.arange(80) + 0.5) / 40 - 1.0
    a, b, c = np.meshgrid(grid, grid, grid, indexing="ij")
    determinant = 1 + 2 * a * b * c - a**2 - b**2 - c**2
    inside = determinant > 0
    for eta in (2.0, 3.5):
        found = np.log((determinant[inside] ** (eta - 1)).sum() * 0.025**3)
        assert abs(log_normaliser(3, eta) - found) < 1e-3
    assert abs(log_lkj(np.eye(3), 2.5) + log_normaliser(3, 2.5)) < 1e-12
