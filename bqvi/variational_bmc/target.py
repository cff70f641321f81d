"""The user's log joint, called so that nothing that it does surprises what comes after.

    points v (n, D)  --coordinates-->  theta (n, P)  --user-->  value, sd?, gradient?
                                                                  + log Jacobian, pulled back
                                                             -->  Evaluations, in the coordinates

What a function may do, and what becomes of it:

    a number                     an evaluation; (number, sd) where it is noisy
    -inf, NaN, an exception      a *failed* row: value -inf, the reason kept. It was paid for and says where
                                 not to look again; so does a number below -1e100
    +inf, a complex number,      the function is not a log density: `TargetError`, before more is spent
    another shape                (in a batch that runs in parallel: before the next)
    Ctrl-C                       `EvaluationInterrupted`
    no start is finite           `require_good`

Each of these exceptions holds the evaluations that were made.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from bqvi.checks import require_above, require_integer
from bqvi.variational_bmc.affine import Affine
from bqvi.variational_bmc.calls import AUTODIFF, LARGEST, Answer, Call
from bqvi.variational_bmc.coordinates import Coordinates
from bqvi.variational_bmc.evaluations import EvaluationInterrupted, Evaluations, TargetError

UNKNOWN = "unknown"


class Executor(Protocol):
    """Whatever has a `map`: executors of concurrent.futures, pools of multiprocessing, MPI, dask, ..."""

    def map(self, function: Callable[[Any], Any], items: Any, /) -> Any:
        """``function`` of each item, in order."""


@dataclass(frozen=True, eq=False)
class Target:
    """A log joint in coordinates.

    Attributes
    ----------
    log_joint : theta (P,) in the user's units -> a number, or (number, standard deviation of its noise).
    coordinates : bounds and coordinates of the parameters.
    gradient : None; "autodiff": ``log_joint`` takes and returns torch tensors; or a function (P,) -> (P,).
    noise_sd : None: exact, unless ``log_joint`` returns a standard deviation; a number: known; "unknown".
    executor : a batch is evaluated through its `map`.
    n_jobs : a batch is evaluated by so many processes of joblib; not with an executor.

    Raises
    ------
    TypeError, ValueError
        where an argument is none of these.
    """

    log_joint: Callable[[Any], Any]
    coordinates: Coordinates
    gradient: Callable[[Any], Any] | str | None = None
    noise_sd: float | str | None = None
    executor: Executor | None = None
    n_jobs: int = 1
    _call: Call = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.log_joint):
            raise TypeError(f"log_joint is {self.log_joint!r}; it must be a function of a parameter vector")
        if not (self.gradient is None or callable(self.gradient) or self.gradient == AUTODIFF):
            raise ValueError(f'gradient is {self.gradient!r}; it must be None, "autodiff" or a function')
        if isinstance(self.noise_sd, str):
            if self.noise_sd != UNKNOWN:
                raise ValueError(f'noise_sd is {self.noise_sd!r}; it must be None, a number or "unknown"')
        elif self.noise_sd is not None:
            require_above("noise_sd", self.noise_sd, 0.0)
            object.__setattr__(self, "noise_sd", float(self.noise_sd))
        if self.executor is not None and not callable(getattr(self.executor, "map", None)):
            raise TypeError(f"executor is {self.executor!r}; it must have a method map(function, items)")
        if require_integer("n_jobs", self.n_jobs, 1) > 1:
            self._require_joblib()
        call = Call(self.log_joint, self.gradient, self.coordinates.names)
        object.__setattr__(self, "_call", call)

    def _require_joblib(self) -> None:
        if self.executor is not None:
            raise ValueError(f"n_jobs is {self.n_jobs} and executor is given; give one of the two")
        try:
            import joblib  # noqa: F401
        except ImportError:
            message = f"n_jobs is {self.n_jobs}, which needs joblib: pip install joblib, or give executor"
            raise ValueError(message) from None

    @property
    def dimension(self) -> int:
        """The number D of coordinates."""
        return self.coordinates.dimension

    @property
    def has_gradient(self) -> bool:
        """Whether evaluations bring gradients."""
        return self.gradient is not None

    @property
    def noise_unknown(self) -> bool:
        """Whether values are noisy and nobody knows how much."""
        return self.noise_sd == UNKNOWN

    def moved(self, inner: Affine) -> Target:
        """The same target in the coordinates w, v = inner.shift + inner.matrix w."""
        return dataclasses.replace(self, coordinates=self.coordinates.moved(inner))

    def evaluate(self, points: np.ndarray) -> Evaluations:
        """Evaluate at the points (n, D).

        Raises
        ------
        TargetError
            The log joint returned something that is no log density, or the executor failed; holds the rows
            before.
        EvaluationInterrupted
            Ctrl-C; holds the rows before.
        """
        points = np.asarray(points, float)
        theta = self.coordinates.to_user(points)
        answers: list[Answer] = []
        try:
            for answer in self._answers(theta):
                if answer.malformed:
                    raise TargetError(answer.malformed, self._evaluations(points[: len(answers)], answers))
                answers.append(answer)
            if len(answers) != len(theta):
                message = f"the executor's map returned {len(answers)} results for {len(theta)} points"
                raise TargetError(message, self._evaluations(points[: len(answers)], answers[: len(points)]))
        except TargetError:
            raise
        except Exception as failure:  # not the user's function, which `Call` guards
            raise TargetError(
                f"evaluating in parallel failed ({type(failure).__name__}: {failure}); processes need "
                "functions that can be pickled, defined at the top of a module",
                self._evaluations(points[: len(answers)], answers),
            ) from failure
        except KeyboardInterrupt:
            raise EvaluationInterrupted(self._evaluations(points[: len(answers)], answers)) from None
        return self._evaluations(points, answers)

    def _answers(self, theta: np.ndarray) -> Iterator[Answer]:
        if self.executor is not None:
            yield from self.executor.map(self._call, list(theta))
        elif self.n_jobs > 1 and len(theta) > 1:
            import joblib

            parallel = joblib.Parallel(n_jobs=min(self.n_jobs, len(theta)), return_as="generator")
            yield from parallel(joblib.delayed(self._call)(row) for row in theta)
        else:
            yield from map(self._call, theta)

    def given(
        self,
        theta: Any,
        values: Any,
        gradients: Any = None,
        noise_sd: Any = None,
    ) -> Evaluations:
        """Evaluations made before, in the user's units.

        Parameters
        ----------
        theta : (n, P), inside the bounds.
        values : (n,), the log joint there; -inf or NaN where it failed.
        gradients : (n, P) or None.
        noise_sd : (n,), a number or None; the target's own where it has one.

        Raises
        ------
        ValueError
            Shapes disagree, a value is +inf, parameters lie outside of the bounds.
        """
        theta, values = np.atleast_2d(np.asarray(theta, float)), np.atleast_1d(np.asarray(values, float))
        if values.shape != (len(theta),):
            raise ValueError(
                f"values has shape {values.shape}; it must be ({len(theta)},), one for each theta"
            )
        if (values == np.inf).any():
            raise ValueError(f"values is inf in row {int(np.argmax(values))}; a log density is below inf")
        points = self.coordinates.from_user(theta)
        slopes = None if gradients is None else np.asarray(gradients, float)
        if slopes is not None and slopes.shape != theta.shape:
            raise ValueError(f"gradients has shape {slopes.shape}; it must be {theta.shape}")
        sds = None if noise_sd is None else np.asarray(noise_sd, float)
        if sds is not None:
            if sds.shape not in ((), values.shape):
                raise ValueError(f"noise_sd has shape {sds.shape}; it must be a number or {values.shape}")
            sds = np.broadcast_to(sds, values.shape)
        if sds is not None and not (sds > 0.0).all():
            raise ValueError("noise_sd has entries that are not positive; give None where there is no noise")
        answers = [
            _given_row(
                values[i], None if sds is None else sds[i], None if slopes is None else slopes[i], theta[i]
            )
            for i in range(len(values))
        ]
        return self._evaluations(points, answers, with_gradients=slopes is not None)

    def _evaluations(
        self, points: np.ndarray, answers: Sequence[Answer], with_gradients: bool | None = None
    ) -> Evaluations:
        raw = np.array([answer.value for answer in answers])
        failed = np.array([not math.isfinite(answer.value) for answer in answers], bool)
        values = np.where(failed, -np.inf, raw + self.coordinates.log_jacobian(points)) if len(raw) else raw
        return Evaluations(
            points=points,
            values=values,
            gradients=self._gradients(points, answers)
            if (self.has_gradient if with_gradients is None else with_gradients)
            else None,
            noise_variance=self._noise(answers, failed),
            failed=failed,
            faults=tuple(answer.fault for answer in answers),
        )

    def _gradients(self, points: np.ndarray, answers: Sequence[Answer]) -> np.ndarray:
        missing = np.full(self.coordinates.n_parameters, np.nan)
        rows = [missing if a.gradient is None else a.gradient for a in answers]
        raw = np.array(rows).reshape(len(points), self.coordinates.n_parameters)
        slopes = self.coordinates.log_jacobian_gradient(points)
        out: np.ndarray = self.coordinates.pull_gradients(points, raw) + slopes
        return out

    def _noise(self, answers: Sequence[Answer], failed: np.ndarray) -> np.ndarray | None:
        told = [answer.sd for answer in answers]
        if isinstance(self.noise_sd, float):
            told = [self.noise_sd if sd is None else sd for sd in told]
        if all(sd is None for sd in told):
            return None
        variance = np.array([np.nan if sd is None else float(sd) ** 2 for sd in told])
        return np.where(failed, np.nan, variance)


def _given_row(value: float, sd: float | None, gradient: np.ndarray | None, theta: np.ndarray) -> Answer:
    if not abs(value) < LARGEST:
        return Answer(fault=f"was given as {value}")
    if gradient is not None and not (np.abs(gradient) < LARGEST).all():
        return Answer(value, sd, np.full(len(theta), np.nan), fault="the gradient is not finite")
    return Answer(value, sd, gradient)
