"""The evidence from kept evaluations: closed forms and grids; no mass where nothing was evaluated."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

import bqvi
from bqvi.families import Gaussian
from bqvi.gradients.memory import Memory
from bqvi.gradients.remembered import (
    _AtDraws,
    _of_draws,
    process_near,
    remembered_elbo,
    remembered_evidence,
)
from bqvi.importance import Proposal
from bqvi.inference.state import LoopState
from bqvi.models import LogJoint
from experiments.problems.gradient_targets import schools
from experiments.problems.known_posteriors import problems

MEAN, COVARIANCE = np.array([0.5, -1.0]), np.array([[1.0, 0.4], [0.4, 0.5]])
DESIGN = torch.tensor(np.random.default_rng(5).standard_normal((12, 2)))
LABELS = torch.tensor(np.random.default_rng(6).random(12) < 0.6)


def logistic(theta):
    signed = theta @ DESIGN.T * (2.0 * LABELS - 1.0)
    return torch.nn.functional.logsigmoid(signed).sum(1) - theta.square().sum(1) / 8.0 - math.log(8 * math.pi)


def memory_of(function, points, with_gradients):
    theta = torch.tensor(points, requires_grad=True)
    values = function(theta)
    (slopes,) = torch.autograd.grad(values.sum(), theta)
    gradients = slopes.numpy() if with_gradients else np.empty((len(points), 0))
    kept = Memory.empty(points.shape[1], with_gradients)
    noise = np.zeros((len(points), 1 + gradients.shape[1]))
    kept = replace(kept, points=points, values=values.detach().numpy(), gradients=gradients)
    return replace(kept, noise_variances=noise)


def around(q, n, seed, spread=1.3):
    noise = np.random.default_rng(seed).standard_normal((n, len(q.mean)))
    return q.mean + spread * noise @ np.linalg.cholesky(q.covariance).T


def laplace_of_logistic():
    """The mode by Newton's method, and the inverse Hessian there."""
    theta = torch.zeros(2, dtype=torch.float64)
    for _ in range(30):
        hessian = torch.autograd.functional.hessian(lambda t: logistic(t[None])[0], theta)
        slope = torch.autograd.functional.jacobian(lambda t: logistic(t[None])[0], theta)
        theta = theta - torch.linalg.solve(hessian, slope)
    return Gaussian(theta.numpy(), torch.linalg.inv(-hessian).numpy())


@pytest.mark.parametrize("with_gradients", [True, False])
@pytest.mark.parametrize("shift", [0.0, 0.6])
def test_the_evidence_of_a_gaussian_whatever_q_is(with_gradients, shift):
    precision = torch.tensor(np.linalg.inv(COVARIANCE))

    def gaussian(theta):
        apart = theta - torch.tensor(MEAN)
        return 2.5 - 0.5 * (apart @ precision * apart).sum(1)

    truth = 2.5 + 0.5 * np.linalg.slogdet(2.0 * np.pi * COVARIANCE)[1]
    q = Gaussian(MEAN + shift, 0.8 * COVARIANCE)
    found = remembered_evidence(q, memory_of(gaussian, around(q, 20, 0), with_gradients))
    draws = 4.0 / np.sqrt(
        found.effective_sample_size
    )  # the false alarm of four standard deviations is below 1e-4
    assert found.value == pytest.approx(truth, abs=draws + 2e-3)
    assert found.pareto_k < 0.7
    assert abs(found.value - truth) < 3.0 * found.sd


def test_weights_are_expectations_of_the_shrunk_process():
    """Of exp(c + t (r - c)) for r ~ N(m, v), by Gauss-Hermite nodes; c is the weighted median."""
    rng = np.random.default_rng(3)
    m, v, ratio = rng.standard_normal(7), np.array([0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 0.3]), np.full(7, -0.2)
    possible = np.array([1.0, 0.5, 1.0, 1.0, 0.9, 1.0, 0.1])
    found = _AtDraws(rng.standard_normal((7, 2)), ratio, m, np.zeros((3, 7)), v, possible)
    t = 1.0 / (1.0 + v**2)
    order = np.argsort(m)
    centre = m[order[np.searchsorted(np.cumsum(t[order]), 0.5 * t.sum())]]
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    r = m[:, None] + np.sqrt(v)[:, None] * nodes
    mean = np.exp(centre + t[:, None] * (r - centre)) @ weights / np.sqrt(2.0 * np.pi)
    np.testing.assert_allclose(found.log_weights, np.log(mean * possible) + ratio, rtol=1e-10)


