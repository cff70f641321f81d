"""The evidence of targets given their covariance: against densities, integrals and differences."""

import numpy as np
import pytest
import scipy.optimize
from differences import central
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from gp.evidence import Evidence, LogPosterior
from gp.fixed_points import Changes
from gp.linalg import cholesky
from gp.priors import JointPrior
from gp.search import Expansion, Search, search

RNG = np.random.default_rng(5)
N, OUTPUTS = 9, 2
X = np.sort(RNG.uniform(-2, 2, N))
Y = np.column_stack([np.sin(2 * X) + 1, X - 0.3 * X**2])
PARTS = (np.exp(-0.5 * (X[:, None] - X) ** 2), np.outer(X, X), np.eye(N))
BASES = {"zero": None, "constant": np.ones((N, 1)), "line": np.column_stack([np.ones(N), 1e3 * X])}


def matrix(at):
    return sum(a * part for a, part in zip(at, PARTS, strict=True))


def evidence(at, basis, convention):
    return Evidence.of(cholesky(matrix(at)), Y, BASES[basis], convention)


AT = np.array([1.3, 0.4, 0.3])


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("convention", ["profiled", "known"])
def test_the_value_is_the_density_at_what_is_profiled(convention, basis):
    found = evidence(AT, basis, convention)
    mean = 0 if BASES[basis] is None else BASES[basis] @ found.coefficients
    density = multivariate_normal(np.zeros(N), found.scale * matrix(AT))
    assert_allclose(found.value, density.logpdf((Y - mean).T).sum(), rtol=1e-10)
    for other in (0.99, 1.01):  # no other scale is likelier
        if convention == "profiled":
            less = multivariate_normal(np.zeros(N), other * found.scale * matrix(AT))
            assert less.logpdf((Y - mean).T).sum() < found.value


def test_the_marginal_value_is_an_integral_over_scale_and_mean():
    """For one output with a constant mean: differences between two covariances, by quadrature."""
    basis, y = np.ones((N, 1)), Y[:, :1]

    b, log_s = np.linspace(-8, 8, 801), np.linspace(-7, 5, 241)
    steps = (b[1] - b[0]) * (log_s[1] - log_s[0])

    def integrated(at):  # flat in b and in log s; the integrand is smooth and vanishes at the edges
        root = np.linalg.cholesky(matrix(at))
        white = np.linalg.solve(root, y - b)
        squares = (white**2).sum(axis=0)[:, None] / np.exp(log_s)
        logs = -0.5 * (N * (np.log(2 * np.pi) + log_s) + squares) - np.log(np.diag(root)).sum()
        return logsumexp(logs) + np.log(steps)

    other = np.array([0.5, 1.0, 0.8])
    ours = [Evidence.of(cholesky(matrix(at)), y, basis, "marginal").value for at in (AT, other)]
    assert_allclose(ours[0] - ours[1], integrated(AT) - integrated(other), rtol=1e-4)


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("convention", ["profiled", "marginal", "known"])
def test_the_derivative_in_the_matrix(convention, basis):
    found = evidence(AT, basis, convention)
    gradient = [np.vdot(found.matrix_gradient(), part) for part in PARTS]
    numeric = central(lambda at: evidence(at, basis, convention).value, AT)
    assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("basis", ["zero", "line"])
def test_the_information_is_the_average_of_observed_and_expected(basis):
    """At a known scale, along matrices in which the covariance is linear; restricted likelihood."""
    found = evidence(AT, basis, "known")
    p = found._inverse - found.projection @ found.projection.T
    assert_allclose(found.precisions, p.diagonal(), rtol=1e-10)
    expected = np.array([[0.5 * OUTPUTS * np.vdot(p @ a, (p @ b).T) for b in PARTS] for a in PARTS])

    def slope(at):
        there = evidence(at, basis, "known")
        gradient = there.matrix_gradient() + 0.5 * OUTPUTS * there.projection @ there.projection.T
        return np.array([np.vdot(gradient, part) for part in PARTS])

    observed = -central(slope, AT, 1e-4).T
    assert_allclose(
        found.information(np.stack([part @ found.weights for part in PARTS])),
        0.5 * (observed + expected),
        rtol=1e-4,
        atol=1e-6,
    )


