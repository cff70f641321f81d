"""Random misuse of the front doors: strategies of arguments and user functions, and required properties.

A case is a front door, its arguments and the behaviour of the user's function. The door must work, within its
budget and with consistent numbers, or raise an error of its own that names an argument; after an exception of
the function, the run must contain every evaluation that returned. `judged` returns the property that is
violated.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import math
import os
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from scipy import stats

import bqvi
import bqvi.sklearn
import gp
from bqvi.arguments import Above, Argument, AtLeast, table
from bqvi.models import GaussianMixture, LogisticRegression, LogJoint
from bqvi.runs import Ended
from gp.checks import require_boolean
from gp.measures import Empirical, Gaussian, Uniform
from gp.measures import GaussianMixture as Mixture

ROOT = Path(__file__).resolve().parents[2]
OURS = tuple(str(ROOT / name) for name in ("bqvi", "gp", "acquisition"))
PATIENCE = 60
"""The seconds after which a case counts as one that does not end."""


class StuckError(BaseException):
    """A case did not end."""


class Odd:
    """An object without any useful method."""

    def __repr__(self) -> str:
        return "Odd()"


class MapOnly:
    """An executor with map alone."""

    def map(self, function: Callable[..., Any], *columns: Any) -> Iterator[Any]:
        """The results in order."""
        return map(function, *columns)

    def __repr__(self) -> str:
        return "MapOnly()"


class Forgetful:
    """An executor whose results are None."""

    def submit(self, *_: Any) -> None:
        """No future."""

    def __repr__(self) -> str:
        return "Forgetful()"


THREADS = ThreadPoolExecutor(1)
_SMALL = [
    None, True, False, 0, 1, 2, 3, -1, 2.5, -0.5, 1e-3, math.nan, math.inf, -math.inf, 1j, "", "abc", "bq",
    "raise", "autodiff", "unknown", b"x", Odd(), int, len, range(3), Path("x"), {1, 2}, [], [1.0], [1, 2],
    [2, 1], [[1, 2], [3]], ["a", "b"], ["a", "a"], (), (1, 2, 3), {}, {"a": 1}, np.float64(0.5), np.int64(2),
    np.float32(1.5), np.bool_(True), np.datetime64("2020-01-01"), np.random.RandomState(0),
    np.random.default_rng(0),
]  # fmt: skip
_SHAPES = ((), (0,), (1,), (2,), (3,), (1, 2), (2, 1), (2, 2), (4, 2), (2, 2, 2))
_ARRAYS = [
    *map(np.zeros, _SHAPES), np.ones(2), np.array([np.nan, 0.0]), np.array([np.inf, 1.0]),
    np.array([True, False]), np.array(["a", "b"]), np.array([None, 1], object), np.array([1j, 2.0]),
    np.arange(2), np.eye(2), np.ones(2, np.float32), torch.zeros(2), torch.ones(2, requires_grad=True),
    torch.eye(2),
]  # fmt: skip
HUGE = [1e308, 10**30, -(10**30), 1e-320]
JUNK = st.sampled_from(_SMALL + _ARRAYS)


def some(*values: Any, junk: bool = True, huge: bool = False) -> st.SearchStrategy[Any]:
    """One of the values or, with equal probability, an object of another kind."""
    told = st.sampled_from(values) if values else st.nothing()
    return told | JUNK | st.sampled_from(HUGE) if huge else told | JUNK if junk else told


_NEAR = Gaussian(np.zeros(2), np.eye(2))
_MEASURES = (
    _NEAR, Gaussian(np.zeros(1), np.eye(1)), Uniform(np.zeros(2), np.ones(2)), Uniform(-1.0, 1.0),
    Mixture(np.array([0.5, 0.5]), np.array([[0.0], [2.0]]), np.ones((2, 1, 1))),
    Empirical(np.linspace(-1, 1, 9)[:, None]),
    Gaussian(torch.zeros(2, dtype=torch.float64), torch.eye(2, dtype=torch.float64)), "lebesgue",
)  # fmt: skip
_X = np.random.default_rng(0).normal(size=(12, 2))
_Y = np.sin(_X[:, 0])
_DATA = some(
    _X, _X[:1], _X[:0], _X.astype(np.float32), _X * np.nan, _X * 1e200, _X.tolist(), torch.tensor(_X),
    _X[:, 0],
)  # fmt: skip
_BUDGETS = [4, 8, 9, 12, 12, 12, np.int64(10), 0, -1, 1, 2, 3, 5.0, 8.5, math.nan, "8", [8], True, Odd()]
_VECTOR = some(
    -1.0, 1.0, [-2.0, -2.0], [2.0, 2.0], [-1.0, 3.0], [0.0, math.inf], [-math.inf, 0.0],
    {"a": 0.0, "b": 1.0}, {"b": -1.0, "a": None}, {"a": 2.0}, {"a": "b", "b": 1}, huge=True,
)  # fmt: skip
_PRIOR = some(
    {"a": stats.norm(), "b": stats.gamma(2.0)}, [stats.norm(), stats.uniform(-3.0, 6.0)], stats.norm,
    stats.multivariate_normal([0.0, 0.0]), stats.poisson(3.0), stats.dirichlet([1.0, 2.0]),
    {"a": stats.norm()}, torch.distributions.Normal(torch.zeros(2), torch.ones(2)),
    lambda t: -0.5 * (t**2).sum(-1), lambda t: None,
)  # fmt: skip
_COUNT = some(1, 2, 3, 5, 8, 9, 12, 2.0, np.int64(6), "3", [3])
_SEED = some(0, 1, np.random.default_rng(3), 7, huge=True)
BY_NAME = {
    **dict.fromkeys(("lower", "upper", "plausible_lower", "plausible_upper"), _VECTOR),
    **dict.fromkeys(("measure", "proposal"), some(*_MEASURES)),
    **dict.fromkeys(("data", "x", "X"), _DATA),
    **dict.fromkeys(("seed", "random_state"), _SEED),
    "acquisition": some("imiqr", "viqr"),
    "budget": st.sampled_from(_BUDGETS),
    "callback": some(print, lambda state: None, lambda state: 1 / 0, lambda: None, lambda a, b: None),
    "cheap": some(lambda t: -0.4 * (t**2).sum(-1), (lambda t: -0.4 * (t**2).sum(-1), 20), (1, 2)),
    "checkpoint": some("run.npz", Path("other.npz"), "/nowhere/run.npz", ".", "run.txt"),
    "evaluations": some((_X[:3], _Y[:3]), (_X[:3], _Y[:2]), (_X[:3, :1], _Y[:3]), (_X[:3], _Y[:3], _X[:3])),
    "executor": some(THREADS, MapOnly(), Forgetful(), ThreadPoolExecutor),
    "geometry": some(bqvi.Natural(), bqvi.Euclidean(), bqvi.TrustRegion(), bqvi.Riemannian()),
    "gradient": some(lambda x: -x, "autodiff", lambda x: None, lambda x: x[..., :1]),
    "gradient_noise_sd": some(0.1, [0.1, 0.2], huge=True),
    "kernel": some(gp.kernels.SquaredExponential(), gp.kernels.Matern52(), gp.kernels.SquaredExponential),
    "log_density": some(_NEAR.log_density, lambda x: None, lambda x: -np.inf * np.ones(len(x))),
    "log_likelihood": some(lambda t: -0.5 * (t**2).sum(-1), lambda a, b: -a * a - b * b),
    "mean": some(gp.means.Constant(1.0)),
    "metrics": some({"m": lambda q: 1.0}, {"m": lambda q: None}),
    "minibatch": some(1, 5, "balanced", 10**6),
    "n_jobs": st.sampled_from([1, 0, -1, 1.5, "2", None, [1], math.nan, True]),
    "noise": some("learn", 0.1, np.full(12, 0.1), huge=True),
    "noise_sd": some(0.1, "unknown", lambda x: 0.1 * np.ones(x.shape[:-1]), lambda x: None, huge=True),
    "periodic": some([0], [True, False], [5]),
    "posterior": some(_X, lambda n, rng: _X[:n]),
    "prior": _PRIOR,
    "every": some(1, 2, [1, 2]),
    "resume": some("run.npz", "nothing.npz", "text.txt"),
    "run": some(bqvi.Run()),
    "schedule": some(bqvi.Adam(0.1), bqvi.Constant(0.1), bqvi.Constant(1e9)),
    "start": some([0.0, 0.0], [9.0, 9.0], [[0.0, 0.0], [0.1, 0.1]], huge=True),
    "start_from": some("random", "k-means++"),
    "y": some(_Y, _Y[:3], _Y * np.nan, _Y * 0, np.column_stack([_Y, _Y]), torch.tensor(_Y), _Y * 1e300),
}
"""What is drawn for arguments of which the table says too little, whatever the door."""


def drawn_of(*functions: Any, **others: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    """What is drawn for each argument: ``others`` first, then by its name, then by its row in the table."""
    rows = {name: row for function in functions for name, row in table(function).items()}
    by_row = {name: BY_NAME[name] if name in BY_NAME else _by_row(row) for name, row in rows.items()}
    return {name: one for name, one in by_row.items() if name not in _GIVEN_OTHERWISE} | others


_GIVEN_OTHERWISE = ("f", "log_joint", "model", "design", "record")
"""The user's function, and records whose fields are drawn."""


