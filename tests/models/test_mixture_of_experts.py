"""The mixture of experts against its likelihood, an optimiser, importance sampling and monotonicity.

Network experts against linear ones, which a network of one layer is, and SciPy.
"""

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
CHOSEN = RNG.random(80) < 1.0 / (1.0 + np.exp(-1.5 * T))
SOFT = (X, np.where(CHOSEN, 2.0 - T, -1.0 + 2.0 * T) + 0.3 * RNG.normal(size=80))
"""The gate overlaps, so that its likelihood has an optimum."""


def packed(theta):
    return np.concatenate([theta["gate"].ravel(), theta["coefficients"].ravel(), np.log(theta["variances"])])


def unpacked(vector, like):
    theta, start = {}, 0
    for name, part in like.items():
        theta[name] = vector[start : start + part.size].reshape(part.shape)
        start += part.size
    return {**theta, "variances": np.exp(theta["variances"])}


def test_generalised_em_climbs_the_likelihood_to_its_top():
    fit = bqvi.fit(
        MixtureOfExperts(2, 2, flat=True), SOFT, family="point", steps=3000, tolerance=1e-9, seed=1
    )
    model = fit.problem.model
    theta = model.parameters(fit.q)
    likelihood = model.log_likelihood(SOFT, theta)
    assert np.diff(fit.trace["elbo"]).min() > -1e-9 * abs(fit.elbo)
    assert fit.elbo == pytest.approx(likelihood, rel=1e-9)
    slope = approx_fprime(packed(theta), lambda v: model.log_likelihood(SOFT, unpacked(v, theta)), 1e-6)
    assert np.abs(slope).max() < 0.05


def test_the_bound_is_below_the_evidence():
    x, y = LINEAR
    data = (x[:12], y[:12])
    fit = bqvi.fit(
        MixtureOfExperts(2, 2, gate_scale=1.0, prior_strength=0.2, prior_scale=1.0), data, steps=500
    )
    model, q = fit.problem.model, fit.q
    gates, experts = q["gate"].sample(1000, 0), q["experts"].sample(1000, 1)
    logs = np.array([model.log_likelihood(data, _theta(g, e)) for g, e in zip(gates, experts, strict=True)])
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


def _theta(gate, expert):
    coefficients = expert.reshape(len(expert), -1)[:, :2]
    return {"gate": gate.reshape(1, 2), "coefficients": coefficients, "variances": expert[:, 2, 0]}


def test_the_pieces_are_found():
    fit = bqvi.fit(MixtureOfExperts(2, 2), LINEAR, starts=3, steps=150)
    model = fit.problem.model
    found = model.parameters(fit.q)["coefficients"]
    assert found[np.argsort(found[:, 0])] == pytest.approx(np.array([[-1.0, 2.0], [2.0, 1.0]]), abs=0.15)
    labels = model.responsibilities(fit.q, LINEAR).argmax(1)
    agree = np.mean(labels == (T > 0.3))
    assert max(agree, 1.0 - agree) > 0.95
    assert np.mean((model.predict(fit.q, X) - LINEAR[1]) ** 2) < 0.1
    assert model.gate(fit.q, X).sum(1) == pytest.approx(np.ones(80))


@pytest.mark.parametrize("family", ["full", "point"])
@pytest.mark.parametrize("size", [1e8, 1e10])
def test_large_inputs_that_stand_twice_share_their_coefficients(size, family):
    """The priors of gate and experts would be lost to rounding; the fit raises them and warns."""
    x, y = size * np.column_stack([X, T]), LINEAR[1]
    with pytest.warns(UserWarning, match="columns of the inputs depend on each other") as told:
        fit = bqvi.fit(MixtureOfExperts(2, 3), (x, y), family=family, steps=30)
    messages = " ".join(str(row.message) for row in told)
    assert "gate_scale" in messages
    assert "prior_" in messages
    assert np.diff(fit.trace["elbo"]).min() > -1e-9 * abs(fit.elbo)
    theta = fit.problem.model.parameters(fit.q)
    for part in (theta["gate"], theta["coefficients"]):
        np.testing.assert_allclose(
            size * part[:, 0], size * part[:, 2], atol=1e-3 * size * np.abs(part).max()
        )
