"""The q(theta) from which a run starts, in the requested family, and the search of a Gaussian one.

    q  ->  climb from the best evaluation  ->  curvature at the end, Newton steps  ->  q by Laplace's formula

The search (:mod:`bqvi.calls.climb`) is in units of q. It is a step of the run, whose evaluations
count; one that was cut short is made again.

A run of 'bq' keeps its evaluations, and looks for another q as long as its q is not near the posterior: where
y(u) = L^T grad f(theta) + u, which is zero where q is the posterior, is not small at nodes from q
(:mod:`bqvi.gradients.whitened`).

A method that samples begins with a search by default. With data the climb is on a part of them that is large
enough for the curvature; the slope of all the data, by passes, and the curvature of the part then give steps
to the mode of all, until one gains little. Mini-batches estimate only what differs from the slope at the last
point (:class:`bqvi.gradients.gradient.Anchor`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np

from bqvi.calls import Account, EvaluationError, Evaluations
from bqvi.calls.climb import LaplaceSearch
from bqvi.calls.faults import is_numerical
from bqvi.calls.settings import LAPLACE, LaplaceSearchSettings
from bqvi.families import (
    Concentration,
    DiagonalGaussian,
    ExponentialFamily,
    Flat,
    Gaussian,
    GaussianMixture,
    Point,
    PointMass,
    Product,
)
from bqvi.families.family import Distribution
from bqvi.gradients import BayesianQuadrature
from bqvi.gradients.evaluations import caller_of, evaluate, is_as_stated
from bqvi.gradients.gradient import Anchor, Batch
from bqvi.gradients.whitened import WhitenedFrame
from bqvi.inference.settings import BEGINNING
from bqvi.inference.state import LoopProblem, LoopState, Model
from bqvi.models.components import STARTS
from bqvi.models.contracts import ConjugateModel
from bqvi.models.data import n_rows, take
from bqvi.runs.settings import ENGINES
from gp.arrays import Array
from gp.checks import require_one_of
from gp.matrices import cholesky_inverse, symmetric_eigen
from gp.user_warnings import warn_user_of_each


def searches(problem: LoopProblem, q: Any, by_default: bool) -> bool:
    """Whether a run from q begins with a search.

    Parameters
    ----------
    problem : the problem of the loop. q : where the run starts.
    by_default : whether q is the model's own: a method that samples otherwise starts at the q that was given.
    """
    if isinstance(problem.estimator, BayesianQuadrature):
        model = problem.model
        exact = is_as_stated(model) and model.function.noise_sd is None
        return exact and problem.estimator.memory > 0 and isinstance(q, Gaussian | DiagonalGaussian)
    return by_default and problem.gain_is_tested(q) and problem.estimator.samples > 0


def begun(
    problem: LoopProblem, state: LoopState, account: Account, room: float
) -> tuple[LoopState, Evaluations | None]:
    """The state before the first step, and the evaluations of that step's nodes where its q was not moved.

    Parameters
    ----------
    problem : the problem of the loop. state : the state of a run that begins. account : the budget and the
        ledger. room : the most evaluations.
    """
    if state.memory is None:
        return _at_mode(problem, state, account, room), None
    estimator, memory = problem.estimator, state.memory
    assert isinstance(estimator, BayesianQuadrature)  # by `searches`
    now = _At.nodes_of(problem, state.q, estimator.count(state.q.dimension, memory), state, account, True)
    first, rows = now.made, [now.made]
    while not now.near and (left := room - sum(map(len, rows)) - len(first)) > 0:
        source = _Source(problem, now.q, Batch(None, 0, account=account), left, now.frame)
        for found in rows:
            source.add(found)
        if len(rows) == 1:  # from the mean of a wide start a climb is shorter than from its nodes
            source.evaluated(np.zeros((1, now.q.dimension)))
        settings = replace(LAPLACE, gain=BEGINNING.gain * np.sqrt(0.5 * now.q.dimension))
        search = source.search(source.best, settings)
        q = source.gaussian(*search.laplace(left))
        rows.extend(source.rows)
        if q is None:
            break
        moved = _At.nodes_of(problem, q, len(first), state, account)
        rows.append(moved.made)
        if not moved.elbo > now.elbo:
            break
        risen, now = moved.elbo - now.elbo, moved
        if risen < ENGINES.counts:
            break
    if len(rows) == 1:
        return state, first
    for made in rows:
        memory = memory.with_evaluations(made)
    spent = sum(made.n_evaluations for made in rows)
    return replace(state, q=now.q, memory=memory, step_evaluations=state.step_evaluations + spent), None


def _at_mode(problem: LoopProblem, state: LoopState, account: Account, room: float) -> LoopState:
    """The state with q at the mode, and with an anchor if there are mini-batches; its q without room."""
    units, rows = WhitenedFrame.of(state.q), n_rows(problem.data)
    gain = BEGINNING.gain * np.sqrt(0.5 * state.q.dimension)
    # where the log joint has no value at the start, draws have none either, and end the run
    settings = replace(LAPLACE, gain=gain, sds=BEGINNING.sds, boxes=())
    part = _Source(problem, state.q, _part(problem, state, account), room, units)
    search = part.search(np.zeros(state.q.dimension), settings)
    q, spent, anchor = part.gaussian(*search.laplace(room / max(part.batch.size, 1))), part.spent, None
    if part.rows and is_as_stated(problem.model):
        warn_user_of_each(caller_of(problem.model).doubts(reduce(Evaluations.joined, part.rows)))
    if q is not None and rows:
        batch = Batch(problem.data, rows, np.ones(rows), account=replace(account, first=False))
        whole = _Source(problem, state.q, batch, room - spent, units)
        refined = whole.search(search.made.points[search.mode], replace(LAPLACE, gain=BEGINNING.gain_of_rows))
        q = whole.gaussian(*refined.refined(search)) or q
        spent += whole.spent
        if problem.minibatch is not None and not problem.per_datum:
            anchor = whole.anchor(refined.mode)
    q = state.q if q is None else q
    return replace(state, q=q, anchor=anchor, step_evaluations=state.step_evaluations + spent)


def _part(problem: LoopProblem, state: LoopState, account: Account) -> Batch:
    """A part of the data, weighted as all of them; the whole of a log joint without data."""
    n = n_rows(problem.data)
    if not n:
        return Batch(None, 0, account=account)
    size = min(n, BEGINNING.rows + BEGINNING.rows_a_dimension * state.q.dimension)
    order = np.random.default_rng(state.noise).permutation(n)
    chosen = np.sort(order[:size]) if size < n else slice(None)
    return Batch(take(problem.data, chosen), size, np.full(size, n / size), account=account)


@dataclass(eq=False)
class _Source:
    """Evaluations of the log joint of a batch in units of a Gaussian, as a search asks for them.

    Attributes
    ----------
    room : the most evaluations. units : the Gaussian. rows : those made, in the coordinates of q.
    made : all that are known, in the units.
    """

    problem: LoopProblem
    q: Any
    batch: Batch
    room: float
    units: WhitenedFrame
    rows: list[Evaluations] = field(default_factory=list)
    made: Evaluations | None = None

    def add(self, found: Evaluations, at: np.ndarray | None = None) -> None:
        """Add evaluations in the coordinates of q, of points (m, D) ``at`` in the units."""
        slopes = None if found.gradients is None else found.gradients @ self.units.scale
        points = self.units.whiten(found.points) if at is None else at
        found = replace(found, points=points, gradients=slopes)
        self.made = found if self.made is None else self.made.joined(found)

    @property
    def spent(self) -> int:
        """The evaluations that were made."""
        return sum(found.n_evaluations for found in self.rows)

    @property
    def best(self) -> np.ndarray:
        """The point (D,) with the highest value, in the units."""
        assert self.made is not None
        return self.made.points[np.argmax(np.where(self.made.good, self.made.values, -np.inf))]

    def evaluated(self, u: np.ndarray) -> Evaluations | None:
        """All evaluations once those at u (m, D) are made; None without room for these."""
        account, count = self.batch.account, len(u) * max(self.batch.size, 1)
        # evaluations of an attempt that was cut short are in the budget already
        budget = account.budget if account.unfinished is None else None
        if self.spent + count > self.room or (budget is not None and budget.room(count) < count):
            return None
        points = self.units.points(u)
        gradients = getattr(self.problem.estimator, "needs_gradients", True)
        found = (self._of_rows(points) if self.batch.size else
                 evaluate(self.problem.model, self.q, self.batch, points, gradients=gradients))  # fmt: skip
        self.batch = replace(self.batch, account=replace(account, first=False))
        self.rows.append(found)
        self.add(found, u)
        return self.made

    def _of_rows(self, points: np.ndarray) -> Evaluations:
        """Evaluations at points (m, D) of the log joint of weighted rows; without a value all failed."""
        from bqvi.gradients.black_box import log_joint_function, values_and_slopes

        model, spent = self.problem.model, len(points) * self.batch.size
        values, slopes = np.full(len(points), -np.inf), np.full(points.shape, np.nan)
        try:
            log_joint = log_joint_function(model, self.q, self.batch)
            values, slopes = values_and_slopes(log_joint, points, model, self.batch.rows)
        except EvaluationError as error:
            cause = error.__cause__
            if not (error.no_value or (isinstance(cause, Exception) and is_numerical(cause))):
                raise
        failed = ~np.isfinite(values)
        return Evaluations(points, values, slopes, None, failed, ("",) * len(points), spent)

    def search(self, start: np.ndarray, settings: LaplaceSearchSettings) -> LaplaceSearch:
        """A search from ``start`` (D,), in the units."""
        made = Evaluations.none(len(start)) if self.made is None else self.made
        return LaplaceSearch(made, self.evaluated, start, settings)

    def gaussian(self, mean: np.ndarray, covariance: np.ndarray) -> Any:
        """The Gaussian of a mean (D,) and a covariance (D, D) in the units, in the family of q.

        None where no evaluation has a value, or the covariance is nearly singular.
        """
        mean = self.units.points(mean[None])[0]
        covariance = self.units.scale @ covariance @ self.units.scale.T
        variances, _ = symmetric_eigen(covariance)
        valued = self.made is not None and self.made.good.any()
        if not valued or not variances[-1] < 1e8 * variances[0]:
            return None
        # natural parameters are what a saved run has, to the last digit
        _, precision = cholesky_inverse(covariance)
        if isinstance(self.q, DiagonalGaussian):
            diagonal = np.diag(precision)
            return DiagonalGaussian.from_natural((diagonal * mean, -0.5 * diagonal))
        return Gaussian.from_natural((precision @ mean, -0.5 * precision))

    def anchor(self, row: int | None) -> Anchor | None:
        """The anchor at a row of the evaluations that were made; None without a value there."""
        from bqvi.gradients.black_box import values_and_slopes

        if row is None or self.made is None or not self.made.good[row]:
            return None
        whole = reduce(Evaluations.joined, self.rows)
        model, rows, place = self.problem.model, self.batch.rows, whole.points[row]
        prior, slope = values_and_slopes(model.log_prior, place[None], model, rows)
        return Anchor(place, float(whole.values[row] - prior[0]), np.asarray(whole.gradients)[row] - slope[0])


@dataclass(frozen=True, eq=False)
class _At:
    """A Gaussian q with evaluations at nodes from it."""

    q: Any
    made: Evaluations

    @classmethod
    def nodes_of(
        cls, problem: LoopProblem, q: Any, n: int, state: LoopState, account: Account, first: bool = False
    ) -> _At:
        """q with evaluations at n nodes; of the ``first`` one has to return."""
        estimator, none = problem.estimator, np.zeros((0, q.dimension))
        assert isinstance(estimator, BayesianQuadrature)  # by `searches`
        points, _ = estimator.asked(problem.model, q, n, state.rng, state.memory, none)
        return cls(q, evaluate(problem.model, q, Batch(None, 0, account=account), points, first))

    @property
    def frame(self) -> WhitenedFrame:
        return WhitenedFrame.of(self.q)

    @property
    def elbo(self) -> float:
        """The nodes' mean of the log joint and the entropy of q, up to a constant; -inf if any failed."""
        if not self.made.good.all():
            return -np.inf
        return float(self.made.values.mean() + np.log(np.diag(self.frame.scale)).sum())

    @property
    def near(self) -> bool:
        """Whether q is near the posterior; see `BeginningSettings`."""
        made = self.made
        if not made.good.all():
            return False
        u = self.frame.whiten(made.points)
        if made.gradients is None:
            varying = float(np.var(made.values + 0.5 * np.square(u).sum(1)))
            return varying < BEGINNING.near_of_values * 0.5 * u.shape[1]
        y = made.gradients @ self.frame.scale + u
        slope = np.vdot(y, u) / np.square(u).sum()
        return float(np.median(np.square(y).sum(1))) < BEGINNING.near * u.shape[1] and slope < BEGINNING.flat


