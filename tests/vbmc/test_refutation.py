"""Tests of claims: the overlap of known densities at draws, and claims that points of the answer refute."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import i0e
from scipy.stats import norm

import bqvi
from bqvi.calls import Evaluations
from bqvi.variational_bmc import stopping
from bqvi.variational_bmc.settings import COMPARISON, CONVERGENCE
from bqvi.variational_bmc.state import begun, evaluated, total_variation
from bqvi.variational_bmc.variational import DiagonalMixture
from experiments.problems.known_posteriors import lumpy


def ridge(x, length=1.0, bend=1.0):
    """Log density (n,): x_0 ~ N(0, length^2), x_1 - bend x_0^2 ~ N(0, .3^2); ln Z = 0 for any bend."""
    x = np.atleast_2d(x)
    return norm.logpdf(x[:, 0], 0.0, length) + norm.logpdf(x[:, 1] - bend * x[:, 0] ** 2, 0.0, 0.3)


def evaluations(points):
    """Evaluations of the ridge at points."""
    n = len(points)
    return Evaluations(points, ridge(points), None, None, np.zeros(n, bool), ("",) * n)


def after_test(length, draws, monkeypatch):
    """The state after a test of a surrogate whose ridge has another length; its ln Z is 0, too."""
    monkeypatch.setattr(stopping, "COMPARISON", replace(COMPARISON, draws=draws))
    state = begun(np.zeros((0, 2)), Evaluations.none(2))  # the unit of its frame is 1/2
    rng = np.random.default_rng(0)
    x = np.empty((40_000, 2))
    x[:, 0] = 1.5 * rng.standard_normal(len(x))
    x[:, 1] = x[:, 0] ** 2 + 0.45 * rng.standard_normal(len(x))
    log_proposal = norm.logpdf(x[:, 0], 0.0, 1.5) + norm.logpdf(x[:, 1] - x[:, 0] ** 2, 0.0, 0.45)
    log_weights = ridge(x, length) - log_proposal - np.log(len(x))
    found = SimpleNamespace(
        u=2.0 * x, log_evidence=0.0, log_weights=log_weights, weights=np.exp(log_weights),
        log_proposal=log_proposal - 2.0 * np.log(2.0),
    )  # fmt: skip
    q = DiagonalMixture(np.ones(1), np.zeros((1, 2)), np.ones((1, 2)))
    surrogate = SimpleNamespace(
        mean=lambda u: np.zeros(len(u)), fitted_noise=0.0,
        moments=lambda u: (ridge(0.5 * u, length), np.ones(len(u))),
    )  # fmt: skip
    asked = stopping.with_points(state, SimpleNamespace(found=found, q=q, surrogate=surrogate), 0)
    return asked, evaluated(asked, evaluations(asked.pending))


@pytest.mark.parametrize("length", [1.0, 0.8, 0.6])
def test_share_of_the_mass_is_that_of_the_densities(length, monkeypatch):
    _, state = after_test(length, 4000, monkeypatch)
    at = np.sqrt(2 * np.log(1 / length) / (1 / length**2 - 1)) if length < 1 else 0.0  # where they are equal
    exact = 2 * (norm.cdf(at / length) - norm.cdf(at))  # total variation, of x_0 alone
    assert total_variation(state) == pytest.approx(exact, abs=0.015 + 1e-12)


def test_at_failed_draws_the_log_joint_has_no_mass(monkeypatch):
    asked, _ = after_test(1.0, 5, monkeypatch)
    good = evaluations(asked.pending)
    n = len(good)
    failed = replace(good, values=np.full(n, -np.inf), failed=np.ones(n, bool))
    assert total_variation(evaluated(asked, failed)) == 1.0


def test_a_run_converges_once_its_claim_was_tested():
    box = {"plausible_lower": [-2.0, -1.0], "plausible_upper": [2.0, 1.0]}
    found = bqvi.vbmc(lambda x: float(ridge(x, bend=0.2)[0]), **box, budget=80, seed=1)
    last = found.trace.rows[-1]
    assert found.converged
    assert last.total_variation < COMPARISON.total_variation
    assert abs(found.log_evidence) < max(0.05, 3 * found.log_evidence_sd)
    assert last.elbo_sd <= found.log_evidence_sd
    (claim,) = [row for row in found.trace.rows if row.n_evaluations == last.tested]
    assert abs(last.log_evidence - claim.log_evidence) < max(claim.elbo_sd, 0.025)
    state = found.checkpoint.state
    test = ~np.isnan(state.predicted[:, 2])
    assert np.isfinite(state.predicted[test, 2]).sum() % COMPARISON.draws == 0
    # some of its points lie beyond the surrogate's posterior, where predictions are low
    assert state.predicted[test, 0].min() < found.evaluations.values.max() - 5
    assert len(state) < CONVERGENCE.again * state.scaled_at + len(test)  # scales were looked for just before


def test_a_mode_at_the_cut_of_a_period_is_found_on_both_sides():
    """A von Mises density times a normal one: half of the mass lies at the other end of the interval."""
    wide = 3.0
    found = bqvi.vbmc(
        lambda t: 100.0 * (np.cos(t[0] - np.pi) - 1.0) - 0.5 * (t[1] / wide) ** 2,
        lower=[-np.pi, -np.inf], upper=[np.pi, np.inf], plausible_lower=[-2.0, -2.0],
        plausible_upper=[2.0, 2.0], periodic=[0], budget=120, seed=0,
    )  # fmt: skip
    truth = np.log(2 * np.pi * i0e(100.0) * wide * np.sqrt(2 * np.pi))
    assert found.converged
    assert found.log_evidence == pytest.approx(truth, abs=3 * found.log_evidence_sd)


def test_a_mixture_of_overlapping_modes_converges_although_its_draws_contradict_a_part():
    problem = lumpy(4, 3)  # the log evidence is a closed form
    found = bqvi.vbmc(problem.log_joint, **problem.bounds(), budget=220, seed=12)
    last = found.trace.rows[-1]
    assert found.converged
    assert 0.0 < last.total_variation < COMPARISON.total_variation
    assert abs(found.log_evidence - problem.log_evidence) < 3.0 * found.log_evidence_sd
