"""Functions that all estimators use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Self, TypeAlias

import numpy as np
import scipy.sparse
from scipy.special import stdtr
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import check_random_state

from bqvi.arguments import Above, AtLeast, Such, one_of
from bqvi.arrays import add, scale
from bqvi.calls import Run
from bqvi.gradients.settings import STOCHASTIC
from bqvi.inference.beginning import in_family
from bqvi.inference.fit import fit
from bqvi.inference.steps import RobbinsMonro
from bqvi.models.components import STARTS
from bqvi.models.contracts import settled, update_target
from bqvi.models.data import is_sparse, n_rows
from bqvi.models.sequences import Sequences
from bqvi.models.weighted import Weighted, weighted
from gp.matrices import named_cholesky
from gp.user_warnings import warn_user

SHAPES = {"full": "full", "tied": "tied", "diag": "diagonal", "spherical": "spherical"}
"""For scikit-learn's names of covariances those of `bqvi.models`."""

RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None
"""The source of random numbers; None for different numbers in each call."""


def generator_of(random_state: RandomState) -> np.random.Generator:
    """A generator from scikit-learn's ``random_state``; None for different numbers in each call."""
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    try:
        state = check_random_state(random_state)
    except (ValueError, TypeError) as error:
        raise ValueError(f"random_state is {random_state!r}: {error}") from None
    return np.random.default_rng(int(state.randint(2**31 - 1)))


_VERBOSITY = Such(lambda one: isinstance(one, int) and one >= 0, "True, False or an integer >= 0", ValueError)


@dataclass(eq=False, repr=False, kw_only=True)
class FittedByBound(BaseEstimator):  # type: ignore[misc]
    """What estimators have that are fitted by `bqvi.fit`."""

    max_iter: Annotated[int, AtLeast(1)] = 500
    tol: Annotated[float, Above(0.0)] = 1e-3
    n_init: Annotated[int, AtLeast(1)] = 1
    init_params: Annotated[str, one_of(STARTS)] = "k-means++"
    total_samples: Annotated[float | None, Above(0.0)] = None
    random_state: RandomState = None
    verbose: Annotated[bool | int, _VERBOSITY] = False

    _takes_nan: ClassVar[bool] = False
    """Whether NaN is a missing value."""
    _needs_rows: ClassVar[bool] = True
    """Whether there have to be as many rows as components."""
    _unit: ClassVar[str] = "sample_weight"
    """What messages call the weights of rows."""
    _family: ClassVar[str] = "full"
    _model: ClassVar[Callable[..., Any]]
    """The model of an estimator, a function of the estimator and the rows."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_nan
        return tags

    def _weighted(self, rows: Any) -> Weighted:
        """The model of ``rows`` with weights; ValueError where there are fewer of them than components."""
        if self._needs_rows and (n := _count(rows)) < self.n_components:
            raise ValueError(
                f"n_components is {self.n_components}, but n_samples = {n}; it must be at most that"
            )
        return weighted(self._model(rows), self._unit)

    def _fitted(self, model: Any, data: Any, **settings: Any) -> Any:
        given = {
            "steps": self.max_iter,
            "tolerance": self.tol,
            "starts": self.n_init,
            "start_from": self.init_params,
            "seed": generator_of(self.random_state),
        }
        return fit(model, data, run=Run(progress=bool(self.verbose)), **{**given, **settings})

    def _streamed(self, data: Any) -> Self:
        """The estimator after a step on ``data``, rows and their weights; a warning where these are sorted.

        The model and the start are made anew of all rows so far while these are few; fewer than the model
        needs wait.
        """
        seen: StreamState = getattr(self, "_seen", StreamState(None, None))
        seen = replace(seen, sums=_sums_with(seen.sums, _independent(data[0])))
        first: list[Any] = []
        if seen.q is None or seen.first:
            first = [*seen.first, data]
            data = _joined([rows for rows, _ in first]), np.concatenate([weights for _, weights in first])
            n = _count(data[0])
            if self._needs_rows and n < self.n_components:
                self._seen = replace(seen, first=first)
                return self
            model = settled(self._weighted(data[0]), data)
            start = model.initial(model.check(data), self.init_params, generator_of(self.random_state))
            kept = [] if n >= FIRST_ROWS * self.n_components else first
            seen = StreamState(model.model, in_family(start, self._family), first=kept, sums=seen.sums)
        # later rows may be the first with missing values
        model = settled(weighted(seen.model, self._unit), data)
        stepped = self._step(replace(seen, model=model.model), *model.check(data))
        self._keep(replace(stepped, steps=len(first) or stepped.steps))
        return self

    def _step(self, seen: StreamState, rows: Any, weights: np.ndarray) -> StreamState:
        """The state after a step of ``partial_fit`` on ``rows`` with ``weights``."""
        return natural_step(seen, rows, weights, self.total_samples)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a posterior; NotFittedError where ``partial_fit`` had too few rows for one."""
        seen: StreamState | None = getattr(self, "_seen", None)
        if seen is not None and seen.q is None:
            n = sum(_count(rows) for rows, _ in seen.first)
            raise NotFittedError(f"n_components is {self.n_components}, but there were {n} rows so far")
        return seen is not None

    def _keep(self, seen: StreamState) -> None:
        """Keep the state and the attributes that follow from it."""
        self._seen = seen
        self.model_, self.posterior_, self.n_samples_seen_ = seen.model, seen.q, seen.rows

    def _conclude(self, *phases: Any, rows: float, settles: bool = True) -> Self:
        """Keep what the ``phases`` of a fit to ``rows`` ended in; warn where it ``settles`` and did not."""
        found = phases[-1]
        self._keep(StreamState(found.problem.model.model, found.q, 0, rows))
        self.converged_ = found.converged
        if settles and not found.converged:
            warn_user(
                f"the bound still rose by more than tol = {self.tol:g} nats after max_iter = {self.max_iter} "
                "iterations; raise either",
                ConvergenceWarning,
            )
        self.lower_bound_ = found.elbo
        self.lower_bounds_ = [row.elbo for phase in phases for row in phase.trace.rows]
        self.n_iter_ = max(sum(phase.state.iteration for phase in phases), 1)
        return self