def _by_row(row: Argument) -> st.SearchStrategy[Any]:
    for check in row.checks:
        if isinstance(check, AtLeast):
            return _COUNT
        if isinstance(check, Above):
            return some(0.1, 1e-9, 10.0, huge=True)
        if check is require_boolean:
            return some(True, False)
        if isinstance(check, partial):
            return some(*check.keywords["allowed"])
    return JUNK


# --------------------------------------------------------------------------------- the user's function

_RAISED = (
    NameError, MemoryError, ValueError, ZeroDivisionError, np.linalg.LinAlgError, OSError, KeyError,
    KeyboardInterrupt, SystemExit, RecursionError, StopIteration, TimeoutError, Warning, AssertionError,
    FloatingPointError, RuntimeError, NotImplementedError, GeneratorExit, UnicodeError,
)  # fmt: skip
_RETURNED = (
    None, "text", 1j, math.nan, math.inf, -math.inf, 1e308, -1e308, True, (), [], {}, Odd(), 10**400, b"1",
    np.zeros(3), np.zeros((2, 2)), np.zeros((0,)), np.float32(-1.0), np.array("a"), torch.zeros(1),
    (0.0, 1.0), (0.0, -1.0), (0.0, "a"), (0.0, {"a": 1}), (0.0, 1.0, {"a": Odd()}), [1.0, 2.0], np.ma.masked,
    5,
)  # fmt: skip
_DONE = ("print", "sleep", "fork", "change", "overwrite", "warn", "seed", "float32", "column", "list")


