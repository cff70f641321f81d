"""Errors of a user's function: what it may return or raise, how it is treated, and gradients of another one.

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

*Gradients* are compared with the values, by the evaluations of the run. Between two evaluations that are near
each other the trapezoid rule gives the difference of the values,

    f(y) - f(x)  =  (grad f(x) + grad f(y)) . (y - x) / 2  +  O(|y - x|^3),

exactly where f is quadratic. A correct gradient violates this where the curvature of f changes much between x
and y. But by the mean value theorem f(y) - f(x) lies between the slopes at both ends unless f is convex on
one part of the segment and concave on another. Where so few pairs fulfil this that a correct gradient would
give as few with a probability below 1e-5, the run stops. A single one is left out, and said, by all doors.
"""

from __future__ import annotations

import builtins
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import bdtr, betainc

from bqvi.calls.function import AUTODIFF, Function
from bqvi.calls.settings import CHECK
from bqvi.calls.table import Evaluations
from gp.linalg import least_squares


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
NEVER_MEANT = (NameError, AttributeError, TypeError, SyntaxError, UnicodeError, RecursionError)
"""What no author raises where the function has no value, so that a run may go on."""
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


CONTRADICTED = "the gradient was left out, as all other evaluations contradict it"
"""The reason of an evaluation whose value alone is used."""
_FEWEST = 6
"""The least number of pairs whose median is taken; with fewer, one pair could determine it."""
_ROUNDING = 1e-6
"""Differences below this share of the largest value, or of one, count as rounding."""
N_NEAR = 5
"""The number of `points_near`."""
_LEAVING = ". Its gradient is wrong if the function leaves torch on the way (numpy, .item(), .detach())"


def left_out(count: int, of: int, place: str) -> str:
    """A warning of ``count`` gradients of ``of``, the first at a ``place``, that others contradict."""
    return f"{count} of {of} gradients: {CONTRADICTED}, or f has a kink; the first is at {place}."


