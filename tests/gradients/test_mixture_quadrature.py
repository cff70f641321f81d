"""Bayesian quadrature for q a mixture of Gaussians.

Covariances of functionals against product Gauss-Hermite rules with Stein's identities, which differentiate no
kernel; kriging with a fitted constant against the bordered system; the jackknife against nodes left out;
gradients of the log joint against sums over a grid (`test_mixture_estimators`) and closed forms.
"""

import numpy as np
import pytest
import torch
from gradient_cases import SHOWN, gram, of_function
from numpy.polynomial.hermite_e import hermegauss
from test_mixture_estimators import FULL, MODEL, bimodal, exact, flat, start

import bqvi
from bqvi.calls import EvaluationError
from bqvi.families import Gaussian, GaussianMixture
from bqvi.gradients import MixtureQuadrature
from bqvi.gradients.mixture_gradient import MixtureGradient
from bqvi.gradients.whitened import WhitenedFrame
from bqvi.models import LogJoint
from gp.conditioning import Functionals, FunctionKernel

SHAPE = (1.7, 0.4, 0.2)
each_kind = pytest.mark.parametrize("shown", SHOWN)


def kernel(u, v, shown):
    inner = u @ v.mT
    squares = (u * u).sum(-1)[:, None] + (v * v).sum(-1) - 2.0 * inner
    bump = torch.exp(-0.5 * squares / 1.7**2) * (1.0 if shown == "values" else 1.7**2)
    return bump + 0.4 * inner + 0.5 * 0.2 * inner**2


def rule(mean, covariance, n=40):
    """Nodes, and weights of E, E of the gradient and of the Hessian's lower triangle (by Stein), (N, F)."""
    x, w = hermegauss(n)
    nodes = np.stack(np.meshgrid(x, x), -1).reshape(-1, 2)
    weights = np.outer(w, w).reshape(-1) / (2.0 * np.pi)
    root = np.linalg.cholesky(covariance)
    score = nodes @ np.linalg.inv(root)  # S^-1 (u - m)
    bends = score[:, :, None] * score[:, None, :] - np.linalg.inv(covariance)
    parts = [np.ones((len(nodes), 1)), score, bends[:, *np.tril_indices(2)]]
    return mean + nodes @ root.T, weights[:, None] * np.concatenate(parts, 1)


def functionals():
    q = start()
    return Functionals(q.means, q.covariances)


def rules(of):
    found = [rule(m, s) for m, s in zip(of.means, of.covariances, strict=True)]
    return [tuple(map(torch.tensor, pair)) for pair in found]


@each_kind
def test_covariances_of_functionals_are_those_of_gauss_hermite(shown):
    of = functionals()
    expected = [[a.mT @ kernel(u, v, shown) @ b for v, b in rules(of)] for u, a in rules(of)]
    found = of.prior(FunctionKernel(*SHAPE, SHOWN[shown]))
    np.testing.assert_allclose(found, np.block([[np.asarray(x) for x in row] for row in expected]), atol=1e-8)
    assert np.linalg.eigvalsh(found).min() > -1e-10


@each_kind
def test_covariances_with_observations_are_those_of_gauss_hermite(shown):
    of, points = functionals(), np.random.default_rng(0).standard_normal((5, 2))
    found = of.observed(points, FunctionKernel(*SHAPE, SHOWN[shown])).reshape(5, -1, 2, 6)
    for k, (u, a) in enumerate(rules(of)):
        x = torch.tensor(points, requires_grad=True)
        values = kernel(x, u, shown) @ a
        slopes = torch.stack([torch.autograd.grad(v.sum(), x, retain_graph=True)[0] for v in values.T], -1)
        both = torch.cat([values.detach()[:, None], slopes], 1)
        np.testing.assert_allclose(found[:, :, k], both[:, SHOWN[shown].numbers], atol=1e-8)


def given(shown, m=9, seed=3):
    """A process on a function that is not drawn from it, in the units of a frame."""
    points = np.random.default_rng(seed).standard_normal((m, 2))
    phi = np.sin(points[:, :1]) + 0.3 * points[:, 1:] ** 3
    y = np.column_stack([np.cos(points[:, 0]), 0.9 * points[:, 1] ** 2])
    targets = np.concatenate([phi, y], 1)[:, SHOWN[shown].numbers]
    frame = WhitenedFrame(np.array([0.2, -0.1]), np.array([[1.1, 0.0], [0.3, 0.8]]), False)
    return of_function(SHOWN[shown], SHAPE, points, targets), frame


def moments(gradient):
    """Means of the functionals, (K F,), from the posterior mean as a function."""
    of, found = gradient._functionals, []
    rows, columns = np.tril_indices(2)
    for m, s in zip(of.means, of.covariances, strict=True):
        part = gradient.process.posterior_mean.integrate(m, s)
        found += [part.value, *part.mean, *2.0 * part.covariance[rows, columns]]
    return np.array(found)


