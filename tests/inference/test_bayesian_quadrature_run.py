"""method="bq": exactness, memory, the trust region, faults, resuming."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import bqvi
from bqvi.calls import EvaluationError
from bqvi.families import DiagonalGaussian, Gaussian
from bqvi.gradients import BayesianQuadrature, surrogates
from bqvi.gradients.designs import AntitheticOrthogonal, Independent, Sobol
from bqvi.gradients.evaluations import evaluate
from bqvi.gradients.gradient import Batch
from bqvi.inference.state import LoopState
from bqvi.models import LogJoint
from experiments.gradients.importance_quadrature import ImportanceQuadrature
from gp.conditioning import Shown

D = 4
PRECISION = np.eye(D) + 0.4 * np.ones((D, D)) + np.diag([0.0, 1.0, 2.0, 5.0])
CENTRE = np.array([1.0, -2.0, 0.5, 3.0])
LOG_EVIDENCE = 0.5 * (D * np.log(2 * np.pi) - np.linalg.slogdet(PRECISION)[1])


def quadratic(theta):
    gap = theta - torch.tensor(CENTRE)
    return -0.5 * ((gap @ torch.tensor(PRECISION)) * gap).sum(1)


def banana(theta):
    return -0.5 * theta[:, 0] ** 2 - (theta[:, 1] - theta[:, 0] ** 2) ** 2 / (2 * 0.7**2)


def quartic(theta):
    return -0.5 * (theta**2).sum(1) - (theta**4).sum(1) + 0.3 * theta[:, 0] * theta[:, 1]


@pytest.fixture
def steps_alone(monkeypatch):
    """Runs without a search for a beginning, whose steps start at the q that is given."""
    monkeypatch.setattr(LoopState, "is_beginning", False)


@pytest.mark.parametrize(
    ("process", "nodes"), [("separable", 7), ("derivative", 6), ("joint", 6), ("values", 19)]
)
def test_one_shot_on_a_quadratic_is_exact_from_the_fewest_nodes_that_determine_it(process, nodes):
    """The gradient at q whitened, in closed form.

    Through D + 1 values of an unrelated y a straight line always goes: the separable process, for which they
    are D unrelated functions, cannot represent that y is one. Nor can values before (D + 1)(D + 2) / 2 of
    them.
    """
    model = LogJoint(quadratic, D)
    if process == "values":
        model = LogJoint(lambda theta: quadratic(torch.from_numpy(theta)).numpy(), D, gradient=None)
        process = "auto"
    q = Gaussian(np.array([0.5, -1.0, 0.0, 2.0]), 0.3 * np.eye(D) + 0.1)
    scale = np.linalg.cholesky(q.covariance)
    for seed in range(5):
        estimator = BayesianQuadrature(nodes, Independent(), memory=0, process=process)
        found = estimator(model, q, Batch(None, 0), np.random.default_rng(seed)).surrogate
        moments = found.moments(np.zeros(D), np.eye(D))
        assert_allclose(moments.mean, -scale.T @ PRECISION @ (q.mean - CENTRE), atol=1e-6)
        assert_allclose(moments.jacobian, np.eye(D) - scale.T @ PRECISION @ scale, atol=1e-6)


@pytest.mark.parametrize("gradient", ["autodiff", None])
def test_a_posterior_a_hundred_times_narrower_than_the_start(gradient):
    """The longest step inside the trust region is then a ten thousandth of the first that is tried."""

    def narrow(theta):
        return quadratic(100.0 * theta) if gradient else quadratic(100.0 * torch.from_numpy(theta)).numpy()

    fit = bqvi.fit(LogJoint(narrow, D, gradient=gradient), method="bq", steps=60, seed=0)
    assert_allclose(fit.q.mean, 0.01 * CENTRE, atol=1e-8)
    assert_allclose(fit.elbo, LOG_EVIDENCE - D * np.log(100.0), atol=1e-6)


def test_the_process_follows_the_cost_of_an_evaluation():
    """At 10 ms the joint process is affordable for 5 numbers a node up to (3e8)^(1/3) / 5 = 133 nodes."""
    model, q = LogJoint(quadratic, D), Gaussian(np.zeros(D), np.eye(D))
    kinds = []
    for seconds in (0.0, 1e-2, 1e-7):
        estimator = BayesianQuadrature(seconds=seconds)
        memory = estimator.start(model, q)
        found = estimator(model, q, Batch(None, 0), np.random.default_rng(0), memory)
        kinds.append(getattr(found.surrogate.given.kernel, "shown", None))
    assert kinds == [None, Shown(values=True, gradients=True), None]
    fit = bqvi.fit(model, method=BayesianQuadrature(seconds=2e-5), geometry=bqvi.TrustRegion(),
                   schedule=bqvi.Constant(1.0), steps=25, seed=0)  # fmt: skip
    assert_allclose(fit.q.mean, CENTRE, atol=1e-6)  # the kind of process changes during the run


def test_mean_field_on_a_quadratic():
    """The best diagonal q has the posterior's mean and 1 / diag(precision) as variances."""
    choices = {"method": "bq", "family": "mean-field", "steps": 40, "tolerance": None, "seed": 0}
    fit = bqvi.fit(LogJoint(quadratic, D), **choices)
    assert isinstance(fit.q, DiagonalGaussian)
    assert_allclose(fit.q.mean, CENTRE, atol=1e-6)
    assert_allclose(fit.q.variance, 1 / np.diagonal(PRECISION), rtol=1e-6)


