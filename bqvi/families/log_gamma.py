"""Log-gamma draws and their derivative in the shape, exact for shapes as small as 1e-3.

y ~ Gamma(a, 1) is drawn as ln y = ln y' + ln(u) / a with y' ~ Gamma(a + 1, 1) and u uniform, so that
nothing underflows. The reparameterisation is implicit (Figurnov et al. 2018): with F the CDF of y,

    d ln y / da = -(dF / da) / (y p(y)),        (thesis Eqs 5.21 and 5.26 without the inverse CDF)

dF/da is a five-point difference of F, or above the median of 1 - F, both regularised incomplete gamma
functions (relative accuracy about 1e-10). For y -> 0 it is that of the leading term F = y^a / Gamma(a + 1),
whose relative error is y.
"""

from __future__ import annotations

import numpy as np
import scipy.special

from bqvi.arrays import Seed, generator, like
from gp.arrays import Array, is_torch, to_numpy

_SMALL = np.log(1e-12)
"""The draw below which its density and slope are those of the power law, to rounding."""


def log_gamma_draws(shape: np.ndarray, n: int, seed: Seed) -> np.ndarray:
    """``n`` draws of ln y, y ~ Gamma(shape, 1): (n, *shape.shape)."""
    rng = generator(seed)
    size = (n, *shape.shape)
    boosted = np.log(rng.standard_gamma(shape + 1.0, size))
    # -ln u of a uniform u is standard exponential
    with np.errstate(divide="ignore"):  # a shape of 0 is its limit, ln y = -inf
        return np.asarray(boosted - rng.standard_exponential(size) / shape)


def log_gamma_slope(shape: np.ndarray, log_y: np.ndarray) -> np.ndarray:
    """d ln y / d shape at draws ln y, holding the CDF's value."""
    shape = np.broadcast_to(shape, log_y.shape)
    slope: np.ndarray = (scipy.special.psi(shape + 1.0) - log_y) / shape
    usual = log_y > _SMALL
    a, y = shape[usual], np.exp(log_y[usual])
    log_y_density = a * log_y[usual] - y - scipy.special.gammaln(a)
    slope[usual] = -_cdf_slope(a, y) * np.exp(-log_y_density)
    return slope


def _cdf_slope(a: np.ndarray, y: np.ndarray) -> np.ndarray:
    """dF(y; a) / da."""
    h = 1e-3 * np.minimum(a, np.sqrt(a))
    lower = y < a
    slope = np.empty_like(y)
    for side, cdf, sign in (
        (lower, scipy.special.gammainc, 1.0),
        (~lower, scipy.special.gammaincc, -1.0),
    ):
        a_, y_, h_ = a[side], y[side], h[side]
        near = cdf(a_ + h_, y_) - cdf(a_ - h_, y_)
        far = cdf(a_ + 2.0 * h_, y_) - cdf(a_ - 2.0 * h_, y_)
        slope[side] = sign * (8.0 * near - far) / (12.0 * h_)
    return slope


def rsample_log_gamma(shape: Array, n: int, seed: Seed) -> Array:
    """``n`` draws of ln y; a torch ``shape`` receives their gradient."""
    if not is_torch(shape):
        return log_gamma_draws(shape, n, seed)
    host = to_numpy(shape).astype(float)
    log_y = log_gamma_draws(host, n, seed)
    if not shape.requires_grad:
        return like(log_y, shape)
    slope = like(log_gamma_slope(host, log_y), shape)
    return like(log_y, shape) + slope * (shape - shape.detach())