FAMILIES = ("full", "mean-field", "point")


def starting_q(
    problem: LoopProblem, start_from: str | Distribution, family: str, rng: np.random.Generator
) -> Any:
    """The first q(theta).

    Parameters
    ----------
    problem : model, data and estimator. start_from : the name of a start ('k-means++', 'random', ...) or a
        distribution.
    family : the name of q's family. rng : draws a random start.

    Raises
    ------
    ValueError
        The start has another structure than the model, or q, the model or the estimator excludes the family.
    """
    model, data = problem.model, problem.data
    if isinstance(start_from, str):
        require_one_of("start_from", start_from, STARTS)
        try:
            q = model.initial(data, start_from, rng)
        except np.linalg.LinAlgError as error:
            raise ValueError(
                f"no start can be made from data, as a covariance is singular ({error}): "
                f"{why_singular(model, exact=True)}"
            ) from error
    else:
        q = start_from
        _check_structure(problem, q, model.initial(data, "random", np.random.default_rng(0)))
    if isinstance(q, GaussianMixture):
        _check_mixture(problem, family)
    _check_flat(model, q, family)
    if family == "point":
        _check_score(problem, "family is 'point'")
        if isinstance(model, ConjugateModel):
            in_family(model.prior, "point")  # raises ValueError where a concentration is below 1: no mode
        if getattr(getattr(model, "mixing", None), "tied", False):
            raise ValueError("family is 'point' with a tied tail, which is not a point; use tail='truncated'")
    elif _has_point(q):
        _check_score(problem, "start_from has a PointMass")
    elif getattr(model, "points_only", False):
        raise ValueError(f"family is {family!r}, but the model has point estimates only; use family='point'")
    return in_family(q, family)


