"""PyMC: densities against formulas, variables converted in both directions, errors for bad models. Skipped
without PyMC.
"""

import warnings

import numpy as np
import pytest
import scipy.stats
from adapter_models import (
    COUNTS,
    EFFECTS,
    ERRORS,
    ETA,
    POINTS,
    X,
    Y,
    check,
    regression,
    regression_evidence,
    schools,
    shares,
)

import bqvi

pymc = pytest.importorskip("pymc", reason="the extra pymc is not installed", exc_type=ImportError)
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


def schools_model():
    with pymc.Model(coords={"school": list("ABCDEFGH")}) as model:
        mu, tau = pymc.Normal("mu", 0, 5), pymc.HalfCauchy("tau", 5)
        z = pymc.Normal("z", 0, 1, dims="school")
        effect = pymc.Deterministic("effect", mu + tau * z, dims="school")
        pymc.Normal("y", effect, ERRORS, observed=EFFECTS, dims="school")
    return model


def regression_model():
    with pymc.Model() as model:
        x = pymc.Data("x", X)
        a, b = pymc.Normal("a", 0, 2), pymc.Normal("b", 0, 2)
        pymc.Normal("y", a + b * x, pymc.LogNormal("s", 0, 1), observed=Y)
    return model


def shares_model():
    """The multinomial likelihood is a potential (`pm.Potential`)."""
    with pymc.Model() as model:
        w = pymc.Dirichlet("w", [2.0, 3.0, 4.0])
        pymc.Potential("counts", pymc.logp(pymc.Multinomial.dist(COUNTS.sum(), w), COUNTS))
        chol, _, _ = pymc.LKJCholeskyCov("L", n=3, eta=ETA, sd_dist=pymc.HalfNormal.dist(1.0, shape=3))
        pymc.MvNormal("y", np.zeros(3), chol=chol, observed=POINTS)
    return model


def test_eight_schools():
    model = bqvi.adapters.from_pymc(schools_model())
    assert model.names[:3] == ("mu", "tau_log__", "z[0]")
    assert model.dims["effect"] == ("school",)
    check(model, schools, model.constrain, ["mu", "tau", "z"])
    theta = np.linspace(-1, 1, 10)
    drawn = model.constrain(theta)
    np.testing.assert_allclose(drawn["effect"], drawn["mu"] + drawn["tau"] * drawn["z"])
    np.testing.assert_allclose(model.unconstrain(drawn), theta, atol=1e-12)
    np.testing.assert_array_equal(model.observed["y"], EFFECTS)
    # mu is N(0, 5^2): 200 draws put the ends of the central 95 % within 3.5 of -9.8 and 9.8
    assert abs(model.plausible_lower[0] + 9.8) < 3.5
    assert abs(model.plausible_upper[0] - 9.8) < 3.5


def test_where_a_run_begins():
    """A run begins at 0, at the centre of a prior that does not contain 0, or where the user said."""
    with pymc.Model() as model:
        a, b = pymc.Normal("a", 0, 1), pymc.Normal("b", 100, 1)
        c = pymc.Normal("c", 0, 1, initval=0.7)
        pymc.Normal("y", a + b + c, 1.0, observed=Y)
    begun = bqvi.adapters.from_pymc(model)
    assert begun.start[[0, 2]].tolist() == [0.0, 0.7]
    assert abs(begun.start[1] - 100.0) < 1.0  # ten standard errors of the middle of 200 draws' quantiles
    assert not begun.boxed
    with pymc.Model() as flat:
        pymc.Normal("y", pymc.Flat("a", initval=2.0), 1.0, observed=Y)
    begun = bqvi.adapters.from_pymc(flat)
    assert begun.prior_box is None
    assert begun.start.tolist() == [2.0]
    np.testing.assert_array_equal(begun.plausible_lower, [0.0])


def test_a_regression_and_its_evidence():
    model = bqvi.adapters.from_pymc(regression_model())
    check(model, regression, model.constrain, ["a", "b", "s"])
    np.testing.assert_array_equal(model.constants["x"], X)
    fit = bqvi.fit(model, method="bq", budget=40, seed=0)
    assert abs(fit.log_evidence - regression_evidence()) < 2 * fit.log_evidence_sd
    assert sorted(fit.posterior.names) == ["a", "b", "s"]
    assert "s_log__" in fit.posterior.unconstrained.names
    assert fit.posterior.summary()["mean"]["s"] > 0.0


def test_a_simplex_a_covariance_and_a_potential():
    with warnings.catch_warnings():  # PyMC's warning about the sign of the LKJ normaliser
        warnings.simplefilter("ignore", UserWarning)
        model = bqvi.adapters.from_pymc(shares_model())
    assert model.dimension == 8

    def variables(theta):
        found = model.constrain(theta)
        return {"w": found["w"], "R": found["L_corr"], "s": found["L_stds"]}

    check(model, shares, variables, ["w", "R", "s"], scale=0.3)


def discrete():
    with pymc.Model() as model:
        pymc.Normal("y", pymc.Poisson("events", 3.0), 1.0, observed=1.0)
    return model


def unused():
    with pymc.Model() as model:
        pymc.Data("forgotten", Y)
        pymc.Normal("y", pymc.Normal("a"), 1.0, observed=Y)
    return model


def missing():
    with pymc.Model() as model:
        x = pymc.Data("x", np.ones(2))
        pymc.Normal("y", pymc.Normal("a") * x, 1.0, observed=[1.0, 2.0])
    pymc.set_data({"x": [1.0, np.nan]}, model=model)
    return model


def unobserved():
    with pymc.Model() as model:
        pymc.Normal("a")
    return model


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (discrete, "discrete free variables: events"),
        (unused, "uses the data container forgotten: give it as observed="),
        (missing, "data container x has missing values"),
        (unobserved, "no observed variable"),
        (pymc.Model, "no free variables"),
    ],
)
def test_bad_models_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        bqvi.adapters.from_pymc(make())


def test_other_objects_are_no_model():
    with pytest.raises(TypeError, match=r"it must be a pymc\.Model"):
        bqvi.adapters.from_pymc(3)


def test_pymc_adds_its_likelihood_and_prior_to_the_exported_draws():
    """ArviZ's leave-one-out of a normal mean: its density at each y given the others, in closed form."""
    arviz = pytest.importorskip("arviz")
    y = np.array([0.3, -0.2, 1.1, 0.4, 0.8])
    with pymc.Model() as model:
        pymc.Normal("y", pymc.Normal("mu", 0, 2), 0.5, observed=y)
    tree = bqvi.vbmc(bqvi.adapters.from_pymc(model), budget=30, seed=0).posterior.to_arviz(4000)
    pymc.compute_log_likelihood(tree, model=model, progressbar=False)
    pymc.compute_log_prior(tree, model=model, progressbar=False)
    mu = tree["posterior"]["mu"].values
    np.testing.assert_allclose(tree["log_prior"]["mu"].values, scipy.stats.norm(0, 2).logpdf(mu), rtol=1e-6)
    exact = 0.0
    for i, one in enumerate(y):
        precision = 0.25 + 4 * (len(y) - 1)
        mean = 4 * np.delete(y, i).sum() / precision
        exact += scipy.stats.norm(mean, np.sqrt(0.25 + 1 / precision)).logpdf(one)
    found = arviz.loo(tree)
    elpd = found.elpd if hasattr(found, "elpd") else found["elpd_loo"]  # of ArviZ 1 and of ArviZ 0
    assert elpd == pytest.approx(exact, abs=0.05)
