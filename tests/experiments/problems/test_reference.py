"""Reference posteriors against SciPy's densities, brute force and another solver, on simulated data.

With BQVI_POSTERIORS=DIR, a folder in the layout of `experiments.problems.reference.folder`, also against the
log densities at the test points given there.
"""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from scipy.special import expit, logit, logsumexp

from experiments.problems.reference import MODELS, load_reference
from experiments.problems.reference.predator_prey import simulate

RNG = np.random.default_rng(7)
FOLDER = os.environ.get("BQVI_POSTERIORS")


def at(name, data, u):
    return float(MODELS[name](data).log_density(torch.tensor(np.asarray(u, float)[None]))[0])


def log_half(dist, x):
    """Density of the whole family: priors cut off by a bound are not renormalised."""
    return dist.logpdf(x)


def test_regression_with_interaction():
    data = {"mom_hs": [0, 1, 1, 0, 1], "mom_iq": [90, 100, 120, 80, 95.5], "kid_score": [60, 90, 99, 50, 77]}
    beta, sigma = np.array([10.0, 2.0, 0.7, -0.1]), 8.0
    hs, iq, y = (np.array(data[k], float) for k in ("mom_hs", "mom_iq", "kid_score"))
    mean = beta[0] + beta[1] * hs + beta[2] * iq + beta[3] * hs * iq
    expected = stats.norm(mean, sigma).logpdf(y).sum() + stats.cauchy(0, 2.5).logpdf(sigma) + np.log(sigma)
    assert at("kidscore_interaction", data, [*beta, np.log(sigma)]) == pytest.approx(expected, abs=1e-10)


def test_mesquite():
    names = ("canopy_height", "density", "diam1", "diam2", "total_height", "weight")
    data = {name: RNG.uniform(0.5, 3.0, 6).tolist() for name in names} | {"group": [0, 1, 0, 1, 1, 0]}
    beta, sigma = RNG.standard_normal(7), 0.6
    d = {k: np.array(v, float) for k, v in data.items()}
    mean = (
        beta[0]
        + beta[1] * np.log(d["diam1"] * d["diam2"] * d["canopy_height"])
        + beta[2] * np.log(d["diam1"] * d["diam2"])
        + beta[3] * np.log(d["diam1"] / d["diam2"])
        + beta[4] * np.log(d["total_height"])
        + beta[5] * np.log(d["density"])
        + beta[6] * d["group"]
    )
    expected = stats.norm(mean, sigma).logpdf(np.log(d["weight"])).sum() + np.log(sigma)
    assert at("logmesquite_logvas", data, [*beta, np.log(sigma)]) == pytest.approx(expected, abs=1e-10)


def test_independent_coefficients():
    x, beta, sigma = RNG.standard_normal((9, 5)), RNG.standard_normal(5), 1.3
    y = x @ beta + RNG.standard_normal(9)
    expected = (
        stats.norm(x @ beta, sigma).logpdf(y).sum()
        + stats.norm(0, 10).logpdf(beta).sum()
        + log_half(stats.norm(0, 10), sigma)
        + np.log(sigma)
    )
    found = at("sblri_blr", {"X": x.tolist(), "y": y.tolist()}, [*beta, np.log(sigma)])
    assert found == pytest.approx(expected, abs=1e-10)


def test_autoregression():
    y, beta, sigma = RNG.standard_normal(30), 0.3 * RNG.standard_normal(6), 0.9
    expected = log_half(stats.cauchy(0, 2.5), sigma) + np.log(sigma) + stats.norm(0, 10).logpdf(beta).sum()
    for t in range(5, 30):
        mean = beta[0] + sum(beta[k] * y[t - k] for k in range(1, 6))
        expected += stats.norm(mean, sigma).logpdf(y[t])
    assert at("arK", {"y": y.tolist(), "K": 5}, [*beta, np.log(sigma)]) == pytest.approx(expected, abs=1e-10)


def test_eight_schools_centred_and_not_are_the_same_density():
    y, errors = RNG.normal(5, 8, 8), RNG.uniform(9, 18, 8)
    z, mu, tau = RNG.standard_normal(8), 3.0, 2.5
    theta = mu + tau * z
    # the centred density in theta, times |d theta / d z| = tau^8
    expected = (
        stats.norm(mu, tau).logpdf(theta).sum()
        + 8 * np.log(tau)
        + stats.norm(0, 5).logpdf(mu)
        + log_half(stats.cauchy(0, 5), tau)
        + stats.norm(theta, errors).logpdf(y).sum()
        + np.log(tau)
    )
    data = {"y": y.tolist(), "sigma": errors.tolist()}
    found = at("eight_schools_noncentered", data, [*z, mu, np.log(tau)])
    assert found == pytest.approx(expected, abs=1e-10)


def test_garch():
    y = RNG.standard_normal(25)
    mu, a0, a1, b1 = 0.2, 0.4, 0.3, 0.5
    u = [mu, np.log(a0), logit(a1), logit(b1 / (1 - a1))]
    h, expected = 0.5**2, 0.0
    for t in range(25):
        if t:
            h = a0 + a1 * (y[t - 1] - mu) ** 2 + b1 * h
        expected += stats.norm(mu, np.sqrt(h)).logpdf(y[t])

    def constrained(u):
        alpha = expit(u[2])
        return np.array([u[0], np.exp(u[1]), alpha, expit(u[3]) * (1 - alpha)])

    step = 1e-6
    columns = [(constrained(u + step * e) - constrained(u - step * e)) / (2 * step) for e in np.eye(4)]
    expected += np.linalg.slogdet(np.stack(columns))[1]  # the Jacobian by differences: error about 1e-9
    assert at("garch11", {"y": y.tolist(), "sigma1": 0.5}, u) == pytest.approx(expected, abs=1e-7)