def _differences(
    points: np.ndarray, values: np.ndarray, gradients: np.ndarray, scale: np.ndarray | float | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Differences of values to nearest neighbours (k,), their trapezoids (k,), slopes at both ends (2, k).

    Distances are in units of ``scale``, by default the points' sds. None is below the values' rounding.
    """
    scale = np.maximum(points.std(axis=0), 1e-300) if scale is None else scale
    distances, nearest = cKDTree(points / scale).query(points / scale, k=2)
    apart = np.asarray(distances)[:, 1] > 0.0
    first, second = np.flatnonzero(apart), np.asarray(nearest)[apart, 1]
    a, steps = values[second] - values[first], points[second] - points[first]
    slopes = np.einsum("knd,nd->kn", gradients[np.stack([first, second])], steps)
    least = 4.0 * np.finfo(float).eps * np.maximum(np.abs(values[first]), np.abs(values[second]))
    seen = np.maximum(np.abs(a), np.abs(slopes.mean(0))) > least
    return a[seen], slopes[:, seen].mean(0), slopes[:, seen]


def require_consistent(function: Function, before: int, made: Evaluations | None) -> None:
    """Raise EvaluationError where given gradients are not those of the values, by the test of the module.

    The check is made each time that the evaluations have doubled, and only for exact values.

    Parameters
    ----------
    function : the user's function. Derivatives by torch are checked too, as it may leave torch on the way.
    before : the number of evaluations at the last check.
    made : all evaluations so far; None where they are not to be compared.
    """
    if made is None or made.gradients is None or function.gradient is None:
        return
    if (before // _FEWEST).bit_length() == (len(made) // _FEWEST).bit_length():
        return
    if made.noise_variance is not None and np.any(np.nan_to_num(made.noise_variance)):
        return
    if function.range.density:
        made = made.censored  # differences across a cliff say nothing of slopes
    good = made[made.good]
    if not len(good):
        return
    values = good.values.reshape(len(good), -1)
    gradients = np.asarray(good.gradients).reshape(len(good), values.shape[1], -1)
    for column in range(values.shape[1]):
        message = _contradiction(good.points, values[:, column], gradients[:, column], function.range.density)
        if message:
            raise EvaluationError(message + (_LEAVING if function.gradient == AUTODIFF else ""))


def _contradiction(points: np.ndarray, values: np.ndarray, gradients: np.ndarray, nats: bool) -> str:
    """The message that gradients (n, D) are not those of the values (n,); "" where they may be."""
    if len(points) < _FEWEST:
        return ""
    # smaller differences may be errors of a solver
    least = 0.1 if nats else CHECK.large_share * np.ptp(values)
    # An outlier in one coordinate makes that coordinate's standard deviation large, and all other points
    # neighbours. Differences are therefore also compared in units of the run's plausible box (scale 1).
    both = [_between(_differences(points, values, gradients, one), least, nats) for one in (1.0, None)]
    if any(len(one) < _FEWEST or bdtr(one.sum(), len(one), CHECK.consistent) > CHECK.chance for one in both):
        return ""
    # of a function that jumps to a floor, differences on either side of the largest gap lie between slopes
    order = np.sort(values)
    above = values > order[np.argmax(np.diff(order))]
    sides = [rows for rows in (above, ~above) if rows.sum() > 1]
    alone = [_between(_differences(points[r], values[r], gradients[r], 1.0), least, nats) for r in sides]
    if len(beside := np.concatenate(alone)) < _FEWEST or beside.mean() >= CHECK.consistent:
        return ""
    return (
        f"the gradient is not that of the values: of {len(both[-1])} differences between neighbouring "
        f"evaluations {int(both[-1].sum())} lie between the slopes at both ends, where nearly all should: "
        f"{_advice(points, values, gradients)}. If it is right, the values are noisy: state their noise, by "
        "noise_sd or by a log joint that returns (value, sd); or do without, by gradient=None"
    )


def _between(differences: tuple[np.ndarray, np.ndarray, np.ndarray], least: float, nats: bool) -> np.ndarray:
    """Which of the k differences larger than ``least`` lie between the slopes at both ends, (k,) bool.

    Other functions than log densities, as bumps, turn from convex to concave: of these, differences of points
    with like slopes are to be about the trapezoid's.
    """
    a, b, slopes = differences
    large = np.maximum(np.abs(a), np.abs(b)) > least
    if not nats:
        like = np.abs(slopes[0] - slopes[1]) <= 0.5 * np.abs(slopes).sum(0)
        return (np.abs(a - b) <= 0.25 * (np.abs(a) + np.abs(b)))[large & like]
    rounding = _ROUNDING * np.abs(a)  # of a plane both slopes are the difference
    return ((slopes.min(0) - rounding <= a) & (a <= slopes.max(0) + rounding))[large]


def gradient_warnings(points: np.ndarray, values: np.ndarray, gradients: np.ndarray | None) -> list[str]:
    """A warning where gradients, or single entries, disagree with values, in a list; otherwise an empty list.

    Parameters
    ----------
    points : the points (n, D). values : the values (n,), in nats, not noisy.
    gradients : the gradients (n, D), NaN where there is none; or None.
    """
    if gradients is None or not gradients.size:
        return []
    points, values, gradients = (each[np.isfinite(gradients).all(1)] for each in (points, values, gradients))
    found, message = _of_entries(points, values, gradients), _contradiction(points, values, gradients, True)
    return found or ([f"T{message[1:]}."] if message else [])


def _of_entries(points: np.ndarray, values: np.ndarray, gradients: np.ndarray) -> list[str]:
    """A warning of entries of the gradient that are multiples of those of the values, in a list."""
    n, d = points.shape
    if n < max(_FEWEST, 3 * d + 2):
        return []
    scaled = points / np.maximum(points.std(axis=0), 1e-300)
    nearest = np.asarray(cKDTree(scaled).query(scaled, k=N_NEAR)[1])[:, 1:]
    pairs = np.stack([np.repeat(np.arange(n), nearest.shape[1]), nearest.ravel()])
    pairs = np.unique(np.sort(pairs, axis=0), axis=1)
    changes, left = _explained(points, values, gradients, pairs)
    wrong = np.flatnonzero(np.abs(changes) > CHECK.multiple)
    by_chance = betainc(0.5 * (n - 1 - 3 * d), 0.5 * d, left)  # or less, of n - 1 independent errors
    if left > CHECK.left or by_chance > CHECK.chance or not len(wrong):
        return []
    factors, said = 1.0 / (1.0 + changes), "Gradients disagree with the values of"
    multiples = ", ".join(f"entry {i}, counted from 0, is {factors[i]:.2g} times that" for i in wrong)
    if len(wrong) == d and np.ptp(factors) < 0.2 * abs(factors.mean()):
        multiples = f"the gradient is {factors.mean():.2g} times that"
    return [f"{said} {n} evaluations: {multiples} of the values. Compare them with difference quotients."]


def contradicted(
    errors: np.ndarray,
    scale: float,
    without: Callable[[int], tuple[np.ndarray, float, np.ndarray] | None],
    usual: float = 1.0,
) -> int | None:
    """The gradient that all other evaluations contradict by ten sds, once fitted without it; or None.

    Parameters
    ----------
    errors : the mean squared errors (k,) of gradients, each left out alone, over their variances for unit
        scale. scale : the squared scale of the process.
    without : a function of a row that fits a process without that gradient, and returns the errors of the
        others and the scale, and the errors of all by its hyperparameters; None where there is none.
    usual : the errors of others, in units of the scale, up to which they are not unusual.
    """
    row = int(errors.argmax()) if errors.size else 0
    if not errors.max(initial=0.0) > 9.0 * scale:  # three sds in the fit with it
        return None
    found = without(row)
    if found is None:
        return None
    others, unit, every = found
    return row if every[row] > 100.0 * max(others.max(initial=0.0) / usual, unit) else None


def may_be_wrong(made: Evaluations, row: int) -> bool:
    """Whether another gradient at one evaluation explains most residuals of trapezoids from it to others.

    Parameters
    ----------
    made : the evaluations of a log density, with gradients. row : the row of the evaluation.
    """
    assert made.gradients is not None
    others = np.flatnonzero(made.censored.good & (np.arange(len(made)) != row))
    pairs = np.stack([np.full(len(others), row), others])
    enough = len(others) >= _FEWEST * made.points.shape[1]
    return enough and _explained(made.points, made.values, made.gradients, pairs, True)[1] < 0.5


def _explained(
    points: np.ndarray, values: np.ndarray, gradients: np.ndarray, pairs: np.ndarray, terms: bool = False
) -> tuple[np.ndarray, float]:
    """The correction (D,) of gradients by a regression, and the share of squared residuals that remains.

    Differences of values between ``pairs`` (2, k) are regressed on the D parts of their trapezoids, whose
    coefficients are 1; or for ``terms`` on the steps, for a term that one gradient of all pairs lacks. The
    trapezoid is off by h^3 / 12 times the third derivative: the former regression is given terms of third and
    fourth order in each coordinate. Pairs are weighted by the inverse change of the slopes.
    """
    first, second = pairs
    steps = points[second] - points[first]
    change = np.abs((gradients[second] - gradients[first]) * steps).sum(1)
    sizes = np.abs(values[pairs]).max(0)  # those of the pair, as distant ones may be huge
    weights = 1.0 / (change + _ROUNDING * (1.0 + sizes))
    slopes = 0.5 * (gradients[first] + gradients[second]) * steps
    residuals = weights * (values[second] - values[first] - slopes.sum(1))
    parts = weights[:, None] * (0.5 * steps if terms else slopes)
    if not terms:
        cubes = weights[:, None] * (steps / np.maximum(points.std(axis=0), 1e-300)) ** 3
        errors = np.hstack([cubes, cubes * (points[first] + points[second] - 2.0 * points.mean(axis=0))])
        residuals, *columns = least_squares(errors, np.column_stack([residuals, parts]))[1].T
        parts = np.stack(columns, axis=1)
    changes = least_squares(parts, residuals[:, None])[0][:, 0]
    left = np.square(residuals - parts @ changes).sum() / np.maximum(np.square(residuals).sum(), 1e-300)
    return changes, float(left)


def _advice(points: np.ndarray, values: np.ndarray, gradients: np.ndarray) -> str:
    """What may be wrong: the factor between the gradients and those of the values where there is one."""
    a, b = _differences(points, values, gradients)[:2]
    ratios = b[np.abs(a) > 0] / a[np.abs(a) > 0]
    low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75)) if len(ratios) else (0.0, 0.0, 0.0)
    if not high - low < 0.2 * abs(middle):
        return "check the sign of the gradient, and that it has every term of the function"
    found = "change its sign" if abs(middle + 1) < 0.1 else "look for a sign or a factor"
    return f"the gradient is {middle:.3g} times that of the values; {found}"


def points_near(point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points x, x - 2 d, x - d, x + d and x + 2 d, (5, D), and d (D,), a short step in no special direction.

    x is near ``point`` (D,), as a centre of symmetry has no slope that could be missed.
    """
    away, along = (1.0 + np.abs(point)) * np.random.default_rng(0).normal(size=(2, len(point)))
    step = 1e-4 * along
    return point + CHECK.away * away + np.array([0.0, -2.0, -1.0, 1.0, 2.0])[:, None] * step, step


def require_slope(values: np.ndarray, slope: float, who: str) -> None:
    """Raise EvaluationError where torch's derivative is not that of the values, whose function left torch.

    The difference quotients over d and over 2 d have to agree with each other more closely than with the
    derivative; where they do not, as at a kink or with noise, they say nothing.

    Parameters
    ----------
    values : (4,), at the last four of `points_near`. slope : the derivative along d, by torch.
    who : the function, in words.
    """
    near, far = (values[2] - values[1]) / 2.0, (values[3] - values[0]) / 4.0
    error = abs(near - far) + np.finfo(float).eps * np.abs(values).max()
    apart = abs(near - slope)
    if apart > CHECK.apart * error and apart > CHECK.rounding_of_slopes * (abs(near) + abs(slope)):
        raise EvaluationError(
            f"{who} leaves torch on the way (numpy, .item(), .detach(), torch.no_grad), and its gradient "
            f"lacks what was left out: along one direction it is {slope / near:.2g} times that of the "
            "values. Write it in torch throughout, or use its values only: gradient=None with 'bq' or 'score'"
        )
