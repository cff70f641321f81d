"""Antithetic orthogonal frames: unbiasedness, marginals, and exactness by symmetry."""

import numpy as np
import pytest
from scipy import stats

from bqvi.gradients.designs import normal_frames


@pytest.mark.parametrize("n", [5, 8])
def test_frames_integrate_moments_without_bias(n):
    rng = np.random.default_rng(0)
    x = np.stack([normal_frames(n, 2, rng) for _ in range(400)])
    assert x.shape == (400, n, 2)
    for sample, truth in ((x.mean(axis=1), 0.0), ((x**2).mean(axis=1), 1.0)):
        error = sample.std(axis=0, ddof=1) / np.sqrt(len(sample))
        # 8 comparisons at 4.5 standard errors: a false alarm in 2e4 seeds; at this one never
        np.testing.assert_array_less(np.abs(sample.mean(axis=0) - truth), 4.5 * error + 1e-12)


def test_each_antithetic_point_is_normal():
    rng = np.random.default_rng(1)
    x = np.stack([normal_frames(6, 3, rng) for _ in range(500)])
    for i in (0, 5):
        # 2 tests at 1e-4 each
        assert stats.kstest((x[:, i] ** 2).sum(axis=1), stats.chi2(3).cdf).pvalue > 1e-4
    np.testing.assert_allclose(x[:, 0] + x[:, 1], 0, atol=1e-12)
    np.testing.assert_allclose((x[:, 0] * x[:, 2]).sum(axis=1), 0, atol=1e-10)  # orthogonal
