"""Sampling estimators: unbiased, by t-tests whose largest statistic errs with probability 1e-6.

References share nothing with the estimators: autodiff of the ELBO term by term (mixtures), central
differences of one-dimensional quadratures (logistic regression), product rules (Marginal, IWAE).
"""

from functools import cache

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from marginal_mixture import Marginal
from oracles import (
    bonferroni_t,
    gaussian_mixture_elbo,
    gaussian_mixture_responsibilities,
    leaf,
    tensor,
    z_scores,
)

from acquisition import minibatch
from bqvi.calls import EvaluationError
from bqvi.families import DiagonalGaussian, Dirichlet, Gaussian, Product
from bqvi.gradients import IWAE, Batch, DReG, Pathwise, Score
from bqvi.gradients.designs import AntitheticOrthogonal, Sobol
from bqvi.models import GaussianMixture, LogisticRegression, LogJoint

UNBIASED = {
    "score": Score(200),
    "score, analytic entropy": Score(200, entropy="analytic"),
    "score, no baseline": Score(200, baseline=False),
    "score, no baseline, analytic entropy": Score(200, baseline=False, entropy="analytic"),
    "pathwise": Pathwise(40),
    "pathwise, one draw": Pathwise(1),
    "pathwise, sampled entropy": Pathwise(40, "sampled"),
    "sticking the landing": Pathwise(40, "sticking-the-landing"),
    "IWAE of one draw": IWAE(1),
    "DReG of one draw": DReG(1),
}
each_estimator = pytest.mark.parametrize("estimator", UNBIASED.values(), ids=UNBIASED)


def flat(values):
    return np.concatenate([np.ravel(v) for v in values])


def repeated(estimator, model, q, batch, n=100, seed=0):
    """(n, P) gradients; ``batch`` may be a function of the generator."""
    rng = np.random.default_rng(seed)
    batches = (batch(rng) if callable(batch) else batch for _ in range(n))
    return np.stack([flat(in_coordinates(q, estimator(model, q, each, rng))) for each in batches])


def in_coordinates(q, gradient):
    """The derivative in u, of either kind of gradient."""
    return q.gradient_to_unconstrained(gradient.values) if gradient.natural else gradient.values


def assert_unbiased(draws, expected):
    assert z_scores(draws, expected).max() < bonferroni_t(len(expected), len(draws))


def differences(function, u, h=1e-4):
    """Fourth-order central differences of ``function`` of a tuple of arrays."""
    slopes = []
    for position, array in enumerate(u):
        slope = np.zeros(array.shape)
        for index in np.ndindex(array.shape):
            values = []
            for step in (-2.0 * h, -h, h, 2.0 * h):
                moved = array.copy()
                moved[index] += step
                values.append(function((*u[:position], moved, *u[position + 1 :])))
            slope[index] = (values[0] - 8.0 * values[1] + 8.0 * values[2] - values[3]) / (12.0 * h)
        slopes.append(slope)
    return tuple(slopes)


@pytest.fixture(scope="module")
def mixture():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 2)) * 2.0
    model = GaussianMixture(2, np.eye(2), concentration=0.7, prior_covariance=4.0 * np.eye(2))
    c = np.array([[0.5, 0.1], [0.1, 0.3]])
    q = Product(
        {
            "weights": Dirichlet(np.array([3.0, 1.5])),
            "means": Gaussian(rng.normal(size=(2, 2)), np.stack([c, 0.7 * c])),
        }
    )
    u = tuple(map(leaf, q.unconstrained))
    alpha = torch.exp(u[0])
    factor = torch.tril(u[2], -1) + torch.diag_embed(torch.exp(torch.diagonal(u[2], 0, -2, -1)))
    moments = alpha, u[1], factor @ factor.mT
    prior = tensor(model.concentration), tensor(model.prior_mean), tensor(model.prior_covariance)
    sigma = tensor(np.eye(2))
    r = gaussian_mixture_responsibilities(tensor(x), *moments, sigma)
    elbo = gaussian_mixture_elbo(tensor(x), r, *moments, *prior, sigma)
    return model, x, q, flat(torch.autograd.grad(elbo, u))


