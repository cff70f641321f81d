"""NumPyro's models: densities against formulas, variables there and back, bad models by name.

JAX is put in float64 where it is first used, so these tests run in a process of their own (`python -m pytest
tests/adapters/test_numpyro.py` with JAX_ENABLE_X64=1) and are skipped elsewhere.
"""

import os
import pickle
from functools import partial

import numpy as np
import pytest
import scipy.stats
from adapter_models import (
    COUNTS,
    EFFECTS,
    ERRORS,
    ETA,
    POINTS,
    SCHOOLS_EVIDENCE,
    X,
    Y,
    check,
    regression,
    regression_evidence,
    schools,
    shares,
)

import bqvi

numpyro = pytest.importorskip("numpyro", reason="the extra numpyro is not installed", exc_type=ImportError)
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpyro.distributions as dist  # noqa: E402

exact = pytest.mark.skipif(
    os.environ.get("JAX_ENABLE_X64") != "1", reason="JAX is in float32: set JAX_ENABLE_X64=1"
)


def schools_model(errors, effects=None):
    mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", len(errors)):
        z = numpyro.sample("z", dist.Normal(0, 1))
        effect = numpyro.deterministic("effect", mu + tau * z)
        numpyro.sample("y", dist.Normal(effect, errors), obs=effects)


def regression_model(x, y):
    a, b = numpyro.sample("a", dist.Normal(0, 2)), numpyro.sample("b", dist.Normal(0, 2))
    numpyro.sample("y", dist.Normal(a + b * x, numpyro.sample("s", dist.LogNormal(0, 1))), obs=y)


