"""Noise-free gradients in 80 bits: the squared exponential's formulas and an elimination of their own."""

import numpy as np
import pytest

import gp
from gp.kernels import SquaredExponential

EXTENDED = np.longdouble
needs_extended_precision = pytest.mark.skipif(
    np.finfo(EXTENDED).eps > 1e-18, reason="no extended precision on this machine"
)


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