@pytest.mark.usefixtures("steps_alone")
@pytest.mark.parametrize("process", ["separable", "derivative", "joint"])
def test_memory_off_is_the_one_shot_estimator(process):
    model, q, batch = LogJoint(banana, 2), Gaussian(np.array([1.5, -1.0]), np.eye(2)), Batch(None, 0)
    forgetful = BayesianQuadrature(nodes=7, memory=0, process=process, design=AntitheticOrthogonal())
    once = forgetful(model, q, batch, np.random.default_rng(5))
    keeping = BayesianQuadrature(nodes=7, memory=50, process=process, design=AntitheticOrthogonal())
    first = keeping(model, q, batch, np.random.default_rng(5), keeping.start(model, q))
    assert once.memory is None
    for a, b in zip(once.values, first.values, strict=True):
        assert_array_equal(a, b)
    steps = [
        bqvi.fit(model, method=e, geometry=bqvi.TrustRegion(), schedule=bqvi.Constant(1.0), steps=1,
                 start_from=q, seed=5)
        for e in (forgetful, keeping)
    ]  # fmt: skip
    assert_array_equal(steps[0].q.mean, steps[1].q.mean)


def path(geometry, start, steps=20):
    """Every q of a run on the banana."""
    kept = []
    bqvi.fit(LogJoint(banana, 2), method="bq", geometry=geometry, steps=steps, seed=1,
             record=bqvi.Record(1, metrics={"watch": lambda q: kept.append(q) or 0.0}, elbo_samples=2),
             start_from=Gaussian(np.array(start), np.eye(2)))  # fmt: skip
    return list(itertools.pairwise(kept))


@pytest.mark.usefixtures("steps_alone")
def test_the_trust_region_is_never_left():
    divergences = [float(new.kl(old)) for old, new in path(bqvi.TrustRegion(), [6.0, -20.0])]
    assert len(divergences) >= 19
    assert max(divergences) <= 1.0 + 1e-9  # rounding of the natural parameters
    assert max(divergences) > 0.9  # the bound of the region was reached


@pytest.mark.usefixtures("steps_alone")
def test_a_schedule_shortens_the_step_inside_the_ball():
    q = Gaussian(np.zeros(2), np.eye(2))
    fit = bqvi.fit(LogJoint(banana, 2), method="bq", schedule=bqvi.Constant(0.5), steps=1, seed=0,
                   start_from=Gaussian(np.array([6.0, -20.0]), np.eye(2)))  # fmt: skip
    assert float(fit.q.kl(Gaussian(np.array([6.0, -20.0]), np.eye(2)))) < 1.0
    with pytest.raises(ValueError, match="schedule"):
        bqvi.fit(LogJoint(banana, 2), method="bq", schedule=bqvi.Constant(1.5), start_from=q)