@dataclass(frozen=True)
class Behaviour:
    """What a user's function does: ``what`` at call ``at``, and at later calls if ``on``; "" for nothing."""

    kind: str = ""
    what: Any = None
    at: int = 1
    on: bool = False


BEHAVIOUR = st.just(Behaviour()) | st.builds(
    lambda pair, at, on: Behaviour(*pair, at, on),
    st.tuples(st.just("raise"), st.sampled_from(_RAISED))
    | st.tuples(st.just("return"), st.sampled_from(_RETURNED))
    | st.tuples(st.just("do"), st.sampled_from(_DONE)),
    st.sampled_from([1, 2, 3, 7]),
    st.booleans(),
)


class Function:
    """-|x|^2 / 2 of points (n, D) or (D,), or its exponential; it misbehaves as told and counts its calls."""

    def __init__(self, behaviour: Behaviour, vectorised: bool, log: bool) -> None:
        self.behaviour, self.vectorised, self.log = behaviour, vectorised, log
        self.calls = self.points = self.good = 0
        self.misbehaved = False

    def __repr__(self) -> str:
        return f"Function({self.behaviour}, vectorised={self.vectorised}, log={self.log})"

    def __call__(self, x: Any, *_: Any) -> Any:
        """The value, or what ``behaviour`` says."""
        self.calls += 1
        count = len(x) if getattr(x, "ndim", 1) == 2 else 1
        self.points += count
        b = self.behaviour
        value = -0.5 * (x**2).sum(-1) + 0.1 * x[..., 0]
        value = value if self.log else value.exp() if isinstance(value, torch.Tensor) else np.exp(value)
        if b.kind and (self.calls == b.at or (b.on and self.calls > b.at)):
            self.misbehaved = True
            if b.kind == "raise":
                raise b.what("misused")
            value = b.what if b.kind == "return" else self._done(b.what, x, value)
        if not self.misbehaved:
            self.good += count
        return value

    def _done(self, what: str, x: Any, value: Any) -> Any:
        if what == "print":
            print("called")
        elif what == "sleep":
            time.sleep(1e-3)
        elif what == "fork":
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
        elif what == "change":
            return value - 0.5 * self.calls * (value == value)
        elif what == "overwrite":
            with contextlib.suppress(RuntimeError):  # a leaf of torch's graph
                x[...] = 0.0
        elif what == "warn":
            warnings.warn("of the user", UserWarning, stacklevel=2)
        elif what == "seed":
            np.random.seed(0)  # noqa: NPY002
        elif what == "float32":
            return value.float() if isinstance(value, torch.Tensor) else np.float32(value)
        elif what == "column":
            return value[..., None]
        elif what == "list":
            return value.tolist()
        return value