@each_estimator
def test_unbiased_on_a_conjugate_model(estimator, mixture):
    model, x, q, expected = mixture
    draws = repeated(estimator, model, q, Batch(x, len(x)))
    upper = np.abs(draws).max(0) == 0.0  # the strict upper triangle of R is no parameter
    assert (expected[upper] == 0.0).all()
    assert upper.sum() == 2
    assert_unbiased(draws[:, ~upper], expected[~upper])


@pytest.mark.parametrize("weights", [None, np.full(12, 3.0)], ids=["all data", "weighted"])
@pytest.mark.parametrize("baseline", [True, False], ids=["leave-one-out", "no baseline"])
def test_the_score_of_a_conjugate_model_is_that_of_its_graph(baseline, weights, mixture):
    """With standard errors, the same draws are differentiated by torch."""
    model, x, q, _ = mixture
    batch = Batch(x, len(x), weights)
    closed = Score(30, baseline)(model, q, batch, np.random.default_rng(5))
    graph = Score(30, baseline, errors=True)(model, q, batch, np.random.default_rng(5))
    assert closed.natural
    assert not graph.natural
    assert closed.bound == pytest.approx(graph.bound, rel=1e-12)
    np.testing.assert_allclose(flat(in_coordinates(q, closed)), flat(graph.values), rtol=1e-9, atol=1e-9)


@each_estimator
@pytest.mark.parametrize("family", ["full", "mean-field"])
def test_unbiased_on_logistic_regression_with_mini_batches(estimator, family):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(20, 2)), (rng.random(20) < 0.4).astype(float)
    model = LogisticRegression(2, prior_scale=1.5)
    data = model.check((x, y))
    mean = np.array([0.4, -0.6])
    q = Gaussian(mean, np.array([[0.6, 0.2], [0.2, 0.4]]))
    if family == "mean-field":
        q = DiagonalGaussian(mean, np.array([0.6, 0.4]))
    strategy = minibatch.Uniform(5)
    state = strategy.start(20, rng)

    def batch(rng):
        selection, _ = strategy.draw(state, rng)
        rows = tuple(part[selection.indices] for part in data)
        return Batch(rows, 5, selection.weights)

    expected = flat(differences(lambda u: model.elbo(q.from_unconstrained(u), data), q.unconstrained))
    draws = repeated(estimator, model, q, batch, n=100)
    used = np.abs(draws).max(0) > 0.0
    assert_unbiased(draws[:, used], expected[used])
    assert np.abs(expected[~used]).max(initial=0.0) < 1e-8


def marginal_elbo_by_product_rule(x, alpha_0, prior_variance, u):
    """K = 2, D = 1: Gauss-Jacobi for the Beta weight, Gauss-Hermite for the two means."""
    a, b = np.exp(u[0])
    nodes, weights = scipy.special.roots_jacobi(40, b - 1.0, a - 1.0)
    pi, pi_weights = (1.0 + nodes) / 2.0, weights / weights.sum()
    e, e_weights = np.polynomial.hermite_e.hermegauss(30)
    e_weights = e_weights / e_weights.sum()
    m, s = u[1][:, 0], np.exp(u[2][:, 0, 0])
    mu = [m[k] + s[k] * e for k in range(2)]
    density = [scipy.stats.norm(mu[k][:, None], 1.0).pdf(x) for k in range(2)]  # (30, N)
    mixed = (
        pi[:, None, None, None] * density[0][None, :, None]
        + (1.0 - pi)[:, None, None, None] * density[1][None, None]
    )
    likelihood = np.einsum("i,j,k,ijk->", pi_weights, e_weights, e_weights, np.log(mixed).sum(-1))
    q_weights, p_weights = Dirichlet(np.array([a, b])), Dirichlet(np.full(2, alpha_0))
    kl = q_weights.kl(p_weights) + sum(
        0.5 * ((s[k] ** 2 + m[k] ** 2) / prior_variance - 1.0 + np.log(prior_variance) - 2.0 * np.log(s[k]))
        for k in range(2)
    )
    return likelihood - kl


