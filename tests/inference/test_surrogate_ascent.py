"""The natural gradient of the ascent on a surrogate, against the divergence of Gaussians."""

import numpy as np
import pytest

from bqvi.inference.steps import Place, _squared_norm


def divergence(mean, precision, to_mean, to_precision):
    """KL between two Gaussians, by their moments."""
    covariance = np.linalg.inv(precision)
    gap = to_mean - mean
    log_ratio = np.linalg.slogdet(precision)[1] - np.linalg.slogdet(to_precision)[1]
    return 0.5 * (np.trace(to_precision @ covariance) + gap @ to_precision @ gap - len(mean) + log_ratio)


@pytest.mark.parametrize("part", ["mean", "precision", "both"])
def test_the_norm_is_that_of_the_fisher_metric(part):
    """Twice the divergence to a place a step e away is e^2 times the squared norm, up to e^3."""
    rng = np.random.default_rng(0)
    root = rng.standard_normal((3, 3))
    precision = root @ root.T + np.eye(3)
    covariance, mean = np.linalg.inv(precision), rng.standard_normal(3)
    pull, change = rng.standard_normal(3), rng.standard_normal((3, 3))
    change = (change + change.T) * (part != "mean")
    pull = pull * (part != "precision")
    norm = _squared_norm(Place(mean, precision, covariance, 0.0), pull, change)
    e = 1e-4
    apart = divergence(mean, precision, mean + e * covariance @ pull, precision + e * change)
    assert 2.0 * apart / e**2 == pytest.approx(norm, rel=1e-2)