def test_resuming_makes_the_process_that_was_kept(tmp_path):
    """The process has been kept for several rounds when the run is saved; the run then fills its memory
    twice.
    """
    model, memory = LogJoint(quartic, 3), 40
    choices = {"method": BayesianQuadrature(memory=memory), "geometry": bqvi.TrustRegion(),
               "schedule": bqvi.Constant(1.0), "tolerance": None, "seed": 1}  # fmt: skip
    whole = bqvi.fit(model, steps=45, **choices)
    early = (bqvi.fit(model, steps=steps, **choices) for steps in range(8, 30))
    half = next(fit for fit in early if len(fit.state.memory.base.joined) >= 2)
    assert half.state.memory.base.at > 0
    assert len(whole.state.memory) > 2 * memory
    half.save(tmp_path / "half.npz")
    again = bqvi.fit(model, steps=45, resume=tmp_path / "half.npz", **choices)
    assert_array_equal(again.state.memory.points, whole.state.memory.points)
    assert_array_equal(again.q.covariance, whole.q.covariance)
    assert len(again.state.memory.process.given.points) <= memory + 2


def test_a_process_that_is_kept_gives_the_gradient_of_one_made_anew():
    """Where q has hardly changed, the two estimates differ by much less than their error bars."""
    model, q = LogJoint(quartic, 3), Gaussian(np.array([0.1, 0.0, 0.2]), 0.3 * np.eye(3))
    estimator = BayesianQuadrature(design=AntitheticOrthogonal())
    found, rng = None, np.random.default_rng(0)
    memory = estimator.start(model, q)
    for _ in range(30):
        found = estimator(model, q, Batch(None, 0), rng, memory)
        memory = found.memory
    near = Gaussian(q.mean + 0.02, 0.31 * np.eye(3))
    kept = estimator(model, near, Batch(None, 0), np.random.default_rng(1), memory)
    assert kept.memory.base.at == memory.base.at > 0
    forgotten = replace(memory, process=None, base=replace(memory.base, at=0))
    anew = estimator(model, near, Batch(None, 0), np.random.default_rng(1), forgotten)
    assert_array_equal(anew.memory.base.joined, [2])
    sd = anew.surrogate.standard_deviations()
    assert (np.abs(kept.surrogate.at_q.mean - anew.surrogate.at_q.mean) < 0.1 * sd.mean + 1e-6).all()
    assert (
        np.abs(kept.surrogate.at_q.jacobian - anew.surrogate.at_q.jacobian) < 0.1 * sd.jacobian + 1e-6
    ).all()


class Faulty:
    """A log joint that fails at chosen calls, and records its returned values."""

    def __init__(self, kind, at=(1, 4, 5, 9, 11)):
        self.kind, self.at, self.calls, self.good = kind, at, 0, []

    def __call__(self, theta):
        value = banana(theta[None])[0]
        call, self.calls = self.calls, self.calls + 1
        if call in self.at:
            if self.kind == "raise":
                raise RuntimeError("solver diverged")
            return (
                (1.0 + value.abs())  # at the mean of the start the value is zero
                * {"nan": torch.nan, "inf": torch.inf, "-inf": -torch.inf, "1e300": 1e300}[self.kind]
            )
        self.good.append(theta.detach().numpy().copy())
        return value


@pytest.mark.parametrize("kind", ["raise", "nan", "inf", "-inf", "1e300"])
def test_faults_lose_no_good_evaluation(kind):
    model, errors = Faulty(kind), "infeasible" if kind in ("inf", "1e300") else None
    run = bqvi.Run(errors=errors)
    log_joint = LogJoint(model, 2, vectorised=False)
    fit = bqvi.fit(
        log_joint, method="bq", budget=40 + 256, record=bqvi.Record(elbo_samples=256), seed=0, run=run
    )
    spent = fit.state.step_evaluations
    assert fit.state.memory.failures.n_failed == 5
    assert len(fit.state.memory) == spent - 5
    recorded = 256  # the monitor's draws, of the last q
    assert model.calls == spent + recorded
    kept = {tuple(point) for point in fit.state.memory.points}
    assert kept <= {tuple(point) for point in model.good}
    assert np.isfinite(fit.q.mean).all()