class _Bowl:
    """A function with one maximum, of value -log cosh, with or without its curvature, times ``share``."""

    def __init__(self, centre, curved, share=1.0):
        self.centre, self.curved, self.share, self.seen = np.asarray(centre), curved, share, 0

    def value(self, psi):
        if psi[0] > 5:
            raise np.linalg.LinAlgError
        return float(-np.log(np.cosh(psi - self.centre)).sum())

    def expanded(self, psi):
        self.seen += 1
        t = np.tanh(psi - self.centre)
        bend = (lambda: self.share * np.diag(1.05 - t**2)) if self.curved else None
        return Expansion(self.value(psi), lambda: -t, bend)


@pytest.mark.parametrize(
    ("curved", "share", "renewed"), [(True, 1.0, True), (True, 0.5, False), (False, 1.0, True)]
)
@pytest.mark.parametrize("centre", [(0.3, -1.2), (7.0, 0.0), (7.0, 7.0)])
def test_all_searches_end_at_the_maximum_within_the_bounds(centre, curved, share, renewed):
    bounds = np.array([-4.0, -4.0]), np.array([4.0, 4.0])
    bowl, asked = (
        _Bowl(centre, curved, share),
        Search(climbs=2, renewed=renewed, damping=0.0 if renewed else 0.1),
    )
    found = search(bowl, [np.array([2.0, 2.0]), np.array([9.0, 0.0])], bounds, asked)
    expected = scipy.optimize.minimize(
        lambda psi: -bowl.value(psi), np.zeros(2), method="Nelder-Mead",
        bounds=list(zip(*bounds, strict=True)), options={"xatol": 1e-8, "fatol": 1e-12},
    )  # fmt: skip
    assert_allclose(found.psi, expected.x, atol=2e-3)
    assert found.value >= -expected.fun - 1e-6


def test_a_search_starts_from_the_best_and_says_where_there_is_nothing():
    bowl = _Bowl((0.0, 0.0), True)
    far, near = np.array([-4.0, 4.0]), np.array([0.1, 0.0])
    bounds = np.full(2, -9.0), np.full(2, 9.0)
    assert search(bowl, [far, near], bounds).n_evaluations < 8
    nothing = search(bowl, [np.array([6.0, 0.0])], bounds)
    assert nothing.value == -np.inf
    assert not nothing.converged


NOISE = np.linspace(0.5, 1.5, N)
PRIOR = JointPrior.normal(np.zeros(3), np.array([1.0, 2.0, 3.0]))
KNOWN = 0.02


def log_posterior(known=None):
    """The log posterior of the logarithms of two sizes and of tau, with constant means."""

    def gram(psi):
        parts = np.exp(psi)[:, None, None] * np.stack(PARTS[:2])
        return parts.sum(0), Changes.of(np.ones(len(parts)), parts)

    return LogPosterior(gram, NOISE, Y, PRIOR, BASES["constant"], "marginal", noise_fitted=True, known=known)


def test_more_noise_gains_what_the_highest_evidence_with_it_gains():
    """Against a grid of the noise, at each value of which the two sizes are found by SciPy."""
    exact, free = log_posterior(KNOWN), log_posterior()
    bounds = PRIOR.bounds
    psi = search(exact, [np.zeros(3)], bounds).psi
    gain, _ = exact.noisier(psi)

    def best(log_tau):
        found = scipy.optimize.minimize(lambda sizes: -free.value(np.append(sizes, log_tau)), psi[:2])
        return -found.fun

    grid = np.linspace(*PRIOR.bounds, 201)[:, 2]
    values = np.array([best(log_tau) for log_tau in grid])
    assert gain == pytest.approx(values.max() - exact.value(psi), abs=0.02)


@pytest.mark.parametrize("known", [None, KNOWN])
def test_the_gradient_with_fitted_noise_is_that_of_the_value(known):
    objective, psi = log_posterior(known), np.array([0.3, -0.5, -2.0])
    found = scipy.optimize.approx_fprime(psi, objective.value, 1e-7)
    # forward differences: 1e-7 times half the second derivatives, which are below 1e4
    assert_allclose(objective.expanded(psi).gradient, found, rtol=1e-5, atol=1e-3)
