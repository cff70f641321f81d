"""One name for one thing in the results of all doors."""

import inspect
import math

import numpy as np
import pytest

import bqvi
from bqvi.models import LogJoint
from gp.measures import Gaussian

LOG_Z = math.log(2.0 * math.pi)


def log_joint(theta):
    return -0.5 * (theta**2).sum(-1)


@pytest.fixture(scope="module")
def results():
    normal = Gaussian(np.zeros(2), np.eye(2))
    return {
        "fit": bqvi.fit(LogJoint(log_joint, 2), method="bq", budget=30),
        "vbmc": bqvi.vbmc(log_joint, plausible_lower=[-2.0, -2.0], plausible_upper=[2.0, 2.0], budget=30),
        "integrate": bqvi.integrate(lambda x: np.exp(log_joint(x)), normal, 30),
        "evidence_bounds": bqvi.evidence_bounds(log_joint, normal, 400, replicates=2),
    }


def test_every_result_has_what_all_have(results):
    for found in results.values():
        assert found.warnings == ()
        assert found.stopped
        assert found.n_evaluations > 0
        assert callable(found.save)


@pytest.mark.parametrize("door", ["fit", "vbmc", "integrate"])
def test_results_by_a_surrogate_have_a_pareto_k_and_a_plot_of_the_trace(results, door):
    assert results[door].pareto_k < 0.7
    arguments = inspect.signature(results[door].plot_trace).parameters
    assert list(arguments) == ["ax", "truth"]


@pytest.mark.parametrize("door", ["fit", "vbmc"])
def test_an_elbo_and_a_log_evidence_have_an_sd(results, door):
    """For a Gaussian posterior both are ln Z; four standard deviations, of a normal error one in 15,000."""
    found = results[door]
    assert abs(found.elbo - LOG_Z) < 4.0 * found.elbo_sd + 1e-6
    assert abs(found.log_evidence - LOG_Z) < 4.0 * found.log_evidence_sd


def test_the_elbo_of_a_fit_has_the_error_of_its_last_record():
    model = LogJoint(log_joint, 2)
    sampled = bqvi.fit(model, method="pathwise", steps=40)
    assert (sampled.elbo, sampled.elbo_sd) == (sampled.trace["elbo"][-1], sampled.trace["elbo_se"][-1])
    assert 0.0 < sampled.elbo_sd < 1.0
    exact = bqvi.fit(bqvi.models.GaussianMixture(2, "full"), np.linspace(-1.0, 1.0, 20)[:, None], steps=3)
    assert exact.elbo_sd == 0.0
