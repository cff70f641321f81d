"""A density given as a log joint is recognised by its values, and a log joint is accepted."""

import warnings

import numpy as np
import pytest
import scipy.stats
import torch

import bqvi
from bqvi.calls.function import LOG_JOINT, Function
from bqvi.calls.returned import doubts, not_logarithms
from bqvi.models import LogJoint
from gp.measures import Gaussian, Uniform

BOX = {"plausible_lower": [-1.0, -1.0], "plausible_upper": [1.0, 1.0]}


def density(theta):
    return np.exp(-40.0 - 15.0 * np.sum(np.square(theta), axis=-1))


def bq(function):
    return bqvi.fit(LogJoint(function, 2, gradient=None), method="bq", budget=8, tolerance=None)


def bounds(function):
    return bqvi.evidence_bounds(function, Gaussian(np.zeros(2), np.eye(2)), budget=64, replicates=2)


def vbmc(function):
    return bqvi.vbmc(lambda theta: float(function(theta)), **BOX, budget=8)


@pytest.mark.parametrize("door", [bq, bounds, vbmc])
def test_a_density_is_reported_at_the_first_design(door):
    with pytest.warns(UserWarning, match="return the logarithm of prior times likelihood"):
        door(density)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        door(lambda theta: np.log(density(theta)))


@pytest.mark.parametrize("method", ["score", "pathwise", "iwae"])
def test_a_density_is_a_reason_for_a_q_that_diverges(method):
    model = LogJoint(lambda theta: torch.exp(-3.0 - 4.0 * (theta**2).sum(1)), 2)
    with pytest.warns(UserWarning, match="q diverges: .* the log joint is a density and no logarithm"):
        assert not bqvi.fit(model, method=method, steps=100, seed=1).converged


def test_quadratics_with_random_constants_are_log_joints():
    """Quadratics with random constants of .1 to 1000 nats are hardly ever taken for densities."""
    rng, said, of_densities = np.random.default_rng(1), 0, 0
    for _ in range(2000):
        points = rng.uniform(-4.0, 4.0, (rng.integers(4, 20), rng.integers(1, 8)))
        values = -0.5 * np.square(points).sum(1)
        said += bool(not_logarithms(values + rng.normal() * 10 ** rng.uniform(-1, 3)))
        of_densities += bool(not_logarithms(np.exp(values - 50.0)))
    assert said <= 2
    assert of_densities > 1700
    assert not not_logarithms(np.array([0.0, 0.0, 1.0, -np.inf]))
    assert not not_logarithms(np.array([0.0, 0.0, 1.0]))


NORMAL = scipy.stats.norm()
AS_LOG_JOINT = Function(sum, range=LOG_JOINT)
LINE = Gaussian(np.zeros(1), np.eye(1))
HERE = bqvi.families.Gaussian(np.zeros(2), np.eye(2))
SMALL = {"plausible_lower": [-1.0, -1.0], "plausible_upper": [1.0, 1.0], "budget": 8}


def in_single(theta):
    return np.float32(-3000.0 - 0.5 * np.sum(np.square(theta), axis=-1))


def of_a_prior(function):
    return bqvi.vbmc(log_likelihood=function, prior=[NORMAL, NORMAL], budget=8)


def sampled(method, **given):
    return lambda f: bqvi.fit(LogJoint(f, 2, gradient=None), method=method, steps=2, seed=0, **given)


def by_torch(method, **given):
    """By a function of torch, in the precision of the one of NumPy that is given."""

    def fitted(f):
        dtype = torch.as_tensor(f(np.zeros((1, 2)))).dtype
        model = LogJoint(lambda theta: (-3000.1 - 0.5 * (theta**2).sum(1)).to(dtype), 2)
        return bqvi.fit(model, method=method, steps=2, seed=0, **given)

    return fitted


def integrals(method):
    return lambda f: bqvi.integrate(f, Gaussian(np.zeros(2), np.eye(2)), 30, method, log=True)


SAMPLED = [
    sampled("score"), sampled("score", start_from=HERE), by_torch("pathwise"), by_torch("iwae"),
    by_torch("dreg"), by_torch("dreg", start_from=HERE),
]  # fmt: skip


@pytest.mark.parametrize("method", ["monte-carlo", "qmc", "bq", "wsabi-l"])
def test_a_density_integrated_as_a_logarithm_is_reported(method):
    with pytest.warns(UserWarning, match="integrand is nowhere negative at 64 points.*the logarithm of f"):
        found = bqvi.integrate(lambda x: scipy.stats.norm(0.5, 0.2).pdf(x[:, 0]), LINE, 64, method, log=True)
    assert "the logarithm of f" in found.warnings[-1]
    found = bqvi.integrate(lambda x: x[:, 0] ** 2 / 4.0, LINE, 64, method, log=True)
    assert not found.warnings


