"""Sampling estimators for q a mixture of Gaussians: unbiased, with calibrated standard errors.

The reference is the ELBO as a sum over a grid in the plane, differentiated by torch: it knows no path, no
stratum and no score. Tests of unbiasedness err with probability 1e-6 each.
"""

from functools import cache

import numpy as np
import pytest
import torch
from oracles import bonferroni_t, z_scores

import bqvi
from bqvi.families import GaussianMixture
from bqvi.gradients import IWAE, Batch, BayesianQuadrature, DReG, Pathwise, Score
from bqvi.gradients.designs import AntitheticOrthogonal, Sobol
from bqvi.inference import Euclidean, Natural, Riemannian, TrustRegion
from bqvi.models import LogJoint
from experiments.gradients.importance_quadrature import ImportanceQuadrature
from experiments.thesis.softmax_mixture import SoftmaxMixture

FULL = Batch(None, 0)


def bimodal(theta):
    """Two unequal modes and a bend between them, not normalised."""
    left = 0.7 - 0.5 * ((theta - torch.tensor([-1.5, 0.0])) ** 2 * torch.tensor([2.0, 1.0])).sum(-1)
    right = -0.5 * ((theta - torch.tensor([1.5, 1.0])) ** 2 * torch.tensor([1.0, 3.0])).sum(-1)
    return torch.logaddexp(left, right) + 0.2 * torch.sin(theta[..., 0])


MODEL = LogJoint(bimodal, 2)


def start(full=True):
    covariances = np.array([[[0.6, 0.1], [0.1, 0.8]], [[0.5, -0.1], [-0.1, 0.4]]])
    q = GaussianMixture(np.array([0.4, 0.6]), np.array([[-1.0, 0.2], [1.0, 0.6]]), covariances)
    return q if full else q.mean_field()


def flat(values):
    return np.concatenate([np.ravel(v) for v in values])


def exact(q):
    """The ELBO and its gradient in u, on a grid."""
    axis = torch.linspace(-8.0, 8.0, 160, dtype=torch.float64)
    points = torch.cartesian_prod(axis, axis)
    leaves = tuple(torch.tensor(u, requires_grad=True) for u in q.unconstrained)
    logs = q.from_unconstrained(leaves).log_prob(points)
    elbo = (logs.exp() * (bimodal(points) - logs)).sum() * (axis[1] - axis[0]) ** 2
    return elbo.item(), flat([g.numpy() for g in torch.autograd.grad(elbo, leaves)])


exact_at_start = cache(lambda full: exact(start(full)))
ESTIMATORS = {
    "pathwise": Pathwise(20, errors=True),
    "one draw in each": Pathwise(1),
    "sampled entropy": Pathwise(20, "sampled", errors=True),
    "sticking the landing": Pathwise(20, "sticking-the-landing", errors=True),
    "antithetic-orthogonal": Pathwise(4, noise=AntitheticOrthogonal()),
    "Sobol": Pathwise(32, "sampled", Sobol(), errors=True),
    "score": Score(100, errors=True),
    "score, optimal baseline": Score(100, baseline="optimal"),
}


@pytest.mark.parametrize(
    ("name", "full"), [*((name, True) for name in ESTIMATORS), ("sampled entropy", False), ("score", False)]
)
def test_unbiased_and_standard_errors_are_the_spread(name, full):
    """Mean squares over 120 runs: a sample variance is then within a factor 2, except once in 1e6."""
    estimator = ESTIMATORS[name]
    q, rng = start(full), np.random.default_rng(0)
    found = [estimator(MODEL, q, FULL, rng) for _ in range(120)]
    elbo, expected = exact_at_start(full)
    draws = np.column_stack([np.stack([flat(g.values) for g in found]), [g.bound for g in found]])
    expected = np.append(expected, elbo)
    vary = np.std(draws, axis=0) > 0  # the strict upper triangles of R do not
    assert not draws[:, ~vary].any()
    assert z_scores(draws[:, vary], expected[vary]).max() < bonferroni_t(vary.sum(), len(draws))
    if estimator.errors:
        claimed = np.mean([flat(g.standard_error) ** 2 for g in found], axis=0)
        ratio = claimed[vary[:-1]] / np.var(draws[:, :-1], axis=0)[vary[:-1]]
        assert 0.5 < ratio.min() <= ratio.max() < 2.0


def test_sticking_the_landing_has_no_variance_at_the_posterior():
    q = start()
    moving = q.from_unconstrained(tuple(torch.tensor(u) for u in q.unconstrained))
    model = LogJoint(lambda theta: moving.log_prob(theta) + 3.0, 2)
    found = Pathwise(3, "sticking-the-landing")(model, q, FULL, np.random.default_rng(0))
    np.testing.assert_allclose(flat(found.values), 0.0, atol=1e-13)
    np.testing.assert_allclose(found.bound, 3.0, rtol=1e-13)


def test_what_is_impossible_is_refused():
    wide = GaussianMixture(np.full(2, 0.5), np.zeros((2, 3)), np.ones((2, 3)))
    refused = [
        (Score(5, entropy="analytic"), {}, "no closed form"),
        (ImportanceQuadrature(5), {}, "ImportanceQuadrature does not take"),
        (BayesianQuadrature(), {}, "BayesianQuadrature does not take"),
        (IWAE(5), {}, "IWAE does not take"),
        (DReG(5), {}, "DReG does not take"),
        (Pathwise(5), {"family": "point"}, "family is 'point'"),
        (Pathwise(5), {"start_from": wide}, "D = 3"),
        (Pathwise(5), {"geometry": Riemannian()}, "no retraction"),
    ]
    for estimator, settings, match in refused:
        with pytest.raises((ValueError, bqvi.RunError), match=match):
            bqvi.fit(MODEL, None, estimator, **{"start_from": start(), "steps": 1, **settings})
    for geometry in (Natural(), Riemannian(), TrustRegion()):
        with pytest.raises(ValueError, match="GaussianMixture"):
            geometry.check(start())
    Euclidean({"weights": 0.1}).check(start())
    for estimator, match in (
        (IWAE(3), "reparameterised"),
        (DReG(3), "reparameterised"),
        (ImportanceQuadrature(), "units of one Gaussian"),
    ):
        with pytest.raises(TypeError, match=match):
            estimator(MODEL, start(), FULL, np.random.default_rng(0))


def test_a_log_joint_that_moves_with_q_is_refused():
    model = SoftmaxMixture(np.random.default_rng(0).standard_normal((20, 1)), 2)
    d = model.dimension
    q = GaussianMixture(np.full(2, 0.5), np.zeros((2, d)), np.ones((2, d)))
    for estimator in (Pathwise(2), Score(5)):
        with pytest.raises(TypeError, match="moves with q"):
            estimator(model, q, FULL, np.random.default_rng(0))
