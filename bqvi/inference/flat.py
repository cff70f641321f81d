"""Whether the log joint bends over the width of q: asked of evaluations that are made anyway.

At the optimum of a Gaussian q the expected curvature of the log joint is the precision of q. So in whitened
coordinates u = L^-1 (theta - m), along each axis, the slope of L^T grad f in u is -1 on average. Where it is
0 the log joint does not bend over the width that q has reached, and the ELBO still rises as q widens, by the
logarithm of the width: without end if the posterior is improper.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bqvi.inference.settings import FLAT
from gp.arrays import to_numpy
from gp.linalg import least_squares

__all__ = ["said"]


def said(q: Any, points: np.ndarray, values: np.ndarray, gradients: np.ndarray | None) -> list[str]:
    """A sentence where the log joint does not bend along an axis of a Gaussian q.

    Parameters
    ----------
    q : with mean (D,) and covariance (D, D). points : (n, D). values : (n,). gradients : (n, D) or ``None``.
    """
    mean, covariance = (np.asarray(to_numpy(part), dtype=float) for part in (q.mean, q.covariance))
    variances, axes = np.linalg.eigh(covariance)
    if not (np.isfinite(variances).all() and variances.min() > 0):
        return []
    scale = axes * np.sqrt(variances)
    u = (points - mean) @ (axes / np.sqrt(variances))
    near = (np.abs(u) < FLAT.near).all(axis=1) & np.isfinite(values)
    if gradients is not None:
        near &= np.isfinite(gradients).all(axis=1)
    u, dimension = u[near], u.shape[1]
    if len(u) < 2 * (2 * dimension + 1):
        return []
    ones = np.ones((len(u), 1))
    if gradients is None:
        design = np.concatenate([ones, u, u**2 / 2], axis=1)
        found = least_squares(design, values[near][:, None])[0]
        bends = -found[1 + dimension :, 0]
        left = values[near] - design @ found[:, 0]
        variance = left @ left / (len(u) - design.shape[1]) * np.linalg.pinv(design.T @ design).diagonal()
        bends = bends + FLAT.doubt * np.sqrt(variance[1 + dimension :])
    else:
        found = least_squares(np.concatenate([ones, u], axis=1), gradients[near] @ scale)[0]
        bends = -found[1:].diagonal()
    flattest = int(np.argmin(bends))
    if bends[flattest] > FLAT.share:
        return []
    axis = ", ".join(f"{entry:.2g}" for entry in axes[:, flattest])
    return [
        f"q runs away: along ({axis}) its standard deviation has reached {np.sqrt(variances[flattest]):.3g}, "
        f"and the log joint has {max(bends[flattest], 0.0):.0%} of the curvature that would hold it there. "
        "The posterior is improper, or more steps are needed: look at the prior of these parameters."
    ]
