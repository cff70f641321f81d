"""The errors of a user's function: what it may return or raise, and how it is treated, in all engines.

    a number                                  an evaluation; (number, sd) where it is noisy
    -inf, NaN                                 an infeasible point: a failed row with its reason, which counts
                                              as an evaluation; so is a log density below -1e100
    +inf, a complex number, another shape     the run stops, before more is spent (in a batch that runs in
                                              parallel: before the next)
    an error of the code or of the system     NameError, TypeError, AttributeError, ImportError, KeyError,
                                              MemoryError, OSError, ..., and a ValueError or RuntimeError
                                              about shapes of arrays: the run stops at the first
    a numerical exception                     ArithmeticError, LinAlgError, ValueError, RuntimeError,
                                              TimeoutError, an exception class of a simulator: an infeasible
                                              point; at every point of a first batch, the run stops too
    no result, as of a lost worker            as a numerical exception
    Ctrl-C, SystemExit                        pass through unchanged

A run that stops raises an `EvaluationError`. With ``errors="raise"`` numerical exceptions and values that are
not finite stop the run, too; with ``errors="infeasible"`` every exception and every value that is not finite
is an infeasible point, but for a wrong shape or type.
"""

from __future__ import annotations

import builtins
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bqvi.calls.table import Evaluations


def message_of(error: BaseException) -> str:
    """The message of an exception, also where the ``__str__`` of its class fails."""
    try:
        return str(error)
    except Exception as failure:
        return f"(its message cannot be formatted: {type(failure).__name__})"


