"""Answers of the claims' problems beside importance sampling and sums over grids, and the table's counts."""

import math

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import multivariate_t, qmc
from threadpoolctl import threadpool_info, threadpool_limits

from benchmarks import claims
from benchmarks.claims_problems import KINDS, problem

BOXED = ("ridge", "curved", "singular", "floor")


def _draws(posed, power=17):
    """Sobol points of the bounds, 16 scrambled sets in turns, and the log joint times the volume there."""
    uniform = np.stack(
        [qmc.Sobol(posed.dimension, seed=s).random(2 ** (power - 4)) for s in range(16)], axis=1
    )
    lower, upper = posed.bounds
    points = (lower + uniform * (upper - lower)).reshape(-1, len(lower))
    return points, posed.numpy(points) + np.log(upper - lower).sum()


def _importance(posed):
    """ln Z from these points, with its standard error."""
    logs = _draws(posed)[1].reshape(-1, 16)
    parts = logsumexp(logs, axis=0) - math.log(len(logs))
    return logsumexp(parts) - math.log(16), parts.std() / 4


@pytest.mark.parametrize("kind", BOXED)
def test_evidence_within_bounds_is_that_of_sobol_points(kind):
    tried = 0
    for seed in range(6):
        posed = problem(kind, seed)
        if posed.dimension > 3:
            continue
        found, error = _importance(posed)
        # t with 15 degrees of freedom: beyond 5 standard errors with probability 2e-4
        assert abs(found - posed.log_evidence) < 5 * error + 2e-3, (seed, found, error)
        if posed.moments is not None and error < 2e-3:
            points, logs = _draws(posed)
            weights = np.exp(logs - logsumexp(logs))
            mean = weights @ points
            sd = np.sqrt(weights @ (points - mean) ** 2)
            known = np.isfinite(posed.moments[0])
            gaps = np.stack([(mean - posed.moments[0]) / sd, np.log(sd / posed.moments[1])])[:, known]
            assert np.abs(gaps).max() < 0.02, (seed, gaps)
        tried += 1
    assert tried >= 3


def _cauchy_draws(posed, n, seed):
    """Draws (4 n, D) of Cauchy densities of four widths about the middle of the box, and log weights."""
    rng, middle, sd = np.random.default_rng(seed), posed.box.mean(0), np.ptp(posed.box, axis=0) / 4
    proposals = [multivariate_t(middle, np.diag((c * sd) ** 2), df=1) for c in (1.0, 0.3, 0.03, 0.003)]
    x = np.concatenate([p.rvs(n, random_state=rng).reshape(-1, posed.dimension) for p in proposals])
    return x, posed.numpy(x) - logsumexp([p.logpdf(x) for p in proposals], axis=0) + math.log(4)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in (*BOXED, "half_cauchy")])
def test_evidence_without_bounds_is_that_of_importance_weights(kind):
    for seed in range(3):
        posed = problem(kind, seed)
        for n in (2**11, 2**15):
            x, weights = _cauchy_draws(posed, n, seed)
            total = logsumexp(weights)
            size = math.exp(2 * total - logsumexp(2 * weights))
            if size < 200 * n / 2**16:  # the proposal says nothing, nor do 16 times as many draws
                break
        if size < 200:
            continue
        assert abs(total - math.log(len(x)) - posed.log_evidence) < 5 / math.sqrt(size), seed
        if posed.moments is not None:
            gaps = (x - posed.moments[0]) / posed.moments[1]
            shares = np.exp(weights - total)
            # an estimated mean of squares errs by sqrt(2 / size) for a Gaussian, more with heavier tails
            assert np.abs(shares @ gaps).max() < 5 / math.sqrt(size), seed
            assert np.abs(shares @ gaps**2 - 1).max() < 10 / math.sqrt(size), seed


def test_evidence_of_a_half_cauchy_scale_is_that_of_a_grid():
    posed = problem("half_cauchy", 0)
    mu, angle = np.linspace(-30, 30, 1201), (np.arange(500) + 0.5) / 500 * math.pi / 2
    grid = np.stack([a.ravel() for a in np.meshgrid(mu, np.tan(angle), indexing="ij")], axis=1)
    logs = posed.numpy(grid) + np.log1p(grid[:, 1] ** 2)
    found = logsumexp(logs) + math.log((mu[1] - mu[0]) * (angle[1] - angle[0]))
    assert found == pytest.approx(posed.log_evidence, abs=2e-3)


def test_the_same_seed_is_the_same_problem_and_another_is_not():
    theta = torch.full((1, 2), 0.5, dtype=torch.float64)
    first, again, other = (problem("curved", seed).log_joint(theta) for seed in (4, 4, 5))
    assert first == again != other


def test_the_best_gaussian_of_a_gaussian_is_itself():
    posed = problem("gaussian", 1)
    mean, root = claims.best_gaussian(posed.log_joint, np.zeros(posed.dimension))
    assert claims.gaussian_elbo(
        posed.log_joint, claims.bqvi.families.Gaussian(mean, root @ root.T)
    ) == pytest.approx(0, abs=5e-3)


def test_wrong_and_covered_count_errors_in_nats_and_in_standard_deviations():
    record = {"door": "vbmc", "kind": "ridge", "converged": True, "truth": 0.0, "evaluations": 9, "cpu": 0.1}
    within = record | {"estimate": 0.19, "sd": 0.1}
    small = record | {"estimate": 0.09, "sd": 0.001}
    off = record | {"estimate": -0.4, "sd": 0.1}
    nothing = record | {"estimate": math.nan, "sd": math.nan}
    assert [claims.wrong(r) for r in (within, small, off, nothing)] == [False, False, True, True]
    assert [claims.covered(r) for r in (within, small, off, nothing)] == [True, False, False, False]
    lines = {line.what: line for line in claims.summary([within, small, off, nothing])}
    assert lines["converged and wrong, of those converged"].measured == "2 of 4"
    assert not lines["vbmc, ridge"].held


def test_a_method_that_samples_is_wrong_only_below_the_best_elbo():
    record = {"door": "pathwise", "kind": "gaussian", "converged": True, "truth": 0.0, "sd": 0.0}
    assert not claims.wrong(record | {"estimate": 0.3})
    assert claims.wrong(record | {"estimate": -0.3})


def test_an_exception_of_a_run_is_a_record(monkeypatch):
    """And a run has one thread, where the process has two before and after."""

    def fails(kind, seed):
        assert {torch.get_num_threads(), *(pool["num_threads"] for pool in threadpool_info())} == {1}
        raise ValueError("no")

    monkeypatch.setitem(claims.DOORS, "vbmc", (("ridge",), fails))
    with threadpool_limits(2):
        record = claims.one(("vbmc", "ridge", 0))
        assert {torch.get_num_threads(), *(pool["num_threads"] for pool in threadpool_info())} == {2}
    assert record["exception"] == "ValueError: no"
    assert not record["converged"]
