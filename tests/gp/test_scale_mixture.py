"""Radial kernels of several columns: against radial integrals and rules made for their kinks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from measure_contract import check_embedding
from scipy import integrate, stats

from gp.embeddings import embed
from gp.embeddings.scale_mixture import as_squared_exponentials
from gp.kernels import Matern12, Matern32, Matern52, RationalQuadratic
from gp.measures import Gaussian, GaussianMixture, Uniform

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


MIXTURE = GaussianMixture([0.3, 0.7], [[0, 0], [1, 0.5]], [np.eye(2), 0.3 * np.eye(2)])
FEW_TERMS = RationalQuadratic(LENGTHSCALE, 1.4, alpha=20.0)


@pytest.mark.parametrize(
    ("kernel", "measure"),
    [(KERNELS["matern 5/2"], GAUSSIAN), (KERNELS["matern 5/2"], MIXTURE), (FEW_TERMS, BOX)],
)
def test_the_embedding_contract(kernel, measure):
    check_embedding(kernel, measure)
