"""Laplace's Gaussian by eigenvalues and eigenvectors, against general linear algebra."""

import numpy as np

from gp.laplace import LaplaceGaussian

H = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 2.0]])


def test_a_bowl_has_the_covariance_the_depths_and_the_volume_of_its_curvature():
    gaussian, curved = LaplaceGaussian.of(H, 0.0, 1.0)
    assert curved
    np.testing.assert_allclose(gaussian.covariance, np.linalg.inv(H), rtol=1e-12)
    gaps = np.random.default_rng(0).standard_normal((5, 3))
    np.testing.assert_allclose(
        gaussian.depths(gaps), 0.5 * np.einsum("ni,ij,nj->n", gaps, H, gaps), rtol=1e-12
    )
    volume = 0.5 * np.linalg.slogdet(2.0 * np.pi * np.linalg.inv(H))[1]
    np.testing.assert_allclose(gaussian.log_volume, volume, rtol=1e-12)


def test_directions_without_curvature_get_the_one_that_stands_in():
    gaussian, curved = LaplaceGaussian.of(np.diag([2.0, -1.0, 0.05]), 0.1, 9.0)
    assert not curved
    np.testing.assert_allclose(gaussian.covariance, np.diag([0.5, 1.0 / 9.0, 1.0 / 9.0]), rtol=1e-12)
