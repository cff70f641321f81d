"""Hyperparameters of a `GradientProcess` by evidence, with weak log-normal priors.

With the scale profiled out, s^2 = tr(Y^T K^-1 Y) / (m D), the evidence of D outputs sharing K is

    -(m D / 2) ln tr(Y^T K^-1 Y) - (D / 2) ln|K| + constant,

and its gradient in a log hyperparameter t is tr((alpha alpha^T / s^2 - D K^-1) dK/dt) / 2.
"""

from __future__ import annotations

import numpy as np
import scipy.optimize

from bqvi.gradients.gradient_process import JITTER, Shape, remoteness
from bqvi.gradients.positive_definite import cholesky_inverse

MOST_POINTS = 100
"""The evidence looks at no more points than this, the most recent."""
_PRIOR_SD = np.array([0.7, 3.0, 3.0])


def prior_centre(dimension: int) -> np.ndarray:
    """Logs of l = 2 sqrt(D), b0 = b1 = 1 / 10: where the weak prior is centred."""
    return np.log([2.0 * np.sqrt(dimension), 0.1, 0.1])


def fit_shape(points: np.ndarray, targets: np.ndarray, start: Shape | None) -> Shape:
    """Maximum a posteriori hyperparameters of the last MOST_POINTS of (m, D) points."""
    u, y = points[-MOST_POINTS:], targets[-MOST_POINTS:]
    inner = u @ u.T
    remote = remoteness(u)
    squares = np.diagonal(inner)
    distances = np.maximum(squares[:, None] + squares[None, :] - 2.0 * inner, 0.0)
    centre = prior_centre(u.shape[1])
    first = centre if start is None else np.log([start.lengthscale, start.constant, start.linear])

    def objective(t: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = _negative_evidence(t, inner, distances, remote, y)
        gap = (t - centre) / _PRIOR_SD
        return value + 0.5 * gap @ gap, slope + gap / _PRIOR_SD

    bounds = [(c - 5.0 * s, c + 4.0 * s) for c, s in zip(centre, _PRIOR_SD, strict=True)]
    found = scipy.optimize.minimize(
        objective, first, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 25}
    )
    lengthscale, constant, linear = np.exp(found.x)
    return Shape(float(lengthscale), float(constant), float(linear))


def _negative_evidence(
    t: np.ndarray, inner: np.ndarray, distances: np.ndarray, remote: np.ndarray, y: np.ndarray
) -> tuple[float, np.ndarray]:
    m, d = y.shape
    lengthscale, constant, linear = np.exp(t)
    smooth = np.exp(-0.5 / lengthscale**2 * distances)
    gram = smooth + constant + linear * inner
    np.einsum("ii->i", gram)[:] += JITTER * (1.0 + constant) * remote
    factor, inverse = cholesky_inverse(gram)
    alpha = inverse @ y
    quadratic = float(np.vdot(y, alpha))
    value = 0.5 * m * d * np.log(quadratic) + d * np.log(np.diagonal(factor)).sum()
    sensitivity = d * inverse - (m * d / quadratic) * (alpha @ alpha.T)
    slope = 0.5 * np.array(
        [
            np.vdot(sensitivity, smooth * distances) / lengthscale**2,
            constant * (sensitivity.sum() + JITTER * np.diagonal(sensitivity) @ remote),
            linear * np.vdot(sensitivity, inner),
        ]
    )
    return float(value), slope
