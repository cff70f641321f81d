"""Memoised mini-batches: the exact bound, monotone, and at its optimum that of coordinate ascent."""

import numpy as np
import pytest

import bqvi
from bqvi.gradients import Memoised
from bqvi.models import (
    DirichletProcessMixture,
    DirichletWeights,
    GaussianMixture,
    LatentDirichletAllocation,
    LogisticRegression,
    Mixture,
    categorical,
    elbo,
)
from experiments.models.semantic_analysis import ProbabilisticLatentSemanticAnalysis

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(c, 1.0, (100, 2)) for c in (-4.0, 0.0, 4.0)])
COUNTS = RNG.multinomial(30, RNG.dirichlet(np.full(3, 0.3), 120) @ RNG.dirichlet(np.full(20, 0.2), 3))
MODELS = {
    "mixture": (GaussianMixture(4, "full"), X),
    "sticks with a learnt concentration": (DirichletProcessMixture("full", 6), X),
    "tied tail": (DirichletProcessMixture("diagonal", 5, tail="tied"), X),
    "topics": (LatentDirichletAllocation(3, 20, learn_concentration="symmetric"), COUNTS),
    "topics with a learnt eta": (
        LatentDirichletAllocation(3, 20, learn_concentration="asymmetric", learn_word_concentration=True),
        COUNTS,
    ),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("family", ["full", "point"])
def test_the_bound_is_exact_and_never_falls(name, family):
    if family == "point" and name != "mixture":
        return
    model, data = MODELS[name]
    model = GaussianMixture(4, "full", concentration=1.0) if (name, family) == ("mixture", "point") else model
    fit = bqvi.fit(model, data, Memoised(40), family=family, steps=60, tolerance=1e-12, record=range(8, 61))
    bounds = fit.trace["elbo"]
    assert len(bounds) > 20
    assert np.diff(bounds).min() > -1e-9 * abs(fit.elbo)
    settled = fit.problem.model
    exact = elbo(settled, fit.q, settled.check(data))
    assert fit.elbo == pytest.approx(exact)
    assert bounds[-2] <= exact + 1e-9 * abs(exact)


@pytest.mark.parametrize("name", MODELS)
def test_after_stochastic_passes_the_bound_is_exact_and_never_falls(name):
    """Two stochastic passes of eight batches are steps 1 to 16; all batches have been visited at step 24."""
    model, data = MODELS[name]
    size = -(-len(data) // 8)
    fit = bqvi.fit(
        model, data, Memoised(size, stochastic_passes=2), steps=60, tolerance=1e-12, record=range(24, 61)
    )
    bounds = fit.trace["elbo"]
    assert np.diff(bounds).min() > -1e-9 * abs(fit.elbo)
    settled = fit.problem.model
    assert fit.elbo == pytest.approx(elbo(settled, fit.q, settled.check(data)))


def test_a_stochastic_pass_is_stochastic_variational_inference():
    """Against a loop over the same batches in the same order."""
    model, data = MODELS["topics"]
    model = LatentDirichletAllocation(3, 20)
    start = model.initial(model.check(data), "random", np.random.default_rng(3))
    eta = start.natural[0]
    for t in range(6):
        rows = model.check(data)[20 * t : 20 * t + 20]
        target = (
            model.prior.natural[0] + 6.0 * model.local_step(start.from_natural((eta,)), rows).statistics[0]
        )
        eta = eta + (t + 10.0) ** -0.7 * (target - eta)
    fit = bqvi.fit(
        model, data, Memoised(20, shuffle=False, stochastic_passes=1), steps=6, start_from=start, record=[0]
    )
    np.testing.assert_allclose(fit.q.natural[0], eta, rtol=1e-9)


def test_probabilities_that_fall_to_zero_do_not_lower_the_bound():
    """A point estimate under a flat prior, where responsibilities below the rounding error of 1 remain."""
    z = np.arange(120) % 3
    letters = np.where(z[:, None] == 0, 0, np.random.default_rng(0).integers(3, size=(120, 4)))
    model = Mixture(DirichletWeights(3, 1.0), categorical(3, 1.0))
    fit = bqvi.fit(
        model, letters, Memoised(30), family="point", steps=120, tolerance=1e-12, record=range(4, 121)
    )
    assert np.diff(fit.trace["elbo"]).min() > -1e-9 * abs(fit.elbo)


def test_no_run_has_settled_before_all_batches_were_visited():
    fit = bqvi.fit(GaussianMixture(4, "full"), X, Memoised(40), tolerance=1e9, record=1)
    assert fit.stopped == "tolerance"
    assert fit.state.iteration == 8


def test_a_fixed_point_of_one_is_a_fixed_point_of_the_other():
    model, data = MODELS["mixture"]
    batch = bqvi.fit(model, data, steps=5000, tolerance=1e-11)
    settled = batch.problem.model
    fit = bqvi.fit(settled, data, "memoised", minibatch=50, start_from=batch.q, steps=600, tolerance=1e-9)
    # the first pass is not exact, so that q leaves the fixed point and comes back to it
    assert fit.elbo == pytest.approx(batch.elbo, abs=1e-3)


def test_one_batch_is_coordinate_ascent():
    model = GaussianMixture(3, "full")
    a = bqvi.fit(model, X, Memoised(len(X), shuffle=False), steps=10, tolerance=1e-12)
    b = bqvi.fit(model, X, steps=10, tolerance=1e-12)
    assert a.elbo == pytest.approx(b.elbo, rel=1e-12)


@pytest.mark.parametrize("size", [30, 75, 150])
def test_slopes_of_batches_converge_to_the_optimum_of_a_regression(size):
    """Against Newton's method of the mean and covariance that solve the equations of the optimum.

    At the optimum of a Gaussian q, m = s^2 X^T E[r] and C^-1 = I / s^2 + X^T diag E[w] X with r_n the
    residual and w_n the variance of label n; expectations by Gauss-Hermite quadrature with 64 points.
    """
    rng = np.random.default_rng(31)
    x = np.c_[np.ones(300), rng.normal(size=(300, 3)) * (1.0, 2.0, 0.5)]
    y = (rng.random(300) < 1.0 / (1.0 + np.exp(-x @ (0.5, -1.0, 0.7, 2.0)))).astype(float)
    nodes, weights = np.polynomial.hermite_e.hermegauss(64)
    weights /= weights.sum()
    mean, covariance = np.zeros(4), np.eye(4)
    for _ in range(60):
        spread = np.sqrt(np.einsum("nd,de,ne->n", x, covariance, x))
        p = 1.0 / (1.0 + np.exp(-(x @ mean)[:, None] - spread[:, None] * nodes))
        precision = np.eye(4) / 2.25 + (x.T * (p * (1.0 - p) @ weights)) @ x
        covariance = np.linalg.inv(precision)
        mean = mean + covariance @ (x.T @ (y - p @ weights) - mean / 2.25)
    fit = bqvi.fit(LogisticRegression(4, prior_scale=1.5), (x, y), "memoised", minibatch=size, tolerance=1e-9)
    assert fit.converged
    assert fit.q.mean == pytest.approx(mean, abs=1e-4)
    assert fit.q.covariance == pytest.approx(covariance, abs=1e-4)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_needs_fewer_passes_than_batch(seed):
    rng = np.random.default_rng(5)
    shares, topics = rng.dirichlet(np.full(3, 0.3), 600), rng.dirichlet(np.full(20, 0.2), 3)
    counts = rng.multinomial(30, shares @ topics)
    model = LatentDirichletAllocation(3, 20)
    start = model.initial(model.check(counts), "k-means++", np.random.default_rng(seed))
    batch = bqvi.fit(model, counts, start_from=start, steps=2)
    fit = bqvi.fit(model, counts, Memoised(20), start_from=start, steps=60)
    assert fit.state.step_evaluations == 2 * len(counts)
    assert fit.elbo > batch.elbo + 100.0


def test_bad_input():
    with pytest.raises(ValueError, match="size"):
        Memoised(0)
    with pytest.raises(ValueError, match="stochastic_passes"):
        Memoised(stochastic_passes=-1)
    with pytest.raises(ValueError, match="minibatch"):
        bqvi.fit(GaussianMixture(2, "full"), X, "memoised", minibatch=bqvi_strategy())
    with pytest.raises(ValueError, match="parameters for each datum"):
        bqvi.fit(ProbabilisticLatentSemanticAnalysis(3, 20), COUNTS, "memoised", family="point")


def bqvi_strategy():
    from acquisition.minibatch import Uniform

    return Uniform(10)
