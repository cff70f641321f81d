"""Common parts of the sampling estimators: q in torch, and the log joint as a function of draws.

The integrand is f(theta) = ln p(X, theta), less ln h(X), with a mini-batch weighted as all the data. Two
kinds of model define it:

- a `LogJointModel` by its two parts; a `bqvi.models.log_joint.MovingLogJoint` by those of its log joint at q;
- a conjugate model with its E step inside (thesis Section 5.3): q(z) is optimal under q(theta), so
  f(theta) = E_q(z)[ln p(X, z, theta) - ln q(z)] = ln p(theta) + <S, t(theta)> + H[q(z)]
           = <eta*, t(theta)> + ln h(theta) - A(eta_0) + H[q(z)].
  The data enter through S only, so a draw of theta takes no pass over the data. Its gradient in q with q(z)
  held fixed is that of the ELBO, as q(z) is at its optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bqvi.arrays import Values, add, inner, unflat
from bqvi.arrays import like as to_torch
from bqvi.calls import EvaluationError
from bqvi.calls.autodiff import GraphWatch
from bqvi.calls.draws import ModelCalls, raised
from bqvi.calls.faults import N_NEAR, points_near, require_slope
from bqvi.families.family import Distribution
from bqvi.gradients.evaluations import at_draws, is_as_stated
from bqvi.gradients.gradient import Anchor, Batch, local_step
from bqvi.models.contracts import ConjugateModel, is_conjugate, update_target
from bqvi.models.data import Data
from bqvi.models.log_joint import is_moving
from gp.arrays import Array, to_numpy

LogJointFunction = Callable[[Any], torch.Tensor]


@contextmanager
def _user_graph() -> Iterator[None]:
    """A context in which an exception of a derivative in the user's code becomes an EvaluationError."""
    try:
        yield
    except EvaluationError:
        raise
    except Exception as error:
        if "LinAlgError" in type(error).__name__:  # of a covariance of q
            raise
        raise raised(error) from error


