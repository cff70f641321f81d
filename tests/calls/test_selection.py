"""The selection among many known evaluations: against the rule by brute force, and by known evidences."""

import numpy as np
import pytest

import bqvi
from bqvi.calls.given import JITTER, MOST_PAIRED, selected
from bqvi.calls.table import Evaluations
from gp.measures import Gaussian


def rows_of(points, values):
    failed = ~np.isfinite(values)
    return Evaluations(points, values, None, None, failed, tuple("" if ok else "-inf" for ok in ~failed))


def log_joint(x):
    """A Student t of seven degrees of freedom in two dimensions, normalised: the log evidence is 0."""
    return -np.log(2.0 * np.pi) - 4.5 * np.log1p(np.square(x).sum(-1) / 7.0)


def test_few_rows_are_all_taken():
    rng = np.random.default_rng(0)
    points = np.repeat(rng.standard_normal((20, 2)), 2, axis=0)
    made = rows_of(points, log_joint(points))
    assert selected(made, 40) is made
    with pytest.raises(ValueError, match="budget is 39, and evaluations has 40, which count in it"):
        selected(made, 39)


def test_rows_are_chosen_by_the_variance_that_is_left():
    """Against conditioning anew for each choice; points with mean 0 and variance 1 are in their own units."""
    rng = np.random.default_rng(1)
    points = rng.standard_normal((600, 1))
    points = (points - points.mean()) / points.std()
    made = rows_of(points, np.zeros(600))
    found = selected(made).points[:, 0]
    u = points[:, 0]
    gram = np.exp(-0.5 * np.square(u[:, None] - u))
    chosen = []
    for _ in range(6):
        noisy = gram[np.ix_(chosen, chosen)] + JITTER * np.eye(len(chosen))
        left = 1.0 - np.einsum("kn,kn->n", gram[chosen], np.linalg.solve(noisy, gram[chosen]))
        left[chosen] = -1.0
        chosen.append(int(np.argmax(left)))
    assert len(found) == MOST_PAIRED
    assert np.isin(points[chosen, 0], found).all()


@pytest.mark.parametrize("kind", ["one point", "clump", "chain", "failed", "all failed", "wide"])
def test_clumps_duplicates_and_failed_rows(kind):
    rng = np.random.default_rng(2)
    points = rng.uniform(-4.0, 4.0, (1200, 2))
    values = log_joint(points)
    if kind == "one point":
        points[:1000], values[:1000] = points[0], values[0]
    if kind == "clump":
        points[:1000] = 0.3 + 1e-9 * rng.standard_normal((1000, 2))
        values = log_joint(points)
    if kind == "chain":
        points, values = np.repeat(points[:300], 4, axis=0), np.repeat(values[:300], 4)
    if kind == "failed":
        values[points[:, 0] > 0.0] = -np.inf
    if kind == "all failed":
        values[:] = -np.inf
    if kind == "wide":
        points = points * np.array([1e-6, 1e6])
    found = selected(rows_of(points, values), MOST_PAIRED)
    distinct = np.unique(points, axis=0)
    assert len(found) == min(MOST_PAIRED, len(distinct))
    assert len(np.unique(found.points, axis=0)) == len(found)
    if kind == "failed":
        assert found.failed.sum() == MOST_PAIRED // 10
    if kind == "clump":
        assert (np.abs(found.points - 0.3) > 1e-6).any(1).sum() > 150  # most of the 200 beside it


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "qmc"}, "method is 'qmc': it is of 'bq' and 'wsabi-l'"),
        ({"evaluations": (np.zeros((2, 3)), np.zeros(2))}, r"x has shape \(2, 3\); it must be \(N, 1\)"),
        ({"evaluations": (np.zeros((2, 1)), np.zeros(3))}, "values has shape"),
        ({"evaluations": (np.zeros((60, 1)), np.zeros(60))}, "which count in it"),
    ],
)
def test_known_nodes_that_are_wrong(options, message):
    known = {"evaluations": (np.zeros((2, 1)), np.zeros(2))} | options
    with pytest.raises(ValueError, match=message):
        bqvi.integrate(lambda x: x[:, 0], Gaussian(np.zeros(1), np.eye(1)), 40, **known)