def kind_and_message(error: BaseException) -> str:
    """The name of the exception's class with its message; the name alone where it has none."""
    message = message_of(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


class EvaluationError(RuntimeError):
    """The user's function failed, is not as documented, or has no usable value.

    Its ``__cause__`` is the exception that the function raised, if it raised one.

    Parameters
    ----------
    message : what failed, where, and what to do.

    Attributes
    ----------
    point : the parameters (P,) at which the function failed; None if no single point is the cause.
    evaluations : the evaluations that returned: of the failed batch or, when a front door raises, of the run.
    state : the state of the run, when a front door raises; this exception may be given as ``resume`` once the
        function is mended.
    no_value : whether the value, or the gradient, at ``point`` is not finite; other points may have one.
    """

    def __init__(
        self,
        message: str,
        point: np.ndarray | None = None,
        evaluations: Evaluations | None = None,
        state: object = None,
        no_value: bool = False,
    ) -> None:
        super().__init__(message)
        self.point = point
        self.evaluations = evaluations
        self.state = state
        self.no_value = no_value

    def __reduce__(self) -> tuple[object, ...]:
        """The message and attributes, so that the exception can be sent to another process."""
        return type(self), (str(self), self.point, self.evaluations, self.state, self.no_value)


def require_good(evaluations: Evaluations, needed: int = 1, who: str = "log joint") -> None:
    """Raise EvaluationError, with the reasons, unless ``needed`` evaluations of ``who`` are good."""
    good = int((~evaluations.failed).sum())
    if good >= needed:
        return
    if not len(evaluations):
        raise EvaluationError("no evaluation has been made yet: take a step first", evaluations=evaluations)
    counts = Counter(reason for reason in evaluations.reasons if reason)
    listed = "; ".join(f"{reason} ({count} times)" for reason, count in counts.most_common(3))
    raise EvaluationError(
        f"the {who} is finite at {good} of the {len(evaluations)} first points, {needed} are needed: "
        f"{listed}. Move the plausible bounds, or give start points, to where the density is positive",
        evaluations=evaluations,
    )


_OF_THE_CODE = (
    NameError,
    AttributeError,
    TypeError,
    LookupError,
    AssertionError,
    SyntaxError,
    NotImplementedError,
    RecursionError,
    UnicodeError,
    BufferError,
    ReferenceError,
    StopIteration,
    StopAsyncIteration,
    Warning,
)
_PLAIN_BUGS = (NameError, AttributeError, TypeError, SyntaxError, UnicodeError, RecursionError)
_OF_THE_SYSTEM = (ImportError, MemoryError, OSError, EOFError, SystemError)
_NAMED = (
    "OutOfMemoryError",
    "BrokenProcessPool",
    "BrokenThreadPool",
    "BrokenExecutor",
    "TerminatedWorkerError",
)
"""Names of RuntimeErrors that are errors of the system, from packages that need not be installed."""
_MISMATCHED = re.compile(
    "could not (be )?broadcast|mismatch in its core dimension|not aligned: |shapes cannot be multiplied"
    "|must match the size of tensor|Sizes of tensors must match|is invalid for input of size"
    "|cannot reshape array of size|all the input array dimensions|array element with a sequence"
    "|does not have enough dimensions|truth value of an array|(too many|not enough) values to unpack"
    "|size mismatch, got|inconsistent tensor size|cannot be broadcast|Boolean value of Tensor with more"
)
"""Messages of a ValueError or RuntimeError of NumPy, torch (version 2) and Python about numbers of entries,
which the code determines and not the point."""
_RAISED = re.compile(r"raised (\w+)")
_TOO_FLAT = re.compile("axis 1 is out of bounds|too many indices|Dimension out of range")
"""Messages about one point (P,) in the place of many (n, P)."""
_OF_SINGLES = re.compile(
    "Float and Double|Double and Float|expected scalar type|same dtype|float != d|double != f"
)
"""Messages of torch about numbers of single beside those of double precision."""
_OF_SHAPES = (IndexError, TypeError, ValueError)
"""The exceptions of a function of one point that is called with several."""
_WITHOUT_TORCH = "Can't call numpy() on Tensor that requires grad"
_WITHOUT_GRAPH = "does not require grad and does not have a grad_fn"


class LostError(RuntimeError):
    """A call without a result: the executor lost its worker, cancelled it or ran out of time for it."""


def is_numerical(error: Exception) -> bool:
    """Whether ``error`` may be due to the point, and not to the function's code or the system."""
    if isinstance(error, TimeoutError):  # TimeoutError is a subclass of OSError
        return True
    if isinstance(error, _OF_THE_CODE + _OF_THE_SYSTEM) or type(error).__name__ in _NAMED:
        return False
    if isinstance(error, ValueError | RuntimeError) and _MISMATCHED.search(message_of(error)):
        return False
    return not any(phrase in message_of(error) for phrase in (_WITHOUT_TORCH, _WITHOUT_GRAPH))


def stops(error: Exception, errors: str) -> bool:
    """Whether a run stops at ``error``, with the user's choice ``errors``, as of `bqvi.Run`."""
    if errors == "numerical":
        return not is_numerical(error)
    return errors == "raise"


def may_be_meant(error: Exception) -> bool:
    """Whether an author may raise ``error`` where the function has no value, so that a run may go on."""
    return not isinstance(error, _PLAIN_BUGS)


def is_of_the_code(reason: str) -> bool:
    """Whether the ``reason`` of a failed row is a built-in exception for which `is_numerical` is false."""
    kind = _RAISED.search(reason)
    if kind is None:
        return False
    found = getattr(builtins, kind[1], None)
    of_the_code = isinstance(found, type) and issubclass(found, _OF_THE_CODE + _OF_THE_SYSTEM)
    of_the_code = of_the_code and not issubclass(found, TimeoutError)  # type: ignore[arg-type]
    return of_the_code or kind[1] in _NAMED or _MISMATCHED.search(reason) is not None


def raised(reason: str) -> bool:
    """Whether the ``reason`` of a failed row is an exception, as `described`, and no value."""
    return "raised " in reason or reason.startswith("has no result")


def described(error: Exception) -> str:
    """The reason of a failed row."""
    if isinstance(error, LostError):
        return f"has no result ({error})"
    return f"raised {kind_and_message(error)}"


@dataclass(frozen=True, eq=False)
class Failures:
    """The evaluations without a value of a run that goes on after them.

    Attributes
    ----------
    n_failed : evaluations without a value. n_raised : those at which an exception was raised.
    of_the_code : those among the latter by `is_of_the_code`.
    first : the reason of the first exception; "" where there is none. at : its point, (D,).
    """

    n_failed: int = 0
    n_raised: int = 0
    of_the_code: int = 0
    first: str = ""
    at: np.ndarray | None = None

    def after(self, made: Evaluations) -> Failures:
        """The failures with those of further evaluations."""
        failed = self.n_failed + int(made.failed.sum())
        rows = [i for i, reason in enumerate(made.reasons) if raised(reason)]
        if not rows:
            return replace(self, n_failed=failed)
        of_the_code = self.of_the_code + sum(is_of_the_code(made.reasons[i]) for i in rows)
        first, at = (self.first, self.at) if self.first else (made.reasons[rows[0]], made.points[rows[0]])
        return Failures(failed, self.n_raised + len(rows), of_the_code, first, at)

    def warnings(
        self, n: int, place: Callable[[np.ndarray], str], counts_as: str = "a density of zero"
    ) -> tuple[str, ...]:
        """A warning that some of ``n`` evaluations raised; () where none did.

        Parameters
        ----------
        place : names the point of the first in words. counts_as : what an evaluation without a value is.
        """
        if self.at is None:
            return ()
        return (
            f"{self.n_raised} of {n} evaluations have no value because of an exception, and count as "
            f"{counts_as}; the first {self.first}, at {place(self.at)}. If this is an error of the code, "
            'correct it and begin anew: errors="raise" stops a run at the first.',
        )


NONE_FAILED = Failures()
OF_ITS_CODE = ". This is an error of its code or of the system, not of a point: correct it"


def advice(error: Exception, gradient: object) -> str:
    """Advice on an error caused by torch tensors where NumPy was meant, or the reverse; "" otherwise."""
    message = message_of(error)
    if _OF_SINGLES.search(message):
        return "; points are float64: make what the function has of float32 so, by .to(torch.float64)"
    if gradient == "autodiff":
        # the last is in torch's signatures, which its versions before 2.5 list in place of the argument
        of_numpy = any(part in message for part in ("Tensor", "keyword argument 'axis'", "torch.dtype"))
        if _WITHOUT_TORCH in message or (of_numpy and isinstance(error, TypeError | AttributeError)):
            return (
                '; with gradient="autodiff" the function is called with torch tensors: write it in torch '
                "throughout, or give gradient=None (or a function) for one of NumPy arrays"
            )
        return ""
    if _WITHOUT_GRAPH in message:
        return (
            "; the gradient is called with NumPy arrays, for which torch has no graph: make a tensor of them "
            'with requires_grad=True, or give gradient="autodiff"'
        )
    if "ndarray" in message and isinstance(error, TypeError | AttributeError):
        return (
            "; the function is called with NumPy arrays, as its gradient is not torch's: for a torch "
            'function give gradient="autodiff"'
        )
    return ""


def advice_on_points(error: Exception, vectorised: bool) -> str:
    """Advice on an ``error`` of a function that has returned no value yet; "" where there is none."""
    if not vectorised:
        if "only integers" in message_of(error):
            return "; the function is called with an array: take **p in the place of p for a dict"
        one = "; the function is called with one point, (P,): of f for many, give lambda x: f(x[None])[0]"
        return one if _TOO_FLAT.search(message_of(error)) else ""
    of_torch = isinstance(error, RuntimeError) and _MISMATCHED.search(message_of(error))
    of_shapes = isinstance(error, _OF_SHAPES) and not isinstance(error, np.linalg.LinAlgError)
    if not (of_shapes or of_torch):
        return ""
    return (
        "; the function is called with many points at once, (n, P): if it takes one, (P,), give "
        "vectorised=False"
    )