# --------------------------------------------------------------------------------- the doors


@dataclass(frozen=True)
class Door:
    """A front door to test.
    Attributes
    ----------
    usual : arguments with which it works, with ``function`` for the user's function.
    drawn : the strategies, by name, from which arguments are drawn instead.
    call : the call with arguments. names : the names that a message may contain.
    """

    call: Callable[..., Any]
    usual: dict[str, Any]
    drawn: dict[str, st.SearchStrategy[Any]]
    log: bool = True
    vectorised: bool = False
    function: str | None = None

    @property
    def names(self) -> set[str]:
        """The arguments."""
        of_models = {"function", "vectorised", "gradient", "errors", "theta", "values", "data", "saved run"}
        of_models |= {"log joint", "integrand", "point mass"}
        return set(self.usual) | set(self.drawn) | of_models


@dataclass(frozen=True)
class Case:
    """A door's name, arguments, and what the function does."""

    door: str
    given: dict[str, Any]
    behaviour: Behaviour


def _fit_log_joint(function, **given):
    posed = {name: given.pop(name) for name in tuple(given) if name in table(LogJoint)}
    return bqvi.fit(LogJoint(function, **posed), **given)


def _with_records(call):
    """The call, with the fields of its `bqvi.Design` and its `bqvi.Record` as arguments of their own."""

    def called(*args, **given):
        for name, record in (("design", bqvi.Design), ("record", bqvi.Record)):
            if fields := {field: given.pop(field) for field in table(record) if field in given}:
                given[name] = record(**fields)
        return call(*args, **given)

    return called


_METHODS = some("bq", "pathwise", "score", "iwae", "dreg", "cavi", "gd", "ngd", "sgd", "sngd", "memoised")
_DOORS = {
    "integrate": Door(
        _with_records(bqvi.integrate),
        {"measure": _NEAR, "budget": 9, "vectorised": True},
        drawn_of(bqvi.integrate.steps, bqvi.Design, bqvi.Run),
        log=False,
        vectorised=True,
        function="f",
    ),
    "fit": Door(
        _with_records(_fit_log_joint),
        {"dimension": 2, "gradient": None, "vectorised": False, "method": "bq", "budget": 9, "steps": 4},
        drawn_of(
            bqvi.fit.steps,
            LogJoint,
            bqvi.Record,
            bqvi.Run,
            dimension=some(1, 2, 3),
            method=_METHODS,
            samples=_COUNT,
            vectorised=some(True, False),
        ),
        function="function",
    ),
    "fit with data": Door(
        _with_records(bqvi.fit),
        {"model": GaussianMixture(2, "full"), "data": _X, "method": "cavi", "steps": 3},
        drawn_of(
            bqvi.fit.steps,
            bqvi.Record,
            bqvi.Run,
            model=some(GaussianMixture(2, np.eye(2)), LogisticRegression(2), GaussianMixture),
            data=_DATA | some((_X, (_Y > 0).astype(float)), (_X, _Y), (_X, _Y[:3]), {"x": _X}),
            method=_METHODS,
            samples=some(1, 2, 5),
            steps=some(1, 2, 3, 0, -1),
            budget=some(0, 1, 12, 40, 100),
        ),
    ),
    "vbmc": Door(
        _with_records(bqvi.vbmc),
        {"plausible_lower": [-1.0, -1.0], "plausible_upper": [1.0, 1.0], "budget": 8},
        drawn_of(bqvi.vbmc.steps, bqvi.Design, bqvi.Run),
        function="log_joint",
    ),
    "evidence_bounds": Door(
        bqvi.evidence_bounds,
        {"proposal": _NEAR, "budget": 60, "replicates": 2, "vectorised": True},
        drawn_of(
            bqvi.evidence_bounds.steps, bqvi.Run, budget=some(60, 100, 0, -1, 10.5), replicates=some(2, 3)
        ),
        vectorised=True,
        function="log_joint",
    ),
    "gp.fit": Door(
        gp.fit,
        {"x": _X, "y": _Y, "n_starts": 1, "max_iterations": 5},
        drawn_of(gp.fit, n_starts=some(1, 2), max_iterations=some(1, 5)),
    ),
    "estimators": Door(
        lambda kind, X, **given: getattr(bqvi.sklearn, kind)(**given).fit(X),
        {"kind": "BayesianGaussianMixture", "X": _X, "n_components": 2, "max_iter": 3},
        drawn_of(
            bqvi.sklearn.BayesianGaussianMixture,
            X=_DATA,
            n_components=some(1, 2, 5, 50),
            max_iter=some(1, 3),
            random_state=some(0, None, huge=True),
        ),
    ),
}
DOORS = tuple(_DOORS)