@dataclass(frozen=True)
class TorchPosterior:
    """q whose coordinates u are leaves of a graph."""

    q: Any
    leaves: tuple[torch.Tensor, ...]
    """u, requiring gradients."""

    @property
    def stopped(self) -> Any:
        """q with its parameters held fixed: gradients pass through theta only."""
        return self.q.from_unconstrained(tuple(leaf.detach() for leaf in self.leaves))

    def slopes(self, objective: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """d objective / du as tensors; zeros for leaves on which it does not depend."""
        with _user_graph():
            found: tuple[Any, ...] = torch.autograd.grad(objective, self.leaves, allow_unused=True)
        return tuple(
            torch.zeros_like(leaf) if g is None else g for g, leaf in zip(found, self.leaves, strict=True)
        )

    def gradient(self, objective: torch.Tensor) -> Values:
        """`slopes` as NumPy arrays."""
        return tuple(to_numpy(g).astype(float, copy=False) for g in self.slopes(objective))

    def each(self, objectives: torch.Tensor) -> Values:
        """d objectives_l / du for L objectives, arrays (L, ...); the graph is kept."""
        one_each = torch.eye(len(objectives), dtype=objectives.dtype, device=objectives.device)
        with _user_graph():
            found: tuple[Any, ...] = torch.autograd.grad(
                objectives, self.leaves, one_each, retain_graph=True, is_grads_batched=True, allow_unused=True
            )
            if not all(g is None or bool(g.isfinite().all()) for g in found):
                # the hooks raise for the sum: only single gradients name the draw
                torch.autograd.grad(objectives.sum(), self.leaves, retain_graph=True, allow_unused=True)
        shape = (len(objectives),)
        return tuple(
            np.zeros(shape + tuple(leaf.shape)) if g is None else to_numpy(g).astype(float, copy=False)
            for g, leaf in zip(found, self.leaves, strict=True)
        )


def torch_posterior(q: Distribution, like: torch.Tensor) -> TorchPosterior:
    """q in torch, with the dtype and on the device of ``like``."""
    leaves = tuple(
        torch.as_tensor(u, dtype=like.dtype, device=like.device).detach().requires_grad_()
        for u in q.unconstrained
    )
    return TorchPosterior(q.from_unconstrained(leaves), leaves)


def reference_tensor(model: Any, rows: Data) -> torch.Tensor:
    """An empty tensor with the dtype and device of computations: the data's, else the model's."""
    first = rows[0] if isinstance(rows, tuple) else rows
    if isinstance(first, torch.Tensor):
        return first.new_empty(0) if first.is_floating_point() else first.new_empty(0).double()
    device = getattr(model, "device", "cpu")
    return torch.empty(0, dtype=getattr(model, "dtype", torch.float64), device=device)


def log_joint_function(model: Any, q: Distribution, batch: Batch) -> LogJointFunction:
    """F as a function of draws (L, ...) of theta, returning (L,), all finite; evaluations are counted.

    Parameters
    ----------
    model : a log joint, or a conjugate model. q : the distribution at which local steps are made.
    batch : the rows, their weights (S,), and the account that counts the evaluations.

    Raises
    ------
    EvaluationError
        From the function that is returned: the model raised, or is not finite at a draw.
    """
    both = log_joint_with_terms(model, q, batch)
    return lambda theta: both(theta)[0]


def log_joint_with_terms(
    model: Any, q: Distribution, batch: Batch
) -> Callable[[Any], tuple[torch.Tensor, torch.Tensor | None]]:
    """As `log_joint_function`, with the terms of the data at the draws, (L, S).

    They are None for a model without data or a conjugate one, and beside an anchor.

    Parameters
    ----------
    model, q, batch : as there.
    """
    if is_as_stated(model):
        return lambda theta: (at_draws(model, batch, theta), None)
    log_joint = _in_graph(model, q, batch)

    def paid(theta: Array) -> tuple[torch.Tensor, torch.Tensor | None]:
        calls = ModelCalls(type(model).__name__, theta)
        with spending(model, batch, theta), staying_in_torch(model, q, batch, theta):
            values, terms = log_joint(calls.watched(), calls)
        calls.require_finite(values, terms)
        return values, terms if batch.anchor is None else None

    return paid


@contextmanager
def staying_in_torch(model: Any, q: Distribution, batch: Batch, theta: Any) -> Iterator[None]:
    """A context of the first calls of a model, at draws (L, ...) of theta, which must not leave torch.

    Where an operation did, the derivative near the first draw is compared with values, which count.

    Parameters
    ----------
    model, q, batch : as of `log_joint_function`. theta : the draws.

    Raises
    ------
    EvaluationError
        The derivative by torch is not that of the values.
    """
    account, watch = batch.account, GraphWatch()
    differentiated = any(part.requires_grad for part in _parts(theta))
    if not account.first or not differentiated or is_conjugate(model):
        yield
        return
    with watch:
        yield
    spent = cost(model, batch, N_NEAR)
    room = account.budget is None or account.budget.room(spent) == spent
    if watch.left and account.entered is not None and room:
        account.entered.n_beside += spent
        with account.spending(spent):
            _require_slope(model, q, batch, theta)


def _parts(theta: Any) -> list[torch.Tensor]:
    return list(theta.values()) if isinstance(theta, dict) else [theta]


def _require_slope(model: Any, q: Distribution, batch: Batch, theta: Any) -> None:
    """Compare a derivative near the first draw of theta with values."""
    parts = [part[:1].detach() for part in _parts(theta)]
    flat = torch.cat([part.flatten() for part in parts])
    points, step = points_near(to_numpy(flat).astype(float))

    def log_joint(points: torch.Tensor) -> torch.Tensor:
        ends = np.cumsum([0] + [part.numel() for part in parts])
        shaped = [
            points[:, start:end].reshape(-1, *part.shape[1:])
            for start, end, part in zip(ends, ends[1:], parts, strict=False)
        ]
        draws = dict(zip(theta, shaped, strict=True)) if isinstance(theta, dict) else shaped[0]
        return in_graph(model, q, batch)(draws)

    with torch.no_grad():
        values = to_numpy(log_joint(to_torch(points[1:], flat))).astype(float)
    leaf = to_torch(points[:1], flat).requires_grad_()
    with torch.enable_grad():
        value = log_joint(leaf)
        (slope,) = (
            torch.autograd.grad(value.sum(), leaf) if value.requires_grad else (torch.zeros_like(leaf),)
        )
    if np.isfinite(values).all():
        require_slope(
            values, float(to_numpy(slope)[0] @ step), f"the log joint of the {type(model).__name__}"
        )


def in_graph(model: Any, q: Distribution, batch: Batch) -> LogJointFunction:
    """As `log_joint_function`, but evaluations are not counted, and neither errors nor values are tested.

    Parameters
    ----------
    model, q, batch : as there; the account of ``batch`` is not used.
    """
    log_joint = _in_graph(model, q, batch)
    return lambda theta: log_joint(theta, None)[0]


class _WithGradients(torch.autograd.Function):
    """Values whose gradients are known."""

    @staticmethod
    def forward(ctx: Any, theta: torch.Tensor, values: torch.Tensor, gradients: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(gradients)
        return values.clone()

    @staticmethod
    def backward(ctx: Any, *outer: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (gradients,) = ctx.saved_tensors
        return outer[0][..., None] * gradients, None, None


def with_gradients(theta: torch.Tensor, values: np.ndarray, gradients: np.ndarray | None) -> torch.Tensor:
    """Values (L,) at draws theta (L, D) as a tensor, in whose graph they have these gradients (L, D)."""
    made: torch.Tensor = to_torch(values, theta)
    if gradients is None:
        return made
    found: torch.Tensor = _WithGradients.apply(theta, made, to_torch(gradients, theta))  # type: ignore[no-untyped-call]
    return found


def spending(model: Any, batch: Batch, theta: Array) -> AbstractContextManager[None]:
    """A context in which the model is evaluated at draws (L, ...) of theta, counted in the account."""
    draws = len(next(iter(theta.values())) if isinstance(theta, dict) else theta)
    return batch.account.spending(cost(model, batch, draws))


_WithTerms = Callable[[Any, ModelCalls | None], tuple[torch.Tensor, torch.Tensor | None]]
"""A function of draws of theta and of how the model is called: the log joint (L,) and its terms (L, S)."""


def _in_graph(model: Any, q: Distribution, batch: Batch) -> _WithTerms:
    like = reference_tensor(model, batch.rows)
    if is_moving(model):
        model = model.at(q)
    if is_conjugate(model):
        expected = _expected_log_joint(model, q, batch, like)
        return lambda theta, _: (expected(theta), None)
    weights = None if batch.weights is None else like.new_tensor(to_numpy(batch.weights))

    def log_joint(theta: Any, calls: ModelCalls | None) -> tuple[torch.Tensor, torch.Tensor]:
        if calls is None:
            terms, prior = model.log_likelihood_terms(theta, batch.rows), model.log_prior(theta)
        else:
            columns = None if weights is None else len(weights)
            terms = calls.terms(model.log_likelihood_terms, theta, batch.rows, columns)
            prior = calls.log_prior(model.log_prior, theta)
        total = terms.sum(-1) if weights is None else terms @ weights
        if batch.anchor is not None and weights is not None:
            total = total + _beside(model, batch, batch.anchor, theta, weights)
        return prior + total, terms

    return log_joint


def _beside(
    model: Any, batch: Batch, anchor: Anchor, theta: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """What an anchor adds to the weighted terms of a mini-batch at draws theta (L, D), (L,)."""
    place, slope = to_torch(anchor.place, weights), to_torch(anchor.slope, weights)
    with torch.enable_grad():
        leaf = place.detach()[None].requires_grad_()
        estimate = model.log_likelihood_terms(leaf, batch.rows)[0] @ weights
        (tangent,) = torch.autograd.grad(estimate, leaf)
    found: torch.Tensor = anchor.value - estimate.detach() + (theta - place) @ (slope - tangent[0])
    return found


def values_and_slopes(
    log_joint: LogJointFunction, points: np.ndarray, model: Any, rows: Data
) -> tuple[np.ndarray, np.ndarray]:
    """The values (m,) of a torch function at points (m, D), and its gradients (m, D).

    ``model`` and ``rows`` determine the precision and the device of the points.
    """
    leaf = to_torch(points, reference_tensor(model, rows)).clone().requires_grad_()
    with torch.enable_grad():
        values = differentiable(log_joint(leaf))
        (slopes,) = torch.autograd.grad(values.sum(), leaf)
    return to_numpy(values.detach()).astype(float), to_numpy(slopes).astype(float)


def by_strategy(values: Values, rows: Values, batch: Batch) -> Values:
    """The gradient ``values`` of a mini-batch, its weighted sum over the data replaced by the strategy's.

    Parameters
    ----------
    values : in which the data are summed with weights. rows : the gradients of the data, (S, ...) each.
    batch : a mini-batch with a combination.
    """
    assert batch.combination is not None
    flat = np.concatenate([part.reshape(len(part), -1) for part in rows], axis=1)
    change = batch.combination(flat) - to_numpy(batch.weights) @ flat
    return add(
        values,
        tuple(to_torch(part, value) for part, value in zip(unflat(change, values), values, strict=True)),
    )


def _expected_log_joint(model: ConjugateModel, q: Any, batch: Batch, like: torch.Tensor) -> LogJointFunction:
    local = local_step(model, q, batch)
    entropy = local.bound - float(inner(local.statistics, q.expected_statistics))
    constant = entropy - float(model.prior.log_normaliser)
    target = tuple(to_torch(eta, like) for eta in update_target(model, local))

    def log_joint(theta: Array) -> torch.Tensor:
        value: torch.Tensor = model.prior.log_base_measure(theta) + constant
        for eta, t in zip(target, model.prior.statistics(theta), strict=True):
            value = value + t.reshape(len(t), -1) @ eta.flatten()
        return value

    return log_joint


def differentiable(values: torch.Tensor) -> torch.Tensor:
    """``values`` of the log joint at reparameterised draws, which must have kept their graph."""
    if not values.requires_grad:
        raise EvaluationError(
            "the log joint has no gradient in theta: it leaves torch on the way (numpy, .item(), .detach()); "
            "write it in torch throughout, or use method 'score', which needs values only"
        )
    return values


def require_still(model: object) -> None:
    """Raise TypeError for a log joint that contains its E step, which is for one Gaussian q."""
    if is_moving(model):
        raise TypeError(
            f"model is a {type(model).__name__}, whose log joint moves with q and takes one Gaussian; for a "
            "GaussianMixture give the log joint with z summed out"
        )


def cost(model: Any, batch: Batch, samples: int) -> int:
    """Evaluations of one step: per datum, or of the log joint for a model without data.

    For a conjugate model each datum counts once, however many draws of theta follow.

    Parameters
    ----------
    model : a log joint, or a conjugate model. batch : of S rows, 0 for a model without data.
    samples : L, the number of draws of theta.
    """
    if batch.size == 0:
        return samples
    return batch.size if is_conjugate(model) else batch.size * (samples + (batch.anchor is not None))
