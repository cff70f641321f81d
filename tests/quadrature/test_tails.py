"""Heavy tails: the tilted kernel, Pareto shapes, and results where the nodes have no information."""

import numpy as np
import pytest

import bqvi
from acquisition.pointwise import UncertaintySampling
from bqvi.importance import pareto_shape
from bqvi.quadrature.credibility import left_out, slows, verdict
from bqvi.quadrature.ensemble import fit
from bqvi.quadrature.settings import ROUGHLY
from bqvi.quadrature.surrogate import SPARSE, StandardData
from experiments.problems.integrands import integrands
from experiments.problems.unseen_integrands import first, second
from gp.low_discrepancy import scrambled_sobol
from gp.measures import Gaussian, Uniform

STANDARD = Gaussian(np.zeros(2), np.ones(2))


def test_a_criterion_chooses_nodes_of_a_function_that_grows():
    found = bqvi.integrate(
        lambda x: np.exp(x[:, 0] ** 2 / 4),
        STANDARD,
        14,
        design=bqvi.Design(batch=2, acquisition=UncertaintySampling()),
    )
    assert "axes" in found.state.fits.hyperparameters
    assert found.n_evaluations == 14
    assert abs(found.mean - np.sqrt(2)) < 2 * found.sd


def test_complex_values_are_refused():
    with pytest.raises(bqvi.RunError, match="must return real numbers"):
        bqvi.integrate(lambda x: 1j * x[:, 0], STANDARD, 12)


def test_sparse_kernel_shares_its_variance_by_interactions():
    """Far apart in j of ten coordinates the kernel is (1 + w)^-j, w = .03: by inclusion and exclusion."""
    dimension, w = 10, 0.03
    kernel = SPARSE.kernel(np.ones(dimension))
    at = np.zeros((1, dimension))
    for far in range(4):
        other = np.where(np.arange(dimension) < far, 100.0, 0.0)[None, :]
        assert kernel(at, other)[0, 0] == pytest.approx((1 + w) ** -far, rel=1e-12)


def test_a_sum_of_functions_of_one_coordinate_is_seen_as_one():
    """Its evidence exceeds that of smooth functions of all ten coordinates by five nats; only the kernels
    differ.
    """
    f = {i.name: i for i in integrands()}["additive 10"]
    u = f.measure.from_unit_cube(scrambled_sobol(10, 60, 0))
    y = f.function(u)[:, None]
    found = fit(f.measure, StandardData(u, (y - y.mean()) / y.std()), effort=ROUGHLY)
    names = [member.name for member in found.members]
    assert names[0] == "axes, sparse"
    assert found.scores[0] - found.scores[names.index("axes")] > 5
    mean, unit = found.members[0].integral()
    error = y.mean() + y.std() * mean[0] - f.truth
    assert abs(error) < 3 * y.std() * np.sqrt(unit * found.members[0].process.output_covariance[0, 0])


@pytest.mark.parametrize("shape", [0.3, 0.7, 1.2])
def test_pareto_shapes_are_found(shape):
    found = [
        pareto_shape(np.random.default_rng(seed).random(4000) ** -shape) for seed in range(20)
    ]  # U^-k has a Pareto tail of shape k
    # 190 of 4000 draws are the tail: the estimate has sd (1 + k) / sqrt(190); 4.5 of these over 20 runs
    assert np.mean(found) == pytest.approx((190 * shape + 5) / 200, abs=4.5 * (1 + shape) / np.sqrt(190 * 20))


def test_no_tail_has_no_shape():
    assert pareto_shape(np.zeros(50)) == -np.inf
    assert pareto_shape(np.repeat([0.0, 1.0], 25)) == -np.inf
    assert pareto_shape(np.ones(4)) == -np.inf
    assert verdict(np.zeros((2, 1)))[1]
    assert "One of 2 points carries 75%" in verdict(np.array([[1.0], [-3.0]]))[2]


GROWTHS = {
    "exp(b |u|^2 / 2)": (lambda u: np.exp(0.2 * np.sum(u**2, axis=1)), False),
    "exp((u_1^2 - u_2^2) / 5)": (lambda u: np.exp((u[:, 0] ** 2 - u[:, 1] ** 2) / 5), False),
    "exp(a.u)": (lambda u: np.exp(u @ np.array([1.5, -1.0])), True),
    "|u|^6": (lambda u: np.sum(u**2, axis=1) ** 3, True),
    "(a.u)^4": (lambda u: (u[:, 0] - 0.4 * u[:, 1]) ** 4, True),
}


@pytest.mark.parametrize("name", GROWTHS)
def test_slower_growth_is_distinguished_from_growth_without_end(name):
    function, slower = GROWTHS[name]
    u = 1.3 * Gaussian(np.zeros(2), np.ones(2)).from_unit_cube(scrambled_sobol(2, 256, 3))
    steps = 1e-5 * np.eye(2)
    slopes = np.stack([(function(u + h) - function(u - h)) / 2e-5 for h in steps], axis=1)
    for scale in (1.0, -1e30):
        assert slows(u, scale * function(u)[:, None], scale * slopes[:, :, None]) == slower


def test_a_polynomial_does_not_count_as_growth():
    found = bqvi.integrate(lambda x: x[:, 0] ** 4 - x[:, 0], Gaussian(np.zeros(1), np.ones(1)), 60)
    assert found.converged
    assert abs(found.mean - 3) <= 2 * found.sd < 1e-3


