"""Standard deviations of lengthscales from noise-free gradients, against a posterior on a grid.

The covariance is singular in double precision, and its evidence rough. The grid is computed in
extended precision, from the formulas of the squared exponential and an elimination of its own.
"""

import numpy as np
import pytest

import gp
from gp.kernels import SquaredExponential
from gp.linalg import next_jitter

EXTENDED = np.longdouble


def drawn(seed, n):
    """Values and gradients at n points of a function drawn from a process with known lengthscales."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 2))
    process = gp.GaussianProcess(SquaredExponential(np.array([0.6, 2.0]), 4.0))
    y = process.sample([gp.Values(x), gp.Gradients(x)], 1, rng)[0]
    return x, y


def log_evidence(x, y, lengthscale, jitter):
    """Up to a constant, with the scale and a constant mean profiled out; x (n, 2)."""
    (n, d), x = x.shape, x.astype(EXTENDED)
    precision = np.asarray(lengthscale, dtype=EXTENDED) ** -2
    apart = x[:, None, :] - x[None, :, :]
    k, slope = np.exp(-(apart**2 @ precision) / 2), apart * precision
    bend = np.diag(precision) - slope[:, :, :, None] * slope[:, :, None, :]
    crossed = (k[:, :, None] * slope).reshape(n, n * d)
    bent = (k[:, :, None, None] * bend).transpose(0, 2, 1, 3).reshape(n * d, n * d)
    matrix = np.block([[k, crossed], [crossed.T, bent]])
    matrix[np.diag_indices(len(matrix))] *= 1 + EXTENDED(jitter)
    sides = np.stack([y, np.arange(len(y)) < n], axis=1).astype(EXTENDED)
    log_determinant = EXTENDED(0)
    for j in range(len(matrix)):  # a Cholesky factorisation, and its solves on the way
        pivot = np.sqrt(matrix[j, j])
        log_determinant += 2 * np.log(pivot)
        column = matrix[j + 1 :, j] / pivot
        sides[j] /= pivot
        sides[j + 1 :] -= column[:, None] * sides[j]
        matrix[j + 1 :, j + 1 :] -= column[:, None] * column
    u, z = sides.T
    residual = u - z * (z @ u) / (z @ z)
    return float(-(len(y) * np.log(residual @ residual) + log_determinant) / 2)


@pytest.mark.skipif(np.finfo(EXTENDED).eps > 1e-18, reason="no extended precision on this machine")
@pytest.mark.parametrize(("n", "seed"), [(15, 0), (15, 2), (25, 3)])
def test_sd_of_lengthscales_is_that_of_a_posterior_on_a_grid(n, seed):
    """But for skewness, which Laplace leaves out, and an optimum that rounding moves by tenths of an sd."""
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
    assert min(sds) > 0.5  # and fine enough: its spacing is 2 / 3
    np.testing.assert_allclose(found.sd[:2], step * sds, rtol=0.15)
