"""A contract test for exponential families, yours included.

    from family_contract import check_family
    check_family(MyFamily(...))          # AssertionError names the clause that does not hold

Derivatives of the log normaliser and of mu(u) are by torch's automatic differentiation. Expectations are
averages of draws, which may differ from the formulas by six standard errors (a probability of a false alarm
of 2e-9 for each number where the average is normal).
"""

from __future__ import annotations

import numpy as np
import torch

from bqvi.arrays import Values, add, inner, scale, subtract
from bqvi.families.family import ExponentialFamily
from gp.arrays import to_numpy

_SIGMAS = 6.0
"""The largest error of a mean of draws, in standard errors."""


def check_family(
    q: ExponentialFamily,
    *,
    seed: int = 0,
    draws: int = 4000,
    rtol: float = 1e-10,
) -> None:
    """Check every clause of the contract at ``q``, an instance with NumPy parameters.

    Parameters
    ----------
    q : the distribution, or a batch of them
    seed : seed of tangents and draws
    draws : the number of draws for the clauses on draws
    rtol : tolerance of each identity, relative to the largest entry; larger for q with a large condition
        number
    """
    rng = np.random.default_rng(seed)
    tangent = _tangent(q, rng)
    _check_log_normaliser(q, tangent, rtol)
    _check_round_trips(q, rtol)
    _check_divergence(q, tangent, rng, rtol)
    _check_unconstrained(q, tangent, rtol)
    _check_retraction(q, tangent, rtol)
    _check_draws(q, draws, rng)
    _check_reparameterisation(q, tangent, draws, rng)


def _tangent(q: ExponentialFamily, rng: np.random.Generator) -> Values:
    """A random direction of eta, as large as eta, symmetric where eta is."""
    found = []
    for eta in map(to_numpy, q.natural):
        noise = rng.standard_normal(eta.shape) * np.abs(eta).max()
        square = eta.ndim >= 2 and eta.shape[-1] == eta.shape[-2]
        if square and np.allclose(eta, np.swapaxes(eta, -1, -2)):
            noise = 0.5 * (noise + np.swapaxes(noise, -1, -2))
        found.append(noise)
    return tuple(found)


def _same(clause: str, found: Values, expected: Values, rtol: float) -> None:
    """Arrays equal to ``rtol`` of their largest entry (of one, for what vanishes)."""
    for a, b in zip(found, expected, strict=True):
        x, y = to_numpy(a), to_numpy(b)
        assert x.shape == y.shape, f"{clause}: shape {x.shape} where {y.shape} is due"
        allowed = rtol * max(1.0, float(np.abs(y).max(initial=0.0)))
        worst = float(np.abs(x - y).max(initial=0.0))
        assert worst <= allowed, f"{clause}: off by {worst:.3g}, allowed {allowed:.3g}"


def _leaves(values: Values) -> Values:
    return tuple(torch.tensor(to_numpy(v), dtype=torch.float64, requires_grad=True) for v in values)


def _inner(values: Values, tangent: Values) -> torch.Tensor:
    """<values, tangent>, summed over draws where ``values`` have them."""
    total = torch.zeros((), dtype=torch.float64)
    for v, d in zip(values, tangent, strict=True):
        total = total + (v * torch.as_tensor(d)).sum()
    return total


def _check_round_trips(q: ExponentialFamily, rtol: float) -> None:
    _same("natural -> q -> natural", q.from_natural(q.natural).natural, q.natural, rtol)
    back = q.from_unconstrained(q.unconstrained)
    _same("unconstrained -> q -> natural", back.natural, q.natural, rtol)
    _same("unconstrained -> q -> mean", back.expected_statistics, q.expected_statistics, rtol)
    if hasattr(q, "from_expected_statistics"):
        back = q.from_expected_statistics(q.expected_statistics)
        _same("mean -> q -> mean", back.expected_statistics, q.expected_statistics, 10.0 * rtol)


def _check_log_normaliser(q: ExponentialFamily, tangent: Values, rtol: float) -> None:
    eta = _leaves(q.natural)
    mean = torch.autograd.grad(q.from_natural(eta).log_normaliser.sum(), eta, create_graph=True)
    _same("gradient of the log normaliser = mean parameter", mean, q.expected_statistics, rtol)
    along = _inner(mean, tangent)
    product = torch.autograd.grad(along, eta)
    found = q.fisher_product(tangent)
    _same("Hessian of the log normaliser = Fisher matrix", found, product, 10.0 * rtol)
    _same("fisher_product(fisher_solve)", q.fisher_product(q.fisher_solve(found)), found, 100.0 * rtol)


