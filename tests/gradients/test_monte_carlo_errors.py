"""Monte Carlo standard errors: against the spread of repetitions, and intervals by coverage."""

from dataclasses import replace

import numpy as np
import pytest
from gradient_cases import BATCH, TARGETS, exact
from numpy.testing import assert_allclose
from scipy import stats

from bqvi.gradients import IWAE, DReG, Pathwise, Score
from bqvi.gradients.designs import AntitheticOrthogonal, Independent, Sobol

DISTINCT = [0, 1, 2, 4, 5]
"""Of (D,) and (D, D) for D = 2: the upper corner is zero, or the lower's twin."""

DESIGNED = {
    "sobol": Pathwise(32, noise=Sobol(), errors=True),
    "sobol-landing": Pathwise(64, "sticking-the-landing", Sobol(), errors=True, randomisations=8),
    "antithetic": Pathwise(16, noise=AntitheticOrthogonal(), errors=True),
    "antithetic-in-parts": Pathwise(8, noise=AntitheticOrthogonal(), errors=True),
    "independent": Pathwise(12, noise=Independent(), errors=True),
}


def repeated(estimator, name, repetitions, seed=5):
    """Values and standard errors of distinct entries, (repetitions, entries) each."""
    model, q = TARGETS[name]
    rng, distinct = np.random.default_rng(seed), DISTINCT if name == "banana" else slice(None)
    found = [estimator(model, q, BATCH, rng) for _ in range(repetitions)]
    return tuple(
        np.array([np.concatenate([part.ravel() for part in parts])[distinct] for parts in every])
        for every in ([g.values for g in found], [g.standard_error for g in found])
    )


@pytest.mark.parametrize("name", DESIGNED)
def test_errors_of_designs_are_the_spread_of_repetitions(name):
    """Mean squares; with so many repetitions a ratio has a spread of .1, and a larger one where tails are
    heavy.
    """
    values, errors = repeated(DESIGNED[name], "banana", 200)
    assert_allclose(np.square(errors).mean(0).sum() / values.var(0, ddof=1).sum(), 1.0, atol=0.3)


def test_random_frames_need_no_further_randomisation_for_errors():
    """At L = 2 D R errors cost no draw: the estimate is that without them."""
    model, q = TARGETS["banana"]
    asked = DESIGNED["antithetic"]
    plain = replace(asked, errors=False)
    ours, theirs = (e(model, q, BATCH, np.random.default_rng(3)) for e in (asked, plain))
    assert theirs.standard_error is None
    for a, b in zip(ours.values, theirs.values, strict=True):
        assert_allclose(a, b, rtol=1e-12)


def test_small_scrambled_designs_still_beat_independent_draws():
    """Error estimates keep most of the gain: the variance for a smooth integrand at L = 32, R = 4."""
    split = DESIGNED["sobol"]
    ours, theirs = (
        repeated(each, "logistic", 60)[0].var(0).sum() for each in (split, replace(split, noise=None))
    )
    assert ours < 0.3 * theirs


LANDING = "sticking-the-landing"
MONTE_CARLO = {
    "pathwise": (Pathwise(40, errors=True), "logistic", 39, 0.9),
    "landing": (Pathwise(40, LANDING, errors=True), "logistic", 39, 0.9),
    "sobol": (DESIGNED["sobol"], "logistic", 3, 0.9),
    "sobol-landing": (DESIGNED["sobol-landing"], "banana", 7, 0.9),
    "antithetic": (Pathwise(24, noise=AntitheticOrthogonal(), errors=True), "logistic", 3, 0.9),
    "score": (Score(100, errors=True), "logistic", 99, 0.9),
    "optimal-baseline": (Score(100, baseline="optimal", errors=True), "logistic", 99, 0.9),
    "iwae": (IWAE(100, errors=True), "wide", 99, 0.9),
    "dreg": (DReG(100, errors=True), "wide", 99, 0.9),
}
"""Estimators, on what, the degrees of freedom of their errors, and the bar."""


@pytest.mark.parametrize("name", MONTE_CARLO)
def test_intervals_of_monte_carlo_hold_the_gradient(name):
    """Student's 95 % intervals, on average over entries and repetitions."""
    estimator, target, freedom, bar = MONTE_CARLO[name]
    values, errors = repeated(estimator, target, 100)
    truth = TARGETS[target][1].gradient_to_unconstrained(exact(target))
    truth = np.concatenate([part.ravel() for part in truth])[DISTINCT if target == "banana" else slice(None)]
    # these report another bound; their mean has a tenth of a value's error
    if isinstance(estimator, IWAE | DReG):
        truth = values.mean(0)
    held = np.abs(values - truth) <= stats.t.ppf(0.975, freedom) * errors
    assert held.mean() >= bar
