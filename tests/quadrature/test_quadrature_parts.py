"""The parts of Bayesian quadrature, each against a computation of another derivation."""

from dataclasses import replace

import numpy as np
import pytest
from differences import central

from acquisition.conditioned import variance_reduction
from bqvi.quadrature.nodes import conditioned, whitened_cross
from bqvi.quadrature.state import Warped, products
from bqvi.quadrature.surrogate import (
    ROUGH,
    SMOOTH,
    SPARSE,
    TILTED,
    StandardData,
    cube,
    identity,
    rotated,
    surrogate,
)
from experiments.problems.integrands import integrands
from gp import GaussianProcess, Values
from gp.embeddings.kernel_products import square, triple
from gp.kernels import Matern32, SquaredExponential
from gp.low_discrepancy import scrambled_sobol
from gp.measures import Empirical, Gaussian, GaussianMixture, Uniform


def standard(dimension):
    return Gaussian(np.zeros(dimension), np.ones(dimension))


def gauss_hermite(measure, count):
    """Product rule of a Gaussian: points (count^D, D) and weights."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    weights = weights / weights.sum()
    dimension = measure.dimension
    grid = np.stack(np.meshgrid(*[nodes] * dimension, indexing="ij"), -1).reshape(-1, dimension)
    product = np.stack(np.meshgrid(*[weights] * dimension, indexing="ij"), -1).reshape(-1, dimension)
    return measure.map.from_standard(grid), product.prod(axis=1)


def some_data(dimension=2, n=12, outputs=1, seed=0, **options):
    rng = np.random.default_rng(seed)
    u = rng.standard_normal((n, dimension))
    values = np.stack([np.sin(u @ np.arange(1, dimension + 1) + o) for o in range(outputs)], axis=1)
    return StandardData(u, values, **options)


def a_surrogate(dimension=2, family=SMOOTH, chart=None, psi=None, **options):
    psi = np.append(np.linspace(0.1, 0.6, dimension), -9.0) if psi is None else psi
    chart = identity(standard(dimension)) if chart is None else chart
    return surrogate("test", chart, family, some_data(dimension, **options), psi)


# --- the process ---------------------------------------------------------------------------------


EVIDENCES = {
    "smooth": {},
    "rough": {"family": ROUGH},
    "two outputs": {"outputs": 2},
    "known noise": {"noise_variance": 1e-3, "noisy": True, "noise": np.linspace(0.5, 1.5, 12)},
    "gradients": {"slopes": np.random.default_rng(3).standard_normal((12, 2, 1))},
    "zero mean": {"centred": False},
}


@pytest.mark.parametrize("case", EVIDENCES)
def test_gradient_of_the_evidence(case):
    member = a_surrogate(psi=np.array([-0.9, -0.5, -4.0]), **EVIDENCES[case])
    found = member.objective.expanded(member.psi)
    assert found.value == pytest.approx(member.log_posterior, rel=1e-10)
    # of values of size 10 to 1000
    numeric = central(lambda psi: member.at(psi).log_posterior, member.psi)
    np.testing.assert_allclose(found.gradient, numeric, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", [SMOOTH, ROUGH, TILTED, SPARSE])
@pytest.mark.parametrize("dimension", [1, 3])
def test_gram_and_its_pullback_are_those_of_the_kernel(family, dimension):
    rng = np.random.default_rng(0)
    v, weights = rng.standard_normal((7, dimension)), rng.standard_normal((7, 7))
    weights = weights + weights.T
    lengths, gram = np.linspace(0.5, 2.0, dimension), family.gram(Values(v))
    matrix, pullback = gram(lengths)
    np.testing.assert_allclose(matrix, family.kernel(lengths)(v, v), rtol=1e-12)
    np.testing.assert_allclose(np.diag(matrix), family.kernel(lengths).diagonal(v), rtol=1e-12)
    numeric = central(lambda psi: np.sum(weights * gram(np.exp(psi))[0]), np.log(lengths))
    np.testing.assert_allclose(pullback(weights), numeric, rtol=1e-6, atol=1e-7)


# --- Bayesian quadrature itself --------------------------------------------------------------------


def test_error_falls_at_the_rate_of_the_kernel():
    """Matern 3/2 in one dimension is the Sobolev space H^2: the worst-case error falls as n^-2."""
    box = Uniform(np.zeros(1), np.ones(1))
    sd = []
    sizes = np.array([16, 32, 64, 128])
    for n in sizes:
        x = ((np.arange(n) + 0.5) / n)[:, None]
        posterior = GaussianProcess(Matern32(0.5)).condition(x, np.zeros(n))
        sd.append(float(posterior.integral(box).sd))
    slope = np.polyfit(np.log(sizes), np.log(sd), 1)[0]
    assert slope == pytest.approx(-2.0, abs=0.15)


def test_reduction_is_the_brute_force_difference_of_variances():
    member = a_surrogate(centred=False)
    candidates = np.random.default_rng(1).standard_normal((6, 2))
    target = member.kernel
    from gp.embeddings import embed

    pair = embed(target, standard(2))
    half = whitened_cross(member, candidates)
    state = conditioned(member, candidates, half, pair.mean(candidates), pair.mean(member.data.u))
    before = member.integral()[1]
    scores = variance_reduction(state)
    for i, x in enumerate(candidates):
        u = np.vstack([member.data.u, x])
        grown = surrogate(
            "test", member.chart, SMOOTH, StandardData(u, np.zeros((13, 1)), centred=False), member.psi
        )
        # differences of numbers of size 1 with K of condition 1e4
        assert scores[i] == pytest.approx(before - grown.integral()[1], rel=1e-6, abs=1e-11)


@pytest.mark.parametrize("family", [SMOOTH, ROUGH])
@pytest.mark.parametrize("name", ["identity", "rotated", "cube"])
def test_integral_in_a_chart_is_that_of_its_mean(family, name):
    """Against a rule on the measure of u, points carried into the chart."""
    rotation = np.array([[0.6, -0.8], [0.8, 0.6]])
    base = standard(2)
    chart = {"identity": identity(base), "rotated": rotated(base, rotation), "cube": cube(2)}[name]
    member = a_surrogate(chart=chart, family=family, psi=np.array([0.3, 0.5, -9.0]))
    u = base.from_unit_cube(scrambled_sobol(2, 2**15, 0))
    v = chart.forward(u)
    np.testing.assert_allclose(chart.backward(v), u, atol=1e-6)
    cross = member.kernel(v, chart.forward(member.data.u))
    values = member.process.mean + cross @ member.process.weights
    # 2^15 Sobol points, smooth functions of size 1: error below 1e-4
    assert member.integral()[0][0] == pytest.approx(float(values.mean()), abs=2e-4)


@pytest.mark.parametrize("name", ["rotated", "cube"])
def test_slopes_in_a_chart(name):
    rotation = np.array([[0.6, -0.8], [0.8, 0.6]])
    chart = rotated(standard(2), rotation) if name == "rotated" else cube(2)
    u = np.random.default_rng(0).standard_normal((4, 2))

    def f(at):
        return np.sin(at[:, 0]) * np.exp(0.3 * at[:, 1])

    slopes = np.stack(
        [np.cos(u[:, 0]) * np.exp(0.3 * u[:, 1]), 0.3 * np.sin(u[:, 0]) * np.exp(0.3 * u[:, 1])], axis=1
    )
    numeric = central(lambda v: f(chart.backward(v)), chart.forward(u), 1e-6)
    np.testing.assert_allclose(chart.slopes(u, slopes), numeric, rtol=1e-6, atol=1e-8)


def mixture():
    return GaussianMixture(
        np.array([0.3, 0.7]),
        np.array([[-0.5, 0.2], [0.6, -0.1]]),
        np.array([[[0.5, 0.1], [0.1, 0.3]], [[0.4, -0.1], [-0.1, 0.6]]]),
    )


# --- WSABI -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gaussian", "mixture", "box", "finite"])
def test_products_of_kernels_against_a_rule(kind):
    lengths = np.array([0.8, 1.2])
    v = np.random.default_rng(0).standard_normal((4, 2))
    if kind == "finite":
        measure = Empirical(np.random.default_rng(1).standard_normal((5, 2)), np.linspace(0.1, 0.3, 5))
        points, weights = measure.points, measure.weights
    elif kind == "box":
        measure = Uniform(np.array([-1.0, -2.0]), np.array([1.5, 1.0]))
        nodes, rule = np.polynomial.legendre.leggauss(25)
        grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2)
        points = measure.from_unit_cube((grid + 1) / 2)
        weights = np.outer(rule, rule).reshape(-1) / 4
    else:
        measure = mixture() if kind == "mixture" else mixture().components[0]
        parts = measure.components if kind == "mixture" else (measure,)
        shares = measure.weights if kind == "mixture" else [1.0]
        rules = [gauss_hermite(part, 25) for part in parts]
        points = np.concatenate([p for p, _ in rules])
        weights = np.concatenate([s * w for s, (_, w) in zip(shares, rules, strict=True)])
    kernel = SquaredExponential(lengths, 1.0)
    to_data = weights[:, None] * kernel(points, v)
    # the rules are exact to 1e-8 for bumps as wide as these
    expected = to_data.T @ kernel(points, points) @ to_data
    np.testing.assert_allclose(triple(lengths, measure, v), expected, rtol=1e-6)
    member = surrogate(
        "test", identity(measure), SMOOTH, StandardData(v, v[:, :1]), np.append(np.log(lengths), -9)
    )
    p = products(member)
    np.testing.assert_allclose(p.single, kernel(points, v).T @ to_data, rtol=1e-6)
    assert square(lengths, measure) == pytest.approx(
        float(weights @ kernel(points, points) ** 2 @ weights), rel=1e-6
    )


@pytest.mark.parametrize("matched", [False, True])
def test_wsabi_moments_against_posterior_samples(matched):
    data = some_data(2, n=9, centred=False)
    data = replace(data, values=1.5 + data.values)
    member = surrogate("test", identity(standard(2)), SMOOTH, data, np.array([0.2, 0.5, -9.0]))
    mean, covariance = Warped(matched).moments(member)
    points, weights = gauss_hermite(standard(2), 12)
    found = member.process
    cross = member.kernel(points, data.u)
    m = (cross @ found.weights)[:, 0]
    half = found.factor.solve(cross.T)
    c = found.inflation * found.scales[0] * (member.kernel(points, points) - half.T @ half)
    values, vectors = np.linalg.eigh(c)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    n = 50_000
    draws = m + np.random.default_rng(0).standard_normal((n, len(m))) @ root.T
    # n draws: the mean is uncertain by sd / sqrt n, the variance (nearly Gaussian) by sqrt(2 / n);
    # five of these are exceeded once in two million
    z = (0.5 * draws**2 if matched else 0.5 * m**2 + m * (draws - m)) @ weights
    sd = float(z.std())
    assert mean[0] == pytest.approx(float(z.mean()), abs=5 * sd / np.sqrt(n) + 1e-6)
    assert covariance[0, 0] == pytest.approx(float(z.var()), rel=5 * np.sqrt(3 / n) + 1e-3)


# --- the rest --------------------------------------------------------------------------------------


@pytest.mark.parametrize("integrand", integrands(), ids=lambda integrand: integrand.name)
def test_the_integrals_of_the_benchmark(integrand):
    dimension, n = integrand.measure.dimension, 2**14
    averages = []
    for seed in range(8):
        x = integrand.measure.from_unit_cube(scrambled_sobol(dimension, n // 8, seed))
        averages.append(integrand.function(x).mean())
    # eight replicates: t with 7 degrees of freedom exceeds 8 once in 10,000
    error = np.std(averages, ddof=1) / np.sqrt(8)
    bias = 0.02 * abs(integrand.truth) if integrand.name == "heavy tail 2" else 0.0  # infinite variance
    assert np.mean(averages) == pytest.approx(integrand.truth, abs=8 * error + bias + 1e-9)
    if integrand.non_negative:
        assert np.all(integrand.function(x) >= 0)