def _check_divergence(q: ExponentialFamily, tangent: Values, rng: np.random.Generator, rtol: float) -> None:
    p = q.retract(scale(tangent, 0.3))
    gap = subtract(p.natural, q.natural)
    bregman = p.log_normaliser.sum() - q.log_normaliser.sum() - inner(gap, q.expected_statistics)
    size = 1.0 + float(abs(inner(gap, q.expected_statistics)))
    _same("KL = Bregman divergence of A", (q.kl(p).sum() / size,), (bregman / size,), 10.0 * rtol)
    assert (to_numpy(q.kl(p)) > 0.0).all(), "KL(q || p) is positive for p other than q"
    _same("KL(q || q) = 0", (q.kl(q) / size,), (0.0 * q.kl(q),), 10.0 * rtol)
    theta = q.sample(20, rng)
    ratio = q.log_prob(theta) - p.log_prob(theta)
    linear = sum(
        (t * g).reshape(20, -1).sum(1) for t, g in zip(q.statistics(theta), scale(gap, -1.0), strict=True)
    )
    expected = linear - q.log_normaliser.sum() + p.log_normaliser.sum()
    size = 1.0 + float(np.abs(linear).max())
    _same("log_prob", (ratio.reshape(20, -1).sum(1) / size,), (expected / size,), 10.0 * rtol)


def _check_unconstrained(q: ExponentialFamily, tangent: Values, rtol: float) -> None:
    u = _leaves(q.unconstrained)
    mean = q.from_unconstrained(u).expected_statistics
    along = _inner(mean, tangent)
    pulled = torch.autograd.grad(along, u, allow_unused=True, materialize_grads=True)
    found = q.gradient_to_unconstrained(tangent)
    _same("gradient_to_unconstrained = J^T", found, pulled, 10.0 * rtol)
    back = q.gradient_to_unconstrained(q.gradient_to_natural(found))
    _same("gradient_to_natural is its inverse", back, found, 100.0 * rtol)


def _check_retraction(q: ExponentialFamily, tangent: Values, rtol: float) -> None:
    _same("retract(0)", q.retract(scale(tangent, 0.0)).natural, q.natural, 10.0 * rtol)
    for size in (-1e3, -1.0, 1.0, 1e3):
        moved = q.retract(scale(tangent, size))
        for part in (*moved.natural, *moved.unconstrained, moved.log_normaliser):
            assert np.isfinite(part).all(), f"retract leaves the domain along a tangent times {size:g}"
    errors = [_departure(q, scale(tangent, h)) for h in (1e-2, 1e-3)]
    floor = 100.0 * rtol * max(float(np.abs(eta).max()) for eta in q.natural)
    # the departure is of second order: a tenth of the step gives a hundredth of it
    assert errors[1] <= max(errors[0] / 50.0, floor), f"retract is not first order: departures {errors}"


def _departure(q: ExponentialFamily, step: Values) -> float:
    """The distance of the retraction from the straight line."""
    apart = subtract(q.retract(step).natural, add(q.natural, step))
    return max(float(np.abs(x).max()) for x in apart)


def _check_draws(q: ExponentialFamily, draws: int, rng: np.random.Generator) -> None:
    theta = q.sample(draws, rng)
    for t, mean in zip(q.statistics(theta), q.expected_statistics, strict=True):
        _unbiased("E[t] = mean parameter", to_numpy(t), to_numpy(mean))
    information = -to_numpy(q.log_prob(theta)).reshape(draws, -1).sum(1)
    _unbiased("-E[log_prob] = entropy", information, np.asarray(to_numpy(q.entropy).sum()))


def _unbiased(clause: str, draws: np.ndarray, mean: np.ndarray) -> None:
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    gap = np.abs(draws.mean(axis=0) - mean)
    # a statistic without variance must agree up to rounding
    bad = gap > _SIGMAS * error + 1e-9 * (1.0 + np.abs(mean))
    assert not bad.any(), f"{clause}: off by {gap[bad].max():.3g}, standard error {error[bad].max():.3g}"


def _check_reparameterisation(
    q: ExponentialFamily, tangent: Values, draws: int, rng: np.random.Generator
) -> None:
    groups = 100
    found = [_pathwise(q, tangent, max(draws // groups, 2), rng) for _ in range(groups)]
    for got, expected in zip(zip(*found, strict=True), q.gradient_to_unconstrained(tangent), strict=True):
        _unbiased("E[dt/du] of reparameterised draws = J", np.stack(got), to_numpy(expected))


def _pathwise(q: ExponentialFamily, tangent: Values, n: int, rng: np.random.Generator) -> Values:
    """d/du of the mean of <tangent, t(theta)> over ``n`` reparameterised draws."""
    u = _leaves(q.unconstrained)
    moving = q.from_unconstrained(u)
    statistics = moving.statistics(moving.rsample(n, rng))
    found = torch.autograd.grad(_inner(statistics, tangent) / n, u, allow_unused=True, materialize_grads=True)
    return tuple(map(to_numpy, found))
