"""Mixtures of other exponential families and under other weights: enumeration with SciPy's predictives."""

import numpy as np
import pytest
import scipy.sparse
import scipy.special
import scipy.stats
from marginal_mixture import Marginal, component_log_joint

import bqvi
from bqvi.families import Dirichlet, Product
from bqvi.models import (
    DirichletProcessMixture,
    DirichletWeights,
    GaussianMixture,
    Mixture,
    Multinomial,
    Sticks,
    UniformWeights,
    bernoulli,
    categorical,
    component_estimates,
    elbo,
    exponential,
    gaussian_components,
    poisson,
)
from bqvi.models.contracts import settled
from bqvi.models.merging import merged

RNG = np.random.default_rng(0)
COUNTS = RNG.poisson([[1.0, 9.0], [8.0, 2.0]], size=(4, 2, 2)).reshape(8, 2).astype(float)


def test_the_tied_tail_is_all_that_is_beyond():
    """The sum over two thousand components as the prior has them, and Kurihara's closed form of this sum."""
    x, alpha = COUNTS, 1.4
    model = settled(Mixture(Sticks(3, alpha, tail="tied"), poisson(2.0, 0.7)), x)
    q = bqvi.fit(model, x, steps=3).q
    rho = model.expected(q).rho(x)
    log_v, log_left = model.mixing.prior.expected_statistics[0][0]
    log_tail = np.cumsum(q["sticks"].expected_statistics[0][:, 1])[-1]
    prior = rho[:, 3] - log_tail
    beyond = log_tail + log_v + log_left * np.arange(2000.0)
    explicit = scipy.special.logsumexp(np.column_stack([rho[:, :3], prior[:, None] + beyond]), axis=1)
    kurihara = rho + np.array([0.0, 0.0, 0.0, log_v - np.log1p(-np.exp(log_left))])
    np.testing.assert_allclose(scipy.special.logsumexp(kurihara, axis=1), explicit, rtol=1e-10)
    assert (scipy.special.logsumexp(rho, axis=1) >= explicit).all()
    r = model.responsibilities(q, x)
    assert r.shape == (8, 4)
    np.testing.assert_allclose(r.sum(1), 1.0)
    np.testing.assert_allclose(model.expected_weights(q).sum(), 1.0)


def seven_clusters():
    """Data as in the thesis: 700 points in 7 clusters of unit covariance, 4 standard deviations apart."""
    rng = np.random.default_rng(2021)
    centres = np.array([[-8, -8], [-8, 3], [-2, -3], [0, 7], [4, -7], [5, 1], [9, 6]], float)
    z = rng.integers(7, size=700)
    return centres[z] + rng.standard_normal((700, 2)), z


@pytest.mark.parametrize("tail", ["truncated", "tied"])
@pytest.mark.parametrize("covariance", ["full", "known"])
def test_seven_clusters_are_found(tail, covariance):
    x, z = seven_clusters()
    model = DirichletProcessMixture(np.eye(2) if covariance == "known" else covariance, 20, tail=tail)
    first = bqvi.fit(model, x, steps=60)
    model = first.problem.model
    joined = merged(model, first.q, x)
    assert elbo(model, joined, x) >= first.elbo
    found = bqvi.fit(model, x, start_from=joined, steps=200)
    labels = model.responsibilities(found.q, x).argmax(1)
    assert len(np.unique(labels)) == 7
    # at four standard deviations between neighbours one in fifty is on the wrong side
    table = np.zeros((7, 7))
    np.add.at(table, (np.unique(labels, return_inverse=True)[1], z), 1.0)
    assert table.max(1).sum() > 0.95 * 700
    assert 0.3 < float(model.concentration(found.q).mean) < 5.0
    if covariance == "full":
        means, covariances = component_estimates(model, found.q)
        assert means.shape == (20, 2)
        np.testing.assert_allclose(covariances[labels[0]], np.eye(2), atol=0.6)


def test_a_point_estimate_of_sticks_says_where_a_learnt_concentration_has_no_maximum():
    """All data have one value: the first stick has all weight, ln(1 - v) is minus infinity, and alpha falls
    to 0.
    """
    x = np.ones((30, 3))
    with pytest.raises(bqvi.RunError, match="learnt concentration has no maximum"):
        bqvi.fit(DirichletProcessMixture("full", 3), x, family="point", steps=20)
    fixed = bqvi.fit(DirichletProcessMixture("full", 3, concentration=1.0), x, family="point", steps=20)
    assert np.isfinite(fixed.elbo)


SIGMA = np.array([[1.0, 0.4], [0.4, 0.7]])
DENSITIES = {
    "poisson": (poisson(), lambda row, p: scipy.stats.poisson(p).logpmf(row)),
    "exponential": (exponential(), lambda row, p: scipy.stats.expon(scale=1.0 / p).logpdf(row)),
    "bernoulli": (bernoulli(1.5, 2.0), lambda row, p: scipy.stats.bernoulli(p[:, 0]).logpmf(row)),
    "categorical": (categorical(3, 1.5), lambda row, p: np.log(p[[0, 1], row.astype(int)])),
    "multinomial": (
        Multinomial(2, 1.5),
        lambda row, p: scipy.stats.multinomial(int(row.sum()), p).logpmf(row),
    ),
    "known": (
        gaussian_components(SIGMA),
        lambda row, p: scipy.stats.multivariate_normal(p, SIGMA).logpdf(row),
    ),
}


