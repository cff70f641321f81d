"""Gram matrices of a function's values and gradients, as `value_process` and its like observe them.

    k(u, u') = s^2 (l^2 exp(-|u - u'|^2 / (2 l^2)) + b1 u . u' + b2 (u . u')^2 / 2)

With r = u - u', e = exp(-|r|^2 / (2 l^2)) and t = b1 + b2 u . u', the covariances over s^2 are

    cov(psi(u), psi(u'))   = l^2 e + b1 u . u' + b2 (u . u')^2 / 2
    cov(psi(u), y_j(u'))   = e r_j + t u_j
    cov(y_i(u), psi(u'))   = -e r_i + t u'_i
    cov(y_i(u), y_j(u'))   = e (delta_ij - r_i r_j / l^2) + t delta_ij + b2 u'_i u_j.

A matrix has the numbers of a point next to each other; it is filled one pair of numbers at a time, over all
pairs of points: (m, n) arrays that fit the cache, in place of one of (m, n, D, D).
"""

from __future__ import annotations

import numpy as np

from bqvi.gradients.value_process import ValueShape


def observed_kernel(left: np.ndarray, right: np.ndarray, shape: ValueShape, first: int = 0) -> np.ndarray:
    """K / s^2 between (m, D) and (n, D) points, (m B, n B) with B = 1 + D - first.

    ``first`` 0 is for values and gradients, 1 for gradients alone.
    """
    (m, d), n, width = left.shape, len(right), 1 + left.shape[1] - first
    whole = np.empty((m, width, n, width))
    r, e = _bumps(left, right, shape.lengthscale)
    inner = left @ right.T
    tilt = shape.linear + shape.quadratic * inner
    steep = e * r
    if not first:
        height = shape.lengthscale**2 * e
        whole[:, 0, :, 0] = height + inner * (shape.linear + 0.5 * shape.quadratic * inner)
        for i in range(d):
            whole[:, 0, :, 1 + i] = steep[i] + tilt * left[:, i, None]
            whole[:, 1 + i, :, 0] = tilt * right[:, i] - steep[i]
    slopes, own = whole[:, 1 - first :, :, 1 - first :], e + tilt
    for i in range(d):
        along, across = steep[i] / -(shape.lengthscale**2), shape.quadratic * right[:, i]
        for j in range(d):
            block = along * r[j]
            block += across * left[:, j, None]
            if i == j:
                block += own
            slopes[:, i, :, j] = block
    return whole.reshape(m * width, n * width)


def smooth_matrix(points: np.ndarray, lengthscale: float, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The squared-exponential part of `observed_kernel` at (m, D) points, and its derivative in ln l."""
    (m, d), l2, width = points.shape, lengthscale**2, 1 + points.shape[1] - first
    kernel, rising = np.empty((2, m, width, m, width))
    r, e = _bumps(points, points, lengthscale)
    squares = np.einsum("dmn,dmn->mn", r, r) / l2
    steep = e * r
    if not first:
        kernel[:, 0, :, 0], rising[:, 0, :, 0] = l2 * e, l2 * e * (2.0 + squares)
        for i in range(d):
            for whole, across in ((kernel, steep[i]), (rising, steep[i] * squares)):
                whole[:, 0, :, 1 + i], whole[:, 1 + i, :, 0] = across, -across
    slopes, rises = (whole[:, 1 - first :, :, 1 - first :] for whole in (kernel, rising))
    for i in range(d):
        for j in range(i + 1):
            crossed = steep[i] * r[j] / l2
            block = e - crossed if i == j else -crossed
            slopes[:, i, :, j] = slopes[:, j, :, i] = block
            rises[:, i, :, j] = rises[:, j, :, i] = block * squares + 2.0 * crossed
    return kernel.reshape(m * width, -1), rising.reshape(m * width, -1)


def _bumps(left: np.ndarray, right: np.ndarray, lengthscale: float) -> tuple[np.ndarray, np.ndarray]:
    """u - u', (D, m, n), and e, (m, n)."""
    r = left.T[:, :, None] - right.T[:, None, :]
    return r, np.exp(np.einsum("dmn,dmn->mn", r, r) * (-0.5 / lengthscale**2))