@pytest.mark.parametrize("door", [bq, bounds, vbmc, of_a_prior, *SAMPLED, integrals("bq"), integrals("qmc")])
def test_single_precision_is_reported_at_the_first_design(door):
    with pytest.warns(
        UserWarning, match=r"is in single precision \(float32\): near its largest value, -3e\+03"
    ):
        door(in_single)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        door(lambda theta: np.float64(-3000.1) - 0.5 * np.sum(np.square(theta), axis=-1))


def test_single_precision_is_known_from_values_of_its_digits_that_are_large():
    rng, said, of_doubles = np.random.default_rng(0), 0, 0
    for _ in range(1000):
        values = rng.normal(size=rng.integers(4, 20)) - 10 ** rng.uniform(3.1, 6)
        said += len(doubts(AS_LOG_JOINT, values.astype(np.float32).astype(float), values[:, None]))
        of_doubles += len(doubts(AS_LOG_JOINT, values, values[:, None]))
    assert said > 990  # of the others all values are integers
    assert of_doubles == 0
    of_small = np.float32(rng.normal(size=9) - 30.0).astype(float)
    assert not doubts(AS_LOG_JOINT, of_small, of_small[:, None])  # errors of a millionth


def as_log_joint(prior, method="bq", start_from="k-means++", **given):
    model = LogJoint(log_likelihood=lambda x: -(x**2).sum(1), prior=prior, dimension=2, **given)
    return bqvi.fit(model, method=method, budget=8, start_from=start_from, seed=0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: bqvi.vbmc(log_likelihood=sum, prior=lambda t: NORMAL.pdf(t).prod(), **SMALL),
        lambda: bqvi.vbmc(log_likelihood=sum, prior=lambda t: scipy.stats.cauchy.pdf(t).prod(), **SMALL),
        lambda: bqvi.vbmc(
            log_likelihood=sum, prior=lambda t: scipy.stats.expon.pdf(t).prod(), lower=0.0,
            plausible_lower=[0.1, 0.1], plausible_upper=[2.0, 2.0], budget=8,
        ),
        lambda: as_log_joint(lambda t: NORMAL.pdf(t).prod(1), gradient=None),
        lambda: as_log_joint(lambda t: torch.exp(-0.5 * t**2).prod(1)),
        lambda: as_log_joint(lambda t: torch.exp(-0.5 * t**2).prod(1), method="pathwise"),
        lambda: as_log_joint(lambda t: torch.exp(-0.5 * t**2).prod(1), method="iwae", start_from=HERE),
        lambda: as_log_joint(lambda t: NORMAL.pdf(t).prod(1), method="score", gradient=None),
        lambda: bqvi.evidence_bounds(
            log_likelihood=lambda t: t.sum(1), prior=lambda t: NORMAL.pdf(t).prod(1),
            proposal=Gaussian(np.zeros(2), np.eye(2)), budget=400,
        ),
    ],
)  # fmt: skip
def test_a_prior_that_returns_a_density_is_refused_before_the_likelihood_is_called(call):
    with pytest.raises(bqvi.RunError, match=r"prior is a density: it is .* at x0 = ", check=no_evaluation):
        call()


@pytest.mark.parametrize("method", ["monte-carlo", "qmc", "bq", "wsabi-l"])
@pytest.mark.parametrize(
    ("measure", "density"),
    [
        (Gaussian(np.zeros(1), np.eye(1)), scipy.stats.norm(0.6, 0.2).pdf),
        (Gaussian(np.zeros(2), np.eye(2)), lambda x: scipy.stats.t(3).pdf(x).prod(1)),
        (Uniform([0.0], [1.0]), scipy.stats.beta(2, 3).pdf),
        (Gaussian(torch.zeros(1).double(), torch.eye(1).double()), lambda x: torch.exp(-0.5 * x[:, 0] ** 2)),
    ],
)
def test_a_density_beside_an_integrand_is_refused_and_its_logarithm_taken(measure, density, method):
    given = {"measure": measure, "budget": 64, "method": method, "seed": 0}
    with pytest.raises(bqvi.RunError, match=r"log_density is a density: it is .* at x0", check=no_evaluation):
        bqvi.integrate(lambda x: 1.0 / 0.0, log_density=density, **given)
    logarithm = torch.log if isinstance(measure.parameters()[0], torch.Tensor) else np.log
    found = bqvi.integrate(lambda x: abs(x[:, 0]), log_density=lambda x: logarithm(density(x)), **given)
    assert found.n_evaluations == 64


def no_evaluation(error):
    return error.n_evaluations == 0
