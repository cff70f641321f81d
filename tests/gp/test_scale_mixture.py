"""Radial kernels of several columns: against radial integrals and rules made for their kinks."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from measure_contract import check_embedding
from scipy import integrate, stats

import gp
from gp.embeddings import embed
from gp.embeddings.scale_mixture import as_squared_exponentials
from gp.kernels import Matern12, Matern32, Matern52, RationalQuadratic
from gp.measures import Empirical, Gaussian, GaussianMixture, Uniform

LENGTHSCALE = np.array([0.8, 1.3])
KERNELS = {
    "matern 1/2": Matern12(LENGTHSCALE, 1.4),
    "matern 3/2": Matern32(LENGTHSCALE, 1.4),
    "matern 5/2": Matern52(LENGTHSCALE, 1.4),
    "rational quadratic": RationalQuadratic(LENGTHSCALE, 1.4, alpha=0.7),
}
BOX = Uniform([-1.0, 0.2], [1.0, 1.7])
GAUSSIAN = Gaussian([0.1, 0.2], [[0.5, 0.2], [0.2, 0.4]])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    kind=st.sampled_from([Matern12, Matern32, Matern52, RationalQuadratic]),
    alpha=st.floats(-1, 4).map(lambda e: 10.0**e),
)
def test_the_mixture_is_the_kernel(kind, alpha):
    kernel = kind(alpha=alpha) if kind is RationalQuadratic else kind()
    x = np.concatenate([[0.0], np.logspace(-6, 2, 100)])[:, None]
    mixture = as_squared_exponentials(kernel)
    # the trapezoidal rule's error, and what is cut off: both 1e-13 by choice
    np.testing.assert_allclose(mixture(x, x[:1]), kernel(x, x[:1]), rtol=0, atol=1e-12)


def radial_expectation(kernel, mean, sd):
    """E k(0, Y) for Y = lengthscale Z, Z ~ N(mean, sd^2 I): |Z|^2 / sd^2 is noncentral chi^2."""
    dimension, shift = len(mean), float(mean @ mean) / sd**2

    def integrand(r):
        s = np.array([r * sd]) ** 2
        return 2 * r * stats.ncx2.pdf(r * r, dimension, shift) * kernel.profile(s)[0]

    far = np.sqrt(shift) + 9
    value, _ = integrate.quad(integrand, 0, far, epsabs=1e-11, epsrel=1e-11, limit=200)
    return kernel.variance * value


@pytest.mark.parametrize("dimension", [2, 3, 5])
@pytest.mark.parametrize("kind", [Matern12, Matern32, Matern52, RationalQuadratic])
def test_against_a_gaussian_as_wide_in_every_lengthscale(kind, dimension):
    rng = np.random.default_rng(dimension)
    lengthscale = rng.uniform(0.5, 2, dimension)
    kernel = kind(lengthscale, 1.7)
    centres = rng.normal(size=(2, dimension))
    one, two = (
        Gaussian(lengthscale * centre, (lengthscale * sd) ** 2)
        for centre, sd in zip(centres, (0.6, 1.1), strict=True)
    )
    x = lengthscale * rng.normal(size=(3, dimension))
    pair = embed(kernel, one)
    expected = [radial_expectation(kernel, centres[0] - u, 0.6) for u in x / lengthscale]
    # adaptive quadrature to 1e-11, the noncentral chi^2 density to 1e-10
    np.testing.assert_allclose(pair.mean(x), expected, rtol=0, atol=1e-9)
    both = radial_expectation(kernel, centres[0] - centres[1], np.hypot(0.6, 1.1))
    np.testing.assert_allclose(pair.double(two), both, rtol=0, atol=1e-9)
    itself = radial_expectation(kernel, np.full(dimension, 1e-6), np.sqrt(2) * 0.6)
    np.testing.assert_allclose(pair.double(), itself, rtol=0, atol=1e-9)


def corner_integral(function, a, b, n=40):
    """int_0^a int_0^b function(x, y) dx dy where it is smooth but for a kink at the origin.

    The two triangles at the origin are squares in (s, v), x = a s, y = b s v (Duffy's map), in
    which a function of a norm is analytic: a product Gauss rule is exact to rounding.
    """
    nodes, weights = np.polynomial.legendre.leggauss(n)
    s, v = np.meshgrid((nodes + 1) / 2, (nodes + 1) / 2, indexing="ij")
    w = np.outer(weights, weights) / 4 * a * b * s
    return np.sum(w * (function(a * s, b * s * v) + function(a * s * v, b * s)))


def profile(kernel):
    scale = np.asarray(kernel.lengthscale)
    return lambda a, b: kernel.variance * kernel.profile((a / scale[0]) ** 2 + (b / scale[1]) ** 2)


@pytest.mark.parametrize("name", KERNELS)
def test_against_a_box(name):
    kernel = KERNELS[name]
    k, width = profile(kernel), BOX.upper - BOX.lower
    x = np.array([[0.3, 0.9], [-0.9, 1.65]])
    expected = [
        sum(
            corner_integral(k, abs(edge0 - point[0]), abs(edge1 - point[1]))
            for edge0 in (BOX.lower[0], BOX.upper[0])
            for edge1 in (BOX.lower[1], BOX.upper[1])
        )
        / np.prod(width)
        for point in x
    ]
    np.testing.assert_allclose(embed(kernel, BOX).mean(x), expected, rtol=0, atol=1e-10)

    def of_differences(a, b):  # the density of |x - y| for independent points of the box
        return k(a, b) * 4 * (1 - a / width[0]) * (1 - b / width[1]) / np.prod(width)

    both = corner_integral(of_differences, *width)
    np.testing.assert_allclose(embed(kernel, BOX).double(), both, rtol=0, atol=1e-10)


MIXTURE = GaussianMixture([0.3, 0.7], [[0, 0], [1, 0.5]], [np.eye(2), 0.3 * np.eye(2)])
FEW_TERMS = RationalQuadratic(LENGTHSCALE, 1.4, alpha=20.0)


@pytest.mark.parametrize(
    ("kernel", "measure"),
    [(KERNELS["matern 5/2"], GAUSSIAN), (KERNELS["matern 5/2"], MIXTURE), (FEW_TERMS, BOX)],
)
def test_the_embedding_contract(kernel, measure):
    check_embedding(kernel, measure)


def test_narrow_measures_are_points():
    kernel, centre = KERNELS["matern 1/2"], np.array([0.3, -0.2])
    narrow = Gaussian(centre, np.full(2, 1e-20))
    x = np.array([[0.3, -0.2], [1.0, 0.4]])
    point = embed(kernel, Empirical(centre[None, :])).mean(x)
    # at the point itself, 1e-10 of a lengthscale away on average, the kernel has fallen by as much
    np.testing.assert_allclose(embed(kernel, narrow).mean(x), point, rtol=0, atol=1e-9)


def test_the_integral_of_a_matern_posterior_in_three_dimensions():
    """Mean and variance, against averages over points of a scrambled Sobol sequence."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(30, 3)))
    posterior = gp.GaussianProcess(Matern32(1.2), noise=0.01).condition(x, torch.sin(x).sum(dim=1))
    integral = posterior.integral(Gaussian(np.zeros(3), np.full(3, 0.5)))
    measure = Gaussian(torch.zeros(3).double(), torch.full((3,), 0.5).double())
    means, variances = [], []
    for seed in range(8):
        u = stats.qmc.Sobol(3, seed=seed).random(512)
        nodes = measure.from_unit_cube(torch.from_numpy(u))
        means.append(float(posterior.mean(nodes).mean()))
        other = measure.from_unit_cube(torch.from_numpy(stats.qmc.Sobol(3, seed=100 + seed).random(512)))
        variances.append(float(posterior.covariance(nodes, other).mean()))
    for value, averages in ((integral.mean, means), (integral.variance, variances)):
        error = np.std(averages, ddof=1) / np.sqrt(8)
        # a t variable with 7 degrees of freedom is beyond 7 with probability 2e-4
        assert abs(np.mean(averages) - float(value)) < 7 * error
        assert error < 0.02 * abs(float(value)) + 1e-3