def shares_model():
    """The multinomial likelihood is a factor (`numpyro.factor`)."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.array([2.0, 3.0, 4.0])))
    numpyro.factor("counts", dist.Multinomial(int(COUNTS.sum()), probs=w).log_prob(COUNTS))
    s = numpyro.sample("s", dist.HalfNormal(jnp.ones(3)).to_event(1))
    factor = numpyro.sample("L", dist.LKJCholesky(3, ETA))
    numpyro.deterministic("R", factor @ factor.T)
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(3), scale_tril=s[:, None] * factor), obs=POINTS)


@exact
def test_eight_schools():
    model = bqvi.adapters.from_numpyro(schools_model, ERRORS, effects=EFFECTS)
    assert model.names[:3] == ("mu", "tau", "z[0]")
    assert model.dims["z"] == ("school",)
    check(model, schools, model.constrain, ["mu", "tau", "z"])
    theta = np.linspace(-1, 1, 30).reshape(3, 10)
    drawn = model.constrain(theta)
    assert drawn["effect"].shape == (3, 8)
    np.testing.assert_allclose(model.value(theta), [model.value(point) for point in theta], rtol=1e-12)
    np.testing.assert_allclose(model.unconstrain({k: x[1] for k, x in drawn.items()}), theta[1], atol=1e-12)
    np.testing.assert_array_equal(model.observed["y"], EFFECTS)
    # mu is N(0, 5^2): 200 draws put the ends of the central 95 % within 3.5 of -9.8 and 9.8
    assert abs(model.plausible_lower[0] + 9.8) < 3.5
    assert abs(model.plausible_upper[0] - 9.8) < 3.5


@exact
def test_the_same_model_of_pymc_gives_the_same_fit():
    """The packages sum in orders of their own, and draw from the prior by generators of their own."""
    pymc = pytest.importorskip("pymc", reason="the extra pymc is not installed", exc_type=ImportError)
    with pymc.Model() as schools_of_pymc:
        mu, tau = pymc.Normal("mu", 0, 5), pymc.HalfCauchy("tau", 5)
        pymc.Normal("y", mu + tau * pymc.Normal("z", 0, 1, shape=8), ERRORS, observed=EFFECTS)
    models = (
        bqvi.adapters.from_pymc(schools_of_pymc),
        bqvi.adapters.from_numpyro(schools_model, ERRORS, EFFECTS),
    )
    theirs, ours = (bqvi.fit(model, method="bq", budget=120, seed=0) for model in models)
    assert abs(theirs.log_evidence - ours.log_evidence) < 0.01
    assert abs(ours.log_evidence - SCHOOLS_EVIDENCE) < 2 * ours.log_evidence_sd


@exact
def test_a_regression_and_its_evidence():
    model = bqvi.adapters.from_numpyro(regression_model, X, Y)
    check(model, regression, model.constrain, ["a", "b", "s"])
    fit = bqvi.fit(model, method="bq", budget=40, seed=0)
    assert abs(fit.log_evidence - regression_evidence()) < 2 * fit.log_evidence_sd


@exact
def test_a_simplex_a_correlation_and_a_factor():
    model = bqvi.adapters.from_numpyro(shares_model)
    assert model.dimension == 8
    check(model, shares, model.constrain, ["w", "R", "s"], scale=0.3)


def subsampled():
    a = numpyro.sample("a", dist.Normal())
    with numpyro.plate("rows", 12, subsample_size=4) as rows:
        numpyro.sample("y", dist.Normal(a, 1.0), obs=Y[rows])


def discrete():
    numpyro.sample("y", dist.Normal(numpyro.sample("events", dist.Poisson(3.0)), 1.0), obs=1.0)


def parameter():
    numpyro.sample("y", dist.Normal(numpyro.param("shift", 0.0), 1.0), obs=1.0)


def unobserved():
    numpyro.sample("a", dist.Normal())


@exact
@pytest.mark.parametrize(
    ("model", "message"),
    [
        (subsampled, "the plate rows draws 4 of 12 data"),
        (discrete, "discrete latent variables: events"),
        (parameter, r"shift is a numpyro\.param"),
        (unobserved, "no observed site"),
        (partial(schools_model, ERRORS), "no observed site"),
    ],
)
def test_bad_models_are_named(model, message):
    with pytest.raises(ValueError, match=message):
        bqvi.adapters.from_numpyro(model)


def test_float32_is_refused():
    if jax.config.jax_enable_x64:
        pytest.skip("JAX is in float64")
    with pytest.raises(ValueError, match=r"float32.*numpyro\.enable_x64"):
        bqvi.adapters.from_numpyro(regression_model, X, Y)


def clicks_model(trials, shown=None):
    """Binomial and Bernoulli counts by their logits, which are 0 where the adapter begins."""
    b = numpyro.sample("b", dist.Normal(0, 1.5).expand([2]))
    logits = b[0] + b[1] * X
    numpyro.sample("clicks", dist.Binomial(trials, logits=logits), obs=shown)
    numpyro.sample("any", dist.Bernoulli(logits=2.0 * logits), obs=None if shown is None else 1 * (shown > 2))


@exact
def test_gradients_where_logits_are_exactly_zero():
    shown = np.arange(len(X)) % 6
    model = bqvi.adapters.from_numpyro(clicks_model, 5, shown)
    _, slope = model.value_and_gradient(np.zeros(2))
    residuals = shown - 5 / 2 + 2.0 * ((shown > 2) - 1 / 2)  # of means with probability 1/2
    np.testing.assert_allclose(slope, [residuals.sum(), residuals @ X], rtol=1e-9, atol=1e-9)


@exact
def test_models_and_posteriors_can_be_pickled_after_use():
    model = bqvi.adapters.from_numpyro(clicks_model, 5, np.arange(len(X)) % 6)
    found = bqvi.vbmc(model, budget=15, seed=6)
    assert set(found.posterior.variables(2)) == {name.partition("[")[0] for name in found.posterior.names}
    again = pickle.loads(pickle.dumps(found))
    points = np.array([[0.3, -0.2], [0.0, 0.9]])
    for posterior in (again.posterior, found.posterior):
        np.testing.assert_array_equal(
            posterior.model.value_and_gradient(points)[1], model.value_and_gradient(points)[1]
        )
    np.testing.assert_array_equal(again.posterior.variables(5, 0)["b"], found.posterior.variables(5, 0)["b"])


@exact
def test_improper_priors_are_taken_and_random_numbers_of_the_model_refused():
    def flat():
        b = numpyro.sample("b", dist.ImproperUniform(dist.constraints.positive, (), event_shape=(2,)))
        numpyro.sample("y", dist.Normal(b[0] + b[1] * X, 1.0), obs=Y)

    model, log_b = bqvi.adapters.from_numpyro(flat), np.array([0.2, -0.4])
    right = scipy.stats.norm.logpdf(Y, np.exp(log_b) @ [np.ones(len(X)), X]).sum() + log_b.sum()
    assert model.value(log_b) == pytest.approx(right, rel=1e-9)

    def noisy():
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(b + jax.random.normal(numpyro.prng_key()), 1.0), obs=Y)

    with pytest.raises(ValueError, match=r"draws random numbers by numpyro\.prng_key"):
        bqvi.adapters.from_numpyro(noisy)