def test_errors_left_out_are_counted_and_compared():
    rng = np.random.default_rng(0)
    sds = np.full((2000, 1), 0.3)
    ratio, count = left_out(0.9 * rng.standard_normal((2000, 1)), sds)
    assert ratio == pytest.approx(9.0, rel=0.15)  # 4.7 standard deviations of sqrt(2 / 2000)
    assert count == pytest.approx(2000)
    assert left_out(np.zeros((5, 1)), np.zeros((5, 1)))[0] == 0.0
    sds[0] = 300.0  # one node has all of the variance
    assert left_out(sds, sds) == pytest.approx((1.0, 1.0), rel=1e-2)
    both = np.column_stack([sds, sds])
    assert left_out(both * [1.0, 2.0], both)[0] == pytest.approx(4.0)


def heavy_quotient(x):
    """ln of Student's t with 3 degrees of freedom over N(0, 0.75), D = 1; its integral is 1."""
    return -np.log(np.pi * np.sqrt(3) / 2) - 2 * np.log1p(x[:, 0] ** 2 / 3) + (
        x[:, 0] ** 2 / 1.5 + 0.5 * np.log(2 * np.pi * 0.75)
    )  # fmt: skip


LIGHT = Gaussian(np.zeros(1), np.array([0.75]))


def test_a_light_tailed_proposal_is_not_credible():
    hits = []
    for seed in range(4):
        found = bqvi.integrate(heavy_quotient, LIGHT, 40, log=True, seed=seed)
        assert not found.converged
        assert "grows in the tails" in " ".join(found.reasons)
        hits.append(abs(found.mean - 1) <= 2 * found.sd)
        assert found.sd < 0.5
    assert all(hits)


@pytest.mark.parametrize("method", ["monte-carlo", "qmc"])
def test_averages_due_to_one_point_are_not_credible(method):
    def needle(x):
        return np.exp(-200 * np.sum((x - 1.5) ** 2, axis=1))

    found = bqvi.integrate(needle, STANDARD, 64, method, seed=2)
    assert not found.converged
    assert "carries" in " ".join(found.reasons) or "Pareto" in " ".join(found.reasons)
    easy = bqvi.integrate(lambda x: 2 + np.sin(x[:, 0]), STANDARD, 64, method)
    assert easy.converged
    assert easy.reasons == ()


def test_importance_weights_with_heavy_tails_are_reported():
    wide = Gaussian(np.zeros(2), 9 * np.ones(2))
    found = bqvi.integrate(
        lambda x: np.ones(len(x)), STANDARD, 400, "monte-carlo", log_density=wide.log_density
    )
    assert found.pareto_k > 0.7
    assert not found.converged


@pytest.mark.parametrize("integrand", [*first(), *second()], ids=lambda integrand: integrand.name)
def test_the_unseen_integrals(integrand):
    dimension = integrand.measure.dimension
    averages = [
        integrand.function(integrand.measure.sample(4096, np.random.default_rng(seed))).mean()
        for seed in range(8)
    ]
    # eight averages: t with 7 degrees of freedom exceeds 8 once in 10,000
    error = np.std(averages, ddof=1) / np.sqrt(8)
    assert np.mean(averages) == pytest.approx(integrand.truth, abs=8 * error + 1e-9)
    assert dimension in (1, 2, 3, 4, 5, 8, 10)
    assert not integrand.non_negative or integrand.function(integrand.measure.sample(100, 0)).min() >= 0


# --- peaks between the nodes, and nothing at all -----------------------------------------------------


def peak_at(centre, sd):
    return lambda x: np.exp(-0.5 * np.sum((x - centre) ** 2, axis=1) / sd**2)


def test_nodes_follow_the_foot_of_a_peak():
    """Without the candidate with peaks, errors of twenty such runs were .12 to 5.3 times the integral."""
    unit, truth, errors = Uniform(np.zeros(2), np.ones(2)), 2 * np.pi * 0.02**2, []
    for seed in range(10):
        centre = np.random.default_rng(1000 + seed).uniform(0.15, 0.85, 2)
        found = bqvi.integrate(peak_at(centre, 0.02), unit, 60, seed=seed)
        errors.append(abs(found.mean - truth))
        assert errors[-1] < 2 * found.sd
    assert np.median(errors) < 0.05 * truth


def test_an_output_of_zeros_beside_another():
    def both(x):
        return np.column_stack([np.zeros(len(x)), np.sin(x[:, 0])])

    found = bqvi.integrate(both, Uniform(np.zeros(2), np.ones(2)), 24)
    assert found.sd[0] == np.inf
    assert found.mean[1] == pytest.approx(1 - np.cos(1), abs=1e-5)
    assert found.sd[1] < 1e-4


@pytest.mark.parametrize("noise_sd", [1e-12, 1.0, 1e30, "unknown", lambda x: 1.0 + x[:, 0] ** 2])
def test_a_density_that_vanishes_at_all_nodes_leaves_everything_open(noise_sd):
    """Without noise too, the integral of f p may have any value, since the nodes have no information on p."""
    found = bqvi.integrate(
        lambda x: np.cos(x[:, 0]), Gaussian(np.zeros(2), np.eye(2)), 20,
        log_density=lambda x: np.full(len(x), -np.inf), noise_sd=noise_sd,
    )  # fmt: skip
    assert found.mean == 0.0
    assert found.sd == np.inf
    assert found.n_evaluations == 20
