"""Stan's programs: densities against formulas, variables there and back, what does not compile.

A build takes a minute or two, and is kept: tests that need one run where BQVI_BUILD_STAN=1, by each of
httpstan and BridgeStan that is installed (BridgeStan with its sources).
"""

import os
import sys
import types

import numpy as np
import pytest
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
from scipy import stats

import bqvi
from bqvi.adapters import stan_model, stan_programs
from bqvi.adapters.stan_programs import arrays_by_name, unconstrained_titles


@pytest.fixture(params=["httpstan", "BridgeStan"])
def package(request, monkeypatch):
    """The package that builds, which is then the only one."""
    if os.environ.get("BQVI_BUILD_STAN") != "1":
        pytest.skip("BQVI_BUILD_STAN=1 is not set: a build takes minutes")
    mine, other = ("httpstan", "bridgestan")[:: 1 if request.param == "httpstan" else -1]
    if not getattr(stan_programs, f"{mine}_is_ready")():
        pytest.skip(f"{request.param} is not installed with its sources")
    monkeypatch.setattr(stan_programs, f"{other}_is_ready", lambda: False)
    return request.param


SCHOOLS = """data {
  int<lower=0> J;
  array[J] real y;
  array[J] real<lower=0> sigma;
}
parameters {
  real mu;
  real<lower=0> tau;
  vector[J] z;
}
transformed parameters {
  vector[J] theta = mu + tau * z;
}
model {
  target += normal_lpdf(mu | 0, 5);
  target += cauchy_lpdf(tau | 0, 5) - cauchy_lccdf(0 | 0, 5);
  target += std_normal_lpdf(z);
  target += normal_lpdf(y | theta, sigma);
}
"""
REGRESSION = """
data { int<lower=0> N; vector[N] x; vector[N] y; }
parameters { real a; real b; real<lower=0> s; }
model {
  target += normal_lpdf(a | 0, 2) + normal_lpdf(b | 0, 2) + lognormal_lpdf(s | 0, 1);
  target += normal_lpdf(y | a + b * x, s);
}
"""
SHARES = """
data { int N; array[3] int counts; array[N] vector[3] y; real eta; }
parameters { simplex[3] w; cholesky_factor_corr[3] L; vector<lower=0>[3] s; }
transformed parameters { matrix[3, 3] R = multiply_lower_tri_self_transpose(L); }
model {
  target += dirichlet_lpdf(w | [2, 3, 4]') + multinomial_lpmf(counts | w);
  target += lkj_corr_cholesky_lpdf(L | eta) + normal_lpdf(s | 0, 1) + 3 * log2();
  target += multi_normal_cholesky_lpdf(y | rep_vector(0, 3), diag_pre_multiply(s, L));
}
"""


def test_eight_schools(package):
    model = bqvi.adapters.from_stan(SCHOOLS, {"J": 8, "y": EFFECTS, "sigma": ERRORS})
    assert model.names[:3] == ("mu", "tau", "z[0]")
    check(model, schools, model.constrain, ["mu", "tau", "z"])
    theta = np.linspace(-1, 1, 10)
    drawn = model.constrain(theta)
    np.testing.assert_allclose(drawn["theta"], drawn["mu"] + drawn["tau"] * drawn["z"])
    np.testing.assert_allclose(model.unconstrain(drawn), theta, atol=1e-12)


def test_a_regression_and_its_evidence(package):
    model = bqvi.adapters.from_stan(REGRESSION, {"N": 12, "x": X, "y": Y})
    check(model, regression, model.constrain, ["a", "b", "s"])
    fit = bqvi.fit(model, method="bq", budget=40, seed=0)
    assert abs(fit.log_evidence - regression_evidence()) < 2 * fit.log_evidence_sd


def test_a_simplex_and_a_correlation(package):
    model = bqvi.adapters.from_stan(SHARES, {"N": 6, "counts": COUNTS, "y": POINTS, "eta": ETA})
    assert model.names == ("w__[0]", "w__[1]", "L__[0]", "L__[1]", "L__[2]", "s[0]", "s[1]", "s[2]")
    check(model, shares, model.constrain, ["w", "R", "s"], scale=0.3)


def test_data_that_a_program_does_not_take(package):
    with pytest.raises(ValueError, match=r"does not take the data.*sigma"):
        bqvi.adapters.from_stan(SCHOOLS, {"J": 8, "y": EFFECTS})


def test_bridgestan_keeps_the_constants_of_tildes(package, recwarn):
    """BridgeStan keeps them where httpstan drops them and reports it."""
    code = "data { real y; } parameters { real a; } model { a ~ normal(0, 2); y ~ normal(a, 0.5); }"
    model = bqvi.adapters.from_stan(code, {"y": 0.7})
    told = [str(one.message) for one in recwarn if "httpstan drops" in str(one.message)]
    a = np.array([-0.3])
    whole = stats.norm(0, 2).logpdf(-0.3) + stats.norm(-0.3, 0.5).logpdf(0.7)
    dropped = np.log(2 * np.pi) + np.log(2.0) + np.log(0.5)
    assert len(told) == (package == "httpstan")
    np.testing.assert_allclose(model.value(a), whole + dropped * (package == "httpstan"), rtol=1e-12)
    assert package in model.package


def test_what_does_not_compile_has_the_message_of_the_compiler(package):
    with pytest.raises(ValueError, match=r"does not compile(.|\n)*Identifier 'm' not in scope"):
        bqvi.adapters.from_stan("parameters { real mu; } model { target += normal_lpdf(m | 0, 1); }")


