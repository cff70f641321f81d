"""The process on gradients: its integrals against product quadrature rules and autodiff."""

import numpy as np
import pytest
import torch
from gradient_cases import SHOWN, between, drawn_process, gauss_hermite, gram
from gradient_cases import without as without_some
from numpy.testing import assert_allclose

from bqvi.families import DiagonalGaussian, Gaussian
from bqvi.gradients.gradient_process import (
    Directions,
    GradientProcess,
    SeparableFunctionals,
    SeparableKernel,
    shaped_noise,
)
from bqvi.gradients.whitened import WhitenedFrame, WhitenedMoments
from gp.conditioning.function_kernel import standard_observed

TURN = np.array([[0.6, -0.8], [0.8, 0.6]])
KERNEL = SeparableKernel(1.7, 0.3, 0.2, 0.15, Directions(TURN, np.array([1.3, 0.7])))


@pytest.fixture
def process():
    rng = np.random.default_rng(3)
    return GradientProcess.of(1.5 * rng.standard_normal((12, 2)), rng.standard_normal((12, 2)), KERNEL)


@pytest.fixture
def moved(process):
    return process.under(MOVED)


def predicted(process, points):
    return between(KERNEL, points, process.given.points) @ process.given.weights


MOVED = WhitenedFrame(np.array([0.3, -0.2]), np.array([[1.1, 0.0], [-0.2, 0.8]]), False)


@pytest.mark.parametrize("q", [WhitenedFrame.standard(2), MOVED])
def test_moments_are_the_integrals_of_the_posterior_mean(process, q):
    """The moments of y_q(e) = R^T (y(u) - u) + e, in the units of a q that may have changed."""
    mean, factor = np.array([0.4, -0.3]), np.array([[0.8, 0.0], [0.3, 0.5]])
    noise, weights = gauss_hermite(2, 60)
    moved = process.under(q)

    def integrated(mean, factor):
        e = mean + noise @ factor.T
        u = q.points(e)
        y = (predicted(process, u) - u) @ q.scale + e
        slopes = np.linalg.solve(factor.T, ((noise * weights[:, None]).T @ y)).T  # E[y e^T] L^-1
        return weights @ y, 0.5 * (slopes + slopes.T)

    # 60 nodes an axis integrate this kernel to rounding
    found = moved.moments(mean, factor @ factor.T)
    for ours, theirs in zip((found.mean, found.jacobian), integrated(mean, factor), strict=True):
        assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
    at_q = integrated(np.zeros(2), np.eye(2))
    for ours, theirs in zip((moved.at_q.mean, moved.at_q.jacobian), at_q, strict=True):
        assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("q", [WhitenedFrame.standard(2), MOVED])
def test_separable_functionals_and_their_prior_covariance_are_integrals_of_the_kernel(process, q):
    noise, weights = gauss_hermite(2, 60)
    basis = np.column_stack([np.ones(len(noise)), noise]) * weights[:, None]
    places = q.points(noise)
    across = between(KERNEL, process.given.points, places)
    functionals = SeparableFunctionals(KERNEL, q)
    assert_allclose(
        functionals.covariances(KERNEL.at(process.given.points)), across @ basis, rtol=1e-10, atol=1e-12
    )
    prior = basis.T @ between(KERNEL, places, places) @ basis
    assert_allclose(functionals.prior, prior, rtol=1e-10, atol=1e-12)
    explained = process.under(q).functional_covariance() / process.given.scale
    weighted = across @ basis
    points = process.given.points
    noise_there = shaped_noise(points, KERNEL.directions)
    whole = between(KERNEL, points, points) + np.diag(noise_there)
    expected = prior - weighted.T @ np.linalg.solve(whole, weighted)
    assert_allclose(explained, expected, rtol=1e-7, atol=1e-9)  # jitter 1e-6: conditioned to 1e6


