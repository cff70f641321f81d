"""A run that was stopped, saved, interrupted or ended by an error is resumed to the numbers of one that was
not."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from marginal_mixture import Marginal

import bqvi
from acquisition.minibatch import (
    Balanced,
    Features,
    GPControlVariate,
    QuadratureWeighted,
    Reshuffled,
    Saga,
    SequentialBQ,
    Svrg,
    Uniform,
    UpperConfidence,
)
from bqvi.families import Gaussian
from bqvi.gradients import Memoised, Pathwise
from bqvi.gradients.designs import Sobol
from bqvi.models import (
    GaussianMixture,
    LatentDirichletAllocation,
    LogisticRegression,
    LogJoint,
    MultinomialMixture,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2)) * 2.0
COUNTS = RNG.poisson(1.5, (30, 4))
LABELS = (RNG.random(30) < 0.5).astype(float)
MIXTURE = GaussianMixture(3, np.eye(2))
FEATURES = Features.of(X, rank=10)
START = Gaussian(np.zeros(2), np.eye(2))
"""A start that is given, from which runs have no search."""

CASES = {
    "cavi": (MIXTURE, X, {"method": "cavi"}),
    "cavi to tolerance": (MIXTURE, X, {"method": "cavi", "tolerance": 0.05}),
    "ngd": (MIXTURE, X, {"method": "ngd"}),
    "gd": (MIXTURE, X, {"method": "gd"}),
    "sngd": (MIXTURE, X, {"method": "sngd", "minibatch": 4}),
    "sngd, reshuffled": (MIXTURE, X, {"method": "sngd", "minibatch": Reshuffled(7)}),
    "sgd": (MIXTURE, X, {"method": "sgd", "minibatch": Uniform(5, replacement=True)}),
    "counts": (MultinomialMixture(3, 4), COUNTS, {"method": "sngd", "minibatch": 4}),
    "point": (
        GaussianMixture(3, np.eye(2), concentration=1.5),
        X,
        {"method": "sngd", "minibatch": 4, "family": "point"},
    ),
    "topics": (
        LatentDirichletAllocation(3, 4, learn_concentration="symmetric"),
        COUNTS,
        {"method": "cavi", "tolerance": 1e-300},
    ),
    "score": (MIXTURE, X, {"method": "score"}),
    "riemannian": (
        MIXTURE,
        X,
        {"method": "pathwise", "geometry": bqvi.Riemannian(), "schedule": bqvi.Constant(0.05)},
    ),
    "marginal": (Marginal(MIXTURE), X, {"method": "iwae", "samples": 2, "minibatch": Reshuffled(4)}),
    "logistic": (
        LogisticRegression(2),
        (X, LABELS),
        {"method": "dreg", "samples": 3, "minibatch": 5, "family": "mean-field"},
    ),
    "log joint": (
        LogJoint(lambda theta: -(theta**4).sum(-1), 2),
        None,
        {"method": "pathwise", "elbo_samples": 32},
    ),
    "sobol": (
        LogJoint(lambda theta: -(theta**4).sum(-1), 2),
        None,
        {"method": Pathwise(4, noise=Sobol()), "elbo_samples": 32},
    ),
}
CASES |= {
    name: (MIXTURE, X, {"method": "sngd", "minibatch": strategy})
    for name, strategy in {
        "balanced": Balanced(4, FEATURES),
        "quadrature": QuadratureWeighted(4, FEATURES, noise=0.01),
        "sequential": SequentialBQ(4, FEATURES),
        "confidence": UpperConfidence(4, FEATURES),
        "saga": Saga(Uniform(4)),
        "svrg": Svrg(Reshuffled(4)),
        "control variate": GPControlVariate(Balanced(4, FEATURES), FEATURES),
    }.items()
}
CASES |= {
    f"memoised after {passes} stochastic passes": (
        MIXTURE,
        X,
        {"method": Memoised(8, stochastic_passes=passes)},
    )
    for passes in (0, 1)
}
SAME = ("iteration", "step_evaluations", "samples", "elbo", "elbo_sd", "bound", "size")


def run(name, record=None, metrics=None, **changes):
    model, data, choices = CASES[name]
    metrics = metrics or {"size": lambda q: float(sum(np.abs(np.asarray(e)).sum() for e in q.natural))}
    choices = {"steps": 12, "seed": 3, **choices, **changes}
    asked = bqvi.Record(record, metrics=metrics, elbo_samples=choices.pop("elbo_samples", None))
    return bqvi.fit(model, data, record=asked, **choices)


def assert_identical(found, expected):
    for a, b in zip(found.q.natural, expected.q.natural, strict=True):
        np.testing.assert_array_equal(a, b)
    for column in SAME:
        np.testing.assert_array_equal(found.trace[column], expected.trace[column], err_msg=column)
    assert found.stopped == expected.stopped
    assert found.elbo == expected.elbo
    assert found.state.rng.bit_generator.state == expected.state.rng.bit_generator.state


@settings(deadline=None, derandomize=True, max_examples=30)
@given(
    name=st.sampled_from(sorted(CASES)),
    stops=st.lists(st.integers(0, 12), min_size=1, max_size=3),
    record=st.sampled_from([1, 2, 5, [3, 4, 12], [7]]),
    saved=st.booleans(),
)
def test_any_number_of_stops_changes_nothing(tmp_path_factory, name, stops, record, saved):
    expected = run(name, record=record)
    path = tmp_path_factory.mktemp("fit") / "state.npz"
    found = None
    for stop in [*sorted(stops), 12]:
        resume = found
        if saved and found is not None:
            found.save(path)
            resume = path
        found = run(name, record=record, steps=stop, resume=resume)
    assert_identical(found, expected)


@pytest.mark.parametrize("name", sorted(CASES))
def test_every_method_through_a_file(tmp_path, name):
    expected = run(name)
    part = run(name, steps=5)
    part.save(tmp_path / "state.npz")
    found = run(name, resume=str(tmp_path / "state.npz"))
    assert_identical(found, expected)
    assert found.state.setup_seconds == part.state.setup_seconds
    assert found.state.minibatch_seconds >= part.state.minibatch_seconds
    assert not list(tmp_path.glob("*.part"))


def test_a_converged_run_is_resumed_as_one_with_a_smaller_tolerance():
    loose = run("sngd", tolerance=1e3, steps=40, record=1)
    assert loose.stopped == "tolerance"
    assert loose.converged
    assert ">tolerance<" in loose._repr_html_()
    assert_identical(
        run("sngd", tolerance=1e-9, steps=40, record=1, resume=loose),
        run("sngd", tolerance=1e-9, steps=40, record=1),
    )


class Trip:
    """Raises ``error`` at the ``at``-th call, once."""

    def __init__(self, error, at):
        self.error, self.at, self.calls = error, at, 0

    def __call__(self):
        self.calls += 1
        if self.calls == self.at:
            raise self.error


@pytest.mark.parametrize("name", ["cavi", "sngd", "sngd, reshuffled", "score", "log joint"])
@pytest.mark.parametrize("at", [1, 2, 8, 13])
def test_an_interrupt_in_a_metric_loses_nothing(name, at):
    expected = run(name, record=1, metrics={"size": lambda q: 0.0})
    trip = Trip(KeyboardInterrupt(), at)
    with pytest.raises(bqvi.RunInterrupted) as caught:
        run(name, record=1, metrics={"size": lambda q: trip() or 0.0})
    partial = caught.value.result()
    assert partial.stopped == "interrupted"
    assert partial.state.iteration == at - 1
    assert len(partial.trace) == at - 1
    assert f"iteration {at - 1}" in str(caught.value)
    assert_identical(run(name, record=1, metrics={"size": lambda q: 0.0}, resume=partial), expected)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("method", ["score", "pathwise", "iwae", "dreg"])
def test_a_log_joint_that_is_not_finite_stops_the_run_with_what_it_has(bad, method):
    calls = []

    def log_joint(theta):
        calls.append(len(theta))
        value = -((theta - 1.0) ** 2).sum(-1)
        return value * bad if len(calls) >= 6 else value

    message = (
        rf"iteration 4: EvaluationError: the log joint is -?{abs(bad)} at x0 = .*, x1 = .*finite.*mean over"
    )
    choices = {"steps": 9, "record": bqvi.Record(100, elbo_samples=32), "start_from": START}
    with pytest.raises(bqvi.RunError, match=message) as caught:
        bqvi.fit(LogJoint(log_joint, 2), method=method, **choices)
    partial = caught.value.result()
    assert partial.stopped == "failed"
    assert partial.state.iteration == 4
    assert np.isfinite(partial.q.mean).all()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (lambda theta: torch.zeros(()), r"the log joint returned shape \(\) for \d+ points"),
        (
            lambda theta: theta,
            r"returned shape \(10, 2\) for 10 points, .*; it must return real numbers \(10,\)",
        ),
        (lambda theta: np.zeros(len(theta)), "the log joint does not return a torch tensor at one of"),
        (lambda theta: 1.0, r"the log joint returned shape \(\) for 10 points"),
    ],
)
def test_a_log_joint_of_the_wrong_shape_or_kind_is_reported(values, message):
    with pytest.raises(bqvi.RunError, match=message) as caught:
        bqvi.fit(LogJoint(values, 2), method="iwae", steps=3, start_from=START)
    assert caught.value.state.iteration == 0


def test_several_starts_that_are_interrupted_keep_those_that_ended():
    whole = bqvi.fit(MIXTURE, X, steps=5, starts=3, tolerance=1e-12, seed=4)
    trip = Trip(KeyboardInterrupt(), 14)  # six records a start
    with pytest.raises(bqvi.RunInterrupted) as caught:
        bqvi.fit(
            MIXTURE,
            X,
            steps=5,
            starts=3,
            tolerance=1e-12,
            seed=4,
            record=bqvi.Record(metrics={"m": lambda q: trip() or 0.0}),
        )
    assert len(caught.value.result().start_elbos) == 3
    assert caught.value.result().start_elbos[:2] == whole.start_elbos[:2]
    assert caught.value.result().elbo >= max(whole.start_elbos[:2])


def test_resuming_something_else_is_refused(tmp_path):
    half = run("sngd", steps=5)
    for changes, name in (
        ({"schedule": bqvi.RobbinsMonro(0.9)}, "schedule"),
        ({"minibatch": 5}, "minibatch"),
        ({"method": "sgd"}, "geometry"),
    ):
        with pytest.raises(ValueError, match=f"the run to resume had {name}"):
            run("sngd", resume=half, **changes)
    with pytest.raises(ValueError, match="the run to resume had rows 30, this call has 29"):
        bqvi.fit(MIXTURE, X[1:], "sngd", minibatch=4, steps=9, resume=half)
    half.save(tmp_path / "s.npz")
    other = GaussianMixture(4, np.eye(2))
    with pytest.raises(ValueError, match="the run to resume had prior"):
        bqvi.fit(other, X, "sngd", minibatch=4, steps=9, resume=tmp_path / "s.npz")
    with pytest.raises(ValueError, match="the run to resume had prior"):
        bqvi.fit(other, X, "sngd", minibatch=4, steps=9, resume=half)
    with pytest.raises(TypeError, match=r"resume is 3; it must be a result of bqvi\.fit"):
        run("sngd", resume=3)


def test_a_start_that_fails_leaves_the_others(monkeypatch):
    broken = {"calls": 0}

    def fails_once(q):
        broken["calls"] += 1
        if broken["calls"] == 1:
            raise RuntimeError("the first start's first record")
        return 0.0

    found = bqvi.fit(MIXTURE, X, steps=5, starts=3, seed=4, record=bqvi.Record(metrics={"m": fails_once}))
    assert len(found.start_elbos) == 3
    assert np.isnan(found.start_elbos[0])
    assert found.elbo == max(found.start_elbos[1:])


def test_an_error_when_every_start_fails():
    with pytest.raises(
        bqvi.RunError, match="at iteration 0: RuntimeError: every start failed; the last: division"
    ):
        bqvi.fit(MIXTURE, X, steps=5, starts=2, seed=4, record=bqvi.Record(metrics={"m": lambda q: 1 / 0}))


def test_a_singular_matrix_is_an_error_with_advice():
    def log_joint(theta):
        gram = torch.stack([theta[:, 0], theta[:, 0]], -1)[:, :, None] * torch.ones(1, 1, 2)
        return torch.linalg.inv(gram).sum((-2, -1))

    with pytest.raises(bqvi.RunError, match=r"LinAlgError.*lower the schedule's scale") as caught:
        bqvi.fit(bqvi.models.LogJoint(log_joint, 1), method="pathwise", steps=3, seed=0)
    assert caught.value.result().stopped == "failed"


def test_an_unfinished_run_has_the_elbo_of_its_q():
    """For a Gaussian posterior in closed form; the run records at its end only."""
    model = LogJoint(lambda t: -0.5 * float(t @ t), 2, gradient=None, vectorised=False)
    run = bqvi.fit.steps(model, method="bq", budget=40, tolerance=None, seed=0)
    for state in run:
        if state.iteration == 3:
            break
    found = run.result()
    assert found.stopped == "unfinished"
    assert len(found.trace) == 0
    q = found.q
    volume = 0.5 * np.linalg.slogdet(2.0 * np.pi * np.e * q.covariance)[1]
    exact = volume - 0.5 * float(q.mean @ q.mean + np.trace(q.covariance))
    assert found.elbo == pytest.approx(exact, abs=1e-3)
