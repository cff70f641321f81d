"""Integrals of a posterior: against dense rules, empirical measures, and as observations."""

from dataclasses import dataclass

import numpy as np
import pytest
from hermite_rule import hermite
from negative_quadratic import NegativeQuadratic

import gp
from gp.embeddings import Formulas, UnknownPairError, embedding
from gp.expectation import expectation
from gp.kernels import Linear, Periodic, SquaredExponential
from gp.measures import Empirical, Gaussian, GaussianMixture, Uniform

S2 = np.array([[0.5, 0.2], [0.2, 0.4]])
KERNEL = SquaredExponential(np.array([1.0, 1.5]), 2.0) + Linear(0.3)
MEANS = {
    "zero": gp.means.Zero(),
    "constant": gp.means.Constant(0.7),
    "linear": gp.means.Linear(0.2, np.array([1.0, -0.5])),
    "negative quadratic": NegativeQuadratic(1.0, np.array([0.3, 0.1]), 1.4),
}
MEASURES = {
    "gaussian": Gaussian([0.1, 0.2], S2),
    "mixture": GaussianMixture([0.3, 0.7], [[0, 0], [1, 0.5]], [S2, 0.3 * np.eye(2)]),
    "box": Uniform([-1.0, 0.0], [1.0, 1.7]),
    "empirical": Empirical(np.random.default_rng(5).normal(size=(9, 2)), np.arange(1, 10) / 45),
}


def function(x):
    return np.sin(x[:, 0]) + 0.3 * x[:, 1] ** 2


def gradient(x):
    return np.stack([np.cos(x[:, 0]), 0.6 * x[:, 1]], axis=1)


def posterior(mean=None, derivatives=True, n=8, noise=None):
    x = np.random.default_rng(1).normal(size=(n, 2))
    process = gp.GaussianProcess(KERNEL, MEANS["zero"] if mean is None else mean, noise)
    if not derivatives:
        return process.condition(x, function(x))
    blocks = [gp.Values(x), gp.Gradients(x[:4]), gp.Gradients(x[4:6], (1,))]
    return process.condition(blocks, [function(x), gradient(x[:4]).reshape(-1), gradient(x[4:6])[:, 1]])


def rule(measure):
    """Nodes and weights of a product rule: Hermite, Legendre, or the measure itself."""
    if isinstance(measure, Empirical):
        return measure.points, measure.weights
    if not isinstance(measure, Uniform):
        return hermite(measure, 26)
    nodes, weights = np.polynomial.legendre.leggauss(26)
    grid = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    return measure.from_unit_cube((grid + 1) / 2), np.outer(weights, weights).reshape(-1) / 4


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("measure", MEASURES)
def test_mean_and_variance_are_those_of_the_integrated_posterior(mean, measure):
    """The integral of the posterior mean, and the double integral of the posterior covariance."""
    given_data = posterior(MEANS[mean])
    x, w = rule(MEASURES[measure])
    result = given_data.integral(MEASURES[measure])
    # the rules are exact to 1e-10 for lengthscales of 1; K is conditioned as 1e5
    assert float(result.mean) == pytest.approx(float(w @ given_data.mean(x)), abs=1e-8)
    assert float(result.variance) == pytest.approx(float(w @ given_data.covariance(x) @ w), abs=1e-8)
    assert result.sd == pytest.approx(np.sqrt(result.variance))


def test_several_measures_are_jointly_gaussian():
    given_data = posterior()
    measures = [MEASURES[name] for name in ("gaussian", "mixture", "empirical")]
    joint = given_data.integral(measures)
    rules = [rule(measure) for measure in measures]
    nodes = np.concatenate([x for x, _ in rules])
    weights = np.zeros((3, len(nodes)))
    start = 0
    for i, (x, w) in enumerate(rules):
        weights[i, start : start + len(x)] = w
        start += len(x)
    expected = weights @ given_data.covariance(nodes) @ weights.T
    np.testing.assert_allclose(joint.mean, weights @ given_data.mean(nodes), atol=1e-8)
    np.testing.assert_allclose(joint.covariance, expected, atol=1e-8)
    np.testing.assert_allclose(joint.sd**2, np.diag(joint.covariance))
    for i, measure in enumerate(measures):
        assert float(given_data.integral(measure).variance) == pytest.approx(joint.covariance[i, i])


