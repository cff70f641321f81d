"""Strategies: unbiased by enumeration of all draws, and the properties of each."""

import itertools

import numpy as np
import pytest

from acquisition.minibatch import Reshuffled, Uniform


class Scripted:
    """A generator whose draws are given, to enumerate the mini-batches of a strategy."""

    def __init__(self, outcome):
        self.outcome = np.asarray(outcome)

    def choice(self, n, size, replace, shuffle):
        assert not replace
        return self.outcome

    def integers(self, n, size):
        return self.outcome

    def permutation(self, n):
        return self.outcome


N, G = 5, np.array([3.0, -1.0, 7.0, 0.5, 100.0])


def estimate(selection):
    return selection.weights @ G[selection.indices]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_uniform_is_unbiased_over_every_subset(size):
    strategy = Uniform(size)
    subsets = list(itertools.combinations(range(N), size))
    found = [estimate(strategy.draw(strategy.start(N, Scripted([])), Scripted(s))[0]) for s in subsets]
    assert np.mean(found) == pytest.approx(G.sum(), rel=1e-13)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_uniform_with_replacement_is_unbiased_over_every_sequence(size):
    strategy = Uniform(size, replacement=True)
    sequences = list(itertools.product(range(N), repeat=size))
    found = [estimate(strategy.draw(strategy.start(N, Scripted([])), Scripted(s))[0]) for s in sequences]
    assert np.mean(found) == pytest.approx(G.sum(), rel=1e-13)


@pytest.mark.parametrize("kind", [Uniform, Reshuffled])
@pytest.mark.parametrize(
    ("size", "error", "message"),
    [
        (0, ValueError, "size is 0; it must be at least 1"),
        (5, ValueError, "size is 5; a mini-batch of 4 data must have between 1 and 4"),
        (2.0, TypeError, "size is 2.0; it must be an integer of at least 1: give 2"),
        (True, TypeError, "size is True; it must be an integer of at least 1"),
    ],
)
def test_bad_sizes_are_named(kind, size, error, message):
    with pytest.raises(error, match=message):
        kind(size).start(4, np.random.default_rng(0))
