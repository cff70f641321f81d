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


@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize("gradients", [True, False])
def test_no_evaluations_joined_with_some_are_those(outputs, gradients):
    some = rows(4, gradients=gradients, outputs=outputs, noise=True)
    for found in (Evaluations.none(2).joined(some), some.joined(Evaluations.none(2)), some.joined(some[:0])):
        for name in ("points", "values", "gradients", "noise_variance", "failed"):
            np.testing.assert_array_equal(getattr(found, name), getattr(some, name))
        assert found.reasons == some.reasons
        assert found.n_evaluations == 4


def test_no_evaluations_joined_with_none_have_the_number_of_outputs():
    none, several = Evaluations.none(2), rows(1, outputs=3)[:0]
    assert none.joined(several).values.shape == (0, 3)
    assert len(several.joined(none).joined(none)) == 0


def test_the_gradients_of_an_empty_record_do_not_count():
    plain, empty = rows(3), rows(2, gradients=True, noise=True)[:0]
    for found in (empty.joined(plain), plain.joined(empty)):
        assert len(found) == found.n_evaluations == 3
        assert found.gradients is None
        assert found.noise_variance is None


def test_gradients_and_noise_that_one_record_lacks_are_nan():
    for found in (rows(2, gradients=True).joined(rows(3, 2)), rows(2).joined(rows(3, 2, gradients=True))):
        assert np.isnan(found.gradients).any(axis=1).sum() in (2, 3)
        np.testing.assert_array_equal(found.points[:, 0], np.arange(5))
    assert np.isnan(rows(2).joined(rows(1, noise=True)).noise_variance).tolist() == [True, True, False]


def test_a_row_without_gradient_is_not_good_where_there_are_gradients():
    mixed = rows(2, gradients=True).joined(rows(2, 2))
    assert mixed.good.tolist() == [True, False, False, False]
    assert rows(4).good.tolist() == [True, False, True, True]


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