def test_noise_grows_with_the_distance_along_which_y_bends():
    bending = Directions(np.eye(3), np.sqrt([2.4, 0.3, 0.3]))
    along, across, near = np.array([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0], [1.0, 1.0, 1.0]])
    assert shaped_noise(near[None], bending, 1.0) == 1.0
    # |u|_M^2 / D = 7.2, 3.2 beyond the distance of 4 from which the noise grows by e for each half
    assert_allclose(shaped_noise(along[None], bending, 1.0), np.exp(6.4))
    assert shaped_noise(across[None], bending, 1.0) == 1.0


def test_directions_are_those_along_which_a_gradient_bends():
    """For grad f of f = g(v . u) plus a quadratic, the direction is v, and the weight along it exceeds that
    across.
    """
    rng = np.random.default_rng(2)
    points = rng.standard_normal((200, 4))
    v = np.array([2.0, -1.0, 2.0, 0.0]) / 3.0
    hessian = rng.standard_normal((4, 4))
    y = np.sin(2.0 * points @ v)[:, None] * v + points @ (hessian + hessian.T)
    found = Directions.of(points, y)
    assert abs(found.rotation[:, -1] @ v) > 0.99
    assert found.scales[-1] > 2.0 * found.scales[:-1].max()
    assert_allclose(np.square(found.scales).mean(), 1.0, rtol=1e-12)
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    turned = Directions.of(points @ turn, y @ turn)
    expected = points @ turn @ turned.rotation * turned.scales
    assert_allclose(
        found.scaled(points) @ found.scaled(points).T, expected @ expected.T, rtol=1e-8, atol=1e-8
    )


