"""The figures of models show the numbers that they are drawn from."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

import bqvi
from bqvi.models import DirichletProcessMixture
from experiments.models import pictures

X = np.concatenate([np.random.default_rng(0).normal(c, 0.5, (40, 2)) for c in (-3.0, 3.0)])


def test_ellipses_are_the_contours_of_the_gaussians():
    covariance = np.array([[[4.0, 1.5], [1.5, 1.0]]])
    (patch,) = pictures.ellipses(np.array([[1.0, -2.0]]), covariance, radii=(2.0,)).patches
    assert isinstance(patch, Ellipse)
    points = patch.get_patch_transform().transform(patch.get_path().vertices)
    gap = points - [1.0, -2.0]
    distance = np.sqrt(np.einsum("ni,ij,nj->n", gap, np.linalg.inv(covariance[0]), gap))
    on_curve = distance[::3]  # the other vertices are control points, off the curve
    assert on_curve == pytest.approx(2.0, rel=1e-2)


def test_top_words_are_the_likeliest():
    ax = pictures.top_words(np.array([0.1, 0.6, 0.3]), ["a", "b", "c"], count=2)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["b", "c"]
    assert [bar.get_width() for bar in ax.patches] == [0.6, 0.3]
    with pytest.raises(ValueError, match="words"):
        pictures.top_words(np.array([0.5, 0.5]), ["a"])


def test_states_are_stacked_to_one():
    posterior = np.random.default_rng(0).dirichlet(np.ones(3), 20)
    ax = pictures.states(np.arange(20.0), posterior, levels=np.array([0.0, 1.0, 2.0]))
    assert ax.lines[1].get_ydata() == pytest.approx(posterior @ [0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="posterior"):
        pictures.states(np.arange(19.0), posterior)


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
    ax = pictures.weights(settled.expected_weights(q), deviations, truth=np.array([0.5, 0.5]))
    assert [bar.get_height() for bar in ax.patches[: len(pi[0])]] == pytest.approx(list(pi.mean(0)), abs=5e-3)


def test_weights_are_numbers():
    with pytest.raises(TypeError, match="means"):
        pictures.weights("ab", np.zeros(2))
    with pytest.raises(ValueError, match="means has shape"):
        pictures.weights(0.5, 0.1)


DRAWN = {
    "ellipses": lambda ax: pictures.ellipses(np.zeros((2, 2)), np.tile(np.eye(2), (2, 1, 1)), ax),
    "top_words": lambda ax: pictures.top_words(np.array([0.2, 0.8]), None, ax),
    "states": lambda ax: pictures.states(np.arange(4.0), np.full((4, 2), 0.5), ax),
    "weights": lambda ax: pictures.weights(np.array([0.4, 0.6]), np.array([0.1, 0.1]), ax),
}


@pytest.mark.parametrize("name", DRAWN)
def test_every_picture_is_drawn_into_the_axes_given_and_returns_them(name):
    """Or into those of a new figure; and something is drawn."""
    own = Figure().subplots()
    assert DRAWN[name](own) is own
    assert own.has_data() or own.patches
    new = DRAWN[name](None)
    assert new is not own
    assert new.figure is not own.figure