class Plain:
    """A program that is never built."""

    package, names, columns = "Stan", ("mu",), ["mu"]
    value = value_and_gradient = constrained = unconstrained = staticmethod(lambda theta: theta)

    def __init__(self, *given):
        self.given = given


@pytest.mark.parametrize(
    ("statement", "warned"),
    [
        ("mu ~ normal(0, 1);", True),
        ("target += normal_lupdf(mu | 0, 1);", True),
        ("target += normal_lpdf(mu | 0, 1); // mu ~ normal(0, 1);", False),
        ('print("~"); /* ~ */ target += std_normal_lpdf(mu);', False),
    ],
)
def test_constants_that_httpstan_drops_are_reported(statement, warned, monkeypatch, recwarn):
    monkeypatch.setattr(stan_programs, "HttpProgram", Plain)
    monkeypatch.setattr(stan_programs, "httpstan_is_ready", lambda: True)
    monkeypatch.setattr(stan_programs, "bridgestan_is_ready", lambda: False)
    bqvi.adapters.from_stan(f"parameters {{ real mu; }} model {{ {statement} }}")
    told = [str(one.message) for one in recwarn if "httpstan drops" in str(one.message)]
    assert len(told) == warned


def test_columns_are_arrays_with_the_last_index_slowest():
    titles = ["mu", "L.1.1", "L.2.1", "L.1.2", "L.2.2"]
    found = arrays_by_name(titles, np.array([[0.0, 11.0, 21.0, 12.0, 22.0]]))
    np.testing.assert_array_equal(found["L"][0], [[11.0, 12.0], [21.0, 22.0]])
    assert found["mu"].shape == (1,)


def test_unconstrained_numbers_have_their_parameter_and_a_count_of_their_own_where_they_are_fewer():
    constrained = ["mu", "w.1", "w.2", "w.3", "z.1.1", "z.2.1", "L.1.1", "L.2.1", "L.1.2", "L.2.2"]
    found = unconstrained_titles(["mu", "w", "w", "z", "z", "L"], constrained)
    assert found == ("mu", "w__[0]", "w__[1]", "z[0,0]", "z[1,0]", "L__[0]")


def test_bridgestan_is_asked_for_every_constant(monkeypatch, tmp_path):
    """Tested on a stand-in for BridgeStan, whose sources cannot be installed from a package index."""
    asked = []

    class StanModel:
        def __init__(self, library, data, warn):
            asked.append((library, data))

        def param_unc_names(self):
            return ["mu", "z.1"]

        def param_names(self, include_tp, include_gq):
            return ["mu", "z.1"] + ["effect"] * include_tp

        def log_density(self, theta, propto, jacobian):
            asked.append((propto, jacobian))
            return -0.5 * theta @ theta

        def log_density_gradient(self, theta, propto, jacobian):
            return self.log_density(theta, propto, jacobian), -theta

        def param_constrain(self, theta, include_tp, include_gq):
            return np.append(theta, theta.sum())

        def param_unconstrain_json(self, text):
            asked.append(text)
            return np.array([1.0, 2.0])

    stand_in = types.ModuleType("bridgestan")
    stand_in.__version__ = "0"
    stand_in.StanModel = StanModel
    stand_in.compile_model = lambda file, stanc_args: f"{file} built"
    monkeypatch.setitem(sys.modules, "bridgestan", stand_in)
    monkeypatch.setattr(stan_programs, "bridgestan_is_ready", lambda: True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = bqvi.adapters.from_stan("program", {"N": 3, "x": np.arange(3.0)})
    assert asked[0][1] == '{"N": 3, "x": [0.0, 1.0, 2.0]}'
    theta = np.array([0.5, -1.0])
    value, gradient = model.value_and_gradient(theta)
    assert (value, model.value(theta)) == (-0.625, -0.625)
    np.testing.assert_array_equal(gradient, -theta)
    assert asked[1:] == [(False, True)] * 2
    assert model.names == ("mu", "z[0]")
    assert model.constrain(theta)["effect"] == -0.5
    np.testing.assert_array_equal(model.unconstrain({"mu": 1.0, "z": [2.0]}), [1.0, 2.0])


def test_nothing_installed_names_the_extra(monkeypatch):
    monkeypatch.setattr(stan_programs, "httpstan_is_ready", lambda: False)
    monkeypatch.setattr(stan_programs, "bridgestan_is_ready", lambda: False)
    with pytest.raises(ImportError, match=r'pip install "bqvi\[stan\]"'):
        bqvi.adapters.from_stan("parameters { real mu; }")
    with pytest.raises(FileNotFoundError):
        bqvi.adapters.from_stan("nowhere.stan")
    with pytest.raises(TypeError, match="code_or_file is 3"):
        bqvi.adapters.from_stan(3)
    with pytest.raises(TypeError, match="data is 3"):
        stan_model.from_stan("parameters { real mu; }", 3)


@pytest.mark.parametrize(
    ("package", "call"),
    [
        ("pymc", lambda: bqvi.adapters.from_pymc(None)),
        ("numpyro", lambda: bqvi.adapters.from_numpyro(None)),
    ],
)
def test_other_extras_are_named(package, call, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    if package == "numpyro":
        monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError, match=rf"bqvi\[{package}\]"):
        call()