@each_kind
@pytest.mark.parametrize("full", [True, False])
def test_functionals_are_what_the_gradient_is_made_of(shown, full):
    process, frame = given(shown)
    gradient = MixtureGradient(process, frame, start(full))
    of = gradient._functionals
    squares = 0.5 * (np.square(of.means).sum(1) + np.einsum("kii->k", of.covariances))
    rest = np.concatenate([squares[:, None], of.means, np.tile([1.0, 0.0, 1.0], (2, 1))], 1).reshape(-1)
    expected = gradient._pulled((moments(gradient) - rest)[None])[0]
    np.testing.assert_allclose(flat(gradient.values), expected, rtol=1e-9, atol=1e-10)


@each_kind
def test_the_posterior_covariance_is_the_bordered_systems(shown):
    process, frame = given(shown)
    gradient = MixtureGradient(process, frame, start())
    whole, points, own = gram(process), process.given.points, process.kernel
    across = gradient._functionals.observed(points, own)
    if shown != "derivatives":
        basis = np.eye(1, own.shown.width(2)).repeat(len(points), 0).reshape(-1)
        whole = np.block([[whole, basis[:, None]], [basis[None], np.zeros((1, 1))]])
        level = np.tile([1.0] + [0.0] * 5, 2)
        across = np.concatenate([across, level[None]])
    covariance = gradient._functionals.prior(own) - across.T @ np.linalg.solve(whole, across)
    expected = process.given.scale * gradient._pulled(gradient._pulled(covariance).T)
    np.testing.assert_allclose(gradient.model_covariance, expected, atol=1e-7 * np.abs(expected).max())
    assert np.linalg.eigvalsh(gradient.covariance).min() > -1e-8


@each_kind
def test_the_jackknife_leaves_nodes_out(shown):
    process, frame = given(shown)
    gradient = MixtureGradient(process, frame, start())
    for i in (0, 4):
        left = np.arange(len(process.given.points)) != i
        without = of_function(SHOWN[shown], SHAPE, process.given.points[left], process.given.targets[left])
        change = moments(gradient) - moments(MixtureGradient(without, frame, start()))
        if shown == "derivatives":
            change[::6] = gradient._changes[i, ::6]  # derivatives do not determine the constants
        np.testing.assert_allclose(gradient._changes[i], change, rtol=1e-5, atol=1e-6)


def by_process(estimator, model, q, rng):
    """The gradient of E_q[f] alone, after a first round."""
    memory = estimator(model, q, FULL, rng, estimator.start(model, q)).memory
    return MixtureGradient(memory.process, memory.known.base.frame, q)


@pytest.mark.parametrize("process", ["joint", "derivative", "values"])
def test_a_quadratic_is_known_exactly(process):
    """Once the nodes determine it."""
    bend, centre = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([0.3, -0.2])

    def log_joint(theta):
        apart = theta - (centre if process == "values" else torch.tensor(centre))
        return 1.0 - 0.5 * ((apart @ (bend if process == "values" else torch.tensor(bend))) * apart).sum(-1)

    q = start()
    values = {"gradient": None} if process == "values" else {}
    settings = {} if process == "values" else {"process": process}
    estimator = MixtureQuadrature(initial_nodes=16, **settings)
    found = by_process(estimator, LogJoint(log_joint, 2, **values), q, np.random.default_rng(0))
    apart = q.means - centre
    each = 1.0 - 0.5 * (np.einsum("ki,ij,kj->k", apart, bend, apart) + (bend * q.covariances).sum((1, 2)))
    slopes = -q.weights[:, None] * apart @ bend
    expected = q.pulled_back(each, slopes, -0.5 * q.weights[:, None, None] * bend)
    np.testing.assert_allclose(flat(found.values), flat(expected), atol=QUADRATIC[process])


QUADRATIC = {"joint": 1e-6, "derivative": 1e-6, "values": 1e-5}


def wavy(theta):
    """A smooth log joint that is no quadratic."""
    sin, cos = (np.sin, np.cos) if isinstance(theta, np.ndarray) else (torch.sin, torch.cos)
    return -0.5 * (theta**2).sum(-1) + sin(theta[:, 0]) * cos(theta[:, 1])


