"""Bounds on known evidences: closed forms, a grid, and tests of unbiasedness with a false-alarm rate."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, gammaln, logsumexp

import bqvi
from bqvi.calls import make_coordinates
from bqvi.sampled_bounds.passes import next_temperature, parents_of
from gp.measures import Empirical, Gaussian, Uniform

ALARM = 4.5
"""Standard errors; |z| of a Gaussian exceeds it with probability 7e-6."""


class Conjugate:
    """A Gaussian joint density in two dimensions: N(mean, covariance) times Z."""

    mean, log_evidence = np.array([0.8, -0.4]), 1.3
    covariance = np.array([[0.5, 0.3], [0.3, 0.4]])
    proposal = Gaussian(np.zeros(2), np.eye(2))

    def __init__(self):
        self.precision = np.linalg.inv(self.covariance)
        self.constant = self.log_evidence - 0.5 * np.linalg.slogdet(2 * np.pi * self.covariance)[1]
        self.calls = 0

    def __call__(self, theta):
        self.calls += len(theta)
        off = theta - self.mean
        return self.constant - 0.5 * np.einsum("ni,ij,nj->n", off, self.precision, off)

    def gradient(self, theta):
        return -(theta - self.mean) @ self.precision

    def draws(self, n, seed):
        return np.random.default_rng(seed).multivariate_normal(self.mean, self.covariance, n)


@pytest.fixture
def model():
    return Conjugate()


def bounds(model, **choices):
    arguments = {"budget": 100_000, "particles": 3, "replicates": 400, "temperatures": 3, **choices}
    return bqvi.evidence_bounds(model, model.proposal, **arguments)


@pytest.mark.parametrize("transitions", ["hmc", "random-walk"])
@pytest.mark.parametrize("method", ["smc", "ais"])
def test_estimates_are_unbiased_both_ways(model, method, transitions):
    found = bounds(
        model,
        method=method,
        gradient=model.gradient if transitions == "hmc" else None,
        posterior=model.draws(400, 1),
        seed=2,
    )
    if method == "smc":
        assert (
            found.effective_sample_sizes.min() < 2.5
        )  # out of 3: some systems lose half of it and are resampled
    for ratios in (
        np.exp(found.log_estimates - model.log_evidence),
        np.exp(model.log_evidence - found.upper_log_estimates),
    ):
        assert abs(ratios.mean() - 1.0) < ALARM * ratios.std(ddof=1) / np.sqrt(len(ratios))
    assert found.lower - 3 * found.lower_sd < model.log_evidence < found.upper + 3 * found.upper_sd


@pytest.mark.parametrize("said", ["a number", "a function", "beside the value"])
@pytest.mark.parametrize("method", ["smc", "ais", "importance"])
def test_estimates_from_noisy_values_are_unbiased_both_ways(model, method, said):
    """Noise of standard deviations from .4 to 1.2; values as they are would raise the first ratio by .3."""
    rng = np.random.default_rng(5)

    def sd(theta):
        return 0.8 * np.ones(len(theta)) if said == "a number" else 0.8 + 0.4 * np.tanh(theta[:, 0])

    def noisy(theta):
        values = model(theta) + sd(theta) * rng.standard_normal(len(theta))
        return (values, sd(theta)) if said == "beside the value" else values

    given = {"a number": 0.8, "a function": sd, "beside the value": None}[said]
    found = bqvi.evidence_bounds(
        noisy,
        model.proposal,
        400_000,
        method,
        noise_sd=given,
        particles=4,
        replicates=4000,
        temperatures=None if method == "importance" else 4,
        posterior=model.draws(4000, 1),
        seed=3,
    )
    for ratios in (
        np.exp(found.log_estimates - model.log_evidence),
        np.exp(model.log_evidence - found.upper_log_estimates),
    ):
        assert abs(ratios.mean() - 1.0) < ALARM * ratios.std(ddof=1) / np.sqrt(len(ratios))
        assert ratios.std(ddof=1) / np.sqrt(len(ratios)) < 0.05


def test_bounds_close_with_particles_and_temperatures(model):
    draws = model.draws(400, 3)
    by_particles = [
        bounds(model, method="importance", temperatures=None, particles=k, posterior=draws) for k in (1, 16)
    ]
    by_temperatures = [
        bounds(model, method="ais", temperatures=t, budget=200_000, gradient=model.gradient, posterior=draws)
        for t in (1, 16)
    ]
    for found in (by_particles, by_temperatures):
        for first, second in pairwise(found):
            assert second.lower - first.lower > 3 * np.hypot(first.lower_sd, second.lower_sd)
            assert first.upper - second.upper > 3 * np.hypot(first.upper_sd, second.upper_sd)
        assert all(one.lower < model.log_evidence < one.upper for one in found)


def test_with_the_posterior_as_proposal_every_estimate_is_exact(model):
    exact = Gaussian(model.mean, model.covariance)
    for method in ("smc", "ais", "importance"):
        found = bqvi.evidence_bounds(
            model, exact, 4000, method, particles=4, posterior=model.draws(20, 0), gradient=model.gradient
        )
        assert np.allclose([found.lower, found.upper, found.log_evidence], model.log_evidence, atol=1e-12)
        assert found.interval == pytest.approx([model.log_evidence] * 2, abs=1e-12)
        assert np.allclose(found.effective_sample_sizes, 4.0)


def test_a_decoder_of_two_latent_dimensions_agrees_with_a_grid():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    hidden, out = rng.normal(size=(2, 8)), rng.normal(size=(8, 5)) / 2
    images = (rng.random((3, 5)) < 0.5).astype(float)
    parts = [torch.as_tensor(a) for a in (hidden, out, images)]

    def log_joint(z, which):
        logits = torch.tanh(z @ parts[0]) @ parts[1]
        x = parts[2][which]
        like = (x * logits - torch.nn.functional.softplus(logits)).sum(-1)
        return like - 0.5 * (z**2).sum(-1) - np.log(2 * np.pi)

    axis = np.linspace(-6, 6, 121)
    grid = torch.as_tensor(np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2))
    logs = [log_joint(grid, torch.full((len(grid),), i)).numpy() for i in range(3)]
    truth = np.array([logsumexp(one) for one in logs]) + 2 * np.log(axis[1] - axis[0])
    places = [rng.choice(len(grid), 40, p=np.exp(one - logsumexp(one))) for one in logs]
    draws = np.stack([grid.numpy()[index] for index in places])
    prior = Gaussian(np.zeros(2), np.eye(2))
    found = bqvi.evidence_bounds(
        log_joint, [prior] * 3, 20_000, posterior=draws, gradient="autodiff", replicates=8
    )
    assert found.lower.shape == found.upper.shape == (3,)
    assert found.interval.shape == (3, 2)
    assert ((found.interval[:, 0] < truth) & (truth < found.interval[:, 1])).all()
    assert np.ptp(found.interval, axis=1).max() < 0.15
    assert np.abs(found.log_evidence - truth).max() < ALARM * found.log_evidence_sd.max()


def test_the_interval_covers():
    """40 problems: if the coverage is .95, more than 6 misses have a probability of .003."""
    problems = 40
    shifts, rng = np.linspace(-1.0, 1.0, problems), np.random.default_rng(4)

    def log_joint(theta, which):
        return which - 2.0 * ((theta - shifts[which, None]) ** 2).sum(-1) - np.log(np.pi / 2)

    draws = shifts[:, None, None] + 0.5 * rng.standard_normal((problems, 10, 2))
    found = bqvi.evidence_bounds(
        log_joint,
        [Gaussian(np.zeros(2), np.eye(2))] * problems,
        60_000,
        posterior=draws,
        particles=4,
        replicates=10,
    )
    truth = np.arange(problems)
    inside = (found.interval[:, 0] < truth) & (truth < found.interval[:, 1])
    assert inside.sum() >= problems - 6
    assert "40 problems" in repr(found)


def test_particles_without_density_whose_moves_have_none_either_give_no_warning_of_arithmetic():
    calls = []

    def dying(theta):
        calls.append(theta)
        return -0.5 * theta @ theta if len(calls) < 7 else -np.inf

    proposal = Gaussian(np.zeros(2), np.eye(2))
    found = bqvi.evidence_bounds(dying, proposal, 60, replicates=2, vectorised=False, seed=1)
    assert found.lower == -np.inf
    assert not found.converged


def test_the_interval_is_student_t_s_of_the_estimates_both_ways():
    """Each end has half of the probability beyond it; at R = 5 the quantile of 5 degrees is 7 % smaller."""
    joint = Conjugate()
    draws = np.random.default_rng(0).multivariate_normal(joint.mean, joint.covariance, 5)
    found = bqvi.evidence_bounds(joint, joint.proposal, 4000, posterior=draws, replicates=5, seed=2)
    ends = [
        stats.t.interval(0.9, 4, logs.mean(), stats.sem(logs))
        for logs in (found.log_estimates, found.upper_log_estimates)
    ]
    np.testing.assert_allclose(found.interval_at(0.9), [ends[0][0], ends[1][1]], rtol=1e-10)


@pytest.mark.parametrize("method", ["importance", "smc"])
@pytest.mark.parametrize(
    "proposal",
    [
        Uniform([-2.0, 0.5], [0.0, 4.0]),
        Empirical(np.random.default_rng(0).normal(size=(30, 3))),
        [Gaussian(np.zeros(1), np.eye(1)), Uniform([0.0], [1.0])],
    ],
    ids=["box", "points", "one of two"],
)
def test_a_proposal_that_is_no_gaussian_is_refused_before_any_evaluation(proposal, method):
    """Draws were those of the Gaussian with its moments."""
    name = type(proposal[-1] if isinstance(proposal, list) else proposal).__name__
    with pytest.raises(TypeError, match=rf"proposal.* is a {name}; it must be a Gaussian"):
        bqvi.evidence_bounds(pytest.fail, proposal, budget=200, method=method, seed=0)


def test_bounds_of_parameters_are_those_of_the_proposal():
    """Successes 7 of 10 under a uniform prior: the evidence is B(8, 4) times the binomial coefficient."""
    coordinates = make_coordinates(0.0, 1.0, dimension=1)
    proposal = bqvi.Posterior.of(Gaussian(np.zeros(1), np.eye(1) * 2.0), coordinates)
    choose = gammaln(11) - gammaln(8) - gammaln(4)

    def log_joint(theta):
        assert ((theta > 0) & (theta < 1)).all()
        return choose + 7 * np.log(theta[:, 0]) + 3 * np.log1p(-theta[:, 0])

    draws = np.random.default_rng(0).beta(8, 4, (50, 1))
    found = bqvi.evidence_bounds(log_joint, proposal, 20_000, posterior=draws)
    truth = choose + betaln(8, 4)
    low, high = found.interval_at(0.95)
    assert low < truth < high < low + 0.15
    assert found.interval[0] < low < high < found.interval[1]
    with pytest.raises(ValueError, match="confidence is 1"):
        found.interval_at(1.0)
    assert found.sample(2000, 0).mean() == pytest.approx(8 / 12, abs=0.02)


def test_evaluations_that_fail_have_no_density_and_are_counted(model):
    failed, stop = 0, 4

    def half(theta):
        nonlocal failed
        values = np.where(theta[:, 0] > model.mean[0], model(theta), np.nan)
        failed += int(np.isnan(values).sum())
        return values

    def until(state):
        nonlocal stop
        stop -= 1
        if not stop:
            raise KeyboardInterrupt

    found = bqvi.evidence_bounds(half, model.proposal, 20_000)
    assert found.n_failed == failed > 0
    assert f"{failed} of {found.n_evaluations} evaluations failed" in " ".join(found.checks)
    assert abs(found.log_evidence - (model.log_evidence - np.log(2))) < ALARM * found.log_evidence_sd
    with pytest.raises(bqvi.RunInterrupted) as ended:
        bqvi.evidence_bounds(half, model.proposal, 20_000, run=bqvi.Run(callback=until))
    resumed = bqvi.evidence_bounds(half, model.proposal, 20_000, resume=ended.value)
    assert (resumed.lower, resumed.n_failed) == (found.lower, found.n_failed)
    assert bounds(model).n_failed == 0


def test_an_interrupted_run_goes_on_to_the_same_numbers(model, tmp_path):
    choices = {"budget": 1500, "particles": 4, "replicates": 4, "posterior": model.draws(9, 0)}
    whole = bqvi.evidence_bounds(model, model.proposal, **choices)
    used = model.calls
    for stop in (100, 900):
        calls = 0

        def until(theta, stop=stop):
            nonlocal calls
            calls += 1
            if calls == stop:
                raise KeyboardInterrupt
            return model(theta[None])[0]

        with pytest.raises(bqvi.RunInterrupted) as ended:
            bqvi.evidence_bounds(until, model.proposal, vectorised=False, **choices)
        assert ended.value.n_evaluations == stop - 1
        ended.value.save(tmp_path / "run.npz")
        model.calls = 0
        again = bqvi.evidence_bounds(model, model.proposal, **choices, resume=tmp_path / "run.npz")
        assert model.calls + stop - 1 == used
        assert again.log_estimates == pytest.approx(whole.log_estimates, rel=1e-12)
        assert again.upper == pytest.approx(whole.upper, rel=1e-12)


@pytest.mark.parametrize("stop", [3, 60, 330, 360, 900, 1400])
def test_verification_is_within_the_budget_and_reports_another_function(model, stop):
    """In each phase: the pilot run, chains backwards from draws, particles forwards."""
    choices = {"budget": 1500, "particles": 4, "replicates": 4, "posterior": model.draws(9, 0)}

    def until(theta):
        if model.calls >= stop:
            raise KeyboardInterrupt
        return model(theta[None])[0]

    with pytest.raises(bqvi.RunInterrupted) as ended:
        bqvi.evidence_bounds(until, model.proposal, vectorised=False, **choices)
    found = bqvi.evidence_bounds(model, model.proposal, **choices, resume=ended.value, run=bqvi.Run(verify=5))
    assert found.n_evaluations == model.calls <= 1500
    model.calls = 0
    with pytest.raises(bqvi.RunError, match=r"of the run to resume: [1-5] of [1-5] evaluations") as message:
        bqvi.evidence_bounds(
            lambda theta: model(theta) + 1e-3,
            model.proposal,
            **choices,
            resume=ended.value,
            run=bqvi.Run(verify=5),
        )
    assert 1 <= model.calls <= 5
    assert message.value.n_evaluations == stop + model.calls


class Truncated:
    """The model where its first parameter is at most 3; it raises at a batch with a point beyond."""

    def __init__(self, model, fails_from=0):
        self.model, self.fails_from, self.calls = model, fails_from, 0

    def __call__(self, theta):
        self.calls += len(theta)
        if (theta[:, 0] > 3.0).any() and self.calls > self.fails_from:
            raise np.linalg.LinAlgError("not positive definite")
        return self.model(theta)


@pytest.mark.parametrize("method", ["smc", "ais"])
def test_batches_that_raise_keep_a_run_within_its_budget(model, method):
    log_joint = Truncated(model)
    found = bqvi.evidence_bounds(log_joint, model.proposal, 2000, method, replicates=4)
    assert found.n_evaluations == log_joint.calls <= 2000


def test_a_run_whose_plan_had_no_room_for_batches_that_raise_goes_on_with_a_larger_budget(model):
    log_joint = Truncated(model, fails_from=300)
    with pytest.raises(bqvi.RunError, match="resume with a larger budget") as ended:
        bqvi.evidence_bounds(log_joint, model.proposal, 2000, replicates=4)
    assert ended.value.n_evaluations == log_joint.calls == 2000
    found = bqvi.evidence_bounds(log_joint, model.proposal, 3000, replicates=4, resume=ended.value)
    assert found.n_evaluations == log_joint.calls <= 3000


def test_of_several_problems_each_is_verified_with_its_number(tmp_path):
    def log_joint(theta, problems):
        return -0.5 * ((theta - 3.0 * problems[:, None]) ** 2).sum(axis=1)

    prior = Gaussian(np.zeros(1), 2 * np.eye(1))
    for steps in (1, 8):  # steps of the pilot run, and of the particles forwards
        run = bqvi.evidence_bounds.steps(log_joint, [prior] * 3, 20_000)
        for _ in range(steps):
            next(run)
        run.save(tmp_path / "run.npz")
        again = bqvi.evidence_bounds(
            log_joint, [prior] * 3, 20_000, resume=tmp_path / "run.npz", run=bqvi.Run(verify=6)
        )
        assert again.n_evaluations <= 20_000


def test_noisy_values_are_not_verified(model, tmp_path):
    run = bqvi.evidence_bounds.steps(model, model.proposal, 3000, noise_sd=0.1)
    next(run)
    run.save(tmp_path / "run.npz")
    with pytest.raises(ValueError, match="whose noise, if any, is known"):
        bqvi.evidence_bounds(
            model, model.proposal, 3000, noise_sd=0.1, resume=tmp_path / "run.npz", run=bqvi.Run(verify=2)
        )


def test_temperatures_rise_where_the_proposal_is_poor():
    """At any temperature that numbers can tell from the present one, one of two particles has no weight."""
    temperature, ess = next_temperature(np.array([[0.0, -1e30]]), 0.5, 0.9)
    assert 0.5 < temperature < 0.5 + 1e-9
    assert ess == pytest.approx(0.5)


def test_systematic_resampling_in_expectation():
    rng, weights = np.random.default_rng(0), np.array([0.45, 0.05, 0.3, 0.2])
    free = np.array([np.bincount(parents_of(weights, rng), minlength=4) for _ in range(2000)])
    error = np.sqrt(free.var(axis=0) / len(free)) + 1e-12
    assert (np.abs(free.mean(axis=0) - 4 * weights) < ALARM * error).all()
    kept = np.array([np.bincount(parents_of(weights, rng, retained=True), minlength=4) for _ in range(2000)])
    biased = (0.2 * 1 + 0.8 * 4) / 1.8  # 1 or 2 offspring with probabilities .2 and .8, by their number
    assert abs(kept[:, 0].mean() - biased) < ALARM * kept[:, 0].std() / np.sqrt(len(kept))
    assert (kept[:, 0] >= 1).all()


def test_what_is_shown(model):
    found = bqvi.evidence_bounds(model, model.proposal, 3000, posterior=model.draws(20, 0))
    assert "<= ln Z <=" in repr(found)
    assert "temperatures" in found._repr_html_()
    axes = found.plot_trace(truth=model.log_evidence)
    assert len(axes.lines) == 5
    assert axes.get_title().startswith(f"smc: {found.lower:.4f}")
    lower = bqvi.evidence_bounds(model, model.proposal, 3000)
    assert lower.upper is None
    assert lower.interval[1] == np.inf
    assert "lower bound only" in str(lower)


def test_results_that_are_not_credible_have_a_reason(model):
    wrong = model.draws(20, 0) + 3.0
    far = Gaussian(np.full(2, 40.0), np.eye(2) * 0.01)
    crossed = bqvi.evidence_bounds(
        lambda theta: model(theta) - 5.0 * (theta[:, 0] > 2.0),
        Gaussian(model.mean, model.covariance),
        20_000,
        "importance",
        posterior=wrong,
    )
    assert crossed.upper < np.inf
    few = bqvi.evidence_bounds(model, far, 3000, "importance")
    assert not few.converged
    assert "few particles" in " ".join(few.reasons)
    approximate = bqvi.evidence_bounds(
        model, model.proposal, 3000, posterior=bqvi.Posterior.of(Gaussian(model.mean, model.covariance))
    )
    assert "approximate" in " ".join(approximate.checks)


def test_points_are_of_the_kind_of_the_proposal(model):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    mean = torch.zeros(2, dtype=torch.float64, device="cuda")

    def log_joint(theta):
        assert theta.device.type == "cuda"
        return -0.5 * (theta**2).sum(-1)

    found = bqvi.evidence_bounds(
        log_joint, Gaussian(mean, torch.ones_like(mean) * 2), 4000, gradient="autodiff"
    )
    assert found.log_evidence == pytest.approx(np.log(2 * np.pi), abs=0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"log_joint": 3}, "log_joint is 3"),
        ({"proposal": "prior"}, "proposal is"),
        ({"proposal": [Gaussian(np.zeros(2), np.eye(2)), Gaussian(np.zeros(1), np.eye(1))]}, "have as many"),
        ({"method": "annealed"}, "method"),
        ({"budget": 20}, "budget is 20"),
        ({"posterior": np.zeros((4, 3))}, "posterior has shape"),
        ({"posterior": np.full((4, 2), np.nan)}, "posterior has NaN"),
        ({"replicates": 1}, "replicates"),
        ({"particles": 0}, "particles"),
        ({"noise_sd": -1.0}, "noise_sd"),
        ({"noise_sd": "unknown"}, "noise_sd is 'unknown'"),
        ({"run": bqvi.Run(verify=3)}, "verify is 3"),
        ({"run": bqvi.Run(max_seconds=3)}, "run.max_seconds is 3, which evidence_bounds cannot use"),
        ({"method": "importance", "temperatures": 4}, "importance"),
    ],
)
def test_bad_input_is_named_before_any_evaluation(model, change, message):
    arguments = {"log_joint": model, "proposal": model.proposal, "budget": 2000, **change}
    with pytest.raises((ValueError, TypeError), match=message):
        bqvi.evidence_bounds(**arguments)
    assert model.calls == 0


def test_what_the_log_joint_must_not_do(model):
    with pytest.raises(bqvi.RunError, match="leave the gradient out"):
        bqvi.evidence_bounds(lambda theta: (model(theta), 0.1), model.proposal, 2000, gradient=model.gradient)
    with pytest.raises(bqvi.RunError, match="-inf, or fails, at each"):
        bqvi.evidence_bounds(lambda theta: np.full(len(theta), -np.inf), model.proposal, 2000, particles=4)
    with pytest.raises(bqvi.RunError, match="posterior has the draw"):
        bqvi.evidence_bounds(
            lambda theta: np.where(theta[:, 0] < 9, model(theta), -np.inf),
            model.proposal,
            2000,
            "importance",
            posterior=np.full((2, 2), 10.0),
        )


@pytest.mark.parametrize("sds", [(0.1, 0.1), (1e-3, 1e-3), (1e-6, 1e-6), (1e-3, 1.0), (0.1, 1.0)])
def test_a_proposal_that_is_narrow_along_a_direction_is_noticed(model, sds):
    """The weights of its particles are even and their estimates agree, .4 to 23 nats below ln Z."""
    narrow = Gaussian(model.mean, np.diag(np.square(sds) * np.diag(model.covariance)))
    found = bqvi.evidence_bounds(model, narrow, budget=10_000, seed=0)
    assert not found.converged
    assert "the variance of the proposal along a direction" in found.reasons[0]
    assert found.lower < model.log_evidence - 0.3


@pytest.mark.parametrize("degrees", [2.0, np.inf])
def test_tails_heavier_than_those_of_the_proposal_are_noticed(degrees):
    """Student's t against its normal approximation: estimates agree among themselves, and lie low."""

    def log_joint(x):
        return stats.multivariate_t.logpdf(x, np.zeros(2), df=degrees)

    proposal = Gaussian(np.zeros(2), 1.7 * np.eye(2))
    for seed in range(3):
        found = bqvi.evidence_bounds(log_joint, proposal, budget=20_000, seed=seed)
        assert found.converged == np.isinf(degrees)
    assert np.isinf(degrees) or "tails" in found.reasons[0]


@pytest.mark.parametrize("wider", [1.2, 1.6, 2.5, 4.0])
def test_the_variance_along_a_direction_is_that_of_the_posterior(model, wider):
    """The posterior's covariance is known: the reason is there from twice the proposal's variance on."""
    axis = np.linalg.eigh(model.covariance)[1][:, :1]
    along = float(axis[:, 0] @ model.covariance @ axis[:, 0])
    proposal = Gaussian(model.mean, model.covariance - (1.0 - 1.0 / wider) * along * axis @ axis.T)
    found = bqvi.evidence_bounds(model, proposal, budget=40_000, seed=0)
    assert found.converged == (wider < 2.0)
    if not found.converged:
        stated = float(found.reasons[0].split("has ")[1].split(" times")[0])
        assert stated == pytest.approx(wider, rel=0.15)
