"""Evaluations joined and taken, and a budget that is not exceeded."""

import numpy as np
import pytest

from bqvi.calls import Budget, Evaluations, Ledger


def rows(n, start=0, *, gradients=False, outputs=None, noise=False):
    points = np.arange(start, start + n)[:, None] * np.array([1.0, 10.0])
    values = points[:, 0] if outputs is None else np.tile(points[:, :1], (1, outputs))
    slopes = np.ones((n, 2)) if outputs is None else np.ones((n, outputs, 2))
    return Evaluations(
        points,
        values,
        slopes if gradients else None,
        np.ones(n) if noise else None,
        points[:, 0] % 3 == 1,
        tuple("odd" if x % 3 == 1 else "" for x in points[:, 0]),
    )


def test_evaluations_called_again_are_counted():
    again = Evaluations(
        **{name: getattr(rows(2), name) for name in rows(2).__dataclass_fields__ if name[:2] != "n_"}
    )
    assert again.n_evaluations == 2
    twice = Evaluations(again.points, again.values, None, None, again.failed, again.reasons, n_evaluations=4)
    assert twice.joined(rows(3)).n_evaluations == 7
    assert twice[:1].n_evaluations == 1


def test_a_ledger_gives_what_returned_since_the_last_take():
    seen, under_way = [], rows(5, 3)
    ledger = Ledger(2, on_return=lambda: seen.append(len(ledger.entries())))
    assert len(ledger.take()) == 0
    assert ledger.take().points.shape == (0, 2)
    ledger.enter(rows(3))
    done = 0
    ledger.begin(lambda: under_way[:done])
    for done in (1, 2, 4):  # noqa: B007 (read by the ledger)
        ledger.returned()
    assert seen == [4, 5, 7]
    np.testing.assert_array_equal(ledger.entries().points[:, 0], np.arange(7))
    np.testing.assert_array_equal(ledger.take().points[:, 0], np.arange(7))
    assert len(ledger.entries()) == 0
    ledger.begin(lambda: under_way)
    ledger.end(under_way)
    assert len(ledger.entries()) == len(ledger.take()) == 5


def test_a_budget_is_not_exceeded():
    budget = Budget(10, spent=3)
    assert (budget.left, budget.room(5), budget.room(50)) == (7, 5, 7)
    budget.spend(7)
    assert (budget.left, budget.room(1)) == (0, 0)
    with pytest.raises(RuntimeError, match="1 evaluations were asked for, and 0 of 10"):
        budget.spend(1)
    assert budget.spent == 10
    assert Budget().room(10**9) == 10**9
    assert Budget(2, spent=5).left == 0