class SinglePrecision(LogJoint):
    dtype = torch.float32


def test_single_precision():
    model = SinglePrecision(lambda theta: quadratic(theta.double()).to(theta.dtype), D)
    fit = bqvi.fit(model, method="bq", steps=25, seed=0)
    assert_allclose(fit.q.mean, CENTRE, atol=1e-4)
    assert_allclose(fit.elbo, LOG_EVIDENCE, atol=1e-4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300, -np.inf])
def test_a_record_leaves_out_overflows_and_counts_zero_densities(bad):
    """At q = p each draw of ln p - ln q is the evidence; beyond x = 2, one in 44, it is bad."""

    def log_joint(theta):
        return torch.where(theta[:, 0] > 2.0, bad, -0.5 * theta.square().sum(1))

    fit = bqvi.fit(LogJoint(log_joint, 2), method="bq", steps=0, record=bqvi.Record(elbo_samples=256))
    assert_allclose(fit.elbo, -np.inf if bad == -np.inf else np.log(2 * np.pi), rtol=1e-12)


def test_a_log_joint_that_keeps_failing_ends_the_run_with_its_good_evaluations():
    model = Faulty("raise", at=range(20, 10**6))
    with pytest.raises(bqvi.RunError, match=r"5 rounds in a row.*solver diverged") as caught:
        bqvi.fit(LogJoint(model, 2, vectorised=False), method="bq", steps=50, seed=0)
    assert len(caught.value.state.memory) == 20


@pytest.mark.parametrize("vectorised", [True, False])
def test_a_log_joint_outside_of_torch_does_not_count_as_one_with_gradient_zero(vectorised):
    def cut(theta):
        values = quadratic(torch.atleast_2d(theta)).detach()
        return values if vectorised else values[0]

    with pytest.raises(bqvi.RunError, match=r"no gradient in theta.*gradient=None") as caught:
        bqvi.fit(LogJoint(cut, D, vectorised=vectorised), method="bq", steps=50, seed=0)
    assert caught.value.state.iteration == 0


def test_each_fault_has_its_description():
    def faulty(theta):
        value = banana(theta[None])[0]
        if theta[0] > 3.0:
            raise RuntimeError("solver diverged")
        return value * torch.inf if theta[0] > 2.0 else value

    points = np.array([[2.5, 0.0], [0.0, 0.0], [3.5, 0.0], [1.0, 0.0]])
    model = LogJoint(faulty, 2, vectorised=False)
    found = evaluate(model, Gaussian(np.zeros(2), np.eye(2)), Batch(None, 0), points)
    assert found.reasons == ("returned -inf", "", "raised RuntimeError: solver diverged", "")
    assert found.good.tolist() == [False, True, False, True]


def test_bad_choices_are_refused_before_any_work():
    model = LogJoint(banana, 2)
    with pytest.raises(ValueError, match="TrustRegion"):
        bqvi.fit(model, method="pathwise", geometry=bqvi.TrustRegion())
    with pytest.raises(ValueError, match="minibatch"):
        bqvi.fit(model, method="bq", minibatch=3)
    with pytest.raises(ValueError, match="z summed out"):
        bqvi.fit(bqvi.models.GaussianMixture(2, np.eye(1)), np.arange(4.0)[:, None], method="bq")
    blind = ImportanceQuadrature()
    with pytest.raises(ValueError, match=r"TrustRegion.*ImportanceQuadrature has none"):
        bqvi.fit(model, method=blind, geometry=bqvi.TrustRegion(), schedule=bqvi.Constant(1.0))
    with pytest.raises(ValueError, match="samples is 0"):
        bqvi.fit(model, method="bq", samples=0)
    with pytest.raises(TypeError, match="quadrature is 'bq'"):
        ImportanceQuadrature(quadrature="bq")
    with pytest.raises(ValueError, match="nodes"):
        BayesianQuadrature(nodes=0)
    with pytest.raises(TypeError, match="design"):
        BayesianQuadrature(design="sobol")


