"""`benchmarks.break_even`: where two lines cross, and the first budget that suffices."""

import math

import pytest

from benchmarks.break_even import BudgetedMethod, Cost, break_even

NEVER = Cost(math.inf, math.inf, math.inf)


def test_the_lines_cross_where_both_runs_take_the_same_time():
    few, many = Cost(0.0, 40.0, 0.5), Cost(0.0, 540.0, 0.25)
    crossing = 1e-3 * float(break_even(few, many).removeprefix("the first above ").removesuffix(" ms"))
    assert few.seconds + 40 * crossing == pytest.approx(many.seconds + 540 * crossing)
    assert break_even(many, few) == "the second above 0.5 ms"


def test_without_a_crossing_one_is_faster_at_any_cost():
    assert break_even(Cost(0.0, 40.0, 0.1), Cost(0.0, 50.0, 0.2)) == "the first at any cost"
    assert break_even(Cost(0.0, 50.0, 0.2), Cost(0.0, 40.0, 0.1)) == "the second at any cost"
    assert break_even(Cost(0.0, 40.0, 0.2), Cost(0.0, 40.0, 0.1)) == "the second at any cost"


def test_a_method_that_does_not_arrive_has_no_line():
    cost = Cost(0.0, 40.0, 0.1)
    assert break_even(cost, NEVER) == "the first alone"
    assert break_even(NEVER, cost) == "the second alone"
    assert break_even(NEVER, NEVER) == "neither arrives"


def test_a_cost_is_the_median_at_the_first_budget_that_suffices():
    method = BudgetedMethod(
        "", lambda budget, seed: Cost(1.0 / budget + (seed == 0), budget, float(seed)), (1, 2, 4, 8)
    )
    assert method.cost(0.3) == Cost(0.25, 4.0, 2.0)
    assert method.cost(0.01).evaluations == math.inf