@st.composite
def cases(draw: Any, door: str) -> Case:
    """A case of a door: up to three arguments misused, or the function, or both; sometimes two swapped."""
    here = _DOORS[door]
    wrong = draw(st.lists(st.sampled_from(sorted(here.drawn)), max_size=3, unique=True))
    given = dict(here.usual) | {name: draw(here.drawn[name]) for name in wrong}
    if len(given) > 1 and draw(st.integers(0, 19)) == 0:
        first, second = draw(st.sampled_from([(a, b) for a in sorted(given) for b in sorted(given) if a < b]))
        if not {first, second} & {"steps", "budget", "n_jobs", "kind", "n_starts"}:
            given[first], given[second] = given[second], given[first]
    return Case(door, given, draw(BEHAVIOUR) if here.function else Behaviour())


# --------------------------------------------------------------------------------- what must hold


@contextlib.contextmanager
def _patience() -> Iterator[None]:
    def stuck(*_: Any) -> None:
        raise StuckError(f"no end after {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, stuck)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def judged(case: Case, folder: Path) -> str | None:
    """The property that the case violates, or None.

    Parameters
    ----------
    folder : the working folder while it runs, for its files.
    """
    here = _DOORS[case.door]
    vectorised = case.given.get("vectorised", here.vectorised)
    log = here.log or case.given.get("log") is True
    function = Function(case.behaviour, vectorised is True, log)
    given = dict(case.given) if here.function is None else {here.function: function, **case.given}
    (folder / "text.txt").write_text("no run")
    with (
        contextlib.chdir(folder),
        warnings.catch_warnings(record=True) as told,
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        _patience(),
    ):
        warnings.simplefilter("always")
        try:
            ways = {name: given.pop(name) for name in table(bqvi.Run) if name in given}
            if ways:
                given["run"] = bqvi.Run(**ways)
            result = here.call(**given)
        except BaseException as error:
            return _of_error(error, here, case, function) or _of_warnings(told)
    return _of_result(result, case, function) or _of_warnings(told)


def _of_warnings(told: list[Any]) -> str | None:
    for one in told:
        text = str(one.message)
        meant = "did not converge" in text or "noise vanish" in text or one.filename == __file__
        leaked = issubclass(one.category, RuntimeWarning | DeprecationWarning) and not meant
        if leaked or "not writable" in text:
            return f"{one.category.__name__}: {text[:90]} at {_short(one.filename)}:{one.lineno}"
    return None


def _short(filename: str) -> str:
    return filename.split("site-packages/")[-1].replace(str(ROOT) + "/", "")


def _of_error(error: BaseException, here: Door, case: Case, function: Function) -> str | None:
    if isinstance(error, StuckError) or isinstance(error.__cause__, StuckError):
        return f"does not end: {_places(error.__cause__ or error)}"
    if isinstance(error, Ended):
        if here.function and not function.good <= error.n_evaluations <= function.points:
            others = {"evaluations", "gradient", "log_density", "noise_sd"}  # fail beside f
            if not others & {name for name, value in case.given.items() if value is not None}:
                return (
                    f"{error.n_evaluations} evaluations kept of {function.good} that returned, "
                    f"{function.points} made: {_places(error.__cause__ or error)}"
                )
        return _of_cause(error.__cause__, case)
    if not isinstance(error, Exception):
        return f"a bare {type(error).__name__}: {_places(error)}"
    return _of_own(error, here.names)


def _of_cause(cause: BaseException | None, case: Case) -> str | None:
    """The check of an error that ended a run: it must be the user's, or one of bqvi with a message."""
    while cause is not None and not isinstance(cause, bqvi.EvaluationError) and cause.__cause__ is not None:
        if _explicit(traceback.extract_tb(cause.__traceback__)[-1]):
            return None
        cause = cause.__cause__
    if cause is None or isinstance(cause, bqvi.EvaluationError):
        return None
    last = traceback.extract_tb(cause.__traceback__)[-1]
    of_user = last.filename == __file__ or "callback" in case.given or "metrics" in case.given
    of_user = of_user or isinstance(cause, OSError) or _explicit(last)
    return None if of_user else f"a run ended by {_described(cause)}"


def _of_own(error: Exception, names: set[str]) -> str | None:
    last = traceback.extract_tb(error.__traceback__)[-1]
    if any("sklearn/utils" in frame.filename for frame in traceback.extract_tb(error.__traceback__)):
        return None  # scikit-learn's own checks of parameters and data
    if not _explicit(last):
        return f"foreign {_described(error)}"
    if isinstance(error, OSError):
        return None
    if not isinstance(error, ValueError | TypeError | RuntimeError | ImportError):
        return f"odd {_described(error)}"
    if any(name in str(error) for name in names):
        return None
    return f"names no argument: {_described(error)}"


def _explicit(frame: traceback.FrameSummary) -> bool:
    """Whether an exception was raised by a ``raise`` of ours."""
    line = linecache.getline(frame.filename, frame.lineno or 0).strip()
    return frame.filename.startswith(OURS) and line.startswith("raise")


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:120]} | {_places(error)}"