@pytest.mark.parametrize("diagonal", [False, True])
def test_the_frame_gives_the_natural_gradient_of_the_elbo(diagonal):
    """For a quadratic log joint the moments of y are exact, and so is autodiff of the ELBO in mu."""
    rng = np.random.default_rng(1)
    d = 3
    precision = np.eye(d) + 0.3 * np.ones((d, d))
    centre = rng.standard_normal(d)
    root = np.tril(rng.standard_normal((d, d)), -1) + np.diag([1.0, 0.6, 1.4])
    mean = rng.standard_normal(d)
    q = DiagonalGaussian(mean, np.diagonal(root) ** 2) if diagonal else Gaussian(mean, root @ root.T)
    frame = WhitenedFrame.of(q)
    y_mean = -frame.scale.T @ precision @ (mean - centre)
    y_slope = np.eye(d) - frame.scale.T @ precision @ frame.scale
    found = frame.natural_gradient(WhitenedMoments(y_mean, y_slope))
    leaves = tuple(torch.tensor(u, requires_grad=True) for u in q.unconstrained)
    at = type(q).from_unconstrained(leaves)
    gap = at.mean - torch.tensor(centre)
    covariance = at.covariance
    bound = -0.5 * (gap @ torch.tensor(precision) @ gap + (torch.tensor(precision) * covariance).sum())
    gradient = torch.autograd.grad(bound + at.entropy, leaves)
    expected = q.gradient_to_natural(tuple(g.numpy() for g in gradient))
    for ours, theirs in zip(found, expected, strict=True):
        assert_allclose(ours, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("diagonal", [False, True])
def test_the_frame_goes_back_from_the_natural_gradient(diagonal):
    rng = np.random.default_rng(5)
    root = np.tril(rng.standard_normal((3, 3)), -1) + np.diag([1.0, 0.6, 1.4])
    mean = rng.standard_normal(3)
    q = DiagonalGaussian(mean, np.diagonal(root) ** 2) if diagonal else Gaussian(mean, root @ root.T)
    slope = rng.standard_normal((3, 3))
    given = WhitenedMoments(rng.standard_normal(3), np.diag(slope[0]) if diagonal else slope + slope.T)
    back = WhitenedFrame.of(q).moments(WhitenedFrame.of(q).natural_gradient(given))
    assert_allclose(back.mean, given.mean, rtol=1e-10)
    assert_allclose(back.jacobian, given.jacobian, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("diagonal", [False, True])
def test_natural_parameters_of_a_place_in_the_frame(diagonal):
    rng = np.random.default_rng(2)
    root = np.tril(rng.standard_normal((2, 2)), -1) + np.diag([1.0, 0.6])
    mean = rng.standard_normal(2)
    q = DiagonalGaussian(mean, np.array([0.5, 2.0])) if diagonal else Gaussian(mean, root @ root.T)
    frame = WhitenedFrame.of(q)
    shift, spread = rng.standard_normal(2), np.diag([0.7, 1.9])
    moved = q.from_natural(frame.natural_parameters(shift, np.linalg.inv(spread)))
    assert_allclose(moved.mean, mean + frame.scale @ shift, rtol=1e-12)
    assert_allclose(moved.covariance, frame.scale @ spread @ frame.scale.T, rtol=1e-12)
    assert_allclose(frame.points(frame.whiten(mean[None])), mean[None], rtol=1e-12)


SHAPE = (1.6, 0.4, 0.3)
OF_FUNCTION = {
    "values": drawn_process(SHOWN["values"], SHAPE, 12, 4),
    "derivatives": drawn_process(SHOWN["derivatives"], SHAPE),
    "both": drawn_process(SHOWN["both"], SHAPE, seed=7),
}
"""Processes on values of one function, on its derivatives, and on both."""
NUMBERS = {"values": slice(0, 1), "derivatives": slice(1, 3), "both": slice(0, 3)}
"""Which of a value and its two derivatives are observed."""


def phi_kernel(shown, x, y):
    inner = x @ y.T
    distances = (x**2).sum(1)[:, None] + (y**2).sum(1) - 2 * inner
    height = 1.0 if shown == "values" else 1.6**2
    return height * torch.exp(-0.5 / 1.6**2 * distances) + 0.4 * inner + 0.15 * inner**2


def observed(shown, values, points):
    """What is observed of functions of the ``points`` (m, 2) with ``values`` (m,) there: (m, 1 to 3)."""
    (slopes,) = torch.autograd.grad(values.sum(), points, create_graph=True)
    return torch.cat([values[:, None], slopes], 1)[:, NUMBERS[shown]]


@pytest.mark.parametrize("shown", OF_FUNCTION)
def test_the_kernel_of_observations_has_the_derivatives_of_the_functions(shown):
    points = torch.tensor(OF_FUNCTION[shown].given.points[:5])

    def block(x, y):
        def value(z):
            return phi_kernel(shown, z[None, :2], z[None, 2:])[0, 0]

        both = torch.cat([x, y])
        whole = torch.zeros(3, 3, dtype=torch.float64)
        slopes = torch.autograd.functional.jacobian(value, both)
        whole[0, 0], whole[1:, 0], whole[0, 1:] = value(both), slopes[:2], slopes[2:]
        whole[1:, 1:] = torch.autograd.functional.hessian(value, both)[:2, 2:]
        return whole[NUMBERS[shown], NUMBERS[shown]].numpy()

    expected = np.block([[block(x, y) for y in points] for x in points])
    found = between(OF_FUNCTION[shown].given.kernel, points.numpy(), points.numpy())
    assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("shown", OF_FUNCTION)
def test_moments_are_derivatives_of_the_expected_posterior_mean(shown):
    """dE/dm and 2 dE/dS by autodiff through a product rule of the predicted phi."""
    given = OF_FUNCTION[shown].given
    noise, weights = (torch.tensor(part) for part in gauss_hermite(2, 60))
    points = torch.tensor(given.points, requires_grad=True)
    mean = torch.tensor([0.4, -0.3], dtype=torch.float64, requires_grad=True)
    covariance = torch.tensor([[0.7, 0.2], [0.2, 0.5]], dtype=torch.float64, requires_grad=True)
    x = mean + noise @ torch.linalg.cholesky(covariance).T
    averaged = observed(shown, weights @ phi_kernel(shown, x, points), points)
    expected = (averaged.reshape(-1) * torch.tensor(given.weights).reshape(-1)).sum()
    dm, ds = torch.autograd.grad(expected, (mean, covariance))
    found = OF_FUNCTION[shown].moments(mean.detach().numpy(), covariance.detach().numpy())
    assert_allclose(found.mean, dm.numpy(), rtol=1e-8, atol=1e-9)
    assert_allclose(found.jacobian, (ds + ds.T).numpy(), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("shown", OF_FUNCTION)
def test_functionals_and_their_variance_are_integrals_of_the_kernel(shown):
    """Stein: E[grad phi] = E[phi e], E[Hessian phi] = E[phi (e e^T - I)]."""
    process = OF_FUNCTION[shown]
    noise, weights = (torch.tensor(part) for part in gauss_hermite(2, 60))
    points = torch.tensor(process.given.points, requires_grad=True)
    rows, columns = np.tril_indices(2)
    second = noise[:, rows] * noise[:, columns] - torch.tensor(rows == columns, dtype=torch.float64)
    basis = torch.cat([noise, second], 1) * weights[:, None]
    across = phi_kernel(shown, points, noise) @ basis
    expected = np.stack([observed(shown, of, points).detach().numpy().ravel() for of in across.T], 1)
    assert_allclose(
        standard_observed(process.given.points, process.given.kernel), expected, rtol=1e-8, atol=1e-9
    )
    prior = np.diagonal((basis.T @ phi_kernel(shown, noise, noise) @ basis).numpy())
    explained = (expected * np.linalg.solve(gram(process), expected)).sum(0)
    sd = process.model_deviations()
    variance = process.given.scale * (prior - explained)
    assert_allclose(np.r_[sd.mean, sd.jacobian[rows, columns]] ** 2, variance, rtol=1e-7)


def without(process, kept):
    if isinstance(process, GradientProcess):
        points, targets = process.given.points[kept], process.given.targets[kept]
        return GradientProcess.of(points, targets, KERNEL).under(process.functionals.q)
    return without_some(process, kept)


def _left_out(process):
    """Moments without each node in turn, with the same hyperparameters and jitters."""
    found = []
    for i in range(len(process.given.points)):
        kept = np.delete(np.arange(len(process.given.points)), i)
        moments = without(process, kept).at_q
        found.append(np.concatenate([moments.mean, moments.jacobian[np.tril_indices(2)]]))
    return np.array(found)


@pytest.mark.parametrize("kind", ["process", "moved", *OF_FUNCTION])
def test_standard_deviations_hold_the_jackknife_of_refits(kind, request):
    """The closed form against as many processes as there are nodes, each without one of them."""
    given = OF_FUNCTION.get(kind) or request.getfixturevalue(kind)
    whole = given.at_q
    at = np.concatenate([whole.mean, whole.jacobian[np.tril_indices(2)]])
    changes = at - _left_out(given)
    jackknife = np.square(changes).sum(0) + np.square(changes.sum(0))
    model, both = given.model_deviations(), given.standard_deviations()
    for part in ("mean", "jacobian"):
        extra = np.square(getattr(both, part)) - np.square(getattr(model, part))
        expected = jackknife[:2] if part == "mean" else jackknife[2:]
        found = extra if part == "mean" else extra[np.tril_indices(2)]
        assert_allclose(found, expected, rtol=1e-6)  # the Gram matrices are conditioned to 1e6


def test_the_quadratic_term_is_the_covariance_of_squared_projections():
    """E[(a . b)^2 (a . b')^2] for a ~ N(0, I) in the plane, by a Gauss-Hermite rule that is exact for it."""
    x, w = np.polynomial.hermite_e.hermegauss(5)
    w, a = np.outer(w, w).reshape(-1) / w.sum() ** 2, np.stack(np.meshgrid(x, x), -1).reshape(-1, 2)
    b = np.random.default_rng(3).standard_normal((4, 2))
    squares = np.square(b @ a.T)
    without, kernel = SeparableKernel(1.0, 0.0, 0.0), SeparableKernel(1.0, 0.0, 0.0, 0.8)
    assert_allclose(between(kernel, b, b) - between(without, b, b), 0.2 * (squares * w) @ squares.T)
    assert_allclose(kernel.variances(kernel.at(b)), np.diag(between(kernel, b, b)))
