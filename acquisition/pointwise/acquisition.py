"""A criterion bound to a posterior and a measure, which makes it a function of points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from acquisition.pointwise.criterion import Criterion, Informative
from acquisition.pointwise.predictor import Predictor
from acquisition.pointwise.targets import posterior_targets
from gp.arrays import Array, as_like, namespace
from gp.embeddings.registry import in_kind_of
from gp.integrals import Integrals
from gp.marginal import MarginalPosterior
from gp.measures import Measure
from gp.posterior import Posterior


@dataclass(frozen=True, eq=False)
class Acquisition:
    """A function of points, to be maximised; made by :func:`bind`.

    Points are of the posterior's kind, NumPy or torch, and so is what is returned; torch gradients
    flow through :meth:`score` and :meth:`value`.

    Attributes
    ----------
    criterion : the formula in the moments of f at a point.
    predictor : computes these moments from a posterior and a measure.
    """

    criterion: Criterion
    predictor: Predictor

    @property
    def posterior(self) -> Posterior:
        """The Gaussian process given what has been observed."""
        return self.predictor.posterior

    @property
    def measure(self) -> Measure:
        """The measure that f is integrated against."""
        return self.predictor.measure

    def value(self, x: Array) -> Array:
        """Return the criterion itself at points x (m, D), (m,)."""
        score = self.score(x)
        return namespace(score).exp(score) if self.criterion.logarithmic else score

    def score(self, x: Array) -> Array:
        """Return the score, which is the criterion or its logarithm, at points x (m, D), (m,)."""
        return self.criterion.score(self.predictor.moments(x))

    def score_and_gradient(self, x: Array) -> tuple[Array, Array]:
        """Return the scores (m,) and their gradients in x (m, D), in closed form."""
        at = self.predictor.moments(x)
        score = self.criterion.score(at)
        return score, self.predictor.pullback(at, self.criterion.partials(at))


@dataclass(frozen=True, eq=False)
class MarginalAcquisition:
    """The mean of an acquisition over hyperparameters, its value averaged by weight (Snoek et al. 2012).

    Attributes
    ----------
    posterior : the mixture. parts : an acquisition for each of its posteriors.
    """

    posterior: MarginalPosterior
    parts: tuple[Acquisition, ...]

    @property
    def criterion(self) -> Criterion:
        """The criterion, which all parts have."""
        return self.parts[0].criterion

    @property
    def measure(self) -> Measure:
        """The measure that f is integrated against."""
        return self.parts[0].measure

    def value(self, x: Array) -> Array:
        """Return the criterion itself at points x (m, D), (m,)."""
        score = self.score(x)
        return namespace(score).exp(score) if self.criterion.logarithmic else score

    def score(self, x: Array) -> Array:
        """Return the criterion or its logarithm at points x (m, D), (m,)."""
        return self._mixed([part.score(x) for part in self.parts])[0]

    def score_and_gradient(self, x: Array) -> tuple[Array, Array]:
        """Return the scores (m,) and their gradients in x (m, D), in closed form."""
        scores, gradients = zip(*(part.score_and_gradient(x) for part in self.parts), strict=True)
        score, shares = self._mixed(list(scores))
        return score, sum(share[:, None] * each for share, each in zip(shares, gradients, strict=True))

    def _mixed(self, scores: list[Array]) -> tuple[Array, Array]:
        """The score of the mean criterion (m,), and its derivatives in the parts' scores (J, m)."""
        xp = namespace(*scores)
        stacked = xp.stack(scores)
        weights = as_like(self.posterior.weights, stacked)[:, None] * xp.ones_like(stacked)
        if not self.criterion.logarithmic:
            return xp.sum(weights * stacked, axis=0), weights
        largest = xp.max(stacked, axis=0)
        terms = weights * xp.exp(stacked - largest)
        total = xp.sum(terms, axis=0)
        return largest + xp.log(total), terms / total


def bind(
    criterion: Criterion,
    posterior: Posterior | MarginalPosterior,
    measure: Measure,
    *,
    noise: float | None = None,
) -> Any:
    """Return ``criterion`` as a function of points.

    Parameters
    ----------
    criterion : the gain of evaluating f at a point, such as ``IntegralVarianceReduction()``.
    posterior : the posterior of f given the observations, of which there may be none. Of a marginalised one
        the criterion is averaged over its hyperparameters.
    measure : the measure against which f is integrated.
    noise : noise variance of the next observation; by default the number the posterior has.

    Returns
    -------
    An :class:`Acquisition`; of a marginalised posterior a :class:`MarginalAcquisition`.

    Raises
    ------
    ValueError
        If dimensions differ, or the posterior has a noise for each observation and ``noise`` is
        not given.
    UnknownPairError
        When the acquisition is first used, if the criterion needs the integral and the kernel has no
        embedding against the measure.
    """
    if isinstance(posterior, MarginalPosterior):
        parts = tuple(bind(criterion, each, measure, noise=noise) for each in posterior.posteriors)
        return MarginalAcquisition(posterior, parts)
    if measure.dimension != posterior.x.shape[1]:
        raise ValueError(
            f"measure has dimension {measure.dimension}, the posterior's points have "
            f"{posterior.x.shape[1]} columns: give a measure on the same space"
        )
    measure = in_kind_of(measure, posterior.x)
    predictor = Predictor(posterior, measure, _next_noise(posterior, noise))
    if isinstance(criterion, Informative):
        functional = Integrals((measure,)) if criterion.targets is None else criterion.targets
        targets = posterior_targets(posterior, functional)
        combination = criterion.combination(targets)
        predictor = replace(predictor, targets=targets, combination=combination)
    return Acquisition(criterion, predictor)


def _next_noise(posterior: Posterior, noise: float | None) -> float:
    if noise is not None:
        if not 0 <= noise < float("inf"):
            raise ValueError(f"noise = {noise!r}: give a variance, finite and not negative")
        return float(noise)
    if getattr(posterior.noise, "ndim", 0) == 1:
        raise ValueError(
            "noise = None, but the posterior has a noise for each observation: give that of the next one"
        )
    return float(posterior.noise)