def gaussian_draws(
    means: np.ndarray, covariances: np.ndarray, labels: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """For each of ``labels`` (n,) a draw (D,) of its Gaussian, with means (K, D), covariances (K, D, D)."""
    noise = rng.standard_normal((len(labels), means.shape[1]))
    roots = named_cholesky("covariances", covariances)
    return means[labels] + np.einsum("nij,nj->ni", roots[labels], noise)


def _joined(parts: list[Any]) -> Any:
    """The rows of several batches, one after the other."""
    if isinstance(parts[0], Sequences):
        return Sequences(*(np.concatenate([getattr(p, a) for p in parts]) for a in ("values", "lengths")))
    return np.concatenate(parts) if not any(map(is_sparse, parts)) else scipy.sparse.vstack(parts, "csr")


def _count(rows: Any) -> int:
    """The number of rows, in all sequences."""
    return len(rows.values) if isinstance(rows, Sequences) else n_rows(rows)


STREAM = RobbinsMonro(STOCHASTIC.power, tau=STOCHASTIC.delay)
"""The step sizes of ``partial_fit``."""


@dataclass(frozen=True)
class StreamState:
    """The state after some calls of ``partial_fit``."""

    model: Any
    """The model, with the prior computed from the first batch."""
    q: Any
    steps: int = 0
    rows: float = 0.0
    """The number of rows so far, counted by their weights."""
    first: list[Any] = field(default_factory=list)
    """The first batches and their weights, while the start is made anew from all of them."""
    sums: Any = (0.0, ())
    """Counts, sums and sums of squares (3, D) of the entries so far; batches that are not in them yet."""


FIRST_ROWS = 10
"""The number of rows for each component of which a stream makes its start."""


def _independent(rows: Any) -> Any:
    """Rows that are independent of each other: those of a table; means of sequences, NaN where unknown."""
    if not isinstance(rows, Sequences):
        return scipy.sparse.csr_array(rows) if is_sparse(rows) else rows
    known = ~np.isnan(rows.values)
    sums, counts = (
        np.add.reduceat(x, rows.starts) for x in (np.nan_to_num(rows.values), known.astype(float))
    )
    return sums / np.where(counts > 0.0, counts, np.nan)


def _sums_with(so_far: Any, rows: Any) -> Any:
    """The `StreamState.sums` with ``rows`` (S, D); a warning where they are no sample like those before.

    Means of columns are compared by Student's t, for ten rows or more, as means of few are not Gaussian, at
    a level of 1e-9; smaller batches wait until they are ten together. The variance is that before or that of
    the batch, whichever is larger: an outlier raises that of its batch, and either may be zero by chance.
    """
    before, waiting = so_far
    rows = _joined([*waiting, rows])
    ones = np.ones(n_rows(rows))
    if len(ones) < FIRST_ROWS:
        return before, (rows,)
    known, missing = (rows, 0.0) if is_sparse(rows) else (np.nan_to_num(rows), ones @ np.isnan(rows))
    sums = np.stack(np.broadcast_arrays(len(ones) - missing, ones @ known, ones @ known**2))
    if np.any(before):
        both = [np.maximum(part, [[1e-300], [-np.inf], [1e-300]]) for part in (before, sums)]
        scatters = [(squares * (1 + 1e-12) - x**2 / n) / np.maximum(n - 1.0, 1.0) for n, x, squares in both]
        (n, total, _), (m, new, _) = both
        t = np.abs(total / n - new / m) / np.sqrt(np.maximum(*scatters) * (1.0 / n + 1.0 / m))
        if (2.0 * stdtr(np.maximum(n + m - 2.0, 1.0), -t)).min() * len(t) < 1e-9:
            warn_user(
                "the rows differ from those of earlier calls in their means: shuffle sorted data, or fit"
            )
    return before + sums, ()


def summed_step(seen: StreamState, rows: Any, weights: np.ndarray, _: float | None) -> StreamState:
    """The state whose statistics are those before and those of ``rows``, with ``weights`` (S,), at its q."""
    local, count = seen.model.local_step(seen.q, rows, weights), seen.rows + float(weights.sum())
    moved = add(seen.q.natural, local.statistics) if seen.rows else update_target(seen.model, local)
    return replace(seen, q=seen.q.from_natural(moved), steps=seen.steps + 1, rows=count)


def natural_step(seen: StreamState, rows: Any, weights: np.ndarray, total: float | None) -> StreamState:
    """The state after a natural-gradient step on ``rows`` with ``weights`` (S,), a sample of ``total`` rows.

    Where ``total`` is None, the number of rows of all calls so far is used.
    """
    count = seen.rows + float(weights.sum())
    scaled = weights * ((count if total is None else total) / weights.sum())
    target = update_target(seen.model, seen.model.local_step(seen.q, rows, scaled))
    size = STREAM(seen.steps)
    moved = add(scale(seen.q.natural, 1.0 - size), scale(target, size))
    return replace(seen, q=seen.q.from_natural(moved), steps=seen.steps + 1, rows=count)