@pytest.mark.parametrize("level", [0.0, -1e6])
def test_values_alone_find_a_quadratic(level):
    """(D + 1)(D + 2) / 2 = 15 values determine it; the jitter leaves 1e-6 of the kernel's scale.

    Log joints of many data are -1e6 everywhere: neither q nor its error bars may depend on that.
    """

    def value(theta):
        gap = theta - CENTRE
        return level - 0.5 * ((gap @ PRECISION) * gap).sum(1)

    fit = bqvi.fit(LogJoint(value, D, gradient=None), method="bq", steps=40, seed=0)
    assert fit.state.memory.gradients.shape[1] == 0
    assert_allclose(fit.q.mean, CENTRE, atol=1e-5)
    assert_allclose(fit.elbo - level, LOG_EVIDENCE, atol=1e-6)


def test_values_alone_cannot_be_differentiated():
    model = LogJoint(lambda theta: -0.5 * (theta**2).sum(1), 2, gradient=None)
    with pytest.raises(ValueError, match="values only"):
        bqvi.fit(model, method="pathwise", steps=1)


def test_a_log_joint_that_is_never_good_ends_the_run_with_its_reason():
    """The limit is a number of rounds, which are counted although no evaluation is kept."""
    calls = []

    def never(theta):
        calls.append(len(theta))
        return theta.sum(1) * float("nan")

    with pytest.raises(bqvi.RunError, match=r"no finite value .* 5 rounds in a row"):
        bqvi.fit(LogJoint(never, 2), method="bq")
    assert len(calls) <= 2 * 5  # a batch that raises is tried point by point
    with pytest.raises(EvaluationError, match=r"at any of 3 nodes.*memory=0"):
        BayesianQuadrature(nodes=3, memory=0)(
            LogJoint(never, 2), Gaussian(np.zeros(2), np.eye(2)), Batch(None, 0), np.random.default_rng(0)
        )


class Crooked:
    def nodes(self, n, dimension, rng, process=None):
        return np.zeros((n, dimension + 1))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"design": Sobol}, TypeError, "design is .*Sobol.*such as Sobol"),
        ({"process": surrogates.OnFunction}, ValueError, "process is .*OnFunction"),
        ({"design": Crooked()}, ValueError, r"gave nodes of shape \(10, 3\); it must be \(10, 2\)"),
    ],
)
def test_unfit_settings_are_named(settings, error, message):
    def run():
        estimator = BayesianQuadrature(nodes=10, **settings)
        q = Gaussian(np.zeros(2), np.eye(2))
        return estimator(LogJoint(banana, 2), q, Batch(None, 0), np.random.default_rng(0))

    with pytest.raises(error, match=message):
        run()


@pytest.mark.parametrize("process", ["separable", "joint", surrogates.OnGradients()])
def test_a_process_of_gradients_needs_them(process):
    def values(theta):
        return -0.5 * (theta**2).sum(1)

    with pytest.raises(ValueError, match=r"process is .*values only"):
        BayesianQuadrature(process=process).start(
            LogJoint(values, 2, gradient=None), Gaussian(np.zeros(2), np.eye(2))
        )


def test_a_fit_has_a_posterior_and_the_log_evidence_of_its_evaluations():
    """For a Gaussian log joint, to four standard deviations of the draws; no evaluation is made for the
    evidence.
    """
    calls = []

    def counted(theta):
        calls.append(len(theta))
        return quadratic(theta)

    found = bqvi.fit(LogJoint(counted, D), method="bq", budget=40, seed=0)
    before = sum(calls)
    assert found.log_evidence == pytest.approx(LOG_EVIDENCE, abs=4 / np.sqrt(1024))
    assert found.log_evidence_sd < 0.1
    assert found.pareto_k < 0.7
    assert_allclose(found.posterior.mean, CENTRE, atol=1e-3)
    assert_allclose(found.posterior.covariance, np.linalg.inv(PRECISION), atol=1e-3)
    assert sum(calls) == before
    other = bqvi.fit(LogJoint(quadratic, D), method="pathwise", steps=3, seed=0)
    assert np.isnan(other.log_evidence)
    assert other.log_evidence_sd == np.inf
