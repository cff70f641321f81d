"""The beginning of a run of 'bq', against the optimum by Newton's method where expectations are exact."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import bqvi
from bqvi.calls.climb import LaplaceSearch
from bqvi.calls.settings import LAPLACE
from bqvi.calls.table import Evaluations
from bqvi.families import DiagonalGaussian, Gaussian
from bqvi.models import LogJoint

D = 6
RNG = np.random.default_rng(46)
X = np.column_stack([np.ones(120), RNG.standard_normal((120, D - 1))])
Y = RNG.poisson(np.exp(X @ np.array([1.2, 0.4, -0.3, 0.2, 0.0, 0.5]))).astype(float)


def poisson(theta):
    """A Poisson regression with prior N(0, 9 I), up to a constant."""
    with np.errstate(over="ignore"):
        return float(Y @ (X @ theta) - np.exp(X @ theta).sum() - theta @ theta / 18.0)


def slope(theta):
    with np.errstate(over="ignore"):
        return X.T @ (Y - np.exp(X @ theta)) - theta / 9.0


def elbo(mean, covariance):
    """In closed form: E[exp(x^T theta)] = exp(x^T m + x^T C x / 2)."""
    variance = np.einsum("nd,de,ne->n", X, covariance, X)
    with np.errstate(over="ignore"):
        expected = Y @ X @ mean - np.exp(X @ mean + 0.5 * variance).sum()
    expected -= (mean @ mean + np.trace(covariance)) / 18.0
    return expected + 0.5 * (D * (1.0 + np.log(2.0 * np.pi)) + np.linalg.slogdet(covariance)[1])


def optimum():
    """m and C that solve the equations of the optimum, by iteration from the mode."""
    mean, covariance = np.zeros(D), 1e-3 * np.eye(D)
    for _ in range(100):
        rates = np.exp(np.minimum(X @ mean + 0.5 * np.einsum("nd,de,ne->n", X, covariance, X), 20.0))
        covariance = np.linalg.inv(X.T * rates @ X + np.eye(D) / 9.0)
        mean = mean + covariance @ (X.T @ (Y - rates) - mean / 9.0)
    return mean, covariance


MEAN, COVARIANCE = optimum()
SDS = np.sqrt(np.diag(COVARIANCE))
STARTS = {
    "default": None,
    "ten sds away": Gaussian(MEAN + 10.0 * SDS * np.array([1, -1, 1, 1, -1, 1]), np.diag(SDS**2)),
    "thirty times too wide": Gaussian(np.zeros(D), np.diag(900.0 * SDS**2)),
    "thirty times too narrow": Gaussian(np.zeros(D), np.diag(SDS**2 / 900.0)),
}


def fitted(start, function=poisson, gradient=slope, budget=150, **options):
    if start is not None:
        options["start_from"] = start
    model = LogJoint(function, D, gradient=gradient, vectorised=False)
    return bqvi.fit(model, method="bq", budget=budget, seed=3, **options)


@pytest.mark.parametrize("start", STARTS)
def test_q_is_the_best_one_from_any_start(start):
    found = fitted(STARTS[start])
    assert found.n_evaluations <= 150
    assert elbo(MEAN, COVARIANCE) - elbo(found.q.mean, found.q.covariance) < 0.01
    assert abs(found.elbo - elbo(found.q.mean, found.q.covariance)) < 3 * found.elbo_sd + 1e-3


@pytest.mark.parametrize("start", STARTS)
def test_from_values_alone(start):
    found = fitted(STARTS[start], gradient=None, budget=400)
    assert elbo(MEAN, COVARIANCE) - elbo(found.q.mean, found.q.covariance) < 0.2


@pytest.mark.parametrize("start", ["default", "thirty times too wide"])
def test_from_few_values(start):
    """Between the widths of the start and those of the posterior values would differ by 1e6 nats and more."""
    found = fitted(STARTS[start], gradient=None, budget=100)
    assert elbo(MEAN, COVARIANCE) - elbo(found.q.mean, found.q.covariance) < 0.05


def test_a_mean_field_q_too():
    start = DiagonalGaussian(MEAN + 10.0 * SDS, SDS**2)
    best = 1.0 / np.diag(np.linalg.inv(COVARIANCE))  # the diagonal q with nearly the best ELBO
    found = fitted(start, family="mean-field")
    assert isinstance(found.q, DiagonalGaussian)
    assert elbo(found.q.mean, np.diag(found.q.variance)) > elbo(MEAN, np.diag(best)) - 0.01


def test_the_density_is_zero_where_the_run_begins():
    """Zero for theta_0 < 2, and with it at each of the first nodes; the posterior is N(8, I)."""

    def log_joint(theta):
        return -0.5 * float(np.square(theta - 8.0).sum()) if theta[0] > 2.0 else -np.inf

    model = LogJoint(log_joint, 2, gradient=lambda theta: 8.0 - theta, vectorised=False)
    found = bqvi.fit(
        model, method="bq", budget=150, seed=1, start_from=Gaussian(np.zeros(2), 0.5 * np.eye(2))
    )
    assert_allclose(found.q.mean, 8.0, atol=0.1)


@pytest.mark.parametrize("budget", [8, 20, 31])
def test_a_small_budget_is_not_exceeded(budget):
    calls = []

    def counted(theta):
        calls.append(theta)
        return poisson(theta)

    found = fitted(STARTS["ten sds away"], counted, budget=budget)
    assert len(calls) == found.n_evaluations <= budget


class Quadratic:
    """-x^T H x / 2 about a mode, with gradients, and at most ``room`` evaluations beside the first."""

    def __init__(self, curvature, mode, room):
        self.curvature, self.mode, self.points = curvature, mode, np.zeros((0, len(mode)))
        self.room = room

    def __call__(self, u):
        if len(self.points) + len(u) > self.room + 1:
            return None
        self.points = np.concatenate([self.points, u])
        gaps = self.points - self.mode
        slopes = -gaps @ self.curvature
        values, none = 0.5 * np.einsum("nd,nd->n", gaps, slopes), np.zeros(len(gaps), bool)
        return Evaluations(self.points, values, slopes, None, none, ("",) * len(gaps))


@pytest.mark.parametrize(("room", "steepness"), [(np.inf, 1.0), (np.inf, 900.0), (12, 1.0), (25, 900.0)])
def test_laplaces_gaussian_of_a_quadratic(room, steepness):
    """Exact from differences along the axes; where the room ends first, along the step to the nearest point.

    Of a steep one the first differences are over too long steps, and 25 evaluations do not suffice for all.
    """
    curvature = steepness * (np.diag(np.linspace(0.5, 4.0, 10)) + 0.3)
    mode = np.linspace(-2.0, 2.0, 10)
    target = Quadratic(curvature, mode, room)
    search = LaplaceSearch(target(np.zeros((1, 10))), target, np.zeros(10), LAPLACE)
    mean, covariance = search.laplace(room)
    assert len(target.points) <= room + 1
    if np.isinf(room):
        assert 0.5 * (mean - mode) @ curvature @ (mean - mode) < LAPLACE.gain
        assert_allclose(covariance, np.linalg.inv(curvature), rtol=1e-6)
        return
    gaps = target.points - mean
    distances = np.where((gaps != 0.0).any(1), np.square(gaps).sum(1), np.inf)
    step = gaps[np.argmin(distances)]
    assert_allclose(covariance @ curvature @ step, step, rtol=1e-6, atol=1e-9)


def test_values_on_a_floor_change_no_curvature():
    """Of an isotropic quadratic function, whose curvature is known to the error that values are given."""
    found = {}
    for floor in (-1e6, -1e300):
        target = Quadratic(25.0 * np.eye(4), np.linspace(-2.0, 2.0, 4), np.inf)

        def of_values(u, floor=floor, target=target):
            made = target(u)
            far = np.square(made.points).sum(1) > 100.0
            return replace(made, values=np.where(far, floor, made.values), gradients=None)

        begun = of_values(np.array([np.zeros(4), np.full(4, 9.0)]))
        _, found[floor] = LaplaceSearch(begun, of_values, np.zeros(4), LAPLACE).laplace(np.inf)
    assert_allclose(found[-1e6], found[-1e300], atol=1e-8)
    assert_allclose(found[-1e300], 0.04 * np.eye(4), atol=1e-3)
