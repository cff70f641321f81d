"""Gaussians at evaluated points where a proposal lacks density, with scales by the surrogate's density.

    mean:            x_k, an evaluated point near the top;
    axes:            those of the curvature of the surrogate's mean at x_k;
    sd along one:    l / sqrt(2 d), with d the fall of the log density after the length l, half a nat or more;
    weight:          density at x_k times the volume of the Gaussian, its mass by Laplace's approximation.

A thin curved posterior, such as a ring, needs tens of them; a mixture of diagonal Gaussians would need
hundreds. Where the variance of the log joint exceeds a squared nat, the excess counts as a fall, so that no
Gaussian extends to regions where the surrogate is uncertain.
"""

from __future__ import annotations

import numpy as np

from bqvi.importance import Proposal
from bqvi.variational_bmc.settings import LOCAL
from bqvi.variational_bmc.surrogate import Surrogate
from gp.laplace import LaplaceGaussian, curvature, spectrum
from gp.triangular import cholesky

__all__ = ["local_proposal"]

_LENGTHS = 2.0 ** np.arange(-8.0, 1.0)
"""The lengths that are tried in turn, in the frame's units; no Gaussian is longer than the last."""


def local_proposal(
    surrogate: Surrogate, g: Proposal, log_evidence: float, inside: float = 1.0
) -> Proposal | None:
    """Gaussians at evaluated points of high density where the proposal g lacks density.

    None is returned where they are few or have little mass: there the components that q is given
    (`added_components`) and the rounds of `correction` suffice.

    Parameters
    ----------
    surrogate : the surrogate of the log joint.
    g : the proposal, in the surrogate's frame.
    log_evidence : the log evidence of the surrogate, from draws of ``g``.
    inside : the share of g between bounds, to which it is restricted.
    """
    data = surrogate.data
    near = np.flatnonzero(data.top - data.values < 0.5 * surrogate.dimension + LOCAL.shallow)
    near = near[np.argsort(-data.values[near])]
    u = data.points[near]
    heights = surrogate.mean(u)
    lacking = heights - log_evidence - g.density.log_density(u) + np.log(inside) > LOCAL.lacking
    found = list[tuple[int, LaplaceGaussian]]()
    while lacking.any() and len(found) < LOCAL.most:
        best = int(lacking.argmax())
        gaussian = _gaussian(surrogate, u[best], heights[best])
        lacking &= 2.0 * gaussian.depths(u - u[best]) > LOCAL.apart
        found.append((best, gaussian))
    if len(found) < LOCAL.least:
        return None
    masses = np.exp([heights[k] + gaussian.log_volume - log_evidence for k, gaussian in found])
    if masses.sum() < LOCAL.mass:
        return None
    factors = [cholesky(gaussian.covariance) for _, gaussian in found]
    return Proposal(masses / masses.sum(), u[[k for k, _ in found]], np.array(factors))


def _gaussian(surrogate: Surrogate, at: np.ndarray, height: float) -> LaplaceGaussian:
    """The Gaussian at a point (D,) with the log density ``height``."""
    dimension = len(at)
    _, axes = spectrum(curvature(surrogate.function.gradient, at, 1e-3), -np.inf)
    places = at + _LENGTHS[:, None, None] * np.concatenate([axes.T, -axes.T])
    mean, variance = surrogate.moments(places.reshape(-1, dimension))
    falls = (height - mean + np.maximum(variance - 1.0, 0.0)).reshape(len(_LENGTHS), 2 * dimension)
    far = falls > 0.5
    far[-1] = True
    first = far.argmax(0)
    fall = np.take_along_axis(falls, first[None], 0)[0]
    # a fall of more than two nats within one length is not that of a parabola, as at half the length it was
    # below 1/2
    sds = _LENGTHS[first] / np.sqrt(np.clip(2.0 * fall, *LOCAL.bend))
    sds = 0.5 * (sds[:dimension] + sds[dimension:])
    return LaplaceGaussian(sds**-2.0, axes)