@pytest.mark.parametrize(
    ("model", "n", "allowed"),
    [(LogJoint(wavy, 2), 40, 0.01), (LogJoint(wavy, 2, gradient=None), 100, 0.02)],
    ids=["gradients", "values"],
)
def test_nodes_bring_the_exact_gradient(model, n, allowed):
    """The gradient of E_q[f] is about 1; that of Monte Carlo would be .1 off."""
    axis = torch.linspace(-8.0, 8.0, 400, dtype=torch.float64)
    points = torch.cartesian_prod(axis, axis)
    leaves = tuple(torch.tensor(u, requires_grad=True) for u in start().unconstrained)
    density = start().from_unconstrained(leaves).log_prob(points).exp()
    expected = torch.autograd.grad((density * wavy(points)).sum() * (axis[1] - axis[0]) ** 2, leaves)
    for seed in range(3):
        estimator = MixtureQuadrature(initial_nodes=n)
        found = by_process(estimator, model, start(), np.random.default_rng(seed))
        np.testing.assert_allclose(flat(found.values), flat(expected), atol=allowed)


def test_intervals_cover():
    """Intervals of two standard errors, over seeds and numbers; they would cover .95 if all errors were
    normal.
    """
    expected = exact(start())[1]
    estimator = MixtureQuadrature(nodes=20, memory=0, errors=True)
    inside = []
    for seed in range(15):
        found = estimator(MODEL, start(), FULL, np.random.default_rng(seed))
        errors = flat(found.standard_error)
        inside.append((np.abs(flat(found.values) - expected) < 2.0 * errors)[errors > 0])
    assert np.mean(inside) > 0.8


def test_the_bound_is_the_elbo():
    found = MixtureQuadrature(nodes=80, memory=0, candidates=100, entropy_pairs=5000)(
        MODEL, start(), FULL, np.random.default_rng(0)
    )
    assert abs(found.bound - exact(start())[0]) < 0.05


def test_chosen_nodes_tell_more_than_draws():
    estimator, q = MixtureQuadrature(), start()
    rng = np.random.default_rng(0)
    first = estimator(MODEL, q, FULL, rng, estimator.start(MODEL, q)).memory
    frame, process = first.known.base.frame, first.process

    def left(nodes):
        whitened = frame.whiten(nodes)
        more = process.extended(whitened, np.zeros((len(nodes), 3)))
        return np.trace(MixtureGradient(more, frame, q).model_covariance) / more.given.scale

    chosen = np.mean([left(estimator._nodes(MODEL, q, rng, first)) for _ in range(5)])
    assert chosen < 0.8 * np.mean([left(q.sample(4, rng)) for _ in range(20)])


def test_steps_between_rounds_make_no_evaluation():
    estimator, q, rng = MixtureQuadrature(every=4), start(), np.random.default_rng(0)
    memory, spent = estimator.start(MODEL, q), []
    for _ in range(9):
        found = estimator(MODEL, q, FULL, rng, memory)
        memory = found.memory
        spent.append(found.n_evaluations)
    assert spent == [8, 0, 0, 0, 4, 0, 0, 0, 4]
    moved = q.from_unconstrained((q.logits, q.unconstrained[1] + 0.6, q.unconstrained[2]))
    assert estimator(MODEL, moved, FULL, rng, memory).n_evaluations == 4


def test_memory_off_is_the_one_shot_estimator():
    estimator = MixtureQuadrature(nodes=6, memory=0)
    assert estimator.start(MODEL, start()) is None
    found = bqvi.fit(MODEL, None, estimator, start_from=start(), steps=1, seed=4)
    rng = np.random.default_rng(4)
    step = estimator(MODEL, start(), FULL, rng)
    assert found.state.step_evaluations == step.n_evaluations == 6
    assert found.state.rng.bit_generator.state == rng.bit_generator.state


@pytest.mark.parametrize("full", [True, False])
def test_two_modes_in_few_evaluations(full):
    best = 2.4644  # the best of 20 runs of 2000 steps
    found = bqvi.fit(MODEL, None, MixtureQuadrature(), start_from=start(full), steps=300, seed=0)
    assert found.state.step_evaluations <= 60
    assert exact(found.q)[0] > best - 0.05


def test_a_fit_resumes_to_the_same_numbers(tmp_path):
    settings = {"method": MixtureQuadrature(every=5), "start_from": start(), "seed": 3}
    whole = bqvi.fit(MODEL, None, steps=14, **settings)
    half = bqvi.fit(MODEL, None, steps=7, **settings)
    half.save(tmp_path / "half.npz")
    for stored in (half, tmp_path / "half.npz"):
        again = bqvi.fit(MODEL, None, steps=14, resume=stored, **settings)
        np.testing.assert_array_equal(flat(again.q.unconstrained), flat(whole.q.unconstrained))


def test_faults_lose_nothing():
    calls = []

    def faulty(theta):
        calls.append(len(theta))
        values = bimodal(theta)
        return torch.where(theta[:, 0] > 1.5, values + float("nan"), values)

    found = bqvi.fit(LogJoint(faulty, 2), None, MixtureQuadrature(), start_from=start(), steps=3)
    known = found.state.memory.known
    assert known.n_failed > 0
    assert len(known) + known.n_failed == found.state.step_evaluations
    assert np.isfinite(flat(found.q.unconstrained)).all()
    never = LogJoint(lambda theta: theta.sum(-1) * float("nan"), 2)
    with pytest.raises(bqvi.RunError, match="no finite value"):
        bqvi.fit(never, None, MixtureQuadrature(), start_from=start(), steps=20)


