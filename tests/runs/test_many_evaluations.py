"""Each door beyond the number of evaluations up to which pairs of points are kept: against closed forms."""

import numpy as np
import pytest

import bqvi
from bqvi.models import LogJoint
from gp import measures
from gp.fixed_points.gram import MOST_PAIRED

MANY = MOST_PAIRED + 10
PRECISION = np.array([1.4, 0.6])
CENTRE = np.array([0.4, -0.7])
LOG_EVIDENCE = np.log(2 * np.pi) - 0.5 * np.log(PRECISION).sum()


def log_joint(theta):
    """An unnormalised Gaussian; ``theta`` has shape (..., 2)."""
    return -0.5 * np.sum(PRECISION * (theta - CENTRE) ** 2, axis=-1)


def earlier():
    points = CENTRE + np.random.default_rng(11).standard_normal((MANY, 2)) * 1.3 / np.sqrt(PRECISION)
    return points, log_joint(points)


def test_integrate():
    measure = measures.Gaussian(np.zeros(2), np.eye(2))
    found = bqvi.integrate(
        lambda x: np.sin(1.5 * x[:, 0]) ** 2 * np.cos(x[:, 1]),
        measure,
        MANY,
        design=bqvi.Design(initial=MANY),
    )
    exact = 0.5 * (1 - np.exp(-4.5)) * np.exp(-0.5)
    assert found.n_evaluations == MANY
    assert found.converged
    assert abs(found.mean - exact) < min(3 * found.sd, 1e-4)


@pytest.mark.parametrize("method", ["bq", "wsabi-l"])
def test_integrate_of_a_logarithm(method):
    measure = measures.Gaussian(np.zeros(2), 3 * np.eye(2))
    found = bqvi.integrate(
        lambda x: log_joint(x) - measure.log_density(x),
        measure,
        MANY + 3,
        method,
        log=True,
        design=bqvi.Design(initial=MANY),
    )
    assert found.n_evaluations == MANY + 3
    assert found.converged
    assert abs(found.log_mean - LOG_EVIDENCE) < min(3 * found.log_sd, 1e-2)


def test_vbmc():
    found = bqvi.vbmc(
        lambda theta: float(log_joint(theta)), plausible_lower=[-2, -3], plausible_upper=[3, 2],
        evaluations=earlier(), budget=MANY + 5,
    )  # fmt: skip
    assert found.n_evaluations > MOST_PAIRED
    assert abs(found.log_evidence - LOG_EVIDENCE) < 3 * found.log_evidence_sd


@pytest.mark.filterwarnings("ignore::UserWarning")  # that the run ended by its budget
def test_fit():
    model = LogJoint(lambda theta: float(log_joint(theta)), 2, vectorised=False, gradient=None)
    found = bqvi.fit(model, method="bq", evaluations=earlier(), budget=MANY + 5)
    assert found.n_evaluations > MOST_PAIRED
    assert abs(found.elbo - LOG_EVIDENCE) < max(3 * found.elbo_sd, 1e-3)
