"""A round that is cut short: its evaluations count and are kept."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import bqvi
from bqvi.gradients import BayesianQuadrature, surrogates
from bqvi.inference.state import LoopState
from bqvi.models import LogJoint


def banana(theta):
    return -0.5 * theta[:, 0] ** 2 - (theta[:, 1] - theta[:, 0] ** 2) ** 2 / (2 * 0.7**2)


class Stops:
    """A log joint that raises ``error`` at its ``at``-th call, once; records where it returned."""

    def __init__(self, error, at):
        self.error, self.at, self.calls, self.returned = error, at, 0, []

    def __call__(self, theta):
        self.calls += 1
        if self.calls == self.at:
            raise self.error
        self.returned.append(tuple(theta.detach().numpy()))
        return banana(theta[None])[0]


def known_to(state):
    """Points and values of the memory, then those of the step that was cut short."""
    memory = state.memory
    if state.unfinished is None:
        return memory.points, memory.values
    left = state.unfinished
    return np.concatenate([memory.points, left.points]), np.concatenate([memory.values, left.values])


def test_an_interrupt_while_points_of_a_batch_are_tried_again():
    """All ten points at once, which raises for one of them; then four of them, each by itself."""
    calls = []

    def picky(theta):
        calls.append(len(theta))
        if len(calls) == 6:
            raise KeyboardInterrupt
        if len(theta) > 1:
            raise ValueError("x must not exceed 1")
        return banana(theta)

    with pytest.raises(bqvi.RunInterrupted) as caught:
        bqvi.fit(LogJoint(picky, 2), method=BayesianQuadrature(initial_nodes=10), steps=3)
    state = caught.value.state
    assert len(state.unfinished) == 4
    assert state.n_evaluations == 10 + 4
    assert state.iteration == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("out of memory")])
def test_a_failure_after_a_round_keeps_its_evaluations(error, monkeypatch):
    """The failure is in the computation that follows: here the third fit of hyperparameters."""
    fits = []

    def broken(self, *args, **kwargs):
        fits.append(args)
        if len(fits) == 3:
            raise error
        return fit_as_ever(self, *args, **kwargs)

    fit_as_ever = surrogates.OnGradients.fit
    monkeypatch.setattr(surrogates.OnGradients, "fit", broken)
    monkeypatch.setattr(LoopState, "is_beginning", False)  # rounds alone
    log_joint = Stops(None, 0)
    model = LogJoint(log_joint, 2, vectorised=False)
    method = BayesianQuadrature(3, initial_nodes=3, process="separable")
    with pytest.raises((bqvi.RunInterrupted, bqvi.RunError)) as caught:
        bqvi.fit(model, method=method, steps=20, record=bqvi.Record(elbo_samples=2))
    assert len(log_joint.returned) == 9
    assert_array_equal(known_to(caught.value.state)[0], log_joint.returned)
    assert caught.value.n_evaluations == 9
    found = bqvi.fit(model, method=method, steps=20, record=bqvi.Record(elbo_samples=2), resume=caught.value)
    assert len(np.unique(log_joint.returned, axis=0)) == len(log_joint.returned) == found.n_evaluations


def test_an_interrupt_does_not_keep_values_that_left_torch():
    """Their gradients are not zero but unknown, in an interrupted round as in a whole one."""

    def cut(theta):
        calls.append(theta)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return banana(theta[None])[0].detach()

    calls = []
    with pytest.raises(bqvi.RunInterrupted) as caught:
        bqvi.fit(LogJoint(cut, 2, vectorised=False), method="bq", steps=3)
    assert not caught.value.state.unfinished.good.any()


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
    with pytest.raises(bqvi.RunInterrupted) as caught:
        bqvi.fit(Moving(counted, 2, vectorised=False), method="bq", steps=3)
    assert len(caught.value.state.memory) == caught.value.n_evaluations == 4
