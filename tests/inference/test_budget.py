"""No call beyond the budget, and each is counted: the oracle is the log joint itself, which counts."""

import itertools

import numpy as np
import pytest
import torch
from marginal_mixture import Marginal

import bqvi
from bqvi.families import GaussianMixture
from bqvi.gradients import (
    IWAE,
    BayesianQuadrature,
    DReG,
    Pathwise,
    Score,
)
from bqvi.models import GaussianMixture as Clusters
from bqvi.models import LogJoint
from experiments.gradients.importance_quadrature import ImportanceQuadrature

TWO = GaussianMixture(np.full(2, 0.5), np.array([[-1.0, 0.0], [1.0, 0.0]]), np.stack([np.eye(2)] * 2))
METHODS = {
    "bq": {"method": "bq"},
    "bq without memory": {"method": BayesianQuadrature(3, memory=0)},
    "importance quadrature": {"method": ImportanceQuadrature(quadrature=BayesianQuadrature(4, memory=0))},
    "pathwise": {"method": "pathwise", "samples": 3},
    "score": {"method": "score", "samples": 4},
    "iwae": {"method": IWAE(3)},
    "dreg": {"method": DReG(3)},
    "pathwise, a mixture": {"method": Pathwise(2), "start_from": TWO},
    "score, a mixture": {"method": Score(3), "start_from": TWO},
}
OPTIONS = {
    "plain": {},
    "records": {"record": bqvi.Record(1, elbo_samples=3)},
    "starts": {"starts": 3, "start_from": "random"},
    "tolerance": {"record": bqvi.Record(1, elbo_samples=2), "tolerance": 1e3},
    "mean field": {"family": "mean-field"},
}


class Counting:
    """A log joint that counts the points at which it is called; batches fail where one point is far out."""

    def __init__(self, faulty=False):
        self.points, self.faulty = 0, faulty

    def __call__(self, theta):
        self.points += len(theta)
        if self.faulty and (theta[:, 0] > 1.0).any():
            raise ValueError("x must not exceed 1")
        return -0.5 * (theta**2).sum(-1) - 0.1 * theta[:, 0] ** 4


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("name", METHODS)
def test_no_method_calls_the_log_joint_more_often_than_the_budget_allows(name, option):
    if option == "starts" and "start_from" in METHODS[name]:
        pytest.skip("a start is given")
    for budget in (4, 17, 40):
        log_joint = Counting()
        found = bqvi.fit(LogJoint(log_joint, 2), budget=budget, seed=0, **(METHODS[name] | OPTIONS[option]))
        assert log_joint.points == found.n_evaluations <= budget
        assert found.stopped in ("budget", "tolerance")


@pytest.mark.parametrize(
    "options", [{}, {"record": bqvi.Record(1, elbo_samples=8)}, {"starts": 2, "start_from": "random"}]
)
def test_batches_that_are_called_again_point_by_point_are_counted(options):
    for budget in (9, 30, 41):
        log_joint = Counting(faulty=True)
        model = LogJoint(log_joint, 2)
        found = bqvi.fit(model, method=BayesianQuadrature(4), budget=budget, seed=1, **options)
        assert log_joint.points == found.n_evaluations <= budget


def test_a_larger_budget_is_added_to_what_was_spent():
    log_joint = Counting()
    model = LogJoint(log_joint, 2)
    found = bqvi.fit(model, method="bq", budget=17, record=bqvi.Record(elbo_samples=3), tolerance=None)
    found = bqvi.fit(
        model, method="bq", budget=30, record=bqvi.Record(elbo_samples=3), tolerance=None, resume=found
    )
    assert log_joint.points == found.n_evaluations == 30
    with pytest.raises(ValueError, match="budget is 20; 30 evaluations have been made: raise it"):
        bqvi.fit(model, method="bq", budget=20, record=bqvi.Record(elbo_samples=3), resume=found)


class Looking(Clusters):
    """Counts the data it looks at."""

    rows = 0

    def local_step(self, q, rows, weights=None):
        Looking.rows += len(rows)
        return super().local_step(q, rows, weights)


@pytest.mark.parametrize(
    "choices",
    [
        {"method": "cavi"},
        {"method": "gd", "record": 3},
        {"method": "sngd", "minibatch": 7},
        {"method": "sgd", "minibatch": 7, "starts": 2},
        {"method": "score"},
        {"method": "pathwise", "minibatch": 9},
    ],
    ids=lambda choices: choices["method"],
)
def test_data_are_counted_likewise(choices):
    x = np.random.default_rng(0).normal(size=(30, 2))
    for budget in (20, 100, 333):
        Looking.rows = 0
        found = bqvi.fit(Looking(2, np.eye(2)), x, budget=budget, **choices)
        assert Looking.rows == found.n_evaluations <= budget


def test_a_log_joint_of_data_is_counted_per_datum():
    x = np.random.default_rng(0).normal(size=(30, 2))
    for options in ({"minibatch": 5}, {"minibatch": 5, "record": bqvi.Record(4, elbo_samples=2)}, {}):
        found = bqvi.fit(Marginal(Clusters(2, np.eye(2))), torch.tensor(x), "pathwise", budget=400, **options)
        assert 300 < found.n_evaluations <= 400


@pytest.mark.parametrize("method", ["pathwise", "score"])
@pytest.mark.parametrize("at", [1, 4])
def test_a_call_that_was_cut_short_counts_when_it_is_made_again(method, at):
    """What returned is counted, before and after the interrupt; the call that was cut short is repeated."""
    asked, calls = [], itertools.count(1)

    def log_prob(theta):
        if next(calls) == at:
            raise KeyboardInterrupt
        asked.append(len(theta))
        return -0.5 * theta.square().sum(1)

    model = LogJoint(log_prob, 2)
    with pytest.raises(bqvi.RunInterrupted) as caught:
        bqvi.fit(model, method=method, samples=5, budget=40, seed=0)
    assert caught.value.state.n_evaluations == sum(asked)
    found = bqvi.fit(model, method=method, samples=5, budget=40, seed=0, resume=caught.value)
    assert found.n_evaluations == sum(asked) == 40