def _places(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    return " < ".join(f"{_short(f.filename)}:{f.lineno}" for f in frames[:-4:-1])


def _of_result(result: Any, case: Case, function: Function) -> str | None:
    raises = case.behaviour.kind == "raise" and function.misbehaved
    if raises and issubclass(case.behaviour.what, KeyboardInterrupt | SystemExit):
        return "an interrupt was swallowed"
    made = getattr(result, "n_evaluations", None)
    if case.door in ("integrate", "fit", "vbmc", "evidence_bounds"):
        if "evaluations" not in case.given and made != function.points:
            return f"n_evaluations is {made}, and {function.points} points were evaluated"
        budget = case.given.get("budget")
        if budget is not None and function.points > int(budget):
            return f"{function.points} points were evaluated, budget {budget}"
    return _of_numbers(result, case)


def _of_numbers(result: Any, case: Case) -> str | None:
    b = case.behaviour
    harmless = not b.kind or (b.kind == "do" and b.what in ("print", "sleep", "fork", "warn", "seed"))
    if case.door == "integrate":
        if np.any(np.isnan(result.sd)) or np.any(np.asarray(result.sd) < 0):
            return f"sd is {result.sd}"
        if np.any(np.isnan(result.mean)) or (harmless and not np.all(np.isfinite(result.mean))):
            return f"mean is {result.mean}"
    elif case.door == "vbmc":
        if math.isnan(result.log_evidence) or not result.log_evidence_sd >= 0:
            return f"log evidence {result.log_evidence} +- {result.log_evidence_sd}"
        if harmless and not math.isfinite(result.log_evidence):
            return f"log evidence {result.log_evidence}"
    elif case.door.startswith("fit"):
        for part in ("mean",):
            value = getattr(result.q, part, None)
            if isinstance(value, np.ndarray | torch.Tensor) and not bool(
                np.isfinite(np.asarray(value)).all()
            ):
                return f"q has mean {value}"
        if result.elbo == math.inf:
            return "the ELBO is inf"
    elif case.door == "gp.fit":
        mean = result.mean(np.zeros((1, 2))) if _X is case.given["x"] else 0.0
        if not np.isfinite(np.asarray(mean)).all():
            return f"the posterior mean is {mean}"
    return None
