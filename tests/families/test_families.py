"""Every family against SciPy's and torch's, and the contract of `check_family`."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import torch
from family_contract import check_family
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from bqvi.families import DiagonalGaussian, Dirichlet, Gamma, Gaussian, MatrixNormalInverseWishart, Product


def _spd(rng, d, spread):
    """A symmetric positive definite matrix with a condition number of at most exp(2 spread)."""
    basis, _ = np.linalg.qr(rng.standard_normal((d, d)))
    return basis @ np.diag(np.exp(rng.uniform(-spread, spread, d))) @ basis.T


def _gaussian(rng, d):
    c = _spd(rng, d, 1.5)
    return Gaussian(rng.normal(scale=2.0, size=d), 0.5 * (c + c.T))


def _diagonal(rng, d):
    return DiagonalGaussian(rng.normal(scale=2.0, size=d), np.exp(rng.uniform(-2.0, 2.0, d)))


def _dirichlet(rng, k):
    return Dirichlet(np.exp(rng.uniform(-2.0, 4.0, k + 1)))


def wishart_of(scale, precision, dof):
    """Of a mean in two dimensions and its covariance."""
    return MatrixNormalInverseWishart(
        np.zeros((1, 2, 1)), precision * np.eye(1), scale * np.eye(2), np.array(dof)
    )


def _simplex(q, n, rng):
    return np.log(rng.dirichlet(np.full(q.concentration.shape[-1], 2.0), n))


TABLE = [
    SimpleNamespace(
        name="Gaussian",
        make=_gaussian,
        points=lambda q, n, rng: rng.normal(scale=3.0, size=(n, q.dimension)),
        scipy_logpdf=lambda q, x: np.atleast_1d(
            scipy.stats.multivariate_normal(q.mean, q.covariance).logpdf(x)
        ),
        scipy_entropy=lambda q: scipy.stats.multivariate_normal(q.mean, q.covariance).entropy(),
        torch_twin=lambda q: torch.distributions.MultivariateNormal(
            torch.tensor(q.mean), torch.tensor(q.covariance)
        ),
    ),
    SimpleNamespace(
        name="DiagonalGaussian",
        make=_diagonal,
        points=lambda q, n, rng: rng.normal(scale=3.0, size=(n, q.dimension)),
        scipy_logpdf=lambda q, x: scipy.stats.norm(q.mean, np.sqrt(q.variance)).logpdf(x).sum(-1),
        scipy_entropy=lambda q: scipy.stats.norm(q.mean, np.sqrt(q.variance)).entropy().sum(),
        torch_twin=lambda q: torch.distributions.Independent(
            torch.distributions.Normal(torch.tensor(q.mean), torch.tensor(np.sqrt(q.variance))), 1
        ),
    ),
    SimpleNamespace(
        name="Dirichlet",
        make=_dirichlet,
        points=_simplex,
        scipy_logpdf=lambda q, x: np.array(
            [scipy.stats.dirichlet(q.concentration).logpdf(p / p.sum()) for p in np.exp(x)]
        ),
        scipy_entropy=lambda q: scipy.stats.dirichlet(q.concentration).entropy(),
        torch_twin=lambda q: torch.distributions.Dirichlet(torch.tensor(q.concentration)),
    ),
]
each_family = pytest.mark.parametrize("row", TABLE, ids=[row.name for row in TABLE])
cases = given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 6))
few = settings(deadline=None, derandomize=True, max_examples=25)


@each_family
@few
@cases
def test_log_prob_and_entropy_are_scipys(row, seed, d):
    rng = np.random.default_rng(seed)
    q = row.make(rng, d)
    x = row.points(q, 7, rng)
    expected = row.scipy_logpdf(q, x)
    # two double-precision evaluations of sums of this size, times SciPy's pseudo-inverse's rounding
    np.testing.assert_allclose(q.log_prob(x), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(q.entropy, row.scipy_entropy(q), rtol=1e-9, atol=1e-9)


@each_family
@settings(few, max_examples=12)
@cases
def test_contract(row, seed, d):
    q = row.make(np.random.default_rng(seed), d)
    # the condition numbers of TABLE's strategies reach e^3 and enter the identities squared
    check_family(q, seed=seed, draws=2000, rtol=1e-9)


def test_contract_of_batches_and_products():
    rng = np.random.default_rng(0)
    means = rng.normal(size=(3, 2))
    covariances = np.stack([_spd(rng, 2, 0.5) for _ in range(3)])
    gaussians = Gaussian(means, 0.5 * (covariances + covariances.swapaxes(1, 2)))
    dirichlets = Dirichlet(rng.uniform(0.5, 5.0, (4, 3)))
    check_family(gaussians)
    check_family(dirichlets)
    check_family(DiagonalGaussian(means, np.exp(means)))
    check_family(Product({"weights": Dirichlet(rng.uniform(0.5, 5.0, 3)), "means": gaussians}))
    check_family(Product({"a": dirichlets, "b": DiagonalGaussian(means, np.exp(means))}))


def _broken(**overrides):
    return type("Broken", (Gaussian,), overrides)


BROKEN = {
    "mean parameter": {
        "expected_statistics": property(lambda s: (s.mean, s.covariance)),
    },
    "Fisher": {"fisher_product": lambda s, d: tuple(2.0 * x for x in Gaussian.fisher_product(s, d))},
    "fisher_solve": {"fisher_solve": lambda s, d: d},
    "KL": {"kl": lambda s, o: 1.1 * Gaussian.kl(s, o)},
    "log_prob": {"log_prob": lambda s, x: 0.5 * Gaussian.log_prob(s, x)},
    "J\\^T": {"gradient_to_unconstrained": lambda s, g: g},
    "inverse": {"gradient_to_natural": lambda s, g: g},
    "retract leaves": {
        "retract": lambda s, d: s.from_natural(tuple(a + b for a, b in zip(s.natural, d, strict=True)))
    },
    "first order": {"retract": lambda s, d: Gaussian.retract(s, tuple(2.0 * x for x in d))},
    "E\\[t\\]": {"sample": lambda s, n, seed: s.rsample(n, seed) + 0.2},
    "entropy": {"entropy": property(lambda s: Gaussian.entropy.fget(s) + 0.2)},
    "dt/du": {"rsample": lambda s, n, seed: Gaussian.rsample(s, n, seed).detach() + 0.0 * s.mean},
    "unconstrained -> q": {
        "unconstrained": property(lambda s: (s.mean, s.scale_tril)),
    },
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("clause", BROKEN, ids=BROKEN)
def test_contract_sees_a_broken_family(clause):
    overrides = BROKEN[clause]
    if clause == "dt/du":
        overrides = {**overrides, "sample": lambda s, n, seed: Gaussian.rsample(s, n, seed)}
    q = _broken(**overrides)(np.array([1.0, -0.5]), np.array([[2.0, 0.3], [0.3, 0.5]]))
    with pytest.raises((AssertionError, np.linalg.LinAlgError), match=None if "leaves" in clause else clause):
        check_family(q)


@few
@given(seed=st.integers(0, 2**32 - 1), size=st.floats(-12.0, 12.0))
def test_retractions_stay_inside_for_any_tangent(seed, size):
    rng = np.random.default_rng(seed)
    for row in TABLE:
        q = row.make(rng, 3)
        tangent = tuple(10.0**size * rng.standard_normal(e.shape) for e in q.natural)
        if row.name == "Gaussian":
            tangent = tangent[0], tangent[1] + tangent[1].T
        moved = q.retract(tangent)
        assert all(np.isfinite(e).all() for e in moved.natural)
        # 1 + x + x^2 / 2 = ((1 + x)^2 + 1) / 2: no step takes more than half of what there was
        if row.name == "Dirichlet":
            assert (moved.concentration >= (0.5 - 1e-9) * q.concentration).all()
        if row.name == "DiagonalGaussian":
            assert (moved.variance <= (2.0 + 1e-9) * q.variance).all()
            assert (moved.variance > 0.0).all()
        if row.name == "Gaussian" and size < 5.0:  # beyond, the eigenvalues differ by more than 1e16
            assert np.linalg.eigvalsh(-moved.natural[1]).min() > 0.0
        if row.name == "Gaussian" and abs(size) < 3.0:
            whitened = q.scale_tril.T @ moved.precision @ q.scale_tril
            assert np.linalg.eigvalsh(whitened).min() > 0.5 - 1e-6


def test_dirichlet_refuses_impossible_mean_parameters():
    with pytest.raises(ValueError, match="Jensen"):
        Dirichlet.from_expected_statistics((np.log([0.6, 0.5]),))


def test_a_dirichlet_with_a_zero_is_that_of_the_other_entries():
    rng = np.random.default_rng(2)
    alpha, prior = rng.uniform(1.0, 4.0, (2, 5, 3))
    wide, wide_prior = (Dirichlet(np.insert(part, 1, 0.0, axis=1)) for part in (alpha, prior))
    narrow, narrow_prior = Dirichlet(alpha), Dirichlet(prior)
    logs = narrow.sample(7, 3)
    points = np.insert(logs, 1, -np.inf, axis=2)
    tangent, wide_tangent = rng.standard_normal((5, 3)), np.zeros((5, 4))
    wide_tangent[:, [0, 2, 3]] = tangent
    pairs = (
        (wide.kl(wide_prior), narrow.kl(narrow_prior)),
        (wide.entropy, narrow.entropy),
        (wide.log_normaliser, narrow.log_normaliser),
        (wide.log_prob(points), narrow.log_prob(logs)),
        (wide.expected_statistics[0], np.insert(narrow.expected_statistics[0], 1, -np.inf, axis=1)),
        (wide.mode, np.insert(narrow.mode, 1, -np.inf, axis=1)),
        (wide.retract((wide_tangent,)).mean, np.insert(narrow.retract((tangent,)).mean, 1, 0.0, axis=1)),
        (
            wide.gradient_to_unconstrained((wide_tangent,))[0],
            np.insert(narrow.gradient_to_unconstrained((tangent,))[0], 1, 0.0, axis=1),
        ),
    )
    for found, right in pairs:
        np.testing.assert_allclose(found, right, rtol=1e-12)
    assert np.isneginf(wide.sample(4, 0)[..., 1]).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gaussian(np.zeros(2), -np.eye(2)), "covariance is not positive definite"),
        (lambda: Gaussian(np.zeros(2), np.eye(3)), r"covariance has shape \(3, 3\); it must be \(2, 2\)"),
        (lambda: Gaussian(np.array([0.0, np.nan]), np.eye(2)), "mean is nan in row 1"),
        (lambda: Gaussian(np.zeros(2), np.array([[1.0, 0.5], [0.1, 1.0]])), "covariance is not symmetric"),
        (lambda: DiagonalGaussian(np.zeros(2), np.array([1.0, 0.0])), "variance contains 0.0"),
        (lambda: Dirichlet(np.array([1.0, -1.0])), "concentration contains -1.0"),
        (lambda: Dirichlet(np.zeros((2, 3))), "concentration is 0 throughout a row"),
        (lambda: Gamma(np.array(-1.0), np.array(1.0)), "shape"),
        (lambda: wishart_of(1.0, 1.0, 0.9), "dof is 0.9"),
        (lambda: wishart_of(-1.0, 1.0, 4.0), "scale is not"),
        (lambda: wishart_of(1.0, -1.0, 4.0), "precision is not"),
    ],
)
def test_bad_parameters_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_natural_step_is_the_best_at_its_price():
    """Of all Gaussians on a line the one at eta + rho g has the largest <g, mu'> - KL(q' || q) / rho."""
    mean, variance, gradient, rho = 0.4, 0.7, np.array([0.9, -0.3]), 0.6

    def cost(parameters):
        m, v = parameters[0], np.exp(parameters[1])
        divergence = 0.5 * (v / variance + (m - mean) ** 2 / variance - 1.0 - np.log(v / variance))
        return divergence / rho - gradient @ [m, v + m * m]

    exact = {"xatol": 1e-9, "fatol": 1e-13}
    found = scipy.optimize.minimize(cost, [0.0, 0.0], method="Nelder-Mead", options=exact)
    natural = np.array([mean / variance, -0.5 / variance]) + rho * gradient
    v = -0.5 / natural[1]
    assert_allclose([found.x[0], np.exp(found.x[1])], [v * natural[0], v], rtol=1e-5)