def _check_flat(model: Model, q: Distribution, family: str) -> None:
    """Raise ValueError for a flat prior unless q is a point mass, the only family with a bound under it."""
    if _has_flat_prior(model) and family != "point" and not _has_point(q):
        raise ValueError(
            f"family is {family!r}, but the model's prior is flat, which has no normaliser; use "
            "family='point' (maximum likelihood), or give a proper prior"
        )


def _has_flat_prior(model: Model) -> bool:
    """Whether the prior of some parameters of ``model`` is flat."""
    prior = getattr(model, "prior", None)
    factors = prior.factors.values() if isinstance(prior, Product) else [prior]
    return any(isinstance(factor, Flat) for factor in factors)


def why_singular(model: Any, exact: bool) -> str:
    """The cause of a singular covariance of q, with advice; ``exact`` for updates without a step size."""
    stated = getattr(model, "singular", None)
    several = stated is None or hasattr(model, "responsibilities")
    causes = [_COLLAPSED] if several and _has_flat_prior(model) else []
    if stated is not None:
        causes.append(stated)
    return ", or ".join(causes) or (_ROUNDING if exact else _TOO_LARGE)


_TOO_LARGE = "the steps are too large, lower the schedule's scale"
_ROUNDING = (
    "data of very different sizes, of which rounding leaves no digits; centre the columns and divide them by "
    "their standard deviations"
)
_COLLAPSED = (
    "a component is empty or has collapsed, where the likelihood has no maximum; give a proper prior instead "
    "of the flat one, fewer components, or another start"
)


