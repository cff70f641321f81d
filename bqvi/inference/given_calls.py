"""The user's choices for calls of a log joint: its bounds, the executor, and earlier evaluations.

Every estimator evaluates a `LogJoint` through `bqvi.calls`, in coordinates without bounds. Earlier
evaluations and the treatment of points without a value are for those that keep their evaluations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bqvi.calls import Coordinates, Run, TargetModel, make_coordinates
from bqvi.calls.bounds import Bound
from bqvi.calls.caller import evaluation_arrays
from bqvi.calls.selection import selected
from bqvi.calls.target_model import box_around, require_alone
from bqvi.checks import require_numbers
from bqvi.gradients import BayesianQuadrature, Estimator, RememberingEstimator
from bqvi.inference.methods import Method
from bqvi.inference.state import LoopState
from bqvi.models.log_joint import LogJoint
from gp.arrays import Array, shown

_BOUNDS = ("lower", "upper", "plausible_lower", "plausible_upper")


@dataclass(frozen=True, eq=False)
class GivenCalls:
    """The user's choices for calls of a log joint.

    Attributes
    ----------
    bounds : lower, upper, plausible_lower, plausible_upper.
    periodic, names, run, evaluations : as of `fit`.
    """

    bounds: tuple[Bound, Bound, Bound, Bound]
    periodic: Any
    names: Sequence[str] | None
    run: Run
    evaluations: Sequence[Array] | None

    def of_target(self, target: TargetModel, keeps: bool) -> GivenCalls:
        """The choices for a model of another package, with its names and its box where evaluations are kept.

        Methods that keep no evaluations begin at N(0, I), as for any log joint.
        """
        lower, upper, low, high = self.bounds
        require_alone(target, lower=lower, upper=upper, periodic=self.periodic, names=self.names)
        if not keeps:
            return self
        around = (None, None) if target.boxed else box_around(np.atleast_2d(np.asarray(target.start)))
        low, high = (other if end is None else end for end, other in zip((low, high), around, strict=True))
        return replace(self, bounds=(None, None, *target.box(low, high)), names=target.names)

    @property
    def turning(self) -> bool:
        """Whether any parameter is said to be periodic."""
        return (
            not isinstance(self.periodic, Sequence | np.ndarray)
            or getattr(self.periodic, "shape", None) == ()
            or len(self.periodic) > 0
        )

    @property
    def stated(self) -> list[str]:
        """The names of the arguments that were given."""
        given = dict(zip((*_BOUNDS, "names", "run.executor", "evaluations", "run.errors"),
                         (*self.bounds, self.names, self.run.executor, self.evaluations, self.run.errors),
                         strict=True))  # fmt: skip
        found = [name for name, value in given.items() if value is not None]
        return found + ["periodic"] * self.turning + ["run.n_jobs"] * (self.run.n_jobs > 1)

    def coordinates(self, dimension: int) -> Coordinates | None:
        """The coordinates of the parameters; None where neither bounds nor names were given."""
        if self.names is None and not self.turning and all(bound is None for bound in self.bounds):
            return None
        return make_coordinates(*self.bounds, periodic=self.periodic, names=self.names, dimension=dimension)


def with_calls(model: Any, choice: Method | None, method: str | Estimator, calls: GivenCalls) -> Any:
    """The model with bounds, workers and a policy for exceptions; unchanged where none was given.

    Parameters
    ----------
    choice, method : as of `choices.problem_of`. calls : the user's choices.
    """
    keeps = isinstance(method if choice is None else choice.estimator(None), RememberingEstimator)
    if isinstance(model, LogJoint) and model.target is not None:
        calls = calls.of_target(model.target, keeps)
    if not calls.stated:
        return model
    _require_log_joint(model, calls.stated[0])
    if not keeps and (calls.evaluations is not None or calls.run.errors == "infeasible"):
        name = "run.errors='infeasible'" if calls.evaluations is None else "evaluations"
        raise ValueError(
            f"{name} was given with method {method!r}, which averages over draws from q; it is for methods "
            "that keep their evaluations, such as 'bq'"
        )
    return model.within(calls.coordinates(model.dimension), calls.run)


def with_noise(
    model: Any,
    choice: Method | None,
    method: str | Estimator,
    noise_sd: float | Callable[[Array], Array] | None,
    gradient_noise_sd: float | Sequence[float] | np.ndarray | None,
) -> Any:
    """The model with the noise of its values and gradients; unchanged where none was given.

    Parameters
    ----------
    choice, method : as of `choices.problem_of`. noise_sd, gradient_noise_sd : as of `fit`.
    """
    if noise_sd is None and gradient_noise_sd is None:
        return model
    name = "gradient_noise_sd" if noise_sd is None else "noise_sd"
    _require_log_joint(model, name)
    estimator = method if choice is None else choice.estimator(None)
    if not isinstance(estimator, BayesianQuadrature):
        raise ValueError(
            f"{name} was given with method {method!r}; it is for 'bq', whose Gaussian process takes it"
        )
    if not model.differentiable:
        if gradient_noise_sd is not None:
            raise ValueError("gradient_noise_sd was given, and the log joint has no gradient; leave it out")
        return model.with_noise(noise_sd, None)
    if noise_sd is None or gradient_noise_sd is None:
        missing = "noise_sd" if noise_sd is None else "gradient_noise_sd"
        raise ValueError(
            f"{name} was given and {missing} was not; of a log joint with gradients give both"
            + (", 0 where gradients are exact" if noise_sd is not None else "")
        )
    return model.with_noise(noise_sd, _gradient_sds(model, gradient_noise_sd))


def _gradient_sds(model: Any, gradient_noise_sd: Any) -> np.ndarray:
    """The standard deviations of a gradient's entries: a number, or one for each, (P,)."""
    sds = require_numbers("gradient_noise_sd", gradient_noise_sd)
    if sds.shape not in ((), (model.dimension,)) or not (np.isfinite(sds) & (sds >= 0.0)).all():
        raise ValueError(
            f"gradient_noise_sd is {shown(gradient_noise_sd)}; it must be a number or ({model.dimension},), "
            "finite and not negative"
        )
    return sds


