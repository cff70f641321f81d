"""Step sizes: Robbins and Monro's conditions, Adam against torch's, and arguments out of range."""

import math

import numpy as np
import pytest
import torch

from bqvi import Adam, Constant, Cosine, Exponential, RobbinsMonro


def test_exponential_and_constant():
    assert [Cosine(2.0, 4)(t) for t in (0, 2, 4, 9)] == pytest.approx([2.0, 1.0, 0.0, 0.0], abs=1e-15)
    rho = Exponential(2.0, 0.1)
    assert rho(7) == pytest.approx(2.0 * math.exp(-0.7), rel=1e-15)
    assert sum(rho(t) for t in range(1000)) == pytest.approx(2.0 / (1.0 - math.exp(-0.1)), rel=1e-12)
    direction = (np.array([1.0, -2.0]), np.array([[3.0]]))
    for schedule, step in ((rho, rho(3)), (Constant(0.3), 0.3), (RobbinsMonro(), 4.0**-0.7)):
        found, state = schedule.increment(direction, schedule.start(direction), 3)
        assert state is None
        for a, b in zip(found, direction, strict=True):
            np.testing.assert_allclose(a, step * b, rtol=1e-15)


@pytest.mark.parametrize("settings_", [{}, {"rate": 0.3, "first": 0.5, "second": 0.9, "epsilon": 1e-3}])
@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_adam_is_torchs(settings_, kind):
    rng = np.random.default_rng(0)
    mine = Adam(**settings_)
    u = (rng.normal(size=3), rng.normal(size=(2, 2)))
    theirs = [torch.tensor(x, requires_grad=True) for x in u]
    u = tuple(map(kind, u))
    optimiser = torch.optim.Adam(
        theirs, lr=mine.rate, betas=(mine.first, mine.second), eps=mine.epsilon, maximize=True
    )
    state = mine.start(u)
    for t in range(100):
        direction = tuple(rng.normal(size=x.shape) * 10.0 ** rng.integers(-6, 6) for x in u)
        for p, g in zip(theirs, direction, strict=True):
            p.grad = torch.tensor(g)
        optimiser.step()
        increment, state = mine.increment(tuple(map(kind, direction)), state, t)
        u = tuple(x + d for x, d in zip(u, increment, strict=True))
    for x, p in zip(u, theirs, strict=True):
        np.testing.assert_allclose(x, p.detach().numpy(), rtol=1e-12, atol=1e-12)


def test_adams_rate_decays():
    g = (np.array([1.0]),)
    mine = Adam(0.1, decay=0.5)
    state = mine.start(g)
    for t in range(10):  # a constant gradient moves by the rate
        (step,), state = mine.increment(g, state, t)
        assert step[0] == pytest.approx(0.1 / (1.0 + 0.5 * t), rel=1e-7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RobbinsMonro(0.5), r"kappa is 0.5; it must be in \(0.5, 1\]"),
        (lambda: RobbinsMonro(1.01), r"kappa is 1.01; it must be in \(0.5, 1\]"),
        (lambda: Adam(first=1.0), r"first is 1.0; it must be in \[0, 1\)"),
    ],
)
def test_arguments_out_of_range_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def doubles(values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(("kind", "large"), [(np.asarray, 1e200), (doubles, 1e200), (torch.tensor, 1e30)])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None])
def test_adam_keeps_entries_that_are_not_finite(bad, kind, large):
    """An entry that is not finite, or whose square is not, gives a step that is not finite; a finite one
    would never change again.
    """
    bad = large if bad is None else bad
    adam, good = Adam(0.1), (kind([1.0, -2.0]),)
    assert adam.propagates
    _, state = adam.increment(good, adam.start(good), 0)
    with np.errstate(invalid="ignore"):
        (step,), _ = adam.increment((kind([1.0, bad]),), state, 1)
    assert [math.isfinite(x) for x in step] == [True, False]


@pytest.mark.parametrize("schedule", [Constant(), Constant(0.3), RobbinsMonro(), Adam()])
def test_tensors_of_an_increment_are_not_shared(schedule):
    """The geometry overwrites them."""
    direction = (torch.ones(3), torch.zeros((2, 2)))
    state = schedule.start(direction)
    increment, after = schedule.increment(direction, state, 0)
    others = [*direction, *(x for moments in (state or ()) + (after or ()) for x in moments)]
    assert not {x.data_ptr() for x in increment} & {x.data_ptr() for x in others}
