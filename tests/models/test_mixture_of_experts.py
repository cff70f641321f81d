"""The mixture of experts against its likelihood, an optimiser, importance sampling and monotonicity."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import logsumexp

import bqvi
from bqvi.models import MixtureOfExperts

RNG = np.random.default_rng(0)
T = RNG.uniform(-2.0, 2.0, 80)
X = np.column_stack([T, np.ones(80)])
LINEAR = (X, np.where(T > 0.3, 2.0 - T, 1.0 + 2.0 * T) + 0.1 * RNG.normal(size=80))
LOGISTIC = (X, (RNG.random(80) < 1.0 / (1.0 + np.exp(-6.0 * np.abs(T) + 5.0))).astype(float))
CHOSEN = RNG.random(80) < 1.0 / (1.0 + np.exp(-1.5 * T))
SOFT = (X, np.where(CHOSEN, 2.0 - T, -1.0 + 2.0 * T) + 0.3 * RNG.normal(size=80))
"""The gate overlaps, so that its likelihood has an optimum."""
DATA = {"linear": LINEAR, "logistic": LOGISTIC}


def packed(theta):
    parts = [theta["gate"].ravel(), theta["coefficients"].ravel()]
    return np.concatenate([*parts, np.log(theta["variances"])] if "variances" in theta else parts)


def unpacked(vector, like):
    theta, start = {}, 0
    for name, part in like.items():
        theta[name] = vector[start : start + part.size].reshape(part.shape)
        start += part.size
    if "variances" in theta:
        theta["variances"] = np.exp(theta["variances"])
    return theta


@pytest.mark.parametrize("kind", ["linear", "logistic"])
@pytest.mark.parametrize("n_experts", [2, 3])
@pytest.mark.parametrize("family", ["full", "point"])
def test_the_bound_rises(kind, n_experts, family):
    fit = bqvi.fit(MixtureOfExperts(n_experts, 2, kind), DATA[kind], family=family, steps=150, seed=1)
    assert np.diff(fit.trace["elbo"]).min() > -1e-9 * abs(fit.elbo)


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_generalised_em_climbs_the_likelihood_to_its_top(kind):
    data = SOFT if kind == "linear" else LOGISTIC
    model = MixtureOfExperts(2, 2, kind, flat=kind == "linear")
    fit = bqvi.fit(model, data, family="point", steps=3000, tolerance=1e-9, seed=1)
    model = fit.problem.model
    theta = model.parameters(fit.q)
    likelihood = model.log_likelihood(data, theta)
    assert np.diff(fit.trace["elbo"]).min() > -1e-9 * abs(fit.elbo)
    if kind == "logistic":  # separable by a gate, so that only a prior has an optimum
        prior = sum(float(np.sum(p.log_prob(q.mode[None]))) for p, q in _pairs(model, fit.q))
        assert fit.elbo == pytest.approx(likelihood + prior, rel=1e-9)
        return
    assert fit.elbo == pytest.approx(likelihood, rel=1e-9)
    slope = approx_fprime(packed(theta), lambda v: model.log_likelihood(data, unpacked(v, theta)), 1e-6)
    assert np.abs(slope).max() < 0.05


def _pairs(model, q):
    return [(model.prior[name], q[name]) for name in ("gate", "experts")]


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_the_bound_is_below_the_evidence(kind):
    x, y = DATA[kind]
    data = (x[:12], y[:12])
    fit = bqvi.fit(
        MixtureOfExperts(2, 2, kind, gate_scale=1.0, prior_strength=0.2, prior_scale=1.0), data, steps=500
    )
    model, q = fit.problem.model, fit.q
    gates, experts = q["gate"].sample(1000, 0), q["experts"].sample(1000, 1)
    logs = np.array(
        [model.log_likelihood(data, _theta(kind, g, e)) for g, e in zip(gates, experts, strict=True)]
    )
    for p, factor, draws in zip(
        (model.prior["gate"], model.prior["experts"]),
        (q["gate"], q["experts"]),
        (gates, experts),
        strict=True,
    ):
        ratio = p.log_prob(draws) - factor.log_prob(draws)
        logs += ratio.reshape(len(ratio), -1).sum(1)
    expected, evidence = logs.mean(), logsumexp(logs) - np.log(len(logs))
    error = logs.std() / np.sqrt(len(logs))
    assert fit.elbo < expected + 5.0 * error  # the quadratics and q(z) cost something
    assert expected - 5.0 * error < evidence
    assert evidence - fit.elbo < 5.0


def _theta(kind, gate, expert):
    theta = {"gate": gate.reshape(1, 2), "coefficients": expert.reshape(len(expert), -1)[:, :2]}
    return {**theta, "variances": expert[:, 2, 0]} if kind == "linear" else theta


def test_the_pieces_are_found():
    fit = bqvi.fit(MixtureOfExperts(2, 2), LINEAR, starts=3, steps=500)
    model = fit.problem.model
    found = model.parameters(fit.q)["coefficients"]
    assert found[np.argsort(found[:, 0])] == pytest.approx(np.array([[-1.0, 2.0], [2.0, 1.0]]), abs=0.15)
    labels = model.responsibilities(fit.q, LINEAR).argmax(1)
    agree = np.mean(labels == (T > 0.3))
    assert max(agree, 1.0 - agree) > 0.95
    assert np.mean((model.predict(fit.q, X) - LINEAR[1]) ** 2) < 0.1
    assert model.gate(fit.q, X).sum(1) == pytest.approx(np.ones(80))


def test_mini_batches_come_near():
    batch = bqvi.fit(MixtureOfExperts(2, 2), LINEAR, steps=500)
    start = batch.problem.model.initial(LINEAR, "k-means++", np.random.default_rng(0))
    part = bqvi.fit(batch.problem.model, LINEAR, "sngd", minibatch=20, steps=1000, start_from=start)
    assert part.elbo > batch.elbo - 10.0


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_degenerate_data(kind):
    data = (np.ones((4, 2)), np.ones(4))
    fit = bqvi.fit(MixtureOfExperts(3, 2, kind), data, steps=50)
    assert np.isfinite(fit.elbo)


def test_bad_input():
    with pytest.raises(ValueError, match="n_experts"):
        MixtureOfExperts(1, 2)
    with pytest.raises(ValueError, match="0 or 1"):
        bqvi.fit(MixtureOfExperts(2, 2, "logistic"), LINEAR)
    with pytest.raises(ValueError, match="experts"):
        MixtureOfExperts(2, 2, "poisson")
