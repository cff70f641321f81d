"""The standard deviation of an ELBO that is the mean of estimates by the latest steps."""

import math

import numpy as np
import pytest
from scipy import stats

import bqvi
from bqvi.inference.state import Monitor


@pytest.mark.parametrize("n", [2, 3, 4, 7, 30])
def test_it_is_that_of_students_t(n):
    values = np.random.default_rng(n).normal(size=n)
    model = bqvi.models.LogJoint(lambda theta: -0.5 * theta[:, 0] ** 2, 1, gradient=None)
    found = Monitor(model, None).value(None, values=values)
    error = stats.t(n - 1, scale=values.std(ddof=1) / math.sqrt(n)).std()
    assert found.elbo == pytest.approx(values.mean())
    assert found.elbo_sd == (pytest.approx(error) if n > 3 else math.inf)