@pytest.mark.parametrize(
    ("estimator", "size"),
    [
        (Score(400), 3), (Pathwise(200), 3), (Pathwise(200, "sampled"), 3),
        (Pathwise(200, "sticking-the-landing"), 3), (Pathwise(200), 6),
    ],
)  # fmt: skip
def test_unbiased_with_z_summed_out_and_mini_batches(estimator, size):
    rng = np.random.default_rng(2)
    x = rng.normal(size=6)
    mixture = GaussianMixture(2, np.eye(1), concentration=0.8, prior_covariance=np.array([[3.0]]))
    model = Marginal(mixture)
    data = model.check(x[:, None])
    q = Product(
        {
            "weights": Dirichlet(np.array([2.0, 1.5])),
            "means": Gaussian(np.array([[0.7], [-0.5]]), np.array([[[0.4]], [[0.2]]])),
        }
    )
    expected = differences(lambda u: marginal_elbo_by_product_rule(x, 0.8, 3.0, u), q.unconstrained, 1e-3)
    strategy = minibatch.Reshuffled(size)

    def batch(rng):
        selection, _ = strategy.draw(strategy.start(6, rng), rng)
        return Batch(data[selection.indices], size, selection.weights)

    assert_unbiased(repeated(estimator, model, q, batch, n=100), flat(expected))


def quartic(theta):
    """An unnormalised log density with no closed forms."""
    return (-0.25 * theta**4 + 0.8 * theta - 0.3 * theta**2).sum(-1)


def iwae_bound_by_product_rule(u, draws):
    """E ln mean of ``draws`` (1 or 2) importance weights."""
    e, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    m, log_s = float(u[0][0]), float(np.ravel(u[1])[0])
    theta = m + np.exp(log_s) * e
    log_q = -0.5 * e * e - log_s - 0.5 * np.log(2.0 * np.pi)
    log_w = quartic(theta[:, None]) - log_q
    if draws == 1:
        return float(weights @ log_w)
    return float(weights @ (np.logaddexp(log_w[:, None], log_w) - np.log(2.0)) @ weights)


IWAE_Q = Gaussian(np.array([0.3]), np.array([[0.5]]))


@cache
def of_quartic(estimator, samples, n):
    """Gradients (n, P) and bounds (n,) of IWAE or DReG with this number of ``samples``."""
    rng, model = np.random.default_rng(0), LogJoint(quartic, 1)
    found = [estimator(samples)(model, IWAE_Q, Batch(None, 0), rng) for _ in range(n)]
    return np.stack([flat(each.values) for each in found]), np.array([each.bound for each in found])


@pytest.mark.parametrize("estimator", [IWAE(2), DReG(2)], ids=["IWAE", "DReG"])
def test_unbiased_for_the_importance_weighted_bound(estimator):
    expected = flat(differences(lambda u: iwae_bound_by_product_rule(u, 2), IWAE_Q.unconstrained, 1e-3))
    plain = flat(differences(lambda u: iwae_bound_by_product_rule(u, 1), IWAE_Q.unconstrained, 1e-3))
    assert np.abs(expected - plain).max() > 0.05  # another bound's gradient would be noticed
    draws, bounds = of_quartic(type(estimator), 2, 1500)
    assert_unbiased(draws, expected)
    assert_unbiased(bounds[:, None], [iwae_bound_by_product_rule(IWAE_Q.unconstrained, 2)])


class InGraph(LogJoint):
    """A log joint that is a model of its own, and so stays in torch's graph."""

    def log_prior(self, theta):
        return super().log_prior(theta)


