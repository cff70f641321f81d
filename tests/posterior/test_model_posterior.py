"""The posterior of a model in the model's own variables: a simplex, a scale and what is computed from them.

Oracles are closed forms: a lognormal and a logistic-normal of two, and draws of the unconstrained posterior.
"""

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from matplotlib.figure import Figure
from scipy.special import expit

import bqvi
from bqvi import families
from bqvi.calls import TargetModel
from bqvi.posterior import ModelPosterior, Posterior, of_model

MEAN, SD = np.array([0.4, -0.7]), np.array([0.5, 0.3])
"""Of ln s and the logit of w[0], which are independent."""


def log_joint(theta):
    return float(scipy.stats.norm.logpdf(theta, MEAN, SD).sum()) - 1.0


class Variables:
    """The variables of the model: a scale, a simplex of two, and their product, (2, 1)."""

    def __call__(self, theta):
        s, share = np.exp(theta[:, 0]), expit(theta[:, 1])
        w = np.stack([share, 1.0 - share], axis=1)
        return {"s": s, "w": w, "sw": (s[:, None] * w)[:, :, None]}


def model(**options):
    return TargetModel(
        log_joint, ("s_log__", "w_simplex__[0]"), to_named=Variables(), dims={"w": ("side",)},
        coords={"side": ["left", "right"]}, **options,
    )  # fmt: skip


NAMES = ("s", "w[0]", "w[1]", "sw[0,0]", "sw[1,0]")


@pytest.fixture(scope="module", params=["bq", "vbmc"])
def found(request):
    if request.param == "bq":
        return bqvi.fit(model(), method="bq", budget=40, seed=0)
    return bqvi.vbmc(model(), budget=60, seed=0)


def test_the_mean_of_a_variable_is_within_a_thousandth_of_its_sd():
    """Of a rate with a gamma posterior, by any seed, as all weighted draws count."""
    rate = scipy.stats.gamma(38.0, scale=1 / 12.5)
    model = TargetModel(
        lambda theta: rate.logpdf(np.exp(theta[0])) + theta[0], ("log_rate",), start=[1.0],
        to_named=lambda theta: {"rate": np.exp(theta[:, 0])},
    )  # fmt: skip
    for seed in (0, 1, 2):
        posterior = bqvi.vbmc(model, budget=30, seed=seed).posterior
        assert abs(posterior.mean[0] - rate.mean()) < 2e-3 * rate.std()
        assert posterior.sd[0] == pytest.approx(rate.std(), rel=5e-3)
        np.testing.assert_allclose(posterior.quantiles([0.05, 0.95])[:, 0], rate.ppf([0.05, 0.95]), rtol=5e-3)


def test_tables_draws_and_plots_have_the_names_of_the_variables(found):
    posterior = found.posterior
    lines = str(posterior).splitlines()
    assert [line.split()[0] for line in lines] == ["parameter", *NAMES]
    assert "__" not in str(posterior) + repr(posterior) + posterior._repr_html_()
    summary = posterior.summary()
    assert list(summary) == ["mean", "sd", "5 %", "95 %"]
    assert summary["sd"]["w[1]"] == posterior.sd[2]
    draws, arrays = posterior.sample(50, 3), posterior.variables(50, 3)
    assert {name: x.shape for name, x in arrays.items()} == {"s": (50,), "w": (50, 2), "sw": (50, 2, 1)}
    np.testing.assert_array_equal(draws[:, 3:], arrays["sw"][:, :, 0])
    np.testing.assert_array_equal(np.exp(posterior.unconstrained.sample(50, 3)[:, 0]), draws[:, 0])
    assert [ax.get_xlabel() for ax in posterior.plot(Figure(), n=200).axes[-5:]] == list(NAMES)
    assert len(found.posterior.plot(Figure(), parameters=["s", "w[0]"], n=200).axes) == 4
    with pytest.raises(ValueError, match=r"parameters is \['s_log__'\]; it must be one or more of s, w\[0\]"):
        posterior.plot(parameters="s_log__")


