"""The figures of models show the numbers that they are drawn from."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

import bqvi
from bqvi.models import DirichletProcessMixture
from experiments.models import pictures

X = np.concatenate([np.random.default_rng(0).normal(c, 0.5, (40, 2)) for c in (-3.0, 3.0)])


def test_ellipses_are_the_contours_of_the_gaussians():
    covariance = np.array([[[4.0, 1.5], [1.5, 1.0]]])
    ax = Figure().subplots()
    pictures.ellipses(ax, np.array([[1.0, -2.0]]), covariance, radii=(2.0,))
    (patch,) = ax.patches
    assert isinstance(patch, Ellipse)
    points = patch.get_patch_transform().transform(patch.get_path().vertices)
    gap = points - [1.0, -2.0]
    distance = np.sqrt(np.einsum("ni,ij,nj->n", gap, np.linalg.inv(covariance[0]), gap))
    on_curve = distance[::3]  # the other vertices are control points, off the curve
    assert on_curve == pytest.approx(2.0, rel=1e-2)


def test_top_words_are_the_likeliest():
    ax = Figure().subplots()
    pictures.top_words(ax, np.array([0.1, 0.6, 0.3]), ["a", "b", "c"], 2)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["b", "c"]
    assert [bar.get_width() for bar in ax.patches] == [0.6, 0.3]


def test_the_line_of_states_is_the_mean_of_their_levels():
    posterior, ax = np.eye(3)[[0, 0, 2, 1, 1, 2]], Figure().subplots()
    pictures.states(ax, np.arange(6.0), np.array([0.0, 2.0, 5.0, 4.0, np.nan, 7.0]), posterior)
    assert ax.lines[1].get_ydata() == pytest.approx([1.0, 1.0, 6.0, 4.0, 4.0, 6.0])


def test_gaussians_come_out_of_a_table_as_they_went_in():
    means, covariances = np.arange(6.0).reshape(2, 3), np.stack([np.diag([1.0, 2.0, 3.0]), 4.0 * np.eye(3)])
    covariances[0, 0, 1] = covariances[0, 1, 0] = 0.5
    found = pictures.gaussians_of(pd.DataFrame(pictures.columns_of_gaussians(means, covariances)))
    np.testing.assert_array_equal(found[0], means[:, :2])
    np.testing.assert_array_equal(found[1], covariances[:, :2, :2])


@pytest.mark.parametrize("tail", ["truncated", "tied"])
def test_sticks_have_the_moments_of_draws(tail):
    model = DirichletProcessMixture("full", 5, tail=tail)
    fit = bqvi.fit(model, X, steps=20)
    settled, q = fit.problem.model, fit.q
    draws = q["sticks"].sample(20_000, np.random.default_rng(0))
    pi = np.exp(settled.mixing.log_weights_at(draws))
    squares = pictures.weight_deviations(q["sticks"]) ** 2 + settled.expected_weights(q) ** 2
    # five standard errors of a mean of 20,000 draws: a false alarm in 3e6
    assert (np.abs(squares - (pi**2).mean(0)) < 5.0 * (pi**2).std(0) / np.sqrt(len(pi)) + 1e-15).all()
    deviations = pictures.weight_deviations(q["sticks"])
    ax = Figure().subplots()
    pictures.weights(ax, settled.expected_weights(q), deviations, np.array([0.5, 0.5]))
    assert [bar.get_height() for bar in ax.patches[: len(pi[0])]] == pytest.approx(list(pi.mean(0)), abs=5e-3)