@pytest.mark.parametrize("with_gradients", [True, False])
def test_the_evidence_of_a_logistic_regression_beside_a_grid(with_gradients):
    axes = np.linspace(-9.0, 9.0, 601)
    grid = torch.tensor(np.stack(np.meshgrid(axes, axes), -1).reshape(-1, 2))
    truth = logsumexp(logistic(grid).numpy()) + 2.0 * np.log(axes[1] - axes[0])
    q = laplace_of_logistic()
    memory = memory_of(logistic, around(q, 30, 1), with_gradients)
    found, elbo = remembered_evidence(q, memory), remembered_elbo(q, memory)
    assert abs(found.value - truth) < 0.5 * abs(elbo.value - truth)
    assert abs(found.value - truth) < 3.0 * found.sd < 0.5
    assert remembered_evidence(q, memory) == found
    assert remembered_evidence(q, memory, seed=1) != found


def test_what_the_latest_evaluations_changed_is_in_the_standard_deviation():
    """The first 24 of 30 evaluations are those of a Gaussian; the latest show a second mode of equal mass."""
    apart, q = torch.tensor([4.0, 0.0], dtype=torch.float64), Gaussian(np.zeros(2), np.eye(2))

    def two(theta):
        parts = -0.5 * theta.square().sum(1), -0.5 * (theta - apart).square().sum(1)
        return torch.logaddexp(*parts) - math.log(2.0 * math.pi)

    points = around(q, 30, 2, 1.0)
    points[24:] += apart.numpy()
    memory = memory_of(two, points, True)
    found = remembered_evidence(q, memory)
    before = remembered_evidence(q, memory.earliest(24))
    assert len(memory.earliest(24)) == 24
    change = abs(found.value - before.value)
    assert change > 0.05
    assert found.sd >= change


def test_no_mass_is_invented_where_nothing_was_evaluated():
    """Non-centred eight schools from few evaluations, where the mean of the process has errors of 100 nats.

    Given (mu, ln tau) the effects are integrated out exactly, and a grid does the rest.
    """
    target, truth = schools(False), -31.3113
    for seed in range(3):
        q = Gaussian(np.zeros(10), np.diag(np.array([16.0, 1.5, *[0.9] * 8])))
        memory = memory_of(target.log_density, around(q, 22, seed, 1.0), True)
        near = process_near(q, memory)
        u = np.random.default_rng(0).standard_normal((500, 10))
        wrong = near.process.posterior_mean(1.7 * u) - 0.5 * np.square(1.7 * u).sum(1)
        wrong -= target.log_density(torch.tensor(near.frame.points(1.7 * u))).numpy()
        assert np.abs(wrong).max() > 20.0  # nats: unprotected, such draws would decide
        found = remembered_evidence(q, memory)
        assert found.value < truth + 2.0
        assert abs(found.value - truth) < 3.0 * found.sd


def test_the_standard_deviation_holds_what_q_lacks():
    """Centred eight schools are a funnel, with the evidence of the non-centred ones; q lacks a nat of it."""
    target, truth = schools(True), -31.3113
    for seed in range(2):
        found = bqvi.fit(target.model(), method="bq", start_from=target.start(), budget=200, seed=seed)
        assert truth - found.elbo > 1.0
        assert abs(found.log_evidence - truth) < 2.0 * found.log_evidence_sd < 2.0


