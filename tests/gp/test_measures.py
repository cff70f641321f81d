"""Measures: the contract, closed forms by SciPy, NumPy and torch alike, and what bad input gets."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from measure_contract import check_measure

from gp.measures import Empirical, Gaussian, GaussianMixture, Uniform

S2 = np.array([[1.5, 0.6], [0.6, 0.5]])
S3 = np.array([[1.0, 0.3, -0.2], [0.3, 2.0, 0.4], [-0.2, 0.4, 0.7]])
MEASURES = {
    "gaussian": Gaussian([0.5, -1.0], S2),
    "gaussian-3": Gaussian([0.5, -1.0, 2.0], S3),
    "gaussian-diagonal": Gaussian([0.5, -1.0], [0.3, 2.0]),
    "gaussian-1": Gaussian([0.5], [[0.3]]),
    "mixture": GaussianMixture([0.2, 0.5, 0.3], [[0, 0], [2, 1], [-1, 1.5]], [S2, np.eye(2), 0.3 * S2]),
    "mixture-diagonal": GaussianMixture([0.6, 0.4], [[0.0], [2.0]], [[0.5], [0.2]]),
    "mixture-empty-component": GaussianMixture([0.0, 1.0], [[9.0], [2.0]], [[0.5], [0.2]]),
    "uniform": Uniform([-1.0, 0.5], [2.0, 0.9]),
}
POINTS = np.random.default_rng(3).normal(size=(12, 2))
DISCRETE = {
    "empirical": Empirical(POINTS),
    "empirical-weighted": Empirical(POINTS, np.arange(12) / 66),
}


@pytest.mark.parametrize("name", MEASURES)
def test_measures_keep_the_contract(name):
    check_measure(MEASURES[name])


@pytest.mark.parametrize("name", DISCRETE)
def test_empirical_measures_keep_the_contract(name):
    check_measure(DISCRETE[name], has_density=False)


@dataclass(frozen=True, eq=False)
class WrongMean(Gaussian):
    def sample(self, n, seed):
        return super().sample(n, seed) + 0.1


@dataclass(frozen=True, eq=False)
class WrongCube(Gaussian):
    def from_unit_cube(self, u):
        return self.mean + scipy.stats.norm.ppf(u)


@dataclass(frozen=True, eq=False)
class WrongDensity(Gaussian):
    def log_density(self, x):
        return super().log_density(x) + 0.05


@dataclass(frozen=True, eq=False)
class WrongShape(Gaussian):  # normalised, with the right mean: a density of other points
    def log_density(self, x):
        return super().log_density(self.mean + 1.2 * (x - self.mean)) + self.dimension * np.log(1.2)


@dataclass(frozen=True, eq=False)
class WrongMarginal(Gaussian):
    def marginal(self, columns):
        return Uniform(
            self.mean[columns] - np.sqrt(3 * np.diag(self.covariance)[columns]),
            self.mean[columns] + np.sqrt(3 * np.diag(self.covariance)[columns]),
        )


@dataclass(frozen=True, eq=False)
class WrongStandard(Gaussian):
    def standardise(self):
        return Gaussian(2 * self.mean, self.covariance).standardise().__class__(self, self.map)


@dataclass(frozen=True, eq=False)
class LowDensity(Gaussian):  # by a hundredth
    def log_density(self, x):
        return super().log_density(x) - 0.01


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (WrongMean, "sample"),
        (WrongCube, "from_unit_cube"),
        (WrongDensity, "log_density"),
        (LowDensity, "log_density"),
        (WrongShape, "log_density"),
        (WrongMarginal, "marginal"),
        (WrongStandard, "standardise"),
    ],
)
def test_the_contract_fails_on_broken_measures(broken, message):
    with pytest.raises(AssertionError, match=message):
        check_measure(broken([0.5, -1.0], np.diag([0.3, 2.0])))


def test_the_contract_fails_on_a_density_that_is_not_refused():
    with pytest.raises(AssertionError, match="TypeError"):
        check_measure(MEASURES["gaussian"], has_density=False)


def test_densities_are_scipys():
    x = np.random.default_rng(0).normal(size=(20, 2))
    mixture = MEASURES["mixture"]
    parts = [
        w * scipy.stats.multivariate_normal(m, s).pdf(x)
        for w, m, s in zip(*mixture.parameters(), strict=True)
    ]
    gaussian = scipy.stats.multivariate_normal([0.5, -1.0], S2).logpdf(x)
    # both sides are sums of a few terms of order 10: ten roundings
    np.testing.assert_allclose(MEASURES["gaussian"].log_density(x), gaussian, rtol=1e-13)
    np.testing.assert_allclose(mixture.log_density(x), np.log(sum(parts)), rtol=1e-12)
    box = MEASURES["uniform"].log_density(np.array([[0.0, 0.6], [0.0, 1.0], [2.0, 0.9]]))
    np.testing.assert_allclose(box, [-np.log(3 * 0.4), -np.inf, -np.log(3 * 0.4)])


def test_far_densities_do_not_underflow():
    x = np.full((1, 2), 1e5)
    assert np.isfinite(MEASURES["gaussian"].log_density(x)).all()
    assert np.isfinite(MEASURES["mixture"].log_density(x)).all()


def test_the_corners_of_the_cube_are_carried_to_finite_points():
    for measure in [*MEASURES.values(), *DISCRETE.values()]:
        for corner in (0.0, 1.0):
            assert np.isfinite(measure.from_unit_cube(np.full((1, measure.dimension), corner))).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", [*MEASURES, *DISCRETE])
def test_numpy_and_torch_agree(name, dtype):
    host = {**MEASURES, **DISCRETE}[name]
    measure = host.with_parameters([torch.as_tensor(p).to(dtype) for p in host.parameters()])
    u = np.random.default_rng(1).random((6, host.dimension)) * 0.98 + 0.01
    # float32 keeps 7 digits; quantiles and solves lose one or two of them
    tolerance = {"rtol": 5e-5, "atol": 5e-5} if dtype == torch.float32 else {"rtol": 1e-12}
    pairs = [
        (measure.mean, host.mean),
        (measure.covariance, host.covariance),
        (measure.sample(6, 2), host.sample(6, 2)),
        (measure.from_unit_cube(torch.as_tensor(u).to(dtype)), host.from_unit_cube(u)),
    ]
    if name in MEASURES:
        x = host.sample(6, 2)
        pairs.append((measure.log_density(torch.as_tensor(x).to(dtype)), host.log_density(x)))
    for tensor, array in pairs:
        assert tensor.dtype == dtype
        np.testing.assert_allclose(tensor.numpy(), array, **tolerance)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(-8, 8), st.integers(-8, 8), st.integers(0, 10**6))
def test_standardising_forgets_the_units(power, second_power, seed):
    """A measure in other units has the same standard coordinates."""
    rng = np.random.default_rng(seed)
    units = np.array([10.0**power, 10.0**second_power])
    root = rng.normal(size=(2, 2)) + 2 * np.eye(2)
    covariance = root @ root.T
    scaled = Gaussian(units, units[:, None] * covariance * units)
    u = rng.random((5, 2))
    standard = scaled.map.to_standard(scaled.from_unit_cube(u))
    # the condition of root is below 100 or so; the units drop out
    np.testing.assert_allclose(standard, scipy.stats.norm.ppf(u), rtol=1e-9, atol=1e-9)


BAD = {
    "lower >= upper": lambda: Uniform([0.0, 1.0], [1.0, 1.0]),
    r"lower has shape \(\); it must be \(D,\)": lambda: Uniform(0.0, [1.0, 1.0]),
    "not positive definite": lambda: Gaussian([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]),
    "not symmetric": lambda: Gaussian([0.0, 0.0], [[1.0, 0.5], [0.1, 1.0]]),
    "covariance has a variance of 0": lambda: Gaussian([0.0, 0.0], [1.0, 0.0]),
    "mean has 1 entries that are NaN": lambda: Gaussian([0.0, np.nan], [1.0, 1.0]),
    r"covariance has shape \(3,\); it must be \(2,\)": lambda: Gaussian([0.0, 1.0], np.ones(3)),
    r"mean has shape \(\); it must be \(D,\)": lambda: Gaussian(0.0, [1.0]),
    "weights has negative": lambda: GaussianMixture([1.5, -0.5], [[0.0], [1.0]], [[1.0], [1.0]]),
    "weights sum to 0.9": lambda: GaussianMixture([0.5, 0.4], [[0.0], [1.0]], [[1.0], [1.0]]),
    "covariances is not positive": lambda: GaussianMixture([1.0], [[0.0]], [[[-1.0]]]),
    "weights sum to 2": lambda: Empirical(np.zeros((2, 1)), [1.0, 1.0]),
    r"points has shape \(3,\); it must be \(N, D\) with N, D >= 1": lambda: Empirical(np.zeros(3)),
    r"it must be \(N, D\)": lambda: Empirical(np.zeros((0, 2))),
    "u has entries": lambda: Uniform([0.0], [1.0]).from_unit_cube(np.array([[1.5]])),
    "n is 0; it must be at least 1": lambda: Uniform([0.0], [1.0]).sample(0, 0),
    "covariance of points is not positive": lambda: Empirical(np.ones((3, 2))).standardise(),
    r"u has shape \(4, 3\)": lambda: MEASURES["gaussian"].from_unit_cube(np.zeros((4, 3))),
    r"x has shape \(2,\)": lambda: MEASURES["gaussian"].log_density(np.zeros(2)),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_named(message):
    with pytest.raises(ValueError, match=message):
        BAD[message]()


def test_what_is_not_a_number_is_named():
    with pytest.raises(TypeError, match="mean ="):
        Gaussian(["a"], [1.0])
    with pytest.raises(TypeError, match="Empirical has no density"):
        DISCRETE["empirical"].log_density(POINTS)


def test_a_box_in_one_dimension_takes_numbers():
    box = Uniform(0.0, 2.0)
    assert box.dimension == 1
    np.testing.assert_array_equal(box.sample(5, 0), Uniform([0.0], [2.0]).sample(5, 0))
    # a probability measure: the density integrates to 1 by the trapezoidal rule, exact for a constant
    x = np.linspace(0.0, 2.0, 9)[:, None]
    assert np.trapezoid(np.exp(box.log_density(x)), x[:, 0]) == pytest.approx(1.0, rel=1e-12)
    assert isinstance(Uniform(torch.tensor(0.0), 1.0).lower, torch.Tensor)
