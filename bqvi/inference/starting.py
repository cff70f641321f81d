"""The q(theta) from which a run starts: the model's own, or a given one, in the requested family."""

from __future__ import annotations

from typing import Any

import numpy as np

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
from bqvi.inference.state import LoopProblem, Model
from bqvi.models.components import STARTS
from bqvi.models.conjugate import ConjugateModel
from gp.arrays import Array
from gp.checks import require_one_of

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
            return Product({name: _at_mode(factor) for name, factor in q.factors.items()})
        return _at_mode(q)
    if isinstance(q, DiagonalGaussian):
        return q
    if isinstance(q, GaussianMixture):
        return q.mean_field()
    if not isinstance(q, Gaussian):
        raise ValueError(f"family is 'mean-field', but q is a {type(q).__name__}, not a Gaussian; use 'full'")
    return DiagonalGaussian(q.mean, np.diagonal(q.covariance, axis1=-2, axis2=-1).copy())


def _at_mode(q: Distribution) -> Any:
    """The point mass at the mode of q; a point mass is returned unchanged."""
    return q if isinstance(q, PointMass | Concentration) else PointMass(q)