def test_the_error_of_the_draws_is_between_its_spread_and_that_of_independent_draws():
    """Over 40 scramblings, whose standard deviation is known to a ninth: 1.5 is exceeded once in 1e5."""
    proposal, values, stated, independent = (
        Proposal(np.ones(1), np.zeros((1, 3)), np.eye(3)[None]),
        [],
        [],
        [],
    )
    for seed in range(40):
        u = proposal.draws(4096, seed)
        weights = np.exp(0.4 * u[:, 0] - 0.2 * np.square(u).sum(1) + 0.1 * np.sin(3.0 * u[:, 1]))
        values.append(np.log(weights.mean()))
        stated.append(_of_draws(weights / weights.sum()))
        independent.append(weights.std() / weights.mean() / 64.0)
    assert np.std(values, ddof=1) < 1.5 * np.median(stated)
    assert np.median(stated) < 0.7 * np.median(independent)


def test_too_few_evaluations_near_q_are_no_evidence():
    q = Gaussian(MEAN, COVARIANCE)
    assert remembered_evidence(q, memory_of(logistic, around(q, 3, 0), True)) is None
    assert remembered_evidence(q, memory_of(logistic, around(q, 30, 0) + 100.0, True)) is None


def fitted_to_values(name, seed):
    problem = next(one for one in problems() if one.name == name)
    model = LogJoint(
        problem.log_joint, problem.dimension, vectorised=False, gradient=None, **problem.bounds()
    )
    found = bqvi.fit(model, method="bq", budget=60, seed=seed)
    return found, problem.log_evidence


@pytest.mark.parametrize(("name", "seed"), [("logistic 5", 1700), ("logistic 5", 1701), ("cigar 6", 1701)])
def test_the_sd_contains_a_rise_of_values_that_has_not_ended(name, seed, monkeypatch):
    """After 60 values the evidence is 3 to 14 nats above the estimate, and the highest value still rises.

    The run has no search at its beginning, with which q is at the posterior by then.
    """
    monkeypatch.setattr(LoopState, "is_beginning", False)
    found, truth = fitted_to_values(name, seed)
    assert found.log_evidence < truth - 2.0
    rise = found.values.max() - found.values[:39].max()
    assert rise > 2.0
    assert found.log_evidence_sd >= rise


def test_the_mass_of_heavy_tails_is_in_the_evidence():
    """Student's t with 2.5 degrees in the plane: q and its draws lack about a sixth of the mass.

    Over six seeds the mean error is below two standard errors of the tail's draws, and no run is beyond four
    of its standard deviations.
    """
    constant, errors = math.lgamma(2.25) - math.lgamma(1.25) - math.log(2.5 * math.pi), []

    def student(theta):
        return constant - 2.25 * torch.log1p(theta.square().sum(1) / 2.5)

    for seed in range(6):
        found = bqvi.fit(LogJoint(student, 2), method="bq", budget=60, seed=seed)
        assert found.converged
        assert found.elbo < -0.1
        assert abs(found.log_evidence) < 4.0 * found.log_evidence_sd < 2.0
        errors.append(found.log_evidence)
    assert abs(np.mean(errors)) < 0.12


def test_tails_that_no_evaluation_has_tested_are_in_the_standard_deviation():
    """Cauchy in the plane; with seeds 6 and 12 no or one evaluation lies beyond q, and errors of .24 and .3
    had sds of .03 and .06. Of 39 runs on t with 1 to 3 degrees 2 are beyond three sd, where 8 were.
    """

    def cauchy(x):
        return -math.log(8.0 * math.pi) - 1.5 * np.log1p((x**2).sum(1) / 4.0)

    for seed in (0, 6, 12):
        found = bqvi.fit(LogJoint(cauchy, 2, gradient=None), method="bq", budget=60, seed=seed)
        assert abs(found.log_evidence) < 3.0 * found.log_evidence_sd < 1.0


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_noise_that_is_stated_too_small_is_a_reason_and_the_right_one_is_not(factor):
    """Values alone and with gradients, of noise with ``factor`` times the sd that is stated.

    One false alarm in a hundred is allowed: two or more in 20 tables have a probability of 2 %.
    """
    told = 0
    for seed in range(20):
        q, rng = laplace_of_logistic(), np.random.default_rng(seed)
        memory = memory_of(logistic, around(q, 50, seed), with_gradients=seed % 2 == 0)
        sd = math.exp(rng.uniform(math.log(0.05), math.log(0.3)))
        gradients = memory.gradients + factor * sd * rng.standard_normal(memory.gradients.shape)
        values = memory.values + factor * sd * rng.standard_normal(50)
        noise = np.full_like(memory.noise_variances, sd**2)
        memory = replace(memory, values=values, gradients=gradients, noise_variances=noise)
        told += bool(remembered_elbo(q, memory).doubts)
    assert told >= 18 if factor > 1.0 else told <= 1