def _check_mixture(problem: LoopProblem, family: str) -> None:
    """Raise ValueError for a mixture of Gaussians where the estimator or the family excludes it."""
    if not getattr(problem.estimator, "mixtures", False):
        raise ValueError(
            f"start_from is a GaussianMixture, which a {type(problem.estimator).__name__} does not take; use "
            "method 'pathwise' or 'score'; bqvi.vbmc has a mixture of its own"
        )
    if family == "point":
        raise ValueError("family is 'point', which a GaussianMixture has not; start from one Gaussian")


def _check_structure(problem: LoopProblem, q: Distribution, like: Array) -> None:
    """Raise ValueError unless ``q`` has the factors, classes and shapes of the model's start, ``like``."""
    if isinstance(q, GaussianMixture) and isinstance(like, Gaussian | DiagonalGaussian):
        if tuple(q.mean.shape) != tuple(like.mean.shape):
            raise ValueError(
                f"start_from is a GaussianMixture in D = {q.dimension}, the model in D = {like.dimension}"
            )
        return
    # exact expectations need the families of the model; a sampled log joint needs draws only
    mean_field = problem.estimator.samples > 0 and not isinstance(problem.model, ConjugateModel)
    if not _fits(q, like, mean_field):
        raise ValueError(
            f"start_from is {_described(q)}; for this model and data it must be 'k-means++', 'random' or "
            f"{_described(like)}"
        )


