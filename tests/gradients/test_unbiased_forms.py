"""Unbiasedness by statistical test; designs by their stated properties."""

import numpy as np
import pytest
import torch
from scipy import stats

from bqvi.families import Gaussian
from bqvi.gradients import Pathwise, Score
from bqvi.gradients.designs import (
    AntitheticOrthogonal,
    Informed,
    MomentVarianceReduction,
    Sobol,
)
from bqvi.gradients.gradient import Batch
from bqvi.gradients.gradient_process import GradientProcess, SeparableKernel
from bqvi.gradients.surrogates import Observed, OnGradients
from bqvi.models import LogJoint
from experiments.gradients.optimised_nodes import Optimised
from experiments.gradients.uncertain_nodes import GradientUncertainty

Q = Gaussian(np.array([0.3, -0.4]), np.array([[0.6, 0.2], [0.2, 0.5]]))
MODEL = LogJoint(lambda t: -0.5 * t[:, 0] ** 2 - (t[:, 1] - t[:, 0] ** 2) ** 2 / 0.98, 2)
BATCH = Batch(None, 0)


def exact():
    """dL/dmu by a product rule that integrates the banana's polynomial exactly."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)
    noise = torch.tensor([[a, b] for a in nodes for b in nodes])
    weight = torch.tensor([a * b for a in weights for b in weights]) / weights.sum() ** 2
    leaves = tuple(torch.tensor(u, requires_grad=True) for u in Q.unconstrained)
    q = Gaussian.from_unconstrained(leaves)
    bound = weight @ MODEL.log_prior(q.mean + noise @ q.scale_tril.T) + q.entropy
    return np.concatenate([g.numpy().ravel() for g in torch.autograd.grad(bound, leaves)])


def unconstrained(gradient):
    values = Q.gradient_to_unconstrained(gradient.values) if gradient.natural else gradient.values
    return np.concatenate([g.ravel() for g in values])


ESTIMATORS = {
    "sobol": lambda rng: Pathwise(8, noise=Sobol())(MODEL, Q, BATCH, rng),
    "antithetic": lambda rng: Pathwise(4, noise=AntitheticOrthogonal())(MODEL, Q, BATCH, rng),
    "landing": lambda rng: Pathwise(4, "sticking-the-landing", AntitheticOrthogonal())(MODEL, Q, BATCH, rng),
    "optimal-baseline": lambda rng: Score(6, baseline="optimal")(MODEL, Q, BATCH, rng),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_unbiased(name):
    """Hotelling's T^2 over 300 repetitions, level 1e-4 a case."""
    rng = np.random.default_rng(11)
    errors = np.array([unconstrained(ESTIMATORS[name](rng)) for _ in range(300)]) - exact()
    errors = errors[:, [0, 1, 2, 4, 5]]  # the upper triangle of R is no parameter
    n, p = errors.shape
    mean, covariance = errors.mean(0), np.cov(errors.T)
    squared = n * mean @ np.linalg.solve(covariance, mean)
    assert stats.f.sf(squared * (n - p) / (p * (n - 1)), p, n - p) > 1e-4


@pytest.mark.parametrize("design", [MomentVarianceReduction(), GradientUncertainty()])
def test_chosen_nodes_lower_the_variance_more_than_random_ones(design):
    rng = np.random.default_rng(1)
    kernel = SeparableKernel(2.5, 0.1, 0.1)
    known = GradientProcess.of(rng.standard_normal((10, 3)), rng.standard_normal((10, 3)), kernel)

    def left(nodes):
        both = known.extended(nodes, np.zeros_like(nodes))
        return np.trace(both.functional_covariance()) / both.given.scale

    chosen = left(design.nodes(4, 3, rng, Informed(known)))
    random = [left(rng.standard_normal((4, 3))) for _ in range(40)]
    assert chosen < np.median(random)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_intervals_of_the_optimised_design_hold_an_odd_gradient(seed):
    """y = -3 tanh(2 u) on n = 2 D nodes: without random displacements the nodes are pairs on which y is
    linear.
    """
    d = 6
    kind, rng = OnGradients(), np.random.default_rng(seed)
    x, w = np.polynomial.hermite_e.hermegauss(60)
    slope = -3.0 * (w / w.sum()) @ (x * np.tanh(2.0 * x))

    def missed(design):
        u = design.nodes(2 * d, d, rng)
        y = -3.0 * np.tanh(2.0 * u)
        process = kind.process(Observed(u, y), kind.fit(Observed(u, y), None))
        error = np.diagonal(process.moments(np.zeros(d), np.eye(d)).jacobian) - slope
        return np.abs(error) / np.diagonal(process.standard_deviations().jacobian)

    assert np.median(missed(Optimised())) < 1.96
    assert np.median(missed(MomentVarianceReduction())) < 1.96
    # without the blur the optimised points miss far more
    assert np.median(missed(Optimised(blur=0.0))) > 20.0


def test_a_design_that_is_not_q_is_refused_as_noise():
    with pytest.raises(TypeError, match="noise"):
        Pathwise(4, noise=Optimised())


def test_standard_errors_are_refused_where_draws_are_few_or_randomisations_unlike():
    with pytest.raises(ValueError, match="samples is 1; it must be at least 2"):
        Pathwise(1, errors=True)
    with pytest.raises(ValueError, match="multiple of 4"):
        Pathwise(10, noise=Sobol(), errors=True)
    with pytest.raises(ValueError, match="multiple of 8"):
        Pathwise(12, noise=AntitheticOrthogonal(), errors=True)
    with pytest.raises(ValueError, match="randomisations"):
        Pathwise(12, noise=AntitheticOrthogonal(), errors=True, randomisations=1)


@pytest.mark.parametrize(
    ("estimator", "variance"),
    [
        (Score(400, "none", entropy="analytic", errors=True), lambda d: (d + 2) * (d + 4) / 4),
        (Score(400, "optimal", entropy="analytic", errors=True), lambda d: (d + 2) / 2),
        (Pathwise(400, errors=True), lambda d: 1.0),
    ],
)
def test_the_variance_of_the_score_grows_with_the_dimension(estimator, variance):
    """f = -|theta|^2 / 2 under N(0, I) in eight dimensions, by moments of chi^2: 16,000 draws of eight
    entries, whose standard deviation is below 2 % of the variance."""
    q, model = Gaussian(np.zeros(8), np.eye(8)), LogJoint(lambda t: -0.5 * t.square().sum(1), 8)
    errors = [estimator(model, q, BATCH, np.random.default_rng(s)).standard_error[0] for s in range(40)]
    assert np.mean(np.square(errors)) * 400 == pytest.approx(variance(8), rel=0.08)
