"""The clock of a run, against a time that the test sets: calls and the last estimate count."""

import pytest

import bqvi
from bqvi.variational_bmc import vbmc_run as module
from bqvi.variational_bmc.vbmc_run import Clock
from experiments.problems.known_posteriors import rosenbrock


@pytest.fixture
def now(monkeypatch):
    """A time that the test sets."""
    time = [100.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: time[0])
    return time


def test_a_step_is_begun_only_if_it_and_the_thorough_estimate_end_in_time(now):
    clock = Clock(30.0)
    clock.starts(0.0)
    with clock.calls(8):
        now[0] += 4.0
    now[0] += 1.0
    assert clock.ends() == 5.0
    # two calls take 1 s, the rest of a step 1 s, and the thorough estimate ten times the latter
    assert clock.allows(30.0 - 2.0 - 10.0 - 0.1, 2)
    assert not clock.allows(30.0 - 2.0 - 10.0 + 0.1, 2)
    with clock.thorough():
        now[0] += 2.0
    assert clock.spent == 7.0  # between two steps it counts too
    assert clock.allows(30.0 - 2.0 - 2.0 - 0.1, 2)
    assert not clock.allows(30.0 - 2.0 - 2.0 + 0.1, 2)


def test_a_run_with_slow_calls_ends_in_time(monkeypatch):
    """Each call is said to take ten seconds; nothing else takes any."""
    problem, time = rosenbrock(2), [0.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: time[0])

    def slow(theta):
        time[0] += 10.0
        return problem.log_joint(theta)

    found = bqvi.vbmc(slow, **problem.bounds(), run=bqvi.Run(max_seconds=155.0), seed=0)
    assert found.stopped == "seconds"
    assert time[0] <= 155.0
    assert time[0] > 155.0 - 50.0  # at most five calls a step


def test_without_a_limit_there_is_always_time(now):
    clock = Clock(None)
    clock.starts(1e9)
    assert clock.allows(1e9, 5)
    assert not clock.over
