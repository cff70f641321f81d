"""The whole call seen from outside: kinds of bounds, failures, executors; evidences known in closed form."""

import math

import numpy as np
import pytest
import scipy.special
import scipy.stats

import bqvi
from bqvi.variational_bmc.diagnostics import agreement, check

CONCENTRATION = 4.0
ANGLE = scipy.stats.vonmises(CONCENTRATION, loc=0.3)
SIZE = scipy.stats.gamma(5.0, scale=0.4)
BOUNDS = {
    "lower": {"angle": 0.0, "size": 0.0, "fixed": 2.0},
    "upper": {"angle": 2 * math.pi, "size": np.inf, "fixed": 2.0},
    "plausible_lower": [-1.5, 0.5, np.nan],
    "plausible_upper": [1.5, 5.0, np.nan],
    "periodic": [0],
}


def log_joint(theta):
    """An angle around 0.3, which is on both ends of [0, 2 pi), a size, and a constant: ln Z = -2."""
    angle, size, fixed = theta
    return float(ANGLE.logpdf(angle) + SIZE.logpdf(size) - fixed)


def run(function=log_joint, **more):
    return bqvi.vbmc(function, **{**BOUNDS, "budget": 45, "seed": 1, **more})


def test_periodic_half_bounded_and_fixed():
    found = run(seed=2)  # means of the angle differ by .02 between seeds
    assert abs(found.log_evidence + 2.0) < 0.05
    posterior = found.posterior
    draws = posterior.sample(4000, 0)
    assert ((draws[:, 0] >= 0) & (draws[:, 0] < 2 * math.pi)).all()
    assert (draws[:, 0] > 6.0).any()
    assert (draws[:, 1] > 0).all()
    assert (draws[:, 2] == 2.0).all()
    resultant = scipy.special.ive(1, CONCENTRATION) / scipy.special.ive(0, CONCENTRATION)
    vector = np.exp(1j * draws[:, 0]).mean()
    assert abs(vector) == pytest.approx(resultant, abs=0.03)
    assert np.angle(vector) == pytest.approx(0.3, abs=0.05)
    assert posterior.mean[1] == pytest.approx(SIZE.mean(), rel=0.03)
    assert posterior.covariance[1, 1] == pytest.approx(SIZE.var(), rel=0.15)
    # the density of q integrates with the truth's: E_q[p / q] = Z
    ratio = np.array([log_joint(t) for t in draws[:500]]) - posterior.log_prob(draws[:500])
    assert abs(np.median(ratio) + 2.0) < 0.3


def test_failures_are_learnt_from():
    """A third of the plausible box fails; what is left has a closed-form evidence."""

    def cut(theta):
        if theta[1] < 1.2:
            raise RuntimeError("the simulator does not like small sizes")
        return log_joint(theta)

    found = run(cut, budget=60)
    truth = -2.0 + SIZE.logsf(1.2)
    assert found.evaluations.failed.any()
    assert "does not like small sizes" in "".join(found.evaluations.reasons)
    assert abs(found.log_evidence - truth) < max(0.1, 3 * found.log_evidence_sd)


def test_check_and_agreement_of_runs():
    runs = [run(seed=s) for s in (1, 2)]
    assert agreement(runs).agree
    assert "log evidence" in runs[0]._repr_html_()
    found = check(log_joint, runs[0].posterior, 200)
    assert found.usable
    assert abs(found.log_evidence + 2.0) < 4 * found.log_evidence_sd + 0.01


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lower": [0.0, 1.0, 3.0]}, "lower = 3 above"),
        ({"plausible_upper": [1.5, np.inf, np.nan]}, "plausible_upper of size is inf"),
        ({"start": [0.1, -1.0, 2.0]}, "size = -1.0"),
        ({"start": [0.1, 1.0, 3.0]}, "fixed at 2"),
        ({"gradient": "numeric"}, "gradient is 'numeric'"),
        ({"noise_sd": -1.0}, "noise_sd is -1"),
        ({"upper": [1.0]}, "lengths disagree"),
    ],
)
def test_bad_input_is_named_before_an_evaluation(change, message):
    calls = []
    with pytest.raises(ValueError, match=message):
        run(lambda theta: calls.append(1) or 0.0, **change)
    assert not calls


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda theta: np.zeros(3), r"shape \(3,\)"),
        (lambda theta: 1j, "one real number"),
        (lambda theta: math.inf, "joint is inf"),
        (lambda theta: 1 / 0, "division by zero, and raised at each of the"),
        (lambda theta: -math.inf, "finite at 0 of"),
    ],
)
def test_what_is_no_log_joint_is_reported_with_the_evaluations(function, message):
    with pytest.raises(bqvi.RunError, match=message) as caught:
        run(function)
    assert caught.value.n_evaluations == len(caught.value.state.evaluations)


@pytest.mark.parametrize("freedom", [1.5, 3.0])
def test_heavy_tails_are_in_the_sd_or_the_run_has_not_converged(freedom):
    """A t distribution in the plane, of which a tenth lies beyond the plausible box; ln Z = 0."""
    shape = np.array([[1.0, 0.4], [0.4, 0.6]])
    density = scipy.stats.multivariate_t(np.array([0.3, -0.2]), shape, df=freedom)
    found = bqvi.vbmc(
        lambda t: float(density.logpdf(t)),
        plausible_lower=[-2, -2],
        plausible_upper=[2, 2],
        budget=70,
        seed=4,
    )
    error = abs(found.log_evidence)
    assert error < 3 * found.log_evidence_sd
    assert not found.converged or error < 0.1