def test_an_observed_integral_is_known():
    """Conditioning on an integral fixes it, and moves the mean towards it everywhere else."""
    measure, x = MEASURES["gaussian"], np.random.default_rng(2).normal(size=(3, 2))
    process = gp.GaussianProcess(SquaredExponential(1.0))
    both = process.condition([gp.Values(x), gp.Integrals((measure,))], [function(x), np.array([0.5])])
    known = both.integral(measure)
    assert float(known.mean) == pytest.approx(0.5, abs=1e-9)
    assert float(known.sd) == pytest.approx(0.0, abs=1e-6)  # the root of rounding
    # the same by observing a fine rule's weighted sum through the posterior of its nodes
    nodes, weights = rule(measure)
    values = process.condition(x, function(x))
    covariance = values.covariance(nodes)
    gain = (values.covariance(x + 0.3, nodes) @ weights) / (weights @ covariance @ weights)
    expected = values.mean(x + 0.3) + gain * (0.5 - weights @ values.mean(nodes))
    np.testing.assert_allclose(both.mean(x + 0.3), expected, atol=1e-8)


@dataclass(frozen=True, eq=False)
class Overstated(SquaredExponential):
    """A kernel whose embedding claims more covariance with the data than there is."""


@embedding(Overstated, Gaussian)
def overstated(kernel, measure):
    right = gp.embeddings.embed(SquaredExponential(kernel.lengthscale), measure)
    return Formulas(mean=lambda x: 1.5 * right.mean(x), cross=right.double)


def test_a_negative_variance_is_not_hidden():
    x = np.random.default_rng(1).normal(size=(20, 2))
    wrong = gp.GaussianProcess(Overstated(1.0)).condition(x, function(x))
    with pytest.raises(ArithmeticError, match=r"posterior variance of an integral is -.*Overstated"):
        wrong.integral(MEASURES["gaussian"])


def test_rounding_is_clipped():
    """Many points and a smooth kernel: the variance is rounding, and not negative."""
    x = np.random.default_rng(1).normal(size=(120, 1))
    smooth = gp.GaussianProcess(SquaredExponential(2.0)).condition(x, np.sin(x[:, 0]))
    result = smooth.integral(Gaussian([0.0], [0.5]))
    assert 0 <= float(result.variance) < 1e-7
    assert float(result.mean) == pytest.approx(0.0, abs=1e-6)


def test_what_cannot_be_integrated_is_named():
    given_data = posterior()
    with pytest.raises(TypeError, match="measure = "):
        given_data.integral([MEASURES["gaussian"], 3.0])
    with pytest.raises(TypeError, match="give one measure or more"):
        given_data.integral([])
    with pytest.raises(ValueError, match="measures have dimensions"):
        gp.Integrals((MEASURES["gaussian"], Gaussian([0.0], [1.0])))
    with pytest.raises(ValueError, match="measure has 1 columns"):
        given_data.integral(Gaussian([0.0], [1.0]))
    periodic = gp.GaussianProcess(Periodic(1.0)).condition(np.zeros((1, 2)), np.zeros(1))
    with pytest.raises(UnknownPairError, match="Periodic against Uniform"):
        periodic.integral(MEASURES["box"])
    with pytest.raises(TypeError, match="only prior means"):
        gp.Integrals((MEASURES["box"],)).apply(given_data)
    known = gp.GaussianProcess(SquaredExponential(1.0)).condition(
        gp.Integrals((MEASURES["box"],)), np.zeros(1)
    )
    with pytest.raises(TypeError, match="observations of Integrals"):
        expectation(known, MEASURES["box"])


def test_of_two_equal_nodes_each_has_half_the_weight_of_one():
    """What Monte Carlo does not do: the integral is that of one node, whose noise is half as large."""
    x, noise = np.array([[0.2, 0.1], [0.9, -0.4], [0.9, -0.4]]), 0.02
    values = function(x)

    def integral(x, values, noise):
        found = gp.GaussianProcess(KERNEL, MEANS["zero"], noise).condition(x, values)
        return found.integral(MEASURES["gaussian"])

    twice = integral(x, values, noise)
    once = integral(x[:2], values[:2], np.array([noise, noise / 2.0]))
    np.testing.assert_allclose([twice.mean, twice.variance], [once.mean, once.variance], rtol=1e-9)


def test_an_exponential_of_a_process_has_the_moments_of_a_lognormal():
    """E[f] = exp(mu + v / 2), Cov = E[f] E[f'] (exp(c) - 1): a product rule over the values at two points."""
    found = posterior(derivatives=False, n=4)
    x = np.array([[1.5, -0.5], [0.8, 0.9]])
    mean, covariance = found.mean(x), found.covariance(x)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    grid = np.stack(np.meshgrid(nodes, nodes), -1).reshape(-1, 2)
    mass = np.outer(weights, weights).reshape(-1) / (2.0 * np.pi)
    f = np.exp(mean + grid @ np.linalg.cholesky(covariance).T)
    first = mass @ f
    second = f.T @ (mass[:, None] * f) - np.outer(first, first)
    expected = np.exp(mean + 0.5 * np.diag(covariance))
    np.testing.assert_allclose(first, expected, rtol=1e-8)
    np.testing.assert_allclose(second, np.outer(expected, expected) * np.expm1(covariance), rtol=1e-8)
