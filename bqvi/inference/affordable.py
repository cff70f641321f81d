"""A step within the budget: with all its evaluations, with fewer of them, or no step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bqvi.families import GaussianMixture
from bqvi.gradients.settings import DESIGN
from bqvi.inference.state import LoopProblem, LoopState
from bqvi.models.conjugate import is_conjugate
from bqvi.models.data import n_rows


def affordable(problem: LoopProblem, state: LoopState, remaining: int | None) -> LoopProblem | None:
    """The problem with an estimator that makes at most ``remaining`` evaluations at the next step.

    None where the estimator needs more. Without a limit the problem is returned unchanged.
    """
    if remaining is None:
        return problem
    rows = max(_rows(problem, state), 1)
    # each datum counts once, however many draws of theta use its expectations
    if is_conjugate(problem.model):
        return problem if rows <= remaining else None
    each, samples = _points(problem.estimator, state)
    if each * samples * rows <= remaining:
        return problem
    fewer = remaining // rows // each
    if state.anchor is not None:
        fewer -= 1
    estimator = _with_samples(problem.estimator, fewer) if fewer >= 1 else None
    return None if estimator is None else replace(problem, estimator=estimator)


def _rows(problem: LoopProblem, state: LoopState) -> int:
    """Number of data in the next step."""
    if problem.minibatch is None:
        return n_rows(problem.data)
    varying = getattr(problem.minibatch, "next_size", None)
    return problem.minibatch.size if varying is None else int(varying(state.minibatch))


def _points(estimator: Any, state: LoopState) -> tuple[int, int]:
    """(b, L): the next step calls the log joint at b L points at most, with L samples."""
    components = state.q.n_components if isinstance(state.q, GaussianMixture) else 1
    quadrature = getattr(estimator, "quadrature", estimator)
    if not hasattr(quadrature, "nodes"):
        return components, max(estimator.samples, 1) + (state.anchor is not None)
    known = getattr(state.memory, "known", state.memory)
    if known is None or len(known):
        return 1, quadrature.nodes
    first = max(quadrature.nodes, components * DESIGN.first_nodes(state.q.dimension))
    return 1, quadrature.initial_nodes or first


def _with_samples(estimator: Any, samples: int) -> Any:
    """The estimator with this number of samples in a step, or None where it needs more."""
    try:
        if hasattr(estimator, "quadrature"):
            return replace(estimator, quadrature=_with_samples(estimator.quadrature, samples))
        if hasattr(estimator, "nodes"):
            first = estimator.initial_nodes
            first = samples if first is None else min(first, samples)
            return replace(estimator, nodes=min(estimator.nodes, samples), initial_nodes=first)
        return replace(estimator, samples=samples)
    except (TypeError, ValueError):
        return None
