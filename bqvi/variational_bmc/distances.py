"""Distances between two posteriors.

    mmtv    the total variation between marginals, averaged over the parameters: 0 to 1
    gskl    the Kullback-Leibler divergences of the Gaussians with the same moments, averaged over both
            directions: nats

(Acerbi 2018, "Variational Bayesian Monte Carlo", section 4.1.) Values below .2 and 1/8 count as small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.fft import irfft, rfft

from gp.linear_maps import symmetric_divergence


def gskl(mean_p: np.ndarray, covariance_p: np.ndarray, mean_q: np.ndarray, covariance_q: np.ndarray) -> float:
    """Half the sum of the two Kullback-Leibler divergences between two Gaussians.

    Parameters
    ----------
    mean_p, covariance_p : the mean (D,) and covariance (D, D) of one Gaussian.
    mean_q, covariance_q : the mean and covariance of the other.
    """
    p, q = np.atleast_2d(covariance_p), np.atleast_2d(covariance_q)
    return symmetric_divergence(np.asarray(mean_p, float), p, np.asarray(mean_q, float), q)


def mmtv(p: np.ndarray, q: np.ndarray, cells: int = 4096) -> float:
    """The total variation between the marginals of draws p (n, D) and q (m, D), averaged over D.

    Marginals are Gaussian kernel density estimates on a grid of ``cells``, so that two sets of 20,000 draws
    of the same distribution give about .01.
    """
    pairs = zip(np.asarray(p, float).T, np.asarray(q, float).T, strict=True)
    return float(np.mean([total_variation(a, b, cells) for a, b in pairs]))


def total_variation(p: np.ndarray, q: np.ndarray, cells: int = 4096) -> float:
    """The integral of |p - q| / 2 for density estimates on ``cells`` from draws p (n,) and q (m,)."""
    widths = [_bandwidth(x) for x in (p, q)]
    low = min(p.min(), q.min()) - 5 * max(widths)
    high = max(p.max(), q.max()) + 5 * max(widths)
    densities = [_smoothed(x, low, high, cells, width) for x, width in zip((p, q), widths, strict=True)]
    return 0.5 * float(np.abs(densities[0] - densities[1]).sum()) * (high - low) / cells


def _bandwidth(x: np.ndarray) -> float:
    """The bandwidth by Silverman's rule, with the smaller of the standard deviation and the scaled range."""
    quartiles: Sequence[float] = np.percentile(x, [25, 75]).tolist()
    spread = min(float(x.std()), (quartiles[1] - quartiles[0]) / 1.34) or float(x.std())
    return max(0.9 * spread * len(x) ** -0.2, 1e-12 * (1.0 + abs(float(x.mean()))))


def _smoothed(x: np.ndarray, low: float, high: float, cells: int, width: float) -> np.ndarray:
    """A kernel density estimate on the cells of [low, high], by the discrete Fourier transform."""
    counts, _ = np.histogram(x, bins=cells, range=(low, high))
    frequency = 2 * math.pi * np.arange(cells // 2 + 1) / (high - low)
    smooth: np.ndarray = irfft(rfft(counts.astype(float)) * np.exp(-0.5 * (frequency * width) ** 2), n=cells)
    return smooth * cells / (len(x) * (high - low))
