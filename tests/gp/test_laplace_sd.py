"""Standard deviations of lengthscales from noise-free gradients, against a posterior on a grid.

The covariance is singular in double precision, and its evidence rough. The grid is computed in
extended precision, from the formulas of the squared exponential and an elimination of its own.
"""

import numpy as np
import pytest
from extended_precision import drawn, log_evidence, needs_extended_precision

import gp
from gp.linalg import next_jitter


@needs_extended_precision
@pytest.mark.parametrize(("n", "seed"), [(15, 0), (15, 2), (25, 3)])
def test_sd_of_lengthscales_is_that_of_a_posterior_on_a_grid(n, seed):
    """Up to skewness, which Laplace's approximation neglects, and an optimum that rounding shifts by tenths
    of an sd.
    """
    x, y = drawn(seed, n)
    found = gp.fit([gp.Values(x), gp.Gradients(x)], [y[:n], y[n:]], noise=None).hyperparameters
    # whether the optimum itself needs any is a matter of the last digit; its neighbours do
    jitter = max(found.jitter, next_jitter(0.0, x))
    points = np.linspace(-4, 4, 13)
    step = 2.5 / n * np.array([0.25, 0.35])  # about a standard deviation; the grid shows whether it is
    values = [
        [log_evidence(x, y, found.values[:2] * np.exp(step * [a, b]), jitter) for b in points] for a in points
    ]
    weights = np.exp(np.array(values) - np.max(values))
    weights /= weights.sum()
    sds = []
    for axis in (1, 0):
        marginal = weights.sum(axis=axis)
        assert max(marginal[0], marginal[-1]) < 1e-2 * marginal.max()  # the grid is wide enough
        sds.append(np.sqrt(marginal @ points**2 - (marginal @ points) ** 2))
    assert min(sds) > 0.5  # the grid is fine enough: its spacing is 2 / 3
    np.testing.assert_allclose(found.sd[:2], step * sds, rtol=0.15)
