"""A statistical test that draws are from a Gaussian with a known mean and covariance."""

import numpy as np
from scipy import stats


def mahalanobis_p_value(draws, mean, covariance):
    """Probability of a mean and covariance this far off, were the draws from the Gaussian."""
    n, m = draws.shape
    white = np.linalg.solve(np.linalg.cholesky(covariance), (draws - mean).T)
    mean_p = stats.chi2.sf(n * np.sum(white.mean(axis=1) ** 2), m)
    squares = np.sum(white**2)
    spread_p = 2 * min(stats.chi2.sf(squares, n * m), stats.chi2.cdf(squares, n * m))
    return min(mean_p, spread_p)


FALSE_ALARM = 1e-4  # for each of the two statistics; the seeds are fixed
