"""Embeddings: the contract, product rules, limits, tails, units, autodiff, errors."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hermite_rule import hermite
from hypothesis import given, settings
from hypothesis import strategies as st
from measure_contract import check_embedding

from gp.embeddings import Formulas, UnknownPairError, embed, embedding
from gp.embeddings.embed import gradient_in_parameters
from gp.kernels import (
    ByColumn,
    Columns,
    Constant,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Product,
    RationalQuadratic,
    SquaredExponential,
    White,
)
from gp.measures import Empirical, Gaussian, GaussianMixture, Uniform

S2 = np.array([[0.5, 0.2], [0.2, 0.4]])
S3 = np.array([[0.6, 0.2, -0.1], [0.2, 0.5, 0.1], [-0.1, 0.1, 0.3]])
RNG = np.random.default_rng(0)
MEASURES = {
    "gaussian": Gaussian([0.1, 0.2], S2),
    "diagonal": Gaussian([0.1, 0.2], [0.5, 0.8]),
    "mixture": GaussianMixture([0.3, 0.7], [[0, 0], [1, 0.5]], [S2, 0.3 * np.eye(2)]),
    "diagonal mixture": GaussianMixture([0.3, 0.7], [[0, 0], [1, 0.5]], [[0.3, 0.4], [0.8, 0.2]]),
    "box": Uniform([-1.0, 0.0], [1.0, 1.7]),
    "empirical": Empirical(RNG.normal(size=(8, 2)), np.arange(1, 9) / 36),
}
INDEPENDENT = ("diagonal", "diagonal mixture", "box", "empirical")
SE = SquaredExponential(np.array([0.8, 1.3]), 1.5)
ANY_MEASURE = {
    "se": SE,
    "se scalar": SquaredExponential(0.9),
    "linear": Linear(np.array([0.5, 1.0]), 0.3),
    "constant": Constant(2.0),
    "sum": SE + Linear(0.5, 0.3) + Constant(0.7) + Columns(Matern52(0.7), (1,)),
    "scaled sum": Constant(0.5) * (SE + Linear(0.5)),
    "product of se": SquaredExponential(0.8) * SquaredExponential(np.array([1.2, 0.9]), 2.0),
    "columns": Columns(Matern32(0.8, 2.0), (1,)),
    "swapped columns": Columns(SE, (1, 0)),
}
PRODUCTS = {
    "matern 5/2 x 3/2": Columns(Matern52(0.8, 1.2), (0,)) * Columns(Matern32(1.1), (1,)),
    "matern 1/2 x se": Columns(Matern12(0.8, 1.2), (1,)) * Columns(SquaredExponential(1.1), (0,)),
    "product of sums": Product(
        (Columns(Matern52(0.8) + Linear(0.4), (1,)), Columns(SquaredExponential(1.1), (0,)))
    ),
}
FINITE_ONLY = {
    "matern": Matern32(np.array([1.0, 0.6])),
    "rational quadratic": RationalQuadratic(0.9),
    "periodic": Periodic(1.0, 2.0),
}
PAIRS = (
    [(k, m) for k in ANY_MEASURE for m in MEASURES]
    + [(k, m) for k in PRODUCTS for m in INDEPENDENT]
    + [(k, "empirical") for k in FINITE_ONLY]
)
KERNELS = {**ANY_MEASURE, **PRODUCTS, **FINITE_ONLY}


@pytest.mark.parametrize(("kernel", "measure"), PAIRS)
def test_pairs_keep_the_contract(kernel, measure):
    check_embedding(KERNELS[kernel], MEASURES[measure])


# Product rules in one to three dimensions


def against_rule(kernel, measure, x, nodes_at, tolerance=1e-8):
    """Compare z, its gradient and the double integral with a rule; nodes_at(x_i) is one for it."""
    pair = embed(kernel, measure)
    z, slopes = pair.mean(x), pair.mean_gradient(x)
    for i, point in enumerate(x):
        nodes, weights = nodes_at(point)
        assert kernel(x[i : i + 1], nodes)[0] @ weights == pytest.approx(z[i], abs=tolerance)
        gradient = kernel.derivatives(x[i : i + 1], nodes).k_x[0] @ weights
        np.testing.assert_allclose(slopes[i], gradient, atol=tolerance)
    nodes, weights = nodes_at(None)
    assert weights @ pair.mean(nodes) == pytest.approx(float(pair.double()), abs=tolerance)


GAUSSIANS = [
    Gaussian([0.3], [[0.6]]),
    Gaussian([0.3, -0.2], S2),
    Gaussian([0.3, -0.2, 0.1], S3),
]


@pytest.mark.parametrize("measure", GAUSSIANS, ids=lambda m: f"D={m.dimension}")
def test_se_against_gauss_hermite(measure):
    kernel = SquaredExponential(np.array([1.2, 1.5, 1.1])[: measure.dimension], 1.4)
    x = np.random.default_rng(1).normal(size=(3, measure.dimension))
    nodes = hermite(measure, 34)
    against_rule(kernel, measure, x, lambda _: nodes)


def over_columns(kernels):
    return (
        kernels[0]
        if len(kernels) == 1
        else Product(tuple(Columns(kernel, (d,)) for d, kernel in enumerate(kernels)))
    )


# High dimension, by the contract's quasi-Monte Carlo


def test_determinants_do_not_overflow():
    """In 300 dimensions |A| is beyond 1e308 (or below 1e-308); the kernel mean is not."""
    dimension = 300
    for unit in (1e-8, 1e8):
        measure = Gaussian(np.zeros(dimension), np.full(dimension, unit**2 * 1e-3))
        kernel = SquaredExponential(unit)
        expected = (1 + 1e-3) ** (-dimension / 2)
        z = embed(kernel, measure).mean(np.zeros((1, dimension)))
        np.testing.assert_allclose(z, expected, rtol=1e-12)


# Limits and invariances


@pytest.mark.parametrize("kernel", [Matern12, Matern32, Matern52, SquaredExponential])
def test_narrow_measures_are_points(kernel):
    kernel = kernel(0.8, 1.3)
    x = np.array([[-3.0], [0.31], [5.0]])
    at = kernel(x, np.array([[0.3]]))[:, 0]
    for width in (1e-3, 1e-6, 1e-10):
        for measure in (Uniform([0.3 - width], [0.3 + width]), Gaussian([0.3], [width**2])):
            pair = embed(kernel, measure)
            # the kernel has slope 2 at most per lengthscale, and curvature of that order
            np.testing.assert_allclose(pair.mean(x), at, atol=3 * width + 1e-14)
            np.testing.assert_allclose(pair.double(), 1.3, atol=6 * width)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    st.sampled_from([Matern12, Matern32, Matern52, SquaredExponential]),
    st.integers(-8, 8),
    st.sampled_from(["diagonal", "box", "diagonal mixture"]),
)
def test_units_do_not_matter(kernel, power, name):
    """Points, lengthscales and measure in other units: the same embedding."""
    unit = 10.0**power
    factors = [kernel(0.7, 1.2), kernel(1.1)]
    scaled = [kernel(0.7 * unit, 1.2), kernel(1.1 * unit)]
    measure = MEASURES[name]
    powers = {"diagonal": (1, 2), "box": (1, 1), "diagonal mixture": (0, 1, 2)}[name]
    other = measure.with_parameters([p * unit**q for p, q in zip(measure.parameters(), powers, strict=True)])
    x = np.array([[0.3, 0.5], [-1.4, 2.0]])
    one, two = embed(over_columns(factors), measure), embed(over_columns(scaled), other)
    np.testing.assert_allclose(one.mean(x), two.mean(x * unit), rtol=1e-11)
    np.testing.assert_allclose(one.mean_gradient(x), two.mean_gradient(x * unit) * unit, rtol=1e-10)
    np.testing.assert_allclose(one.double(), two.double(), rtol=1e-11)


# Tails and small lengthscales


@pytest.mark.parametrize("kernel", [Matern12, Matern32, Matern52])
def test_matern_against_a_gaussian_in_many_digits(kernel):
    """Relative precision where the recursion or the tail would lose it, by mpmath."""
    mp = pytest.importorskip("mpmath")
    rate, coefficients = {
        Matern12: (1, (1,)), Matern32: (3, (1, 1)), Matern52: (5, (1, 1, mp.mpf(1) / 3)),
    }[kernel]  # fmt: skip
    with mp.workdps(25):
        for lengthscale in (1e-4, 0.3, 50.0):
            for mu in (0.0, 0.5, 5.0, 30.0):
                lam = mp.sqrt(rate) / mp.mpf(lengthscale)
                z = embed(kernel(lengthscale), Gaussian([0.0], [1.0])).mean(np.array([[mu]]))[0]

                def integrand(t, lam=lam, mu=mu, z=z):
                    value = 1 / mp.mpf(z)  # mp.quad has an absolute tolerance
                    value *= sum(c * (lam * abs(t)) ** j for j, c in enumerate(coefficients))
                    return value * mp.exp(-lam * abs(t)) * mp.npdf(t, mu, 1)

                steps = [lengthscale * 10**e for e in (-1, 0, 1, 2)] + [
                    1,
                    mu - 2,
                    mu,
                    mu + 2,
                    mu + 14,
                ]
                right = sorted({mp.mpf(0), *(mp.mpf(s) for s in steps if s > 0)})
                left = [-t for t in reversed(right)]
                exact = mp.quad(integrand, right) + mp.quad(integrand, left)
                # exponents of up to 500 cost their size in roundings (1e-13), and the continued
                # fraction stops at 1e-13
                assert abs(exact - 1) < 1e-12, (lengthscale, mu)


@pytest.mark.parametrize("kernel", [Matern12, Matern32, Matern52, SquaredExponential])
def test_short_intervals_far_away_keep_their_digits(kernel):
    """z over a short interval is the kernel at its middle, up to (width / lengthscale)^2 / 24."""
    kernel, width = kernel(1.0), 1e-5
    for x in (2.0, 8.0, 20.0):
        pair = embed(kernel, Uniform([-width / 2], [width / 2]))
        at = np.array([[x]])
        exact = kernel(at, np.zeros((1, 1)))[0]
        np.testing.assert_allclose(pair.mean(at), exact, rtol=3e-8)
        h = 1e-4
        slope = (kernel(at + h, np.zeros((1, 1))) - kernel(at - h, np.zeros((1, 1)))) / (2 * h)
        # the central difference of exp(-x^2 / 2) is off by (h x)^2 / 6
        np.testing.assert_allclose(pair.mean_gradient(at), slope, rtol=2e-6)


# Torch: autodiff through everything, and the kinds that come back


def as_torch(measure, dtype=torch.float64, track=True):
    return measure.with_parameters(
        [torch.tensor(p, dtype=dtype, requires_grad=track) for p in measure.parameters()]
    )


@pytest.mark.parametrize(
    ("kernel", "measure"),
    [("se", m) for m in MEASURES] + [(k, m) for k in PRODUCTS for m in ("diagonal", "box")],
)
def test_autodiff_flows_and_agrees_with_the_gradients(kernel, measure):
    host = embed(KERNELS[kernel], MEASURES[measure])
    pair = embed(KERNELS[kernel], as_torch(MEASURES[measure]))
    parameters = pair.measure.parameters()
    x = torch.tensor(RNG.normal(size=(3, 2)), requires_grad=True)
    alpha, beta = torch.tensor(RNG.normal(size=3)), torch.tensor(RNG.normal(size=(3, 2)))
    z = pair.mean(x)
    (by_x,) = torch.autograd.grad(z.sum(), x, retain_graph=True)
    np.testing.assert_allclose(by_x, host.mean_gradient(x.detach().numpy()), atol=1e-12)
    total = alpha @ z + (beta * pair.mean_gradient(x)).sum() + pair.double()
    by_parameters = torch.autograd.grad(total, parameters)

    def same(p):
        part, points = embed(KERNELS[kernel], p), x.detach()
        return alpha @ part.mean(points) + (beta * part.mean_gradient(points)).sum() + part.double()

    for got, wanted in zip(by_parameters, gradient_in_parameters(same, MEASURES[measure]), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-11)


def test_gradients_flow_to_kernel_parameters():
    lengthscale = torch.tensor([0.8, 1.3], dtype=torch.float64, requires_grad=True)
    variance = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    x = torch.tensor(RNG.normal(size=(3, 2)))
    for measure in ("gaussian", "box", "empirical"):
        target = as_torch(MEASURES[measure], track=False)
        assert torch.autograd.gradcheck(
            lambda ell, v, m=target: embed(SquaredExponential(ell, v), m).mean(x),
            (lengthscale, variance),
        )


@pytest.mark.parametrize(("kernel", "measure"), PAIRS)
def test_float32_and_kinds(kernel, measure):
    pair = embed(KERNELS[kernel], as_torch(MEASURES[measure], torch.float32, track=False))
    host = embed(KERNELS[kernel], MEASURES[measure])
    x = RNG.normal(size=(3, 2))
    tensor = torch.tensor(x, dtype=torch.float32)
    # seven digits, of which sums and solves at these sizes lose two
    for got, wanted in (
        (pair.mean(tensor), host.mean(x)),
        (pair.mean_gradient(tensor), host.mean_gradient(x)),
        (pair.double(), host.double()),
        (host.mean(tensor), host.mean(x)),
    ):
        assert got.dtype == torch.float32
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-4, atol=3e-5)
    assert host.mean(x.astype(np.float32)).dtype == np.float32
    assert isinstance(pair.mean(x), np.ndarray)


# The table of pairs


@dataclass(frozen=True, eq=False)
class Shrunk(SquaredExponential):
    """The same kernel as its parent, with embeddings of its own."""


def test_a_new_pair_is_one_function():
    """Only the kernel mean and one double integral are written; all else follows."""

    @embedding(Shrunk, Gaussian)
    def shrunk(kernel, measure):
        parent = embed(SquaredExponential(kernel.lengthscale, kernel.variance), measure)
        return Formulas(mean=parent.mean, cross=parent.double)

    check_embedding(Shrunk(0.9), MEASURES["gaussian"])
    with pytest.raises(ValueError, match="Shrunk x Gaussian has an embedding already"):
        embedding(Shrunk, Gaussian)(shrunk)


def broken(**changes):
    """A kernel class whose embedding against Gaussians differs in one of its formulas."""
    kernel_type = type("Broken", (SquaredExponential,), {})

    @embedding(kernel_type, Gaussian)
    def formulas(kernel, measure):
        right = embed(SquaredExponential(kernel.lengthscale, kernel.variance), measure)
        functions = {
            "mean": right.mean,
            "cross": right.double,
            "mean_gradient": right.mean_gradient,
        }
        return Formulas(
            **{
                name: (lambda *a, n=name, f=f: changes[n](f(*a))) if name in changes else f
                for name, f in functions.items()
            }
        )

    return kernel_type(0.9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mean": lambda z: 1.02 * z}, "^mean has to be the average"),
        ({"mean": lambda z: z[:, None]}, "mean has to return"),
        ({"cross": lambda c: c + 0.01}, "^double has to be the average"),
        ({"mean_gradient": lambda g: g + 1e-5}, "^mean_gradient"),
    ],
)
def test_the_contract_fails_on_broken_embeddings(changes, message):
    with pytest.raises(AssertionError, match=message):
        check_embedding(broken(**changes), MEASURES["gaussian"])


def test_unknown_pairs_say_what_there_is():
    x = np.zeros((1, 2))
    with pytest.raises(UnknownPairError, match=r"Periodic against Gaussian.*Empirical.*Squ"):
        embed(Periodic(1.0, 0.7), MEASURES["gaussian"]).mean(x)
    with pytest.raises(UnknownPairError, match="correlated"):
        embed(PRODUCTS["matern 5/2 x 3/2"], MEASURES["gaussian"]).mean(x)
    with pytest.raises(UnknownPairError, match="overlap"):
        embed(SE * Columns(Matern32(1.0), (0,)), MEASURES["box"]).mean(x)
    with pytest.raises(UnknownPairError, match="same columns"):
        embed(SE * Linear(1.0), MEASURES["box"]).mean(x)
    with pytest.raises(UnknownPairError, match="full covariance"):
        embed(ByColumn(SE), MEASURES["gaussian"]).double()
    with pytest.raises(UnknownPairError, match="between Gaussian and Uniform: known"):
        embed(SE, MEASURES["box"]).double(MEASURES["gaussian"])


def test_bad_points_and_measures_are_named():
    pair = embed(SE, MEASURES["gaussian"])
    for x in (np.zeros(2), np.zeros((2, 3)), [[0.0, 0.0]]):
        with pytest.raises(ValueError, match=r"x is a|x .*shape"):
            pair.mean(x)
    with pytest.raises(ValueError, match="other has dimension 1"):
        pair.double(Gaussian([0.0], [1.0]))
    with pytest.raises(ValueError, match="lengthscale has shape"):
        embed(SquaredExponential(np.ones(3)), MEASURES["gaussian"]).mean(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="reads columns"):
        embed(Columns(SE, (1, 2)), MEASURES["gaussian"]).mean(np.zeros((1, 2)))


def test_white_noise_averages_out_except_over_points():
    x = np.array([[0.0, 0.0], [1.0, 1.0]])
    for measure in ("gaussian", "mixture", "box"):
        pair = embed(White(0.3), MEASURES[measure])
        assert not pair.mean(x).any()
        assert pair.double() == 0
    points = Empirical(x, [0.25, 0.75])
    np.testing.assert_allclose(embed(White(0.3), points).mean(x), [0.075, 0.225])
    np.testing.assert_allclose(embed(White(0.3), points).double(), 0.3 * (0.25**2 + 0.75**2))


def test_large_empirical_measures_go_in_blocks():
    """More points than a block: the same sums."""
    rng = np.random.default_rng(0)
    points, x = rng.normal(size=(3000, 2)), rng.normal(size=(2000, 2))
    pair = embed(SE, Empirical(points))
    np.testing.assert_allclose(pair.mean(x), SE(x, points).mean(1), rtol=1e-12)
    np.testing.assert_allclose(
        pair.mean_gradient(x[:5]), SE.derivatives(x[:5], points).k_x.mean(2), atol=1e-13
    )


@pytest.mark.parametrize("kernel", [Matern12, Matern32, Matern52, SquaredExponential])
@pytest.mark.parametrize("lengthscale", [0.5, 6.0])
def test_intervals_and_gaussians_keep_the_contract(kernel, lengthscale):
    """Long and short lengthscales take different formulas, whose gradients differ too."""
    check_embedding(kernel(lengthscale, 1.3), Uniform([-1.0], [0.4]))
    check_embedding(kernel(lengthscale, 1.3), Gaussian([0.2], [0.7]))
    check_embedding(kernel(lengthscale, 1.3), GaussianMixture([0.5, 0.5], [[0], [1]], [[1], [0.5]]))
