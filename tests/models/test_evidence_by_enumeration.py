"""The bound of a mixture is below the log evidence, which is a sum over all assignments, and it for K = 1.

A cluster's evidence is the product of SciPy's predictive densities of each row given those before it, or a
joint Gaussian density. Missing values (NaN) are left out of it.
"""

import functools

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import torch
from marginal_mixture import Marginal, component_log_joint
from mixture_oracles import (
    dirichlet_evidence,
    log_evidence,
    spherical_evidence,
    stick_evidence,
    student_evidence,
)
from oracles import z_scores

import bqvi
from bqvi.models import (
    DirichletWeights,
    Mixture,
    Multinomial,
    Sticks,
    UniformWeights,
    bernoulli,
    categorical,
    exponential,
    gaussian_components,
    poisson,
)
from bqvi.models.contracts import settled

RNG = np.random.default_rng(0)
COUNTS = RNG.poisson([[1.0, 9.0], [8.0, 2.0]], size=(4, 2, 2)).reshape(8, 2).astype(float)
X = (
    RNG.normal(size=(7, 2)) @ [[1.0, 0.5], [0.0, 0.8]]
    + np.array([19.0, 20.0])
    + 3.0 * RNG.integers(2, size=(7, 1))
)
SIGMA = np.array([[1.0, 0.6], [0.6, 2.0]])
MEAN, SPREAD = np.array([19.0, 19.5]), 9.0 * np.eye(2) + 1.0


def holed(x):
    x = x.copy()
    x[[0, 3, 5], [1, 0, 1]] = np.nan
    return x


def of_columns(evidence):
    """The sum over columns of an ``evidence`` of a column's place and of what is there of it, (n, 1)."""
    return lambda x: sum(evidence(d, column[~np.isnan(column)][:, None]) for d, column in enumerate(x.T))


def by_predictive(log_density):
    """The sum of the log densities of rows (n, 1) given the sum and the number of the rows before."""
    return of_columns(lambda _, x: log_density(x, np.cumsum(x, axis=0) - x, np.arange(len(x))[:, None]).sum())


def polya(_, x):
    seen = (x == np.arange(3)).astype(float)
    return np.log(((0.5 + np.cumsum(seen, 0) - seen) * seen).sum(1) / (1.5 + np.arange(len(x)))).sum()


def jointly_gaussian(x):
    """Rows of one component with covariance SIGMA: all that is there is jointly Gaussian."""
    n, o = len(x), ~np.isnan(x).ravel()
    covariance = np.kron(np.eye(n), SIGMA) + np.tile(SPREAD, (n, n))
    return scipy.stats.multivariate_normal(np.tile(MEAN, n)[o], covariance[np.ix_(o, o)]).logpdf(x.ravel()[o])


def polya_of_words(x):
    own = dirichlet_evidence(x.sum(0), np.array([0.3, 1.2]))
    return own + (scipy.special.gammaln(x.sum(1) + 1.0) - scipy.special.gammaln(x + 1.0).sum(1)).sum()


def gaussians(shape, scale):
    return gaussian_components(shape, prior_mean=MEAN, prior_strength=0.3, prior_scale=scale, prior_dof=4.5)


negative_binomial = by_predictive(lambda x, s, n: scipy.stats.nbinom.logpmf(x, 2 + s, (0.7 + n) / (1.7 + n)))
KNOWN = gaussian_components(SIGMA, prior_mean=MEAN, prior_covariance=SPREAD)
CASES = {
    "full": (gaussians("full", SIGMA), X, lambda x: student_evidence(x, MEAN, 0.3, SIGMA, 4.5)),
    "spherical": (gaussians("spherical", 1.5), X, lambda x: spherical_evidence(x, MEAN, 0.3, 1.5, 4.5)),
    "diagonal": (gaussians("diagonal", [1.0, 2.0]), holed(X), of_columns(
        lambda d, x: student_evidence(x, MEAN[d : d + 1], 0.3, np.eye(1) * (1.0, 2.0)[d], 4.5))),
    "known": (KNOWN, X, jointly_gaussian),
    "known, missing": (KNOWN, holed(X), jointly_gaussian),
    "multinomial": (Multinomial(2, np.array([0.3, 1.2])), COUNTS, polya_of_words),
    "poisson": (poisson(2.0, 0.7), holed(COUNTS), negative_binomial),
    "exponential": (exponential(2.0, 0.7), holed(RNG.exponential([1.0, 10.0], (8, 2))), by_predictive(
        lambda x, s, n: scipy.stats.lomax.logpdf(x, 2.0 + n, scale=0.7 + s))),
    "bernoulli": (bernoulli(0.5, 0.8), holed(RNG.integers(2, size=(8, 3)).astype(float)), by_predictive(
        lambda x, s, n: scipy.stats.betabinom.logpmf(x, 1, 0.5 + s, 0.8 + n - s))),
    "categorical": (categorical(3), holed(RNG.integers(3, size=(7, 2)).astype(float)), of_columns(polya)),
}  # fmt: skip


