"""The choice of points for several functionals at once, against conditioning anew."""

import numpy as np
import pytest

from acquisition.functionals import Candidates, most_informative


def test_greedy_choice_is_what_conditioning_anew_would_choose():
    """Each choice against the variances left by solving with the chosen points from scratch."""
    rng = np.random.default_rng(2)
    root = rng.standard_normal((12, 15))
    joint = root @ root.T  # of 9 candidates and 3 functionals
    chosen = most_informative(Candidates.of(joint[:9, 9:], joint[:9, :9]), 3, 1e-6)

    def left(points):
        gram = joint[np.ix_(points, points)] + 1e-6 * np.eye(len(points))
        across = joint[np.ix_(points, [9, 10, 11])]
        return np.trace(joint[9:, 9:] - across.T @ np.linalg.solve(gram, across))

    for k in range(3):
        before = chosen[:k]
        best = min((j for j in range(9) if j not in before), key=lambda j: left([*before, j]))
        assert chosen[k] == best


def test_greedy_choice_of_blocks_is_that_of_conditioning_on_whole_blocks():
    rng = np.random.default_rng(3)
    root = rng.standard_normal((15, 20))
    joint = root @ root.T  # of 6 candidates of 2 numbers, and 3 functionals
    chosen = most_informative(Candidates.of(joint[:12, 12:], joint[:12, :12], 2), 3, 1e-6)

    def left(candidates):
        points = [2 * j + b for j in candidates for b in range(2)]
        gram = joint[np.ix_(points, points)] + 1e-6 * np.eye(len(points))
        across = joint[np.ix_(points, [12, 13, 14])]
        return np.trace(joint[12:, 12:] - across.T @ np.linalg.solve(gram, across))

    for k in range(3):
        before = chosen[:k]
        best = min((j for j in range(6) if j not in before), key=lambda j: left([*before, j]))
        assert chosen[k] == best


@pytest.mark.parametrize("block", [1, 2])
def test_candidates_given_the_first_of_them_are_those_of_conditioning_anew(block):
    rng = np.random.default_rng(4)
    root = rng.standard_normal((15, 20))
    joint = root @ root.T  # of 12 numbers that candidates show, and 3 functionals
    found = Candidates.of(joint[:12, 12:], joint[:12, :12], block).given(4 // block, 0.1)
    rest = joint[4:, 4:] - joint[4:, :4] @ np.linalg.solve(joint[:4, :4] + 0.1 * np.eye(4), joint[:4, 4:])
    np.testing.assert_allclose(found.shared, rest[:8, 8:])
    np.testing.assert_allclose(found.variances, np.diag(rest)[:8])
    np.testing.assert_allclose(found.columns(slice(None)), rest[:8, :8])
    np.testing.assert_allclose(found.columns(5), rest[:8, 5])
