"""The mixture pass keeps its digits when the data lie far from the prior mean, in float32 too."""

import numpy as np
import pytest

from bqvi.families import Gaussian, Product
from bqvi.models import GaussianMixture, elbo


@pytest.mark.parametrize("distance", [0.0, 1e2, 1e3, 1e4])
def test_float32_data_far_from_the_prior_mean(distance):
    rng = np.random.default_rng(0)
    x = (distance + 2.0 * rng.standard_normal((500, 2))).astype(np.float32)
    model = GaussianMixture(3, np.eye(2), prior_covariance=1e8 * np.eye(2)).for_data(x)
    q = model.initial(x, "k-means++", rng)
    exact = elbo(model, q, x.astype(float))  # the same numbers, worked on in float64
    # x - centre is rounded to float32, eps * 5 a datum at random signs, and multiplied by the distance;
    # rho itself by about eps * 36 a datum
    tolerance = 1.2e-7 * 500**0.5 * (5.0 * distance + 36.0) + 1e-3
    assert elbo(model, q, x) == pytest.approx(exact, abs=tolerance, rel=0)


def test_the_centre_of_the_means_changes_no_number():
    rng = np.random.default_rng(1)
    x = 5.0 + rng.standard_normal((60, 2))
    near = GaussianMixture(3, np.eye(2), prior_mean=np.array([5.0, 5.0]), prior_covariance=np.eye(2) * 9)
    q = near.initial(x, "k-means++", rng)
    moved = GaussianMixture(3, np.eye(2), prior_mean=np.zeros(2), prior_covariance=np.eye(2) * 9)
    means = Gaussian(q["means"].mean - 5.0, q["means"].covariance)
    same = Product({"weights": q["weights"], "means": means})
    assert elbo(near, q, x) == pytest.approx(elbo(moved, same, x - 5.0), rel=1e-12)
