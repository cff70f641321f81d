"""Greedy choice by rank-one updates: the joint Gaussian's conditional moments, and exhaustive choices."""

import numpy as np
import pytest

from acquisition.conditioned import Candidates, ConditionedPool, most_informative

N, F = 12, 3


def joint(seed):
    """A covariance of N candidates and F quantities, (N + F, N + F)."""
    root = np.random.default_rng(seed).standard_normal((N + F, N + F))
    return root @ root.T


def state_of(covariance, noise):
    own = covariance[:N, :N]
    return ConditionedPool(lambda j: own[:, j], np.diag(own).copy(), noise, covariance[:N, N:])


def conditional(covariance, chosen, noise):
    """Covariance of everything given noisy observations of the chosen candidates, by one solve."""
    cross = covariance[:, chosen]
    seen = covariance[np.ix_(chosen, chosen)] + np.diag(noise[chosen])
    return covariance - cross @ np.linalg.solve(seen, cross.T)


@pytest.mark.parametrize("seed", range(5))
def test_moments_after_choices_are_those_of_the_conditional_gaussian(seed):
    covariance, noise = joint(seed), np.linspace(0.1, 1.0, N)
    state, chosen = state_of(covariance, noise), [7, 2, 9, 4]
    for index in chosen:
        state = state.given(index)
    exact = conditional(covariance, chosen, noise)
    # eps times the condition of the (N + F) covariance, about 1e4
    np.testing.assert_allclose(state.variance, np.diag(exact)[:N], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(state.signals, exact[:N, N:], rtol=1e-9, atol=1e-10)
    assert state.count == len(chosen)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("block", "variance"), [(1, 1e-6), (2, 1e-6), (3, 0.3)])
def test_blocks_take_most_off_together(seed, block, variance):
    covariance = joint(seed)
    candidates = Candidates.of(covariance[:N, N:], covariance[:N, :N], block)
    before: list[int] = []
    noise = np.full(N, variance)
    for choice in most_informative(candidates, 3, variance):
        numbers = [[*before, *range(j * block, (j + 1) * block)] for j in range(N // block)]
        left = [
            np.trace(conditional(covariance, all_of, noise)[N:, N:])
            if len(set(all_of)) == len(all_of)
            else np.inf
            for all_of in numbers
        ]
        assert choice == int(np.argmin(left))
        before = numbers[choice]


@pytest.mark.parametrize("block", [1, 2])
def test_candidates_given_the_first_of_them_are_those_of_conditioning_anew(block):
    covariance, first = joint(4), list(range(4))
    found = Candidates.of(covariance[:N, N:], covariance[:N, :N], block).given(4 // block, 0.1)
    rest = conditional(covariance, first, np.full(N, 0.1))[4:, 4:]
    np.testing.assert_allclose(found.shared, rest[:8, 8:])
    np.testing.assert_allclose(found.variances, np.diag(rest)[:8])
    np.testing.assert_allclose(found.columns(slice(None)), rest[:8, :8])
    np.testing.assert_allclose(found.columns(5), rest[:8, 5])
