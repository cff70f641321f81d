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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np

from bqvi.checks import require_above, require_integer
from bqvi.variational_bmc.affine import Affine
from bqvi.variational_bmc.coordinates import Coordinates
from gp.arrays import to_numpy

LARGEST = 1e100
"""No log density of data has such values; they are overflows, or stand for 'impossible'."""
UNKNOWN = "unknown"
AUTODIFF = "autodiff"


class Executor(Protocol):
    """Whatever has a `map`: executors of concurrent.futures, pools of multiprocessing, MPI, dask, ..."""

    def map(self, function: Callable[[Any], Any], items: Any, /) -> Any:
        """``function`` of each item, in order."""


@dataclass(frozen=True, eq=False)
class Evaluations:
    """What was paid for, in the coordinates; n rows.

    Attributes
    ----------
    points : (n, D)
    values : (n,), the log joint with the log Jacobian; -inf where `failed`.
    gradients : (n, D) or None; a row is NaN where the function failed, or only its gradient did.
    noise_variance : (n,) or None; NaN where the function failed.
    failed : (n,) bool.
    faults : for each row what went wrong there, or "".
    """

    points: np.ndarray
    values: np.ndarray
    gradients: np.ndarray | None
    noise_variance: np.ndarray | None
    failed: np.ndarray
    faults: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def none(cls, dimension: int) -> Self:
        """No evaluations yet."""
        return cls(np.zeros((0, dimension)), np.zeros(0), None, None, np.zeros(0, bool), ())

    def __getitem__(self, rows: Any) -> Evaluations:
        """The evaluations ``rows``: a slice, indices, or n booleans."""
        index = np.arange(len(self))[rows]
        return Evaluations(
            self.points[index],
            self.values[index],
            None if self.gradients is None else self.gradients[index],
            None if self.noise_variance is None else self.noise_variance[index],
            self.failed[index],
            tuple(self.faults[i] for i in index),
        )

    def joined(self, more: Evaluations) -> Evaluations:
        """These, then ``more``; NaN stands for a gradient or a noise that one of the two does not have."""
        return Evaluations(
            np.concatenate([self.points, more.points]),
            np.concatenate([self.values, more.values]),
            _joined(self.gradients, more.gradients, self.points.shape, more.points.shape),
            _joined(self.noise_variance, more.noise_variance, self.values.shape, more.values.shape),
            np.concatenate([self.failed, more.failed]),
            self.faults + more.faults,
        )

    def moved(self, inner: Affine) -> Evaluations:
        """The same in the coordinates w of `Coordinates.moved`, v = inner.shift + inner.matrix w."""
        return dataclasses.replace(
            self,
            points=inner.inverse(self.points),
            values=self.values + inner.log_determinant,
            gradients=None if self.gradients is None else self.gradients @ inner.matrix,
        )


def _joined(
    a: np.ndarray | None, b: np.ndarray | None, a_shape: tuple[int, ...], b_shape: tuple[int, ...]
) -> np.ndarray | None:
    if (a is None and b is None) or (a is None and a_shape[0] == 0) or (b is None and b_shape[0] == 0):
        return b if a is None else a
    first = np.full(a_shape, np.nan) if a is None else a
    second = np.full(b_shape, np.nan) if b is None else b
    return np.concatenate([first, second])


class TargetError(RuntimeError):
    """The log joint is not what it should be, or nothing could be learnt from it.

    Attributes
    ----------
    evaluations : those made until then by the call that raised, or by the whole run once it passed there.
    state : of the run, once it passed there: ``resume`` takes this exception when the function is mended.
    """

    def __init__(self, message: str, evaluations: Evaluations | None = None, state: object = None) -> None:
        super().__init__(message)
        self.evaluations = evaluations
        self.state = state

    def __reduce__(self) -> Any:
        """A process that fails hands over what it had."""
        return type(self), (str(self), self.evaluations, self.state)


class EvaluationInterrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of a batch.

    Attributes
    ----------
    evaluations : the rows of the batch that were finished.
    """

    def __init__(self, evaluations: Evaluations) -> None:
        super().__init__(f"interrupted after {len(evaluations)} evaluations of a batch")
        self.evaluations = evaluations


@dataclass(frozen=True)
class _Answer:
    """What one call gave, still in the user's units."""

    value: float = -math.inf
    sd: float | None = None
    gradient: np.ndarray | None = None
    fault: str = ""
    malformed: str = ""
    """Why it is no log density at all."""


@dataclass(frozen=True)
class _Call:
    """One call of the user's functions; picklable where they are, and raises nothing but interrupts."""

    log_joint: Callable[[Any], Any]
    gradient: Callable[[Any], Any] | str | None
    names: tuple[str, ...]

    def __call__(self, theta: np.ndarray) -> _Answer:
        try:
            returned, slope = self._both(theta)
        except Exception as error:
            return _Answer(fault=f"raised {type(error).__name__}: {error}")
        value, sd, malformed = _number(returned)
        if malformed:
            return _Answer(malformed=f"{malformed} at {self._place(theta)}")
        if not value > -LARGEST:  # NaN too
            return _Answer(sd=sd, fault=f"returned {value}")
        return self._with_gradient(theta, value, sd, slope)

    def _both(self, theta: np.ndarray) -> tuple[Any, Any]:
        if self.gradient != AUTODIFF:
            return self.log_joint(theta.copy()), None
        import torch

        leaf = torch.tensor(theta, dtype=torch.float64, requires_grad=True)
        with torch.enable_grad():
            returned = self.log_joint(leaf)
            head = returned[0] if isinstance(returned, tuple) else returned
            scalar = isinstance(head, torch.Tensor) and head.numel() == 1 and head.requires_grad
            slope = torch.autograd.grad(head.reshape(()), leaf)[0].numpy() if scalar else None
        plain = returned if isinstance(returned, tuple) else (returned,)
        host = tuple(to_numpy(x.detach()) if isinstance(x, torch.Tensor) else x for x in plain)
        return (host if isinstance(returned, tuple) else host[0]), slope

    def _with_gradient(self, theta: np.ndarray, value: float, sd: float | None, slope: Any) -> _Answer:
        if self.gradient is None:
            return _Answer(value, sd)
        nothing = np.full(len(theta), np.nan)
        if self.gradient == AUTODIFF and slope is None:
            malformed = f"the log joint does not depend on theta through torch at {self._place(theta)}"
            return _Answer(malformed=f'{malformed}; gradient="autodiff" needs a torch function')
        if callable(self.gradient):
            try:
                slope = self.gradient(theta.copy())
            except Exception as error:
                fault = f"the gradient raised {type(error).__name__}: {error}"
                return _Answer(value, sd, nothing, fault=fault)
        array = np.asarray(to_numpy(slope))
        if array.shape != theta.shape or array.dtype.kind not in "fiu":
            told = f"the gradient returned {slope!r:.200} at {self._place(theta)}"
            malformed = f"{told}; it must be ({len(theta)},) real numbers"
            return _Answer(malformed=malformed)
        if not (np.abs(array) < LARGEST).all():
            return _Answer(value, sd, nothing, fault="the gradient is not finite")
        return _Answer(value, sd, array.astype(float))

    def _place(self, theta: np.ndarray) -> str:
        return ", ".join(f"{name} = {x:.6g}" for name, x in zip(self.names, theta, strict=True))


