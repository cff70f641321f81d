"""Diagnostics: known tails, ArviZ's own smoothing, and runs that are wrong in known ways."""

import dataclasses
import math

import numpy as np
import pytest
import scipy.special
import scipy.stats

import bqvi
from bqvi.calls import Caller, Evaluations, Function
from bqvi.calls.coordinates import make_coordinates
from bqvi.importance import pareto_shape, psis
from bqvi.posterior import Posterior
from bqvi.variational_bmc.diagnostics import about_rounding, advice, agreement, check
from gp.measures import GaussianMixture


@pytest.mark.parametrize(("n", "scale"), [(100, 1.0), (900, 2.0), (2500, 0.5)])
def test_same_as_arviz(n, scale):
    arviz = pytest.importorskip("arviz_stats.base")
    # at n where rounding the size of the tail up or down is the same
    logs = scale * np.random.default_rng(n).standard_normal(n)
    weights, shape = arviz.array_stats.psislw(-logs)  # psislw takes log likelihoods that are left out
    found = psis(logs)
    assert found.shape == pytest.approx(float(shape), abs=1e-6)
    np.testing.assert_allclose(found.log_weights, np.asarray(weights), atol=1e-6)


@pytest.mark.parametrize("nats", [20.0, 45.0, 300.0, 2000.0])
@pytest.mark.parametrize("n", [30, 400])
def test_one_weight_above_all_others_is_the_heaviest_tail(n, nats):
    """An average by these weights is that of one draw: k is above one, however far the others lie below."""
    logs = np.append(-nats - np.random.default_rng(n).random(n - 1), 0.0)
    found = psis(logs)
    assert found.shape > 1.0
    assert pareto_shape(np.exp(logs)) > 1.0
    if nats < 300.0:  # beyond, the tail of the other weights is denormal
        arviz = pytest.importorskip("arviz_stats.base")
        assert found.shape == pytest.approx(float(arviz.array_stats.psislw(-logs)[1]), rel=1e-6)


def test_few_weights_of_a_tail():
    few = np.full(90, -np.inf)
    few[[3, 30, 70]] = [0.0, 0.1, -0.2]  # all of the mass is in three draws
    assert psis(few).shape == math.inf
    assert psis(np.append(np.full(88, 0.0), [0.4, 0.3])).shape == -math.inf  # 2 of 90 half as large again
    assert psis(1e-14 * np.random.default_rng(0).random(90)).shape == -math.inf  # equal but for rounding


def test_degenerate_weights():
    assert psis(np.zeros(100)).shape == -math.inf
    assert psis(np.zeros(100)).effective_sample_size == pytest.approx(100)
    assert psis(np.zeros(10)).shape == math.inf
    logs = np.full(200, -np.inf)
    logs[:50] = np.random.default_rng(0).standard_normal(50)
    assert np.exp(psis(logs).log_weights).sum() == pytest.approx(1.0)
    for bad in (np.zeros((2, 2)), np.array([np.nan, 0.0]), np.array([np.inf]), np.full(3, -np.inf)):
        with pytest.raises(ValueError, match="log_weights"):
            psis(bad)


def gaussian(dimension, sd=1.0, centre=0.0):
    coordinates = make_coordinates(
        plausible_lower=np.full(dimension, -1.0), plausible_upper=np.ones(dimension)
    )
    q = GaussianMixture(np.ones(1), np.full((1, dimension), centre), np.full((1, dimension), sd**2))
    return Posterior(q, coordinates)


def log_joint(theta):
    return float(-0.5 * theta @ theta) + 3.0


def test_a_quarter_of_the_checked_draws_is_wider():
    """The variance is 3 / 4 + 1.7^2 / 4 = 1.47 of q's; of 4,000 draws it has an sd of .039, by the kurtosis.

    Five of these are exceeded once in two million.
    """
    draws = check(Caller(Function(log_joint), gaussian(1).coordinates), gaussian(1), 4000).evaluations.points
    assert np.square(draws).mean() == pytest.approx(0.75 + 0.25 * 1.7**2, abs=5 * 0.039)


