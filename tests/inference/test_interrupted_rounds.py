"""A round that is cut short: what was evaluated until then is paid for, and kept."""

import itertools

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import bqvi
from bqvi.families import GaussianMixture
from bqvi.gradients import BayesianQuadrature, ControlVariate, MixtureQuadrature, surrogates
from bqvi.models import LogJoint


def banana(theta):
    return -0.5 * theta[:, 0] ** 2 - (theta[:, 1] - theta[:, 0] ** 2) ** 2 / (2 * 0.7**2)


ROUNDS = {
    "bq": ({"method": "bq"}, None),
    "control variate": ({"method": ControlVariate(5)}, None),
    "mixture": (
        {"method": MixtureQuadrature(reach=0.01)},
        GaussianMixture(np.ones(1), np.zeros((1, 2)), np.eye(2)[None]),
    ),
}


class Stops:
    """A log joint that raises ``error`` at its ``at``-th call, once; remembers where it returned."""

    def __init__(self, error, at):
        self.error, self.at, self.calls, self.returned = error, at, 0, []

    def __call__(self, theta):
        self.calls += 1
        if self.calls == self.at:
            raise self.error
        self.returned.append(tuple(theta.detach().numpy()))
        return banana(theta[None])[0]


def known_to(fit):
    """The memory's evaluations, for q a mixture too."""
    return getattr(fit.state.memory, "known", fit.state.memory)


@pytest.mark.parametrize(
    ("name", "at", "error"),
    [
        *itertools.product(["bq", "control variate"], [2, 12, 17], [KeyboardInterrupt, SystemExit]),
        ("mixture", 2, SystemExit),
        ("mixture", 7, KeyboardInterrupt),
    ],
)
def test_an_interrupt_between_two_points_loses_neither_round(tmp_path, name, at, error):
    """Of "bq" the 12th call ends a round, the 17th begins one; the second is in the first for all."""
    log_joint = Stops(error(), at)
    model = LogJoint(log_joint, 2, vectorised=False)
    choices, start = ROUNDS[name]
    choices = {**choices, "elbo_samples": 2} | ({} if start is None else {"start_from": start})
    with pytest.raises(error) as caught:
        bqvi.fit(model, max_evaluations=30, seed=0, **choices)
    assert caught.type is (bqvi.FitInterrupted if error is KeyboardInterrupt else SystemExit)
    partial = caught.value.fit
    assert partial.stopped == "interrupted"
    paid = list(log_joint.returned)
    assert len(paid) == at - 1 == partial.state.evaluations == partial.state.samples
    assert_array_equal(known_to(partial).points, paid)
    values = [float(banana(torch.tensor(point)[None])) for point in paid]
    assert_allclose(known_to(partial).values, values, rtol=1e-12)
    partial.save(tmp_path / "partial.npz")
    runs = [
        bqvi.fit(model, max_evaluations=30, seed=9, resume=resume, **choices)
        for resume in (tmp_path / "partial.npz", partial)
    ]
    for fit in runs:
        points = known_to(fit).points
        assert_array_equal(points[: at - 1], paid)
        assert len(np.unique(points, axis=0)) == len(points) == fit.state.evaluations >= 30
        assert_array_equal(points, known_to(runs[0]).points)
    runs[0].save(tmp_path / "whole.npz")
    again = bqvi.fit(model, max_evaluations=36, seed=9, resume=tmp_path / "whole.npz", **choices)
    straight = bqvi.fit(model, max_evaluations=36, seed=9, resume=runs[0], **choices)
    assert_array_equal(known_to(again).points, known_to(straight).points)


def test_an_interrupt_while_points_of_a_batch_are_tried_again():
    """All ten at once, which raises for one of them; then four, each by itself."""
    calls = []

    def picky(theta):
        calls.append(len(theta))
        if len(calls) == 6:
            raise KeyboardInterrupt
        if len(theta) > 1:
            raise ValueError("x must not exceed 1")
        return banana(theta)

    with pytest.raises(bqvi.FitInterrupted) as caught:
        bqvi.fit(LogJoint(picky, 2), method=BayesianQuadrature(initial_nodes=10), steps=3)
    state = caught.value.fit.state
    assert len(state.memory) == 4
    assert state.evaluations == 10 + 4
    assert state.iteration == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("out of memory")])
def test_a_failure_after_a_round_keeps_its_evaluations(error, monkeypatch):
    """Of what is made of them: here of the hyperparameters' fit, at the third time."""
    fits = []

    def broken(self, *args, **kwargs):
        fits.append(args)
        if len(fits) == 3:
            raise error
        return fit_as_ever(self, *args, **kwargs)

    fit_as_ever = surrogates.OnGradients.fit
    monkeypatch.setattr(surrogates.OnGradients, "fit", broken)
    log_joint = Stops(None, 0)
    model = LogJoint(log_joint, 2, vectorised=False)
    with pytest.raises((bqvi.FitInterrupted, bqvi.FitError)) as caught:
        bqvi.fit(model, method=ControlVariate(3), steps=20, elbo_samples=2)
    assert len(log_joint.returned) == 12
    assert_array_equal(caught.value.fit.state.memory.points, log_joint.returned)
    assert caught.value.fit.state.evaluations == 12


def test_an_interrupt_does_not_keep_values_that_left_torch():
    """Their gradients are no zeros: of an interrupted round as of a whole one nothing is known."""

    def cut(theta):
        calls.append(theta)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return banana(theta[None])[0].detach()

    calls = []
    with pytest.raises(bqvi.FitInterrupted) as caught:
        bqvi.fit(LogJoint(cut, 2, vectorised=False), method="bq", steps=3)
    assert len(caught.value.fit.state.memory) == 0


def test_an_interrupt_while_a_moving_log_joint_is_valued_anew_adds_nothing():
    class Moving(LogJoint):
        def at(self, q):
            return LogJoint(counted, 2, vectorised=False)

    def counted(theta):
        calls.append(theta)
        if len(calls) == 7:  # four, then those again, and two more
            raise KeyboardInterrupt
        return banana(theta[None])[0]

    calls = []
    with pytest.raises(bqvi.FitInterrupted) as caught:
        bqvi.fit(Moving(counted, 2, vectorised=False), method="bq", steps=3)
    assert len(caught.value.fit.state.memory) == caught.value.fit.state.evaluations == 4