def _check_score(problem: LoopProblem, what: str) -> None:
    """Raise ValueError for the score function with a point mass, which has no score."""
    if type(problem.estimator).__name__ == "Score":  # by its name, as importing the class would import torch
        raise ValueError(f"{what}, which has no score function; use method 'pathwise'")


def _has_point(q: Distribution) -> bool:
    return isinstance(q, PointMass) or (isinstance(q, Product) and any(map(_has_point, q.factors.values())))


def _fits(q: Any, like: Array, mean_field: bool) -> bool:
    """Whether ``q`` has the structure of ``like``; ``mean_field``: diagonal Gaussians for full ones, too."""
    if isinstance(like, Product):
        names = q.factors.keys() == like.factors.keys() if isinstance(q, Product) else False
        return names and all(_fits(q[name], part, mean_field) for name, part in like.factors.items())
    family = q.family if isinstance(q, PointMass) else q
    allowed = (type(like), DiagonalGaussian) if mean_field and isinstance(like, Gaussian) else (type(like),)
    return isinstance(family, allowed) and _shape(family) == _shape(like)


def _shape(q: Any) -> tuple[int, ...]:
    family = q.family if isinstance(q, PointMass) else q
    if isinstance(family, Point):
        return tuple(family.place.shape)
    return tuple(family.natural[0].shape)


def _described(q: Distribution) -> str:
    if isinstance(q, Product):
        return "a Product of " + ", ".join(f"{name}: {_described(part)}" for name, part in q.factors.items())
    if not isinstance(q, Point | PointMass | ExponentialFamily):
        return f"a {type(q).__name__}"
    kind = f"PointMass on a {type(q.family).__name__}" if isinstance(q, PointMass) else type(q).__name__
    return f"a {kind} of shape {_shape(q)}"


def in_family(q: Distribution, family: str) -> Any:
    """q with the requested family instead of its Gaussian, or instead of every factor for a point mass."""
    if family == "full":
        return q
    if family == "point":
        if isinstance(q, Product):
            return Product({name: _mode_of(factor) for name, factor in q.factors.items()})
        return _mode_of(q)
    if isinstance(q, DiagonalGaussian):
        return q
    if isinstance(q, GaussianMixture):
        return q.mean_field()
    if not isinstance(q, Gaussian):
        raise ValueError(f"family is 'mean-field', but q is a {type(q).__name__}, not a Gaussian; use 'full'")
    return DiagonalGaussian(q.mean, np.diagonal(q.covariance, axis1=-2, axis2=-1).copy())


def _mode_of(q: Distribution) -> Any:
    """The point mass at the mode of q; a point mass is returned unchanged."""
    return q if isinstance(q, PointMass | Concentration) else PointMass(q)