def test_gp_regression():
    x, y = np.linspace(-3, 3, 7), RNG.standard_normal(7)
    rho, alpha, sigma = 5.0, 1.4, 0.6
    covariance = alpha**2 * np.exp(-((x[:, None] - x) ** 2) / (2 * rho**2)) + sigma * np.eye(7)
    expected = (
        stats.multivariate_normal(np.zeros(7), covariance).logpdf(y)
        + stats.gamma(25, scale=1 / 4).logpdf(rho)
        + log_half(stats.norm(0, 2), alpha)
        + log_half(stats.norm(0, 1), sigma)
        + np.log(rho * alpha * sigma)
    )
    found = at("gp_regr", {"x": x.tolist(), "y": y.tolist()}, np.log([rho, alpha, sigma]))
    assert found == pytest.approx(expected, abs=1e-9)


def test_hidden_markov_sums_over_all_paths():
    y, p, q, mu = np.array([3.1, 9.0, 10.4, 2.2, 3.3, 9.9]), 0.7, 0.2, np.array([2.9, 9.7])
    log_a = np.log([[p, 1 - p], [q, 1 - q]])
    paths = []
    for states in itertools.product((0, 1), repeat=len(y)):
        path = stats.norm(mu[list(states)], 1).logpdf(y).sum()
        paths.append(path + sum(log_a[a, b] for a, b in itertools.pairwise(states)))
    gap = mu[1] - mu[0]
    prior = stats.norm(3, 1).logpdf(mu[0]) + stats.norm(10, 1).logpdf(mu[1])
    jacobian = np.log(p * (1 - p)) + np.log(q * (1 - q)) + np.log(mu[0]) + np.log(gap)
    u = [logit(p), logit(q), np.log(mu[0]), np.log(gap)]
    found = at("hmm_example", {"y": y.tolist()}, u)
    assert found == pytest.approx(logsumexp(paths) + prior + jacobian, abs=1e-10)


def test_two_normals():
    y, mu, sd, theta = RNG.standard_normal(12), np.array([-1.0, 0.8]), np.array([0.7, 1.2]), 0.35
    density = theta * stats.norm(mu[0], sd[0]).pdf(y) + (1 - theta) * stats.norm(mu[1], sd[1]).pdf(y)
    expected = (
        np.log(density).sum()
        + stats.norm(0, 2).logpdf(mu).sum()
        + stats.norm(0, 2).logpdf(sd).sum()
        + stats.beta(5, 5).logpdf(theta)
        + np.log(mu[1] - mu[0])
        + np.log(sd).sum()
        + np.log(theta * (1 - theta))
    )
    u = [mu[0], np.log(mu[1] - mu[0]), *np.log(sd), logit(theta)]
    assert at("low_dim_gauss_mix", {"y": y.tolist()}, u) == pytest.approx(expected, abs=1e-10)


def test_predator_prey_with_an_adaptive_solver():
    data = simulate(seed=3)
    values = np.array([0.5, 0.03, 0.85, 0.026, 30.0, 7.0, 0.3, 0.2])
    a, b, c, d = values[:4]
    path = integrate.solve_ivp(
        lambda t, z: [(a - b * z[1]) * z[0], (-c + d * z[0]) * z[1]],
        (0, 20), values[4:6], method="DOP853", t_eval=data["ts"], rtol=1e-11, atol=1e-11,
    ).y.T  # fmt: skip

    def log_normal(x, centre, sd):
        return stats.lognorm(sd, scale=np.exp(centre)).logpdf(x).sum()

    expected = (
        stats.norm([1, 0.05, 1, 0.05], [0.5, 0.05, 0.5, 0.05]).logpdf(values[:4]).sum()
        + log_normal(values[4:6], np.log(10), 1.0)
        + log_normal(values[6:], -1.0, 1.0)
        + log_normal(np.array(data["y"]), np.log(path), values[6:])
        + log_normal(np.array(data["y_init"]), np.log(values[4:6]), values[6:])
        + np.log(values).sum()
    )
    # fixed Runge-Kutta steps of 1/40 year leave about 1e-6
    assert at("lotka_volterra", data, np.log(values)) == pytest.approx(expected, abs=1e-5)


def test_gradients_flow_through_the_solver():
    target = MODELS["lotka_volterra"](simulate(seed=3, n=4))
    u = torch.log(torch.tensor([[0.5, 0.03, 0.85, 0.026, 30.0, 7.0, 0.3, 0.2]], dtype=torch.float64))
    assert torch.autograd.gradcheck(lambda v: target.log_density(v), (u.requires_grad_(),))


@pytest.mark.skipif(FOLDER is None, reason="BQVI_POSTERIORS names no folder of reference posteriors")
@pytest.mark.parametrize("name", MODELS)
def test_at_the_given_test_points(name):
    reference = load_reference(Path(FOLDER), name)
    points = torch.tensor(np.array([u for u, _ in reference.test_points]))
    expected = [value for _, value in reference.test_points]
    np.testing.assert_allclose(reference.target.log_density(points), expected, rtol=0, atol=1e-6)


def test_an_unknown_name_offers_the_near_ones(tmp_path):
    with pytest.raises(ValueError, match="garch11"):
        load_reference(tmp_path, "garch")
