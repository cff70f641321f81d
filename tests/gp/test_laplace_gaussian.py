"""Laplace's Gaussian by eigenvalues and eigenvectors, against general linear algebra, and its draws."""

import numpy as np

from gp.laplace import LaplaceGaussian, root, weighed

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


def test_weights_of_draws_are_those_of_the_density():
    """Against the ratio of densities, that of a Gaussian twice as wide in squares over the one drawn from."""
    steps = np.random.default_rng(0).standard_normal((40, 3))
    mode, scale = np.array([1.0, -2.0, 0.5]), root(H, 1e-9)

    def wider(at):
        gap = at - mode
        return 7.0 - 0.25 * gap @ H @ gap, gap

    gaps, weights = weighed(wider, mode, wider(mode), scale, steps, 1.0)
    np.testing.assert_allclose(gaps[1:], steps @ scale.T, rtol=1e-12)
    expected = np.minimum(0.25 * np.square(steps).sum(1), 1.0)
    np.testing.assert_allclose(np.log(weights[1:] / weights[0]), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-12)


def test_a_draw_without_a_factor_is_left_out():
    def evaluate(at):
        if at[0] > 0.0:
            raise np.linalg.LinAlgError
        return 0.0, at[0]

    steps = np.array([[1.0], [-1.0], [2.0], [-3.0]])
    found, weights = weighed(evaluate, np.zeros(1), (0.0, 0.0), np.eye(1), steps, np.inf)
    assert found == [0.0, -1.0, -3.0]
    assert len(weights) == 3