@pytest.mark.parametrize("family", ["full", "point"])
@pytest.mark.parametrize("kind", DENSITIES)
def test_likelihoods_at_means_and_draws_of_q_are_scipys(kind, family):
    components, log_density = DENSITIES[kind]
    rng = np.random.default_rng(11)
    x = {
        "exponential": rng.exponential(2.0, (30, 2)),
        "known": rng.normal(size=(30, 2)) + 4.0 * rng.integers(2, size=(30, 1)),
        "bernoulli": rng.integers(2, size=(30, 2)),
        "categorical": rng.integers(3, size=(30, 2)),
    }.get(kind, rng.poisson(3.0, (30, 2))).astype(float)
    fit = bqvi.fit(Mixture(DirichletWeights(2, 1.5), components), x, family=family, steps=4)
    model = fit.problem.model

    def of_components(points):
        return np.array([[np.sum(log_density(row, p)) for p in points] for row in x])

    theta = fit.q.mean
    points = theta[components.name]
    expected = scipy.special.logsumexp(np.log(theta["weights"]) + of_components(points), axis=1).sum()
    assert model.log_likelihood(x, theta) == pytest.approx(expected, rel=1e-10)
    third = {"weights": np.append(theta["weights"], 0.0), components.name: points[[0, 1, 0]]}
    assert model.log_likelihood(x, third) == pytest.approx(expected, rel=1e-10)
    if kind == "multinomial":
        assert model.log_likelihood(scipy.sparse.csr_array(x), theta) == pytest.approx(expected, rel=1e-10)
    draws = {name: factor.sample(3, 1) for name, factor in fit.q.factors.items()}
    own = draws[components.name] if kind == "known" else np.exp(draws[components.name])
    found = component_log_joint(model, draws, x) + model.components.log_base_measure(x)[:, None]
    for log_weights, points, one in zip(draws["weights"], own, found, strict=True):
        np.testing.assert_allclose(one, log_weights + of_components(points), rtol=1e-9, atol=1e-9)


def test_map_of_rates_is_the_closed_form():
    """With one component, the mode of Gamma(2 + sum, 0.7 + N)."""
    found = bqvi.fit(Mixture(UniformWeights(1), poisson(2.0, 0.7)), COUNTS, family="point", steps=5)
    expected = (1.0 + COUNTS.sum(0)) / (0.7 + 8.0)
    np.testing.assert_allclose(np.exp(found.q["rates"].mode[0]), expected)


def test_summed_out_components_of_uniform_weights():
    mixture = Mixture(UniformWeights(2), gaussian_components(np.eye(1)))
    x = np.array([[-2.0], [-1.0], [2.0], [3.0]])
    expected = bqvi.fit(mixture, x).elbo
    found = bqvi.fit(Marginal(mixture), x, "pathwise", steps=200)
    assert found.elbo == pytest.approx(expected, abs=1.0)


@pytest.mark.parametrize("scale", [1e-12, 1e-35])
def test_small_data_have_the_bound_of_their_units(scale):
    """Rates of 1e35 were cut at 1e30, and the bound fell."""
    rng = np.random.default_rng(2)
    x = np.where(rng.random(60) < 0.3, 10.0, 1.0)[:, None] * rng.exponential(size=(60, 1))
    here, there = (
        bqvi.fit(Mixture(DirichletWeights(2), exponential()), factor * x, steps=100)
        for factor in (1.0, scale)
    )
    assert np.diff(there.trace["elbo"]).min() > -1e-9 * abs(there.elbo)
    assert there.elbo == pytest.approx(here.elbo - 60.0 * np.log(scale), rel=1e-7)


@pytest.mark.parametrize("process", [False, True])
@pytest.mark.parametrize("shape", ["full", "tied", "diagonal", "spherical"])
def test_merges_join_what_is_one(shape, process):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(100, 2))
    mixture = DirichletProcessMixture(shape, 6) if process else GaussianMixture(6, shape, concentration=1.0)
    model = settled(mixture, x)
    first = bqvi.fit(model, x, steps=5)
    joined = merged(model, first.q, x)
    assert elbo(model, joined, x) > first.elbo
    assert isinstance(joined, Product)
    before, after = (int((model.responsibilities(q, x).sum(0) > 1.0).sum()) for q in (first.q, joined))
    assert after < before
    copies = merged(model, first.q, x[:50], np.full(50, 2.0))
    twice = merged(model, first.q, np.concatenate([x[:50], x[:50]]))
    for a, b in zip(copies.natural, twice.natural, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)


def test_the_two_truncations_agree_as_they_grow():
    """The last of T components has the rest of the weight, with parameters of its own; the tail has the
    prior's.
    """
    one = bqvi.fit(Mixture(UniformWeights(1), poisson(2.0, 0.7)), COUNTS, steps=3).q["rates"]

    def bound(size, tail):
        """The bound from a start with all the data in one component, and the others as the prior has them."""
        mixing = Sticks(size, 3.0, tail=tail)
        model = settled(Mixture(mixing, poisson(2.0, 0.7)), COUNTS)
        prior = model.components.prior(size)
        learnt = (np.concatenate([a, b[1:]]) for a, b in zip(one.natural, prior.natural, strict=True))
        sticks = mixing.prior.concentration.copy()
        sticks[0, 0] += 8.0
        return elbo(
            model, Product({"sticks": Dirichlet(sticks), "rates": prior.from_natural(tuple(learnt))}), COUNTS
        )

    gaps = [abs(bound(size, "truncated") - bound(size, "tied")) for size in (2, 4, 8, 30)]
    assert gaps[0] > gaps[1] > gaps[2] > gaps[3]
    assert gaps[3] < 1e-3