@pytest.mark.parametrize("entropy", ["sampled", "analytic", "sticking-the-landing"])
@pytest.mark.parametrize("noise", [None, Sobol(), AntitheticOrthogonal()])
@pytest.mark.parametrize("errors", [False, True])
@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_the_pathwise_gradient_of_a_function_is_that_of_its_graph(entropy, noise, errors, kind):
    def log_joint(theta):
        return -(theta**4).sum(-1) / 8 + torch.sin(theta[:, 0] * theta[:, 1])

    mean, factor = np.array([0.4, -0.3, 1.2]), np.array([[0.8, 0, 0], [0.3, 0.5, 0], [-0.4, 0.2, 1.1]])
    full = kind == "full"
    q = Gaussian(mean, factor @ factor.T) if full else DiagonalGaussian(mean, np.diag(factor) ** 2)
    estimator = Pathwise(16, entropy, noise, errors)
    found, graph = (
        estimator(model, q, Batch(None, 0), np.random.default_rng(5))
        for model in (LogJoint(log_joint, 3), InGraph(log_joint, 3))
    )
    np.testing.assert_allclose(found.bound, graph.bound, rtol=1e-12)
    assert (found.n_evaluations, found.samples, found.natural) == (16, 16, False)
    for one, other in zip(found.values, graph.values, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    assert (found.standard_error is not None) == errors
    for one, other in zip(found.standard_error or (), graph.standard_error or (), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_what_was_spent_is_counted(mixture):
    model, x, q, _ = mixture
    rng = np.random.default_rng(0)
    batch = Batch(x[:5], 5, np.full(5, 2.4))
    assert Pathwise(7)(model, q, batch, rng).n_evaluations == 5  # one E step, however many draws
    marginal = Marginal(model)
    batch = Batch(marginal.check(x[:5]), 5, np.full(5, 2.4))
    gradient = IWAE(7)(marginal, q, batch, rng)
    assert (gradient.n_evaluations, gradient.samples) == (35, 7)
    free = Score(7)(LogJoint(quartic, 1), IWAE_Q, Batch(None, 0), rng)
    assert (free.n_evaluations, free.samples) == (7, 7)


def test_a_log_joint_that_leaves_torch_is_refused_by_those_that_differentiate_it():
    cut = LogJoint(lambda theta: torch.as_tensor(quartic(theta.detach().numpy())), 1)
    for estimator in (Pathwise(2), IWAE(2), DReG(2)):
        with pytest.raises(EvaluationError, match="no gradient in theta"):
            estimator(cut, IWAE_Q, Batch(None, 0), np.random.default_rng(0))
    whole = Score(5)(LogJoint(quartic, 1), IWAE_Q, Batch(None, 0), np.random.default_rng(0))
    found = Score(5)(cut, IWAE_Q, Batch(None, 0), np.random.default_rng(0))
    np.testing.assert_array_equal(flat(found.values), flat(whole.values))


def test_importance_weighted_bound_lies_between_elbo_and_evidence_and_grows():
    """That of two draws is compared in `test_unbiased_for_the_importance_weighted_bound`."""
    evidence = np.log(scipy.integrate.quad(lambda t: np.exp(quartic(np.array([t]))), -8.0, 8.0)[0])
    elbo, two = (iwae_bound_by_product_rule(IWAE_Q.unconstrained, draws) for draws in (1, 2))
    assert elbo + 0.02 < two < evidence
    for estimator in (IWAE, DReG):
        one, many = of_quartic(estimator, 1, 300)[1], of_quartic(estimator, 16, 700)[1]
        errors = [bounds.std(ddof=1) / np.sqrt(len(bounds)) for bounds in (one, many)]
        assert abs(one.mean() - elbo) < 5.5 * errors[0]  # t with 299 degrees of freedom: 1e-7
        assert two + 5.5 * errors[1] < many.mean() < evidence + 5.5 * errors[1]


def test_noise_vanishes_at_the_posterior_for_sticking_the_landing_dreg_and_score():
    c = np.array([[0.5, 0.1], [0.1, 0.3]])
    m = np.array([1.0, -2.0])
    q = Gaussian(m, c)
    target = torch.distributions.MultivariateNormal(torch.tensor(m), torch.tensor(c))
    model = LogJoint(lambda theta: target.log_prob(theta) + 3.0, 2)
    for estimator in (Pathwise(3, "sticking-the-landing"), DReG(3), Score(3)):
        draws = repeated(estimator, model, q, Batch(None, 0), n=20)
        assert np.abs(draws).max() < 1e-12
    for estimator in (Pathwise(3), Pathwise(3, "sampled"), IWAE(3), Score(3, baseline=False)):
        assert repeated(estimator, model, q, Batch(None, 0), n=20).std(0).max() > 1e-3


def test_the_baseline_removes_the_noise_due_to_a_constant():
    """A constant of 50 in the log joint multiplies the noise without a baseline, and not that with one."""
    shifted = LogJoint(lambda theta: quartic(theta) + 50.0, 1)
    with_it, without = (
        repeated(Score(20, baseline=b), shifted, IWAE_Q, Batch(None, 0)).var(0).sum() for b in (True, False)
    )
    assert with_it < 0.01 * without
    plain = repeated(Score(20), LogJoint(quartic, 1), IWAE_Q, Batch(None, 0)).var(0).sum()
    assert with_it == pytest.approx(plain, rel=1e-6)