def test_bad_input_is_named():
    for settings, match in (
        ({"nodes": 0}, "nodes"),
        ({"memory": -1}, "memory"),
        ({"radius": 0.0}, "radius"),
        ({"every": 0}, "every"),
        ({"process": "separable"}, "process"),
        ({"candidates": 3}, "candidates"),
        ({"entropy_pairs": 1}, "entropy_pairs"),
        ({"initial_nodes": 0}, "initial_nodes"),
    ):
        with pytest.raises(ValueError, match=match):
            MixtureQuadrature(**settings)
    with pytest.raises(TypeError, match="takes a GaussianMixture"):
        MixtureQuadrature()(MODEL, Gaussian(np.zeros(2), np.eye(2)), FULL, np.random.default_rng(0))
    with pytest.raises(ValueError, match="surrogate"):
        bqvi.fit(
            MODEL,
            None,
            MixtureQuadrature(),
            start_from=start(),
            geometry=bqvi.inference.TrustRegion(),
            steps=1,
        )


def test_a_constant_log_joint_is_named():
    flatland = LogJoint(lambda theta: 0.0 * theta.sum(-1) + 2.0, 2)
    with pytest.raises(bqvi.RunError, match="does not depend") as caught:
        bqvi.fit(flatland, None, MixtureQuadrature(), start_from=start(), steps=2)
    assert isinstance(caught.value.__cause__, EvaluationError)


def test_one_component_is_a_gaussian():
    """K = 1 in one shot: the gradient of BayesianQuadrature's own process, and the Gaussian's entropy."""
    q = GaussianMixture(np.ones(1), np.array([[0.3, 0.2]]), np.array([[[0.5, 0.1], [0.1, 0.6]]]))
    gradient = by_process(MixtureQuadrature(initial_nodes=20), MODEL, q, np.random.default_rng(0))
    single = Gaussian(q.means[0], q.covariances[0])
    natural = WhitenedFrame.of(single).natural_gradient(gradient.process.at_q)
    expected = single.gradient_to_unconstrained(natural)
    # the ELBO's: of the entropy only ln |L| moves
    found = [part[0] for part in gradient.values[1:]]
    np.testing.assert_allclose(found[0], expected[0], atol=1e-8)
    np.testing.assert_allclose(found[1] + np.eye(2), expected[1], atol=1e-8)


def deviation(given, kernel):
    """The standard deviation of E[phi] under N(0, I): kernel integrals in closed form, and the jackknife."""
    u, squared = given.points, kernel.lengthscale**2
    share, sizes = squared / (squared + np.array([1.0, 2.0])), (u**2).sum(axis=1)
    prior = kernel.height * share[1] ** (u.shape[1] / 2) + 0.5 * kernel.quadratic * u.shape[1]
    z = kernel.height * share[0] ** (u.shape[1] / 2) * np.exp(-0.5 * sizes / (squared + 1.0))
    seen = (z + 0.5 * kernel.quadratic * sizes)[:, None]
    if given.numbers > 1:
        seen = np.concatenate([seen, (kernel.quadratic - z / (squared + 1.0))[:, None] * u], axis=1)
    whitened, level = given.whitening @ seen.reshape(-1, 1), np.ones(1)
    changes = given.changes(whitened, level)[:, 0]
    variance = given.covariance(np.array([[prior]]), whitened, level)[0, 0]
    return np.sqrt(variance + (changes**2).sum() + changes.sum() ** 2)


@pytest.mark.parametrize("shown", ["values", "both"])
def test_the_deviation_of_a_mean_is_that_of_one_gaussian(shown):
    """In the units of q itself, with closed forms; two equal components have that of one."""
    rng = np.random.default_rng(2)
    points = rng.standard_normal((14, 2))
    process = of_function(SHOWN[shown], SHAPE, points, rng.standard_normal((14, SHOWN[shown].width(2))))
    frame = WhitenedFrame(np.array([1.0, -2.0]), np.array([[0.5, 0.0], [0.3, 1.2]]), False)
    covariance = frame.scale @ frame.scale.T
    expected = deviation(process.given, process.kernel)
    for weights in ([1.0], [0.3, 0.7]):
        k = len(weights)
        q = GaussianMixture(np.array(weights), np.tile(frame.mean, (k, 1)), np.tile(covariance, (k, 1, 1)))
        np.testing.assert_allclose(MixtureGradient(process, frame, q).value_deviation, expected, rtol=1e-7)