def test_check_of_good_and_narrow_posteriors():
    target = Caller(Function(log_joint), gaussian(2).coordinates)
    truth = 3.0 + math.log(2 * math.pi)
    exact = check(target, gaussian(2), 100)
    assert abs(exact.log_evidence - truth) < 4 * exact.log_evidence_sd
    assert exact.pareto_k < 0.5
    assert exact.total_variation < 0.1
    assert "is good" in str(exact)
    wide = check(target, gaussian(2, 1.5), 400)
    assert wide.usable
    assert abs(wide.log_evidence - truth) < 4 * wide.log_evidence_sd
    # the densities of N(0, 1) and N(0, 1.5^2) in the plane are equal on a circle
    square = 2 * math.log(1.5**2) / (1 - 1 / 1.5**2)
    exact_variation = math.exp(-square / 2 / 1.5**2) - math.exp(-square / 2)
    assert wide.total_variation == pytest.approx(exact_variation, abs=0.05)
    corrected = wide.posterior.covariance
    np.testing.assert_allclose(corrected, np.eye(2), atol=0.4)
    off = check(target, gaussian(2, 0.4), 400)
    assert off.total_variation > 0.5
    assert "use the one corrected" in str(off)
    assert f"`log_evidence` is {off.log_evidence:.4g}" in str(off)
    narrow = check(target, gaussian(2, 0.1), 400)
    assert not narrow.usable
    assert "misses mass" in str(narrow)
    with pytest.raises(ValueError, match="n is 10"):
        check(target, gaussian(2), 10)
    with pytest.raises(TypeError, match=r"must be a Posterior, such as result\.posterior"):
        check(target, "posterior", 100)


@dataclasses.dataclass
class Run:
    posterior: Posterior
    log_evidence: float
    log_evidence_sd: float


def test_agreement():
    same = agreement([Run(gaussian(2), 1.0, 0.1), Run(gaussian(2), 1.1, 0.1), Run(gaussian(2), 0.9, 0.1)])
    assert same.agree
    assert same.nats == pytest.approx(0.2)
    assert same.sds == pytest.approx(0.2 / math.hypot(0.1, 0.1))
    assert same.mmtv < 0.03
    apart = agreement([Run(gaussian(2), 1.0, 0.1), Run(gaussian(2, centre=1.0), 1.0, 0.1)])
    assert not apart.agree
    assert apart.gskl == pytest.approx(1.0, abs=0.05)
    assert apart.mmtv == pytest.approx(2 * scipy.stats.norm.cdf(0.5) - 1, abs=0.02)
    assert "posteriors differ" in str(apart)
    proud = agreement([Run(gaussian(2), 1.0, 0.01), Run(gaussian(2), 1.5, 0.01)])
    assert "too small" in str(proud)
    with pytest.raises(ValueError, match="at least two"):
        agreement([Run(gaussian(2), 1.0, 0.1)])
    renamed = dataclasses.replace(gaussian(2).coordinates, names=("a", "b"))
    with pytest.raises(ValueError, match="different parameters"):
        agreement([Run(gaussian(2), 1.0, 0.1), Run(Posterior(gaussian(2).q, renamed), 1.0, 0.1)])


def evaluations(failed=0, n=20):
    faults = ("raised ValueError: no",) * failed + ("",) * (n - failed)
    return Evaluations(np.zeros((n, 2)), np.zeros(n), None, None, np.arange(n) < failed, faults)


def test_advice():
    assert advice(gaussian(2, 0.5), evaluations()) == ()
    assert "Pareto k = 0.90" in advice(gaussian(2, 0.5), evaluations(), 0.9)[0]
    assert (
        "12 of 20 evaluations failed (most often: raised ValueError: no)"
        in advice(gaussian(2, 0.5), evaluations(12))[0]
    )
    assert "x0 is outside of its plausible interval" in advice(gaussian(2, 0.5, 4.0), evaluations())[0]
    assert "much wider" in advice(gaussian(2, 4.0), evaluations())[0]
    bounded = make_coordinates([0.0], [1.0], [0.2], [0.8], names=["share"])
    q = GaussianMixture(np.ones(1), np.array([[2.5]]), np.array([[0.25]]))
    said = " ".join(advice(Posterior(q, bounded), evaluations()))
    assert "within 1 % of its upper bound 1: widen" in said
    angle = make_coordinates([0.0], [360.0], [10.0], [170.0], periodic=[0], names=["angle"])
    assert "bound" not in " ".join(advice(Posterior(q, angle), evaluations()))


