"""The data have the properties that their docstrings state."""

import numpy as np
import pytest
from scipy import stats

from experiments.problems import data


def pooled(clusters):
    residuals = [
        clusters.x[clusters.labels == c] - clusters.x[clusters.labels == c].mean(axis=0)
        for c in np.unique(clusters.labels)
    ]
    return np.cov(np.concatenate(residuals), rowvar=False, bias=True)


def test_the_thesis_data_are_draws_of_the_stated_mixture():
    # Each test has a false alarm in a thousand seeds; the seed is fixed.
    clusters = data.thesis(70_000, np.random.default_rng(0))
    assert clusters.x.shape == (70_000, 2)
    residuals = clusters.x - data.CENTRES[clusters.labels]
    assert stats.kstest((residuals**2).sum(axis=1), stats.chi2(2).cdf).pvalue > 1e-3
    assert stats.chisquare(np.bincount(clusters.labels, minlength=7)).pvalue > 1e-3


def test_the_nearest_centres_are_as_far_apart_as_stated():
    gaps = np.linalg.norm(data.CENTRES[:, None] - data.CENTRES[None], axis=-1)
    assert np.min(gaps + 99 * np.eye(7)) == pytest.approx(np.sqrt(18))  # 4.24


def test_the_same_generator_gives_the_same_data():
    one, two, other = (data.thesis(50, np.random.default_rng(seed)).x for seed in (3, 3, 4))
    np.testing.assert_array_equal(one, two)
    assert not np.allclose(one, other)


@pytest.mark.parametrize(
    ("load", "rows", "columns", "labels"), [(data.penguins, 342, 4, 3), (data.digits, 1797, 10, 10)]
)
def test_real_data_are_centred_with_identity_covariance_within_labels(load, rows, columns, labels):
    clusters = load()
    assert clusters.x.shape == (rows, columns)
    assert set(clusters.labels) == set(range(labels))
    # 1e-9: rounding, at condition numbers below 1e3
    np.testing.assert_allclose(clusters.x.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(pooled(clusters), np.eye(columns), atol=1e-9)
    np.testing.assert_allclose(clusters.weights, np.bincount(clusters.labels) / rows)
    for c, mean in enumerate(clusters.means):
        np.testing.assert_allclose(clusters.x[clusters.labels == c].mean(axis=0), mean, atol=1e-9)


def test_digits_keep_the_variance_of_their_first_components():
    from sklearn.datasets import load_digits
    from sklearn.decomposition import PCA

    pixels, labels = load_digits(return_X_y=True)
    scores = PCA(10, svd_solver="full").fit_transform(pixels)
    theirs = data.labelled(scores, labels).x
    ours = data.digits().x
    # The mapping takes away all linear freedom but a rotation (here: signs), which leaves distances.
    rows = np.random.default_rng(0).integers(0, 1797, (200, 2))
    np.testing.assert_allclose(
        np.linalg.norm(ours[rows[:, 0]] - ours[rows[:, 1]], axis=1),
        np.linalg.norm(theirs[rows[:, 0]] - theirs[rows[:, 1]], axis=1),
        rtol=1e-8,
    )


def test_counts_are_counts():
    counts, labels = data.digit_counts()
    assert counts.shape == (1797, 64)
    assert labels.shape == (1797,)
    np.testing.assert_array_equal(counts, counts.astype(int))
    assert (counts.min(), counts.max()) == (0, 16)
