"""Unbiased gradients helped by a process: the surrogate as a control variate, and cross-fitted quadrature.

With y(u) = L^T grad f + u and any predictor yhat of it that does not depend on the nodes u_l ~ N(0, I),

    E[y]       ~  E[yhat] + (1/n) sum_l (y_l - yhat(u_l))
    E[y u^T]   ~  E[yhat u^T] + (1/n) sum_l (y_l - yhat(u_l)) u_l^T

are unbiased: the first terms are exact integrals, the second have the variance of what the predictor
misses. Two ways to a predictor that is independent of the nodes:

    memory       the process given the evaluations of earlier steps
    cross-fit    the process given the other half of the nodes, each half in turn, averaged
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bqvi.arrays import Values
from bqvi.calls import EvaluationError
from bqvi.checks import require_integer
from bqvi.gradients.draws import of_mean, require_several
from bqvi.gradients.evaluations import differentiable, evaluate
from bqvi.gradients.gradient import Batch, Gradient
from bqvi.gradients.gradient_process import GradientProcess
from bqvi.gradients.memory import Memory
from bqvi.gradients.settings import CACHE
from bqvi.gradients.surrogates import OnGradients
from bqvi.gradients.whitened import Frame, WhitenedMoments
from bqvi.models.log_joint import is_moving


@dataclass(frozen=True)
class ControlVariate:
    """An unbiased natural gradient for a Gaussian q, from independent nodes of q and a process.

    Parameters
    ----------
    samples : n >= 1 nodes a step; at least 4 to cross-fit
    memory : most evaluations of earlier steps that the predictor is built on; 0 cross-fits the step's own
    errors : also give standard errors, for at least 2 nodes
    """

    samples: int = 10
    memory: int = 200
    errors: bool = False

    gives_surrogate = False
    """Its process is of the step before: no trust region can use it."""

    def __post_init__(self) -> None:
        require_integer("memory", self.memory, 0)
        require_integer("samples", self.samples, 1 if self.memory else 4)
        require_several("samples", self.errors, self.samples)

    def start(self, model: Any, q: Any) -> Memory | None:
        """An empty memory, or None to cross-fit."""
        _require_gradient(model)
        if self.memory and is_moving(model):
            raise ValueError(
                f"memory is {self.memory}, but the log joint of a {type(model).__name__} moves with q; use "
                "memory=0, or BayesianQuadrature, which values its points anew"
            )
        return Memory.empty(len(Frame.of(q).mean), True) if self.memory else None

    def __call__(
        self, model: Any, q: Any, batch: Batch, rng: np.random.Generator, memory: Memory | None = None
    ) -> Gradient:
        """An unbiased estimate of the natural gradient at q.

        Raises
        ------
        EvaluationError
            The log joint has no value at a node: leaving that out would bias the estimate.
        """
        _require_gradient(model)
        frame = Frame.of(q)
        nodes = rng.standard_normal((self.samples, len(frame.mean)))
        found = evaluate(model, q, batch, frame.points(nodes))
        if not found.good.all() or found.gradients is None:
            reason = found.reasons[int(np.argmin(found.good))]
            raise EvaluationError(f"the log joint {reason}; leaving nodes out would bias the estimate")
        targets = found.gradients @ frame.scale + nodes
        if memory is None:
            moments, missed = _cross_fitted(nodes, targets)
        else:
            process, memory = self._recalled(frame, memory)
            moments, missed = _corrected(process, nodes, targets)
            memory = memory.joined(found)
        return Gradient(
            frame.natural_gradient(moments),
            natural=True,
            evaluations=found.n_evaluations,
            samples=self.samples,
            memory=memory,
            standard_error=_errors(frame, nodes, missed) if self.errors else None,
        )

    def _recalled(self, frame: Frame, kept: Memory) -> tuple[GradientProcess | None, Memory]:
        if not len(kept):
            return None, kept
        points = frame.whiten(kept.points[-self.memory :])
        targets = kept.gradients[-self.memory :] @ frame.scale + points
        if len(kept) >= CACHE.control_growth * kept.fitted_at:
            start = kept.hyperparameters if kept.fitted_at else None
            logs = OnGradients().fit(points, targets, start)
            kept = replace(kept, hyperparameters=logs, fitted_at=len(kept))
        return OnGradients().process(points, targets, kept.hyperparameters), kept


def _errors(frame: Frame, nodes: np.ndarray, missed: np.ndarray) -> Values:
    """Of the mean of what is missed (n, D) at each node; exact integrals have none."""
    terms = []
    for u, y in zip(nodes, missed, strict=True):
        slopes = np.outer(y, u)
        terms.append(frame.natural_gradient(WhitenedMoments(y, 0.5 * (slopes + slopes.T))))
    return of_mean(tuple(np.array(part) for part in zip(*terms, strict=True)))


def _corrected(
    process: GradientProcess | None, nodes: np.ndarray, targets: np.ndarray
) -> tuple[WhitenedMoments, np.ndarray]:
    """The integrals of the process with the mean of what it misses at independent nodes; and that, (n, D)."""
    d = nodes.shape[1]
    if process is None:
        missed, exact = targets, WhitenedMoments(np.zeros(d), np.zeros((d, d)))
    else:
        missed = targets - process.predict(nodes)
        exact = process.at_q
    slopes = missed.T @ nodes / len(nodes)
    return WhitenedMoments(exact.mean + missed.mean(0), exact.jacobian + 0.5 * (slopes + slopes.T)), missed


def _cross_fitted(nodes: np.ndarray, targets: np.ndarray) -> tuple[WhitenedMoments, np.ndarray]:
    """Each half corrects the process given the other."""
    halves = np.array_split(np.arange(len(nodes)), 2)
    parts = []
    for here, other in (halves, halves[::-1]):
        logs = OnGradients().fit(nodes[other], targets[other], None)
        process = OnGradients().process(nodes[other], targets[other], logs)
        parts.append(_corrected(process, nodes[here], targets[here]))
    share = len(halves[0]) / len(nodes)
    weights = (share, 1.0 - share)
    (one, missed), (two, also_missed) = parts
    moments = WhitenedMoments(
        weights[0] * one.mean + weights[1] * two.mean, weights[0] * one.jacobian + weights[1] * two.jacobian
    )
    return moments, np.concatenate([missed, also_missed])


def _require_gradient(model: Any) -> None:
    if not differentiable(model):
        raise ValueError(
            "the model has values only; ControlVariate needs gradients: give LogJoint gradient=..."
        )