@pytest.mark.parametrize(("lower", "said"), [(1.0, True), (0.0, False)])
def test_a_posterior_nearer_to_its_bound_than_numbers_are_to_each_other(lower, said):
    """At 8.5 to 9.5 standard deviations a share of 1e-17 to 1e-21 of the interval lies nearer to a bound."""
    box = make_coordinates([lower], [lower + 1.0], [lower + 0.2], [lower + 0.8])
    q = GaussianMixture(np.ones(1), np.array([[-9.0 / scipy.special.ndtri(0.8)]]), np.array([[0.04]]))
    assert bool(about_rounding(Posterior(q, box))) == said


@pytest.mark.parametrize(("centre", "spread", "warned"), [(0.005, 0.25, False), (0.0003, 1.5, True)])
def test_a_narrow_posterior_near_a_bound_is_not_at_it(centre, spread, warned):
    """One lies four of its sds inside; the other has most of its mass within a quarter of its sd."""
    bounded = make_coordinates([0.0], [1.0], [0.001], [0.05])
    theta = centre * np.exp(spread * np.random.default_rng(0).standard_normal((4000, 1)))
    u = bounded.from_user(np.minimum(theta, 0.99))
    q = GaussianMixture(np.ones(1), u.mean(axis=0)[None], u.var(axis=0)[None])
    assert ("lower bound 0: widen" in " ".join(advice(Posterior(q, bounded), evaluations()))) == warned


@pytest.mark.parametrize("factor", [1.0, 1.4])
def test_a_run_with_a_wrong_entry_of_the_gradient_has_not_converged(factor):
    """It is the only reason."""
    sds = np.array([0.6, 1.0, 1.4])

    def log_joint(t):
        return float(-0.5 * np.square(t / sds).sum() - 0.05 * t[0] ** 4)

    def gradient(t):
        return (-t / sds**2 - np.array([0.2 * t[0] ** 3, 0.0, 0.0])) * np.array([1.0, 1.0, factor])

    box = {"plausible_lower": [-2.0] * 3, "plausible_upper": [2.0] * 3}
    found = bqvi.vbmc(log_joint, gradient=gradient, **box, budget=50, seed=3)
    assert found.converged == (factor == 1.0)
    assert [reason[:22] for reason in found.reasons] == ["Gradients disagree wit"] * (factor > 1.0)


@pytest.mark.parametrize("seed", range(2))
def test_a_gradient_that_all_other_evaluations_contradict_is_left_out_and_said(seed):
    """As JAX's at logits of exactly 0, where the run begins; ln Z is that of a grid."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(30, 2))
    y = (rng.random(30) < scipy.special.expit(x @ (1.0, -1.0))).astype(float)

    def log_joint(b):
        return float(y @ (x @ b) - np.logaddexp(0.0, x @ b).sum() - 0.125 * b @ b)

    def gradient(b):
        return x.T @ (y - (scipy.special.expit(x @ b) if b.any() else 0.0)) - 0.25 * b

    at = np.linspace(-8.0, 8.0, 161)
    values = np.array([[log_joint(np.array([s, t])) for s in at] for t in at])
    truth = scipy.special.logsumexp(values) + 2.0 * np.log(at[1] - at[0])
    found = bqvi.vbmc(log_joint, gradient=gradient, start=np.zeros(2), budget=40, seed=seed)
    assert abs(found.log_evidence - truth) < 0.1
    assert [w for w in found.warnings if "was left out, as all other" in w and "x0 = 0, x1 = 0" in w]
    assert np.flatnonzero(np.isnan(found.evaluations.gradients).any(1)).tolist() == [0]
