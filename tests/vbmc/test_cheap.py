"""`bqvi.Design(cheap=)`: the kernel of its scale against formulas; limits of good and wrong cheap models."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from engine_contract import check_engine

import bqvi
from bqvi.variational_bmc.settings import FITTING
from bqvi.variational_bmc.surrogate import Surrogate, noise_shaped
from experiments.problems import known_posteriors
from gp.expectation import AnovaSum, AnovaSums, Quadratic
from gp.kernels import Anova, Constant, Multiple, Sum
from gp.testing import check_kernel

RNG = np.random.default_rng(0)
PROBLEM = known_posteriors.rosenbrock(2)
PART = AnovaSum(
    RNG.standard_normal((4, 3)),
    Anova(np.array([1.0, 2.0, 1.5]), 0.5, 1.0),
    Quadratic(0.3, np.array([0.1, -0.2, 0.3]), np.diag([0.2, -0.1, 0.3])),
    RNG.standard_normal(4),
)


def test_the_kernel_of_multiples_keeps_the_contract():
    check_kernel(Multiple(PART, 0.7), 3)
    check_kernel(Sum((Constant(2.0), Multiple(PART, 0.7))), 3)


@pytest.mark.parametrize("with_slopes", [False, True])
def test_the_scale_is_that_of_generalised_least_squares(with_slopes):
    """Against the normal equations, given the covariance of the difference of the two models."""
    x = RNG.standard_normal((12, 3))
    slopes = -x + 0.4 * PART.gradient(x) if with_slopes else None
    values = -0.5 * (x**2).sum(1) + 0.4 * PART(x) + np.sin(x[:, 0])
    without = noise_shaped(x, values, slopes, None, 30.0)
    data = noise_shaped(x, values, slopes, None, 30.0)
    data = replace(data, cheap=AnovaSums((PART,)), rough=with_slopes)
    without = replace(without, rough=with_slopes)
    psi = data.prior.lower
    plain, made = Surrogate.of(without, psi), Surrogate.of(data, psi)
    whitening = plain.evidence.factor.whitening
    precision = whitening.T @ whitening
    g, y = data.cheap_rows, without.residuals
    variance = 1.0 / (g @ precision @ g + FITTING.cheap_scale**-2)
    scale, sd = made.cheap_scale
    assert scale == pytest.approx(variance * (g @ precision @ y + FITTING.cheap_scale**-2), rel=1e-6)
    assert sd == pytest.approx(np.sqrt(variance), rel=1e-4)
    u = RNG.standard_normal((5, 3))
    np.testing.assert_allclose(made.function(u), made.moments(u)[0], rtol=1e-6, atol=1e-6)
    numeric = [(made.mean(u + e) - made.mean(u - e)) / 2e-4 for e in 1e-4 * np.eye(3)]
    np.testing.assert_allclose(made.function.gradient(u), np.stack(numeric, 1), rtol=1e-5, atol=1e-5)
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    cube = np.stack(np.meshgrid(*[nodes] * 3, indexing="ij"), -1).reshape(-1, 3)
    w = np.prod(np.stack(np.meshgrid(*[weights / weights.sum()] * 3, indexing="ij"), -1), -1).ravel()
    mean, variances = np.array([[0.2, -0.1, 0.3]]), np.array([[0.3, 0.5, 0.2]])
    found = made.function.integrate(mean, variances)
    assert found.values[0] == pytest.approx(float(w @ made.mean(mean + np.sqrt(variances) * cube)), rel=1e-6)


@pytest.mark.parametrize("seed", [3, 4])
def test_a_cheap_model_may_have_the_gradient_that_the_log_joint_lacks(seed):
    """A Gaussian whose precision the cheap model has wrong, against its evidence in closed form."""
    precision = np.array([[1.5, 0.6, 0.0], [0.6, 2.0, -0.4], [0.0, -0.4, 0.8]])
    cheap = bqvi.adapters.TargetModel(
        lambda t: float(-0.45 * t @ precision @ t), 3,
        lambda t: (float(-0.45 * t @ precision @ t), -0.9 * precision @ t),
    )  # fmt: skip
    found = bqvi.vbmc(
        lambda t: float(-0.5 * t @ precision @ t), plausible_lower=[-2.0] * 3, plausible_upper=[2.0] * 3,
        design=bqvi.Design(cheap=(cheap, 30)), budget=20, seed=seed,
    )  # fmt: skip
    right = 1.5 * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(precision)[1]
    assert found.log_evidence == pytest.approx(right, abs=0.01)


def test_the_log_joint_itself_is_known_at_its_first_points():
    found = bqvi.vbmc(
        PROBLEM.log_joint, **PROBLEM.bounds(), budget=8, design=bqvi.Design(cheap=(PROBLEM.log_joint, 50))
    )
    alone = bqvi.vbmc(PROBLEM.log_joint, **PROBLEM.bounds(), budget=8)
    error = abs(found.log_evidence - PROBLEM.log_evidence)
    assert error < 0.05 < abs(alone.log_evidence - PROBLEM.log_evidence)
    assert (found.n_evaluations, found.n_cheap_evaluations, len(found.theta)) == (8, 50, 8)
    scale, sd = found.cheap_scale
    assert scale == pytest.approx(1.0, abs=0.02)
    assert sd < 0.02
    assert alone.cheap_scale is None
    assert alone.n_cheap_evaluations == 0


def test_an_improper_cheap_model_is_left_out_and_reported():
    found = bqvi.vbmc(
        PROBLEM.log_joint, **PROBLEM.bounds(), budget=30, design=bqvi.Design(cheap=(lambda x: 0.0, 40))
    )
    assert abs(found.log_evidence - PROBLEM.log_evidence) < max(0.1, 4 * found.log_evidence_sd)
    assert any("cheap model was not used" in message for message in found.warnings)
    assert found.n_cheap_evaluations == 40


def test_with_a_cheap_model_of_another_posterior_the_evidence_is_right():
    def elsewhere(x):
        return -2.0 * float((x - 4.0) @ (x - 4.0))

    found = bqvi.vbmc(
        PROBLEM.log_joint,
        **PROBLEM.bounds(),
        budget=30,
        design=bqvi.Design(cheap=(elsewhere, 20)),
    )
    assert abs(found.log_evidence - PROBLEM.log_evidence) < max(0.05, 4 * found.log_evidence_sd)


def test_the_engine_of_two_models_keeps_the_contract():
    """Interrupted on the cheap model, at its last evaluation, and on the log joint."""
    options = {**PROBLEM.bounds(), "budget": 7, "design": bqvi.Design(cheap=(PROBLEM.log_joint, 12))}
    check_engine(
        lambda path: bqvi.vbmc.steps(PROBLEM.log_joint, **options, resume=path),
        lambda found: (found.log_evidence, found.n_evaluations, found.n_cheap_evaluations),
        (1, 5, 12, 13, 16),
    )


def test_a_file_with_evaluations_of_the_cheap_model_only_is_not_overwritten(tmp_path):
    options = {**PROBLEM.bounds(), "budget": 7, "design": bqvi.Design(cheap=(PROBLEM.log_joint, 12))}
    path = tmp_path / "run.npz"
    run = bqvi.vbmc.steps(PROBLEM.log_joint, **options, run=bqvi.Run(checkpoint=path))
    next(run)
    assert (run.n_evaluations, run.state.n_evaluations) == (0, 0)
    made, written = run.state.state.n_evaluations, path.read_bytes()
    message = f"which exists, with {made} evaluations of a run of bqvi.vbmc: give that path as resume too"
    with pytest.raises(ValueError, match=message):
        bqvi.vbmc(PROBLEM.log_joint, **options, run=bqvi.Run(checkpoint=path))
    assert path.read_bytes() == written
    found = bqvi.vbmc(PROBLEM.log_joint, **options, run=bqvi.Run(checkpoint=path), resume=path)
    assert (found.n_evaluations, found.n_cheap_evaluations) == (7, 12)
    with pytest.raises(ValueError, match="with 19 evaluations"):
        bqvi.vbmc(PROBLEM.log_joint, **options, run=bqvi.Run(checkpoint=path))


def test_workers_and_questions_begin_with_the_log_joint():
    options = {**PROBLEM.bounds(), "budget": 7, "design": bqvi.Design(cheap=(PROBLEM.log_joint, 11))}
    run = bqvi.vbmc.steps(PROBLEM.log_joint, **options)
    asked = run.ask(2)
    assert asked.shape == (2, 2)
    run.tell(asked, [PROBLEM.log_joint(x) for x in asked])
    assert run.n_evaluations == 2
    with ThreadPoolExecutor(2) as pool:
        found = bqvi.vbmc(PROBLEM.log_joint, **options, run=bqvi.Run(executor=pool, workers=2))
    assert (found.n_evaluations, found.n_cheap_evaluations) == (7, 11)


@pytest.mark.parametrize(
    ("cheap", "message"),
    [
        ((PROBLEM.log_joint, 2), r"cheap\[1\] is 2"),
        (bqvi.adapters.TargetModel(PROBLEM.log_joint, ("a", "b")), "cheap has parameters a, b"),
    ],
)
def test_bad_input_is_named_before_any_evaluation(cheap, message):
    with pytest.raises(ValueError, match=message):
        bqvi.vbmc.steps(PROBLEM.log_joint, **PROBLEM.bounds(), design=bqvi.Design(cheap=cheap))


def test_a_run_is_resumed_with_a_cheap_model_only_where_it_had_one(tmp_path):
    found = bqvi.vbmc(PROBLEM.log_joint, **PROBLEM.bounds(), budget=5, design=bqvi.Design(initial=5))
    with pytest.raises(ValueError, match="without a cheap model"):
        bqvi.vbmc(
            PROBLEM.log_joint, **PROBLEM.bounds(), design=bqvi.Design(cheap=PROBLEM.log_joint), resume=found
        )
    run = bqvi.vbmc.steps(PROBLEM.log_joint, **PROBLEM.bounds(), design=bqvi.Design(cheap=PROBLEM.log_joint))
    next(run)
    run.save(tmp_path / "run.npz")
    with pytest.raises(ValueError, match="ended on its cheap model: give cheap"):
        bqvi.vbmc(PROBLEM.log_joint, **PROBLEM.bounds(), resume=tmp_path / "run.npz")
