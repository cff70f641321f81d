"""Each door beyond the number of evaluations up to which pairs of points are kept: against closed forms."""

import numpy as np
import pytest

import bqvi
from bqvi.models import LogJoint
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


@pytest.mark.filterwarnings("ignore::UserWarning")  # that the run ended by its budget
def test_fit():
    model = LogJoint(lambda theta: float(log_joint(theta)), 2, vectorised=False, gradient=None)
    found = bqvi.fit(model, method="bq", evaluations=earlier(), budget=MANY + 5)
    assert found.n_evaluations > MOST_PAIRED
    assert abs(found.elbo - LOG_EVIDENCE) < max(3 * found.elbo_sd, 1e-3)