def evidence(name, k, weights="dirichlet"):
    _, x, cluster = CASES[name]
    partition = {
        "dirichlet": lambda counts: dirichlet_evidence(counts, np.full(k, 0.8)),
        "uniform": lambda counts: -counts.sum() * np.log(k),
    }[weights]
    return log_evidence(len(x), k, partition, lambda rows: cluster(x[rows]))


def model(name, k, weights="dirichlet"):
    mixing = DirichletWeights(k, 0.8) if weights == "dirichlet" else UniformWeights(k)
    return settled(Mixture(mixing, CASES[name][0]), CASES[name][1])


@pytest.mark.parametrize("weights", ["dirichlet", "uniform"])
@pytest.mark.parametrize("name", CASES)
def test_the_bound_is_below_the_evidence_and_it_for_one_component(name, weights):
    x = CASES[name][1]
    one = bqvi.fit(model(name, 1, weights), x, steps=20)
    assert one.elbo == pytest.approx(evidence(name, 1, weights), rel=1e-9, abs=1e-8)
    two = bqvi.fit(model(name, 2, weights), x, steps=100, starts=3)
    assert evidence(name, 2, weights) - 4.0 < two.elbo < evidence(name, 2, weights)
    assert bqvi.fit(model(name, 2, weights), x, steps=1).elbo < evidence(name, 2, weights)
    np.testing.assert_allclose(two.problem.model.expected_weights(two.q).sum(), 1.0)
    assert ("weights" in two.q.factors) == (weights == "dirichlet")


@pytest.mark.parametrize("name", ["known", "multinomial"])
def test_importance_weights_of_the_priors_draws_average_to_one(name):
    made, x = model(name, 2), CASES[name][1]
    theta = {key: torch.as_tensor(draw) for key, draw in made.prior.sample(200_000, 1).items()}
    terms = component_log_joint(made, theta, torch.as_tensor(x)).logsumexp(-1).sum(-1)
    weights = np.exp(terms.numpy() + made.log_base_measure(x) - evidence(name, 2))
    assert z_scores(weights[:, None], np.ones(1)).max() < 5.0


def test_components_summed_out_of_a_mixture_with_uniform_weights():
    mixture = model("poisson", 2, "uniform")
    whole = np.nan_to_num(CASES["poisson"][1])
    found = bqvi.fit(
        Marginal(mixture), whole, "pathwise", steps=60, record=bqvi.Record(elbo_samples=200), seed=0
    )
    exact = log_evidence(8, 2, lambda n: -n.sum() * np.log(2), lambda rows: negative_binomial(whole[rows]))
    assert exact - 5.0 < found.elbo < exact


STICKS = {
    "Blei and Jordan": Sticks(3, 1.4),
    "Pitman and Yor": Sticks(3, 1.4, discount=0.3),
    "learnt": Sticks(3, (2.0, 1.5)),
}


@pytest.mark.parametrize("name", STICKS)
def test_sticks(name):
    mixing, x = STICKS[name], COUNTS[: 5 if name == "learnt" else 7]
    cluster = functools.cache(lambda rows: negative_binomial(x[list(rows)]))

    def of_sticks(alpha):
        first, second = np.full(2, 1.0 - mixing.discount), alpha + np.arange(1.0, 3.0) * mixing.discount
        partition = functools.partial(stick_evidence, first=first, second=second)
        return log_evidence(len(x), 3, partition, lambda rows: cluster(tuple(rows)))

    if name == "learnt":
        alphas = np.linspace(0.02, 12.0, 60)
        prior = scipy.stats.gamma(2.0, scale=1.0 / 1.5).logpdf(alphas)
        logs = np.exp([of_sticks(alpha) for alpha in alphas] + prior)
        expected = float(np.log(scipy.integrate.simpson(logs, x=alphas)))
    else:
        expected = of_sticks(1.4)
        betas = [[1.0 - mixing.discount, 1.4 + t * mixing.discount] for t in (1.0, 2.0)]
        np.testing.assert_allclose(mixing.prior.concentration, betas)
    found = bqvi.fit(Mixture(mixing, poisson(2.0, 0.7)), x, steps=100, starts=3)
    assert expected - 5.0 < found.elbo < expected
