"""What of a mixture's ELBO is drawn, and the process that is on the log joint less the logarithm of q.

Against sums over a grid, differentiated by torch; against the theorem that a posterior is its own optimum;
and kernels against automatic differentiation of the kernel of values.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from oracles import bonferroni_t, z_scores
from test_mixture_estimators import FULL, MODEL, flat, start
from torch.autograd.functional import hessian, jacobian

import bqvi
from bqvi.families import GaussianMixture
from bqvi.gradients import MixtureQuadrature
from bqvi.gradients.black_box import torch_posterior
from bqvi.gradients.memory import Memory
from bqvi.gradients.mixture_draws import drawn_divergence, drawn_entropy, log_density
from bqvi.gradients.mixture_evidence import Used, most_likely
from bqvi.gradients.settings import MIXTURE
from bqvi.gradients.stratified import entropy_terms
from bqvi.gradients.surrogates import OnFunction
from bqvi.gradients.whitened import WhitenedFrame
from bqvi.models import LogJoint
from gp.conditioning import FunctionKernel, Shown

OTHER = GaussianMixture(
    np.array([0.7, 0.3]), np.array([[0.3, -0.4], [-0.8, 0.5]]), np.array([[1.2, 0.7], [0.8, 1.5]])
)


def in_torch(q):
    return q.from_unconstrained(tuple(torch.tensor(u) for u in q.unconstrained))


def on_grid(q, base):
    """E_q[base - ln q] and its gradient in u; ``base`` a mixture or a function, None is zero."""
    axis = torch.linspace(-9.0, 9.0, 300, dtype=torch.float64)
    points = torch.cartesian_prod(axis, axis)
    leaves = tuple(torch.tensor(u, requires_grad=True) for u in q.unconstrained)
    logs = q.from_unconstrained(leaves).log_prob(points)
    function = in_torch(base).log_prob if isinstance(base, GaussianMixture) else base
    of = -logs if function is None else function(points) - logs
    value = (logs.exp() * of).sum() * (axis[1] - axis[0]) ** 2
    return value.item(), flat([g.numpy() for g in torch.autograd.grad(value, leaves)])


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("base", [None, OTHER], ids=["entropy", "divergence"])
def test_drawn_without_bias(base, full):
    q, rng = start(full), np.random.default_rng(0)
    drawn = drawn_entropy(q, rng, 20_000) if base is None else drawn_divergence(q, base, rng, 20_000)
    value, expected = on_grid(q, base)
    each = np.column_stack([*(g.reshape(20_000, -1) for g in drawn.each()), drawn.values])
    expected = np.append(expected, value)
    vary = each.std(0) > 1e-12
    assert not each[:, ~vary].any()
    assert z_scores(each[:, vary], expected[vary]).max() < bonferroni_t(vary.sum(), len(each))
    pulled = q.pulled_back(*drawn.gradient)
    np.testing.assert_allclose(flat(pulled), each[:, :-1].mean(0), atol=1e-12)


def test_densities_and_their_slopes():
    points = np.random.default_rng(1).standard_normal((30, 2)) * 3.0
    for q in (start(), OTHER):
        theta = torch.tensor(points, requires_grad=True)
        logs = in_torch(q).log_prob(theta)
        found, slopes = log_density(q, points)
        np.testing.assert_allclose(found, logs.detach(), rtol=1e-12)
        np.testing.assert_allclose(slopes, torch.autograd.grad(logs.sum(), theta)[0], rtol=1e-10, atol=1e-12)


def test_the_divergence_of_a_mixture_from_itself_is_zero():
    found = drawn_divergence(start(), start(), np.random.default_rng(0), 5)
    np.testing.assert_allclose(flat(found.each()), 0.0, atol=1e-14)
    np.testing.assert_allclose(found.values, 0.0, atol=1e-14)


def test_components_apart_leave_nothing_to_draw():
    """Then H[q] = sum_k w_k (H[N_k] - ln w_k), whereas draws of ln q as a whole vary."""
    q = GaussianMixture(OTHER.weights, np.array([[-40.0, 0.0], [40.0, 0.0]]), start().covariances)
    found = drawn_entropy(q, np.random.default_rng(0), 10)
    expected = float((q.weights * (q.components.entropy - q.log_weights)).sum())
    np.testing.assert_allclose(found.values, expected, rtol=1e-12)
    whole = entropy_terms(torch_posterior(q, torch.empty(0).double()), np.random.default_rng(0), 10)
    assert whole.std() > 0.1


KINDS = [OnFunction(), OnFunction(values=False), OnFunction(gradients=False)]


def used(kind, m=24):
    """A log joint that is the mixture OTHER, at m points of it."""
    frame = WhitenedFrame(np.array([0.1, -0.2]), np.array([[1.1, 0.0], [0.2, 0.9]]), False)
    points = OTHER.sample(m, 3)
    values, gradients = log_density(OTHER, points)
    return Used(frame, points, values + 1.5, gradients[:, : 2 if kind.gradients else 0])


@pytest.mark.parametrize("kind", KINDS)
def test_the_log_density_of_a_mixture_less_itself_is_constant(kind):
    of = used(kind)
    targets = of.observed(kind, OTHER).targets
    level = [1.5] * kind.values + [0.0, 0.0] * kind.gradients
    np.testing.assert_allclose(targets, np.tile(level, (24, 1)), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_evidence_chooses_the_prior_mean(kind):
    """It chooses q where q is the posterior, and otherwise the fit with the higher evidence."""
    of = used(kind)
    fitted = most_likely(of, kind, OTHER, None)
    assert fitted.relative
    for mean in (None, OTHER):
        seen = of.observed(kind, mean)
        process = kind.process(seen, kind.fit(seen, None))
        assert fitted.process.given.log_evidence >= process.given.log_evidence


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("m", [16, 50])
def test_the_search_finds_the_waves_between_two_modes(kind, m):
    """No start of a grid leads to an evidence that is higher by a nat."""
    q = start()
    frame = WhitenedFrame(np.zeros(2), np.diag([1.6, 1.0]), False)
    points = q.sample(m, 4)
    theta = torch.tensor(points, requires_grad=True)
    f = MODEL.log_prior(theta)
    gradients = torch.autograd.grad(f.sum(), theta)[0].numpy()[:, : 2 if kind.gradients else 0]
    of = Used(frame, points, f.detach().numpy(), gradients)
    seen = of.observed(kind, None)
    grid = [np.log([length, b, b]) for length in (0.25, 0.5, 1.0, 2.8) for b in (1e-3, 0.1)]
    found = [kind.process(seen, kind.fit(seen, logs)).given.log_evidence for logs in grid]
    assert most_likely(of, kind, q, None).process.given.log_evidence > max(found) - 1.0


def test_evaluations_far_from_q_are_left_out():
    frame = WhitenedFrame(np.zeros(2), np.eye(2), False)
    points = np.array([[0.0, 1.0], [50.0, 0.0], [1.0, 0.0], [0.5, 0.5]])
    known = Memory.empty(2, True)
    known = replace(known, points=points, values=np.arange(4.0), gradients=points)
    np.testing.assert_array_equal(Used.of(known, frame, 10).values, [0.0, 2.0, 3.0])
    np.testing.assert_array_equal(Used.of(known, frame, 2).values, [2.0, 3.0])


@pytest.mark.parametrize("full", [True, False])
def test_at_the_posterior_the_gradient_is_zero(full):
    """As with sticking the landing, neither the process nor the draws leave an error."""
    q = start(full)
    moved = in_torch(q)
    model = LogJoint(lambda theta: moved.log_prob(theta) - 2.0, 2)
    estimator, rng = MixtureQuadrature(errors=True), np.random.default_rng(0)
    found = estimator(model, q, FULL, rng, estimator.start(model, q))
    assert found.memory.relative
    np.testing.assert_allclose(flat(found.values), 0.0, atol=1e-8)
    np.testing.assert_allclose(flat(found.standard_error), 0.0, atol=1e-6)
    assert found.bound == pytest.approx(-2.0, abs=1e-8)


def wavy(theta):
    """A smooth log joint that is no quadratic."""
    return -0.5 * (theta**2).sum(-1) + torch.sin(theta[:, 0]) * torch.cos(theta[:, 1])


def test_either_prior_mean_brings_the_exact_gradient():
    """With many nodes, at a q that is not the posterior; entries are about 1."""
    rng, model = np.random.default_rng(0), LogJoint(wavy, 2)
    expected = on_grid(OTHER, wavy)[1]
    estimator = MixtureQuadrature(initial_nodes=60, entropy_pairs=20_000)
    first = estimator(model, OTHER, FULL, rng, estimator.start(model, OTHER)).memory
    of = Used.of(first.known, first.known.base.frame, 100)
    for relative in (False, True):
        seen = of.observed(OnFunction(), OTHER if relative else None)
        logs = OnFunction().fit(seen, np.log([MIXTURE.short, 0.1, 0.1]))
        kept = type(first)(first.known, first.q_before, 0, relative, OnFunction().process(seen, logs), OTHER)
        found = estimator._gradient(model, OTHER, rng, kept)
        np.testing.assert_allclose(flat(found.values), expected, atol=0.02)


def test_a_run_reaches_a_posterior_of_three_modes():
    """In D = 4, with a gap of a thousandth of a nat, from 100 evaluations."""
    rng = np.random.default_rng(5)
    roots = 0.4 * rng.standard_normal((3, 4, 4))
    means = np.array([[-2.0, 1.0, 0.0, 0.5], [1.5, -1.0, 2.0, 0.0], [1.0, 2.0, -1.5, -2.0]])
    posterior = GaussianMixture(
        np.array([0.5, 0.3, 0.2]),
        means,
        roots @ roots.mT + np.array([0.3, 0.5, 0.8])[:, None, None] * np.eye(4),
    )
    moved = in_torch(posterior)
    begun = GaussianMixture(np.full(3, 1.0 / 3.0), 0.4 * means, np.tile(np.eye(4), (3, 1, 1)))
    found = bqvi.fit(
        LogJoint(moved.log_prob, 4), None, MixtureQuadrature(), start_from=begun, budget=100,
        steps=1000, schedule=bqvi.Adam(0.05), elbo_samples=2,
    )  # fmt: skip
    q = in_torch(found.q)
    theta = q.strata(np.random.default_rng(0).standard_normal((2000, 3, 4)))
    logs = moved.log_prob(theta.flatten(0, 1)).reshape(2000, 3)
    gap = float(((q.log_prob(theta) - logs) @ q.weights).mean())
    assert found.state.step_evaluations <= 100
    assert gap < 1e-3


KERNEL = FunctionKernel(1.3, 0.4, 0.2)


def kernel(u, v):
    inner, gap = u @ v, u - v
    bump = KERNEL.lengthscale**2 * torch.exp(-0.5 * gap @ gap / KERNEL.lengthscale**2)
    return bump + KERNEL.linear * inner + 0.5 * KERNEL.quadratic * inner**2


@pytest.mark.parametrize("shown", [Shown(), Shown(values=False)])
def test_kernels_are_derivatives_of_the_kernel(shown):
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((3, 2)), rng.standard_normal((4, 2))
    expected = np.empty((3, 3, 4, 3))
    for i, a in enumerate(torch.tensor(left)):
        for j, b in enumerate(torch.tensor(right)):
            expected[i, 0, j, 0] = kernel(a, b)
            expected[i, 1:, j, 0], expected[i, 0, j, 1:] = jacobian(kernel, (a, b))
            expected[i, 1:, j, 1:] = hessian(kernel, (a, b))[0][1]
    found = FunctionKernel(1.3, 0.4, 0.2, shown).between(left, right)
    chosen = expected[:, shown.numbers][:, :, :, shown.numbers]
    np.testing.assert_allclose(found, chosen.reshape(found.shape), rtol=1e-10, atol=1e-12)