def _require_log_joint(model: object, name: str) -> None:
    if not isinstance(model, LogJoint) or type(model).log_prior is not LogJoint.log_prior:
        raise TypeError(f"{name} was given, but model is a {type(model).__name__}; it is for a LogJoint")


def with_known(model: LogJoint, state: LoopState, evaluations: object, budget: int | None) -> LoopState:
    """The state before the first step with evaluations that were made before.

    Parameters
    ----------
    evaluations : theta and values, then gradients; see `fit`.
    budget : the budget, in which the evaluations count.
    """
    from bqvi.gradients.evaluations import caller_of

    arrays = evaluation_arrays(evaluations)
    assert arrays is not None  # called only where evaluations were given
    if len(arrays) == 4:
        raise ValueError("evaluations has noise sds; fit takes them as noise_sd")
    if not hasattr(state.memory, "with_evaluations"):
        raise ValueError("evaluations was given, and the estimator keeps none (memory=0)")
    if model.differentiable and (len(arrays) < 3 or arrays[2] is None):
        raise ValueError(
            "evaluations has no gradients, and the log joint has; give (theta, values, gradients), or a log "
            "joint with gradient=None"
        )
    shape = np.shape(np.atleast_2d(np.asarray(arrays[0])))
    if model.coordinates is None and shape[1:] != (model.dimension,):
        raise ValueError(
            f"evaluations has theta of shape {shape}; it must be (n, {model.dimension}), of the "
            "parameters of the log joint"
        )
    rows = caller_of(model).given(*arrays)
    rows = selected(rows if model.differentiable else replace(rows, gradients=None), budget)
    spent = state.step_evaluations + len(rows)
    return replace(state, memory=state.memory.with_evaluations(rows), step_evaluations=spent)
