"""The known posteriors: evidences and moments by rules that share nothing with the way they were made."""

import numpy as np
import pytest
import scipy.stats
from scipy.special import logsumexp
from scipy.stats import qmc
from test_posterior_contract import KNOWN

from experiments.problems import known_posteriors
from gp.measures import GaussianMixture


@pytest.fixture
def problem(request):
    return KNOWN[request.param]()


@pytest.mark.parametrize("problem", list(KNOWN)[3:], indirect=True)
def test_evidence_by_importance_sampling(problem):
    """A proposal of Gaussians at draws of the problem; five standard errors."""
    centres = problem.sample(50, 2)
    scale = problem.covariance / 12 if "banana" in problem.name else problem.covariance
    proposal = GaussianMixture(np.full(50, 0.02), centres, np.tile(scale, (50, 1, 1)))
    x = proposal.sample(2**13, 3)
    inside = ((x > problem.lower) & (x < problem.upper)).all(axis=1)
    logs = np.where(inside, problem.log_density(x) - proposal.log_density(x), -np.inf)
    weights = np.exp(logs - problem.log_evidence)
    error = weights.std() / np.sqrt(len(x))
    assert error < 0.06
    assert abs(weights.mean() - 1.0) < 5 * error


@pytest.mark.parametrize("dimension", [3, 4, 6])
def test_rosenbrock_evidence_along_the_chain(dimension):
    """x_(i+1) given x_i is N(x_i^2, 1/2) N(0, 9): coordinates are drawn one after the other, with weights."""
    rng = np.random.default_rng(0)
    x = 0.3 + rng.standard_normal(400_000)
    logs = scipy.stats.norm(0, 3).logpdf(x) - scipy.stats.norm(0.3, 1).logpdf(x)
    for _ in range(dimension - 1):
        logs += -((x - 1) ** 2) / 100 + 0.5 * np.log(np.pi)
        logs += scipy.stats.norm(0, np.sqrt(9.5)).logpdf(x * x)
        x = 9 / 9.5 * x * x + np.sqrt(4.5 / 9.5) * rng.standard_normal(len(x))
    weights = np.exp(logs - known_posteriors.rosenbrock(dimension).log_evidence)
    error = weights.std() / np.sqrt(len(x))
    assert error < 0.02
    assert abs(weights.mean() - 1.0) < 5 * error


def test_rosenbrock_evidence_by_a_product_rule():
    x, w = np.polynomial.legendre.leggauss(500)
    grid = np.stack([g.ravel() for g in np.meshgrid(25 * x, 25 * x)], axis=1)
    problem = known_posteriors.rosenbrock(2)
    mass = np.exp(problem.log_density(grid)) * np.outer(w, w).ravel() * 625
    assert np.log(mass.sum()) == pytest.approx(problem.log_evidence, abs=1e-9)
    mean = mass @ grid / mass.sum()
    np.testing.assert_allclose(mean, problem.mean, atol=1e-9)
    second = (grid.T * mass) @ grid / mass.sum()
    np.testing.assert_allclose(second - np.outer(mean, mean), problem.covariance, atol=1e-8)


def test_rosenbrock_grid_is_fine_enough():
    for d in (2, 4):
        fine, coarse = known_posteriors.rosenbrock(d), known_posteriors.rosenbrock(d, 0.04)
        assert fine.log_evidence == pytest.approx(coarse.log_evidence, abs=1e-9)
        np.testing.assert_allclose(fine.covariance, coarse.covariance, rtol=1e-9)


def test_logistic_by_a_new_importance_sample():
    points, logs = known_posteriors.logistic_reference(13, 99)
    problem = known_posteriors.logistic()
    assert logsumexp(logs) - np.log(len(logs)) == pytest.approx(problem.log_evidence, abs=2e-3)
    share = np.exp(logs - logsumexp(logs))
    sd = np.sqrt(np.diag(problem.covariance))
    assert (np.abs(share @ points - problem.mean) < 0.01 * sd).all()


def test_gskl_is_the_average_of_two_divergences():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3, 3))
    p, q = a @ a.T + np.eye(3), b @ b.T + np.eye(3)
    m, n = rng.standard_normal((2, 3))
    x = qmc.MultivariateNormalQMC(m, p, seed=1).random(2**15)
    y = qmc.MultivariateNormalQMC(n, q, seed=2).random(2**15)
    lp, lq = scipy.stats.multivariate_normal(m, p), scipy.stats.multivariate_normal(n, q)
    both = 0.5 * (np.mean(lp.logpdf(x) - lq.logpdf(x)) + np.mean(lq.logpdf(y) - lp.logpdf(y)))
    assert known_posteriors.gskl(m, p, n, q) == pytest.approx(both, rel=2e-3)
    assert known_posteriors.gskl(m, p, m, p) == pytest.approx(0.0, abs=1e-12)


def test_mmtv_of_shifted_gaussians():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 40_000, 2))
    y[:, 0] += 1.0
    exact = 0.5 * (2 * scipy.stats.norm.cdf(0.5) - 1)  # the other marginal is the same distribution
    assert known_posteriors.mmtv(x, y) == pytest.approx(exact, abs=0.01)
    assert known_posteriors.mmtv(x, x) == 0.0


def test_noise_has_its_standard_deviation():
    problem = known_posteriors.rosenbrock(2)
    noisy = problem.noisy(2.0, 0)
    draws = np.array([noisy(np.zeros(2)) for _ in range(2000)]) - problem.log_joint(np.zeros(2))
    assert abs(draws.mean()) < 5 * 2.0 / np.sqrt(2000)
    assert abs(draws.std() - 2.0) < 5 * 2.0 / np.sqrt(4000)


def test_rescaled_box():
    problem = known_posteriors.bounded_banana().rescaled(3.0, np.array([1.0, 0.0]))
    np.testing.assert_allclose(problem.plausible_lower, [0.0, 0.0])
    np.testing.assert_allclose(problem.plausible_upper, [5.0, 10.0])
    problem = known_posteriors.bounded_banana().rescaled(0.4, np.array([-1.0, 0.5]))
    np.testing.assert_allclose(problem.plausible_lower, [0.0, 4.1])
    np.testing.assert_allclose(problem.plausible_upper, [1.0, 5.9])
