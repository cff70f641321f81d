"""`from_jax`: evidences in closed form, finite differences, names there and back, and what it refuses.

JAX is put in float64 where it is first used, so these tests run in a process of their own (`python -m pytest
tests/adapters/test_jax.py` with JAX_ENABLE_X64=1) and are skipped elsewhere.
"""

import os
import pickle

import numpy as np
import pytest
from call_contracts import check_target

import bqvi
from bqvi.adapters import from_jax

jax = pytest.importorskip("jax", reason="the extra jax is not installed", exc_type=ImportError)
import jax.numpy as jnp  # noqa: E402

exact = pytest.mark.skipif(
    os.environ.get("JAX_ENABLE_X64") != "1", reason="JAX is in float32: set JAX_ENABLE_X64=1"
)
PRECISION = np.array([[2.0, 0.5], [0.5, 1.0]])
EVIDENCE = np.log(2 * np.pi) - 0.5 * np.log(np.linalg.det(PRECISION))


def quadratic(theta):
    return -0.5 * theta @ PRECISION @ theta


def named(w, s):
    return -0.5 * jnp.sum(w**2) - 0.5 * (s - 1.0) ** 2


def by_any_names(**parameters):
    return named(**parameters)


@exact
def test_the_evidence_of_a_gaussian_by_each_door():
    model = from_jax(quadratic, [0.0, 0.0])
    for found in (bqvi.vbmc(model, budget=30, seed=0), bqvi.fit(model, method="bq", budget=20, seed=0)):
        assert abs(found.log_evidence - EVIDENCE) < 1e-2
    boxed = from_jax(quadratic, plausible_lower=[-2.0, -2.0], plausible_upper=2.0)
    assert abs(bqvi.integrate(boxed, seed=0).log_mean - EVIDENCE) < 1e-2
    bounds = bqvi.evidence_bounds(model, found.posterior, budget=4000, seed=0)
    assert abs(bounds.log_evidence - EVIDENCE) < 4.0 * bounds.log_evidence_sd + 1e-3


@exact
@pytest.mark.parametrize("function", [named, by_any_names, lambda theta: named(theta[:2], theta[2])])
def test_parameters_have_the_names_of_the_start(function):
    model = from_jax(function, {"w": [0.1, 0.2], "s": 0.3})
    assert model.names == ("w[0]", "w[1]", "s")
    check_target(model)
    values = model.constrain(np.array([[1.0, 2.0, 3.0]]))
    np.testing.assert_array_equal(values["w"], [[1.0, 2.0]])
    posterior = bqvi.vbmc(model, budget=20, seed=0).posterior
    assert posterior.variables(5)["w"].shape == (5, 2)


@exact
def test_a_model_that_was_called_travels_to_another_process():
    model = from_jax(named, {"w": [0.0, 0.0], "s": 0.0})
    before = model.value_and_gradient(np.ones((3, 3)))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.value_and_gradient(np.ones((3, 3)))[1], before[1])


@exact
@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda theta: -np.exp(theta).sum(), TypeError, "in JAX throughout"),
        (lambda theta: -theta[0] if theta[0] > 0 else theta[0], TypeError, "boolean conversion"),
        (lambda theta: -(theta**2), TypeError, "scalar-output"),
        (lambda theta: -(theta**2).sum().astype("float32"), TypeError, "it returns float32"),
        (lambda a, b: -a * b, ValueError, "takes a, b, and the parameters are x0, x1"),
        (3, TypeError, "log_joint is 3; it must be a function of x0, x1"),
    ],
)
def test_what_jax_cannot_trace_is_refused_before_any_run(function, error, message):
    with pytest.raises(error, match=message):
        from_jax(function, [0.0, 0.0])


@exact
def test_something_says_how_many_parameters_there_are():
    with pytest.raises(ValueError, match="start is None: give it"):
        from_jax(quadratic, plausible_lower=-1.0)


def test_single_precision_is_refused():
    if jax.config.jax_enable_x64:
        pytest.skip("JAX is in float64 here")
    with pytest.raises(ValueError, match=r'float32.*jax_enable_x64", True'):
        from_jax(quadratic, [0.0, 0.0])