def test_the_parameters_of_the_run_are_there_on_request(found):
    free = found.posterior.unconstrained
    assert free.names == ("s_log__", "w_simplex__[0]")
    np.testing.assert_allclose(free.mean, MEAN, atol=0.03 * SD.max())
    assert free.log_prob(MEAN) == pytest.approx(-math.log(2.0 * math.pi * SD.prod()), abs=0.1)
    at = Variables()(free.mode()[None])
    expected = np.concatenate([np.ravel(at[name]) for name in ("s", "w", "sw")])
    np.testing.assert_array_equal(found.posterior.mode(), expected)
    uses = {
        "log_prob": lambda p: p.log_prob(np.ones(5)),
        "marginal_density": lambda p: p.marginal_density("s", np.ones(1)),
        "to_torch": lambda p: p.to_torch(),
    }
    for use in uses.values():
        with pytest.raises(TypeError, match="have no density here; `unconstrained` has"):
            use(found.posterior)


def test_a_file_has_the_variables_without_the_model(found, tmp_path):
    found.save(tmp_path / "run.npz")
    found.posterior.save(tmp_path / "posterior.npz")
    for again in (bqvi.load(tmp_path / "run.npz").posterior, bqvi.load(tmp_path / "posterior.npz")):
        assert str(again) == str(found.posterior)
        assert again.unconstrained.names == ("s_log__", "w_simplex__[0]")
        assert {name: x.shape for name, x in again.variables(9).items()} == {
            "s": (9,),
            "w": (9, 2),
            "sw": (9, 2, 1),
        }
        # the mean of 2000 draws is off by 5 of its sds with probability 6e-7 for each entry
        assert (np.abs(again.sample(2000).mean(0) - again.mean) < 5.0 * again.sd / math.sqrt(2000)).all()
        assert len(again.plot(Figure(), parameters=["s"], n=100).axes) == 1
        with pytest.raises(ValueError, match="loaded without its model"):
            again.mode()


def test_doors_and_diagnostics_take_the_posterior_of_a_model(found):
    bounds = bqvi.evidence_bounds(
        lambda x: np.array([log_joint(t) for t in x]), families.Gaussian(MEAN, np.diag(SD**2)), 400,
        posterior=found.posterior, replicates=4,
    )  # fmt: skip
    assert bounds.upper is not None
    checked = bqvi.variational_bmc.check(log_joint, found.posterior, n=50)
    assert checked.posterior.names == NAMES
    assert checked.log_evidence == pytest.approx(-1.0, abs=0.2)


def test_parameters_that_are_the_variables_keep_their_density():
    """Variables that are the parameters themselves, by name and number, have exact moments and a density."""
    q = families.Gaussian(np.zeros(2), np.eye(2))
    same = TargetModel(log_joint, ("b[0]", "b[1]"), to_named=lambda theta: {"b": theta})
    assert type(of_model(Posterior.of(q, model=same))) is Posterior
    other = TargetModel(log_joint, ("b[0]", "b[1]"), to_named=lambda theta: {"b": np.tanh(theta)})
    assert type(of_model(Posterior.of(q, model=other))) is ModelPosterior
    assert type(of_model(Posterior.of(q))) is Posterior


def test_arviz_gets_the_variables_of_a_loaded_posterior(tmp_path):
    pytest.importorskip("arviz_base")
    posterior = of_model(Posterior.of(families.Gaussian(MEAN, np.diag(SD**2)), model=model()))
    posterior.save(tmp_path / "p.npz")
    tree, again = posterior.to_arviz(40, 1), bqvi.load(tmp_path / "p.npz").to_arviz(40, 1)
    assert tree["posterior"]["w"].dims == ("chain", "draw", "side")
    np.testing.assert_array_equal(
        tree["posterior"]["w"].values.reshape(40, 2), posterior.variables(40, 1)["w"]
    )
    assert again["posterior"]["sw"].shape == (4, 10, 2, 1)
    assert set(again["unconstrained_posterior"]) == {"s_log__", "w_simplex__[0]"}