def test_a_fit_whose_noise_is_stated_too_small_has_not_converged():
    rng = np.random.default_rng(8)

    def noisy(theta):
        return -0.5 * np.square(theta).sum(1) - np.abs(theta[:, 0]) + 0.9 * rng.standard_normal(len(theta))

    with pytest.warns(UserWarning, match="The values vary by more than their noise"):
        found = bqvi.fit(LogJoint(noisy, 2, gradient=None, noise_sd=0.2), method="bq", budget=80, seed=2)
    assert not found.converged


@pytest.mark.parametrize("share", [0.0, 0.8])
def test_a_value_on_the_flank_of_a_narrow_mode_is_a_reason(share):
    """A curved slab; at the last point a spike is seen, four of its sds away: half a nat and more."""
    told = []
    for seed in range(12):
        q = Gaussian(np.zeros(2), np.eye(2))
        points = around(q, 40, seed, spread=1.0)
        sds = np.full(2, 0.06)
        spike = points[-1] + 4.0 * sds / math.sqrt(2.0)
        squares = np.square((points - spike) / sds).sum(1)
        slab = -0.5 * np.square(points).sum(1) - 0.05 * points[:, 0] ** 4
        height = 8.5 + slab[-1] + math.log(share) if share else -np.inf
        values = np.logaddexp(slab, height - 0.5 * squares)
        memory = replace(
            Memory.empty(2, False), points=points, values=values, gradients=np.empty((40, 0)),
            noise_variances=np.zeros((40, 1)),
        )  # fmt: skip
        told.append(any("flank of a narrow mode" in reason for reason in remembered_elbo(q, memory).doubts))
    assert sum(told) >= 10 if share else not any(told)


def test_a_fit_that_has_seen_a_spike_and_not_followed_it_has_not_converged():
    """One evaluation lies .15 nats above the slab: the run converged after 33, 150 sds off."""
    rng = np.random.default_rng([31, 34])
    mean, sd = rng.normal(size=2) * 0.8, 0.1 * math.exp(rng.uniform(-0.5, 0.5))

    def log_joint(x):
        spike = 6.0 - 0.5 * np.square((x - mean) / sd).sum(1)
        return np.logaddexp(-0.5 * np.square(x).sum(1), spike)

    found = bqvi.fit(LogJoint(log_joint, 2, gradient=None), method="bq", budget=70, seed=34)
    assert not found.converged
    assert any("flank of a narrow mode" in reason for reason in found.reasons)


@pytest.mark.parametrize("wrong", [False, True])
def test_a_gradient_that_all_other_evaluations_contradict_is_said(wrong):
    """A quadratic with a term of fourth order; the gradient at one point is as long, in another direction."""
    told, grid = [], np.linspace(-8.0, 8.0, 4001)
    truth = 2.0 * np.log(np.exp(-0.5 * grid**2 - 0.03 * grid**4).sum() * (grid[1] - grid[0]))
    for seed in range(8):
        rng = np.random.default_rng(seed)
        theta = rng.standard_normal((40, 2))
        values = -0.5 * np.square(theta).sum(1) - 0.03 * (theta**4).sum(1)
        gradients = -theta - 0.12 * theta**3
        if wrong:
            gradients[seed] = 1.0 + gradients[seed, ::-1] * [1.0, -1.0]
        memory = replace(
            Memory.empty(2, True), points=theta, values=values, gradients=gradients,
            noise_variances=np.zeros((40, 3)),
        )  # fmt: skip
        found = remembered_evidence(Gaussian(np.zeros(2), 0.8 * np.eye(2)), memory)
        told.append(found.contradicted)
        assert abs(found.value - truth) < max(3.0 * found.sd, 0.02)
    assert told == (list(range(8)) if wrong else [-1] * 8)