def _number(returned: Any) -> tuple[float, float | None, str]:
    """Value, sd and what is wrong with them."""
    if isinstance(returned, tuple):
        if len(returned) != 2:
            told = (
                f"the log joint returned a tuple of {len(returned)}; it must return a number or (number, sd)"
            )
            return math.nan, None, told
        value, _, wrong = _number(returned[0])
        sd, _, wrong_sd = (
            _number(returned[1]) if not isinstance(returned[1], tuple) else (0.0, None, "a tuple")
        )
        if wrong or wrong_sd or not (math.isfinite(sd) and sd > 0.0):
            told = f"the log joint returned the sd {returned[1]!r:.80}; it must be a positive number"
            return math.nan, None, wrong or told
        return value, sd, ""
    try:
        array = np.asarray(to_numpy(returned))
    except (TypeError, ValueError):
        array = np.asarray(None)
    if array.shape not in ((), (1,)) or array.dtype.kind not in "fiu":
        told = (
            f"the log joint returned {returned!r:.80} (shape {array.shape}, {array.dtype}); it must return "
            "one real number for one parameter vector"
        )
        return math.nan, None, told
    value = float(array.reshape(()))
    if value > LARGEST:
        told = f"the log joint is {value}; it must be finite, or -inf where the density vanishes"
        return value, None, told
    return value, None, ""


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
    _call: _Call = field(init=False, repr=False)

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
        call = _Call(self.log_joint, self.gradient, self.coordinates.names)
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
        answers: list[_Answer] = []
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
        except Exception as failure:  # not the user's function, which `_Call` guards
            raise TargetError(
                f"evaluating in parallel failed ({type(failure).__name__}: {failure}); processes need "
                "functions that can be pickled, defined at the top of a module",
                self._evaluations(points[: len(answers)], answers),
            ) from failure
        except KeyboardInterrupt:
            raise EvaluationInterrupted(self._evaluations(points[: len(answers)], answers)) from None
        return self._evaluations(points, answers)

    def _answers(self, theta: np.ndarray) -> Iterator[_Answer]:
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
        self, points: np.ndarray, answers: Sequence[_Answer], with_gradients: bool | None = None
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

    def _gradients(self, points: np.ndarray, answers: Sequence[_Answer]) -> np.ndarray:
        missing = np.full(self.coordinates.n_parameters, np.nan)
        rows = [missing if a.gradient is None else a.gradient for a in answers]
        raw = np.array(rows).reshape(len(points), self.coordinates.n_parameters)
        slopes = self.coordinates.log_jacobian_gradient(points)
        out: np.ndarray = self.coordinates.pull_gradients(points, raw) + slopes
        return out

    def _noise(self, answers: Sequence[_Answer], failed: np.ndarray) -> np.ndarray | None:
        told = [answer.sd for answer in answers]
        if isinstance(self.noise_sd, float):
            told = [self.noise_sd if sd is None else sd for sd in told]
        if all(sd is None for sd in told):
            return None
        variance = np.array([np.nan if sd is None else float(sd) ** 2 for sd in told])
        return np.where(failed, np.nan, variance)


def _given_row(value: float, sd: float | None, gradient: np.ndarray | None, theta: np.ndarray) -> _Answer:
    if not abs(value) < LARGEST:
        return _Answer(fault=f"was given as {value}")
    if gradient is not None and not (np.abs(gradient) < LARGEST).all():
        return _Answer(value, sd, np.full(len(theta), np.nan), fault="the gradient is not finite")
    return _Answer(value, sd, gradient)


def require_good(evaluations: Evaluations, needed: int = 1) -> None:
    """TargetError unless ``needed`` of the evaluations are good; it tells what went wrong most often."""
    good = int((~evaluations.failed).sum())
    if good >= needed:
        return
    reasons: Mapping[str, int] = _counted([fault for fault in evaluations.faults if fault])
    told = "; ".join(f"{reason} ({count} times)" for reason, count in list(reasons.items())[:3])
    raise TargetError(
        f"the log joint is finite at {good} of the {len(evaluations)} first points, {needed} are needed: "
        f"{told}. Move the plausible bounds, or give start points, to where the density is positive",
        evaluations,
    )


def _counted(reasons: Sequence[str]) -> dict[str, int]:
    counts = {reason: reasons.count(reason) for reason in dict.fromkeys(reasons)}
    return dict(sorted(counts.items(), key=lambda item: -item[1]))
