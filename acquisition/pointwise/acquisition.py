"""A criterion bound to a posterior and a measure, which makes it a function of points."""

from __future__ import annotations

from dataclasses import dataclass

from acquisition.pointwise.criterion import Criterion
from acquisition.pointwise.predictor import Predictor
from gp.arrays import Array, as_like, namespace
from gp.embeddings.registry import in_kind_of
from gp.marginal import MarginalPosterior
from gp.measures import Measure
from gp.posterior import Posterior


@dataclass(frozen=True, eq=False)
class Acquisition:
    """A function of points, to be maximised; made by :func:`bind`.

    Points are of the posterior's kind, NumPy or torch, and so is what is returned; torch gradients
    flow through :meth:`score` and :meth:`value`. Of a marginalised posterior the criterion itself is averaged
    over hyperparameters by weight (Snoek et al. 2012).

    Attributes
    ----------
    criterion : the formula in the moments of f at a point.
    posterior : the Gaussian process, or the mixture, given what has been observed.
    predictors : compute these moments for the process, or for each of the mixture.
    """

    criterion: Criterion
    posterior: Posterior | MarginalPosterior
    predictors: tuple[Predictor, ...]

    @property
    def measure(self) -> Measure:
        """The measure that f is integrated against."""
        return self.predictors[0].measure

    def value(self, x: Array) -> Array:
        """Return the criterion itself at points x (m, D), (m,)."""
        score = self.score(x)
        return namespace(score).exp(score) if self.criterion.logarithmic else score

    def score(self, x: Array) -> Array:
        """Return the score, which is the criterion or its logarithm, at points x (m, D), (m,)."""
        return self._mixed([self.criterion.score(each.moments(x)) for each in self.predictors])[0]

    def score_and_gradient(self, x: Array) -> tuple[Array, Array]:
        """Return the scores (m,) and their gradients in x (m, D), in closed form."""
        every = [each.moments(x) for each in self.predictors]
        score, shares = self._mixed([self.criterion.score(at) for at in every])
        pairs = zip(self.predictors, every, strict=True)
        gradients = [each.pullback(at, self.criterion.partials(at)) for each, at in pairs]
        if shares is None:
            return score, gradients[0]
        return score, sum(share[:, None] * each for share, each in zip(shares, gradients, strict=True))

    def _mixed(self, scores: list[Array]) -> tuple[Array, Array]:
        """The score of the mean criterion (m,), and its derivatives in the parts' scores (J, m)."""
        if not isinstance(self.posterior, MarginalPosterior):
            return scores[0], None
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
) -> Acquisition:
    """Return ``criterion`` as a function of points.

    Parameters
    ----------
    criterion : the gain of evaluating f at a point, such as ``IntegralVarianceReduction()``.
    posterior : the posterior of f given the observations, of which there may be none. Of a marginalised one
        the criterion is averaged over its hyperparameters.
    measure : the measure against which f is integrated.
    noise : noise variance of the next observation; by default the number the posterior has.

    Raises
    ------
    ValueError
        If dimensions differ, or the posterior has a noise for each observation and ``noise`` is
        not given.
    UnknownPairError
        When the acquisition is first used, if the criterion needs the integral and the kernel has no
        embedding against the measure.
    """
    each = posterior.posteriors if isinstance(posterior, MarginalPosterior) else (posterior,)
    return Acquisition(criterion, posterior, tuple(_predictor(p, measure, noise) for p in each))


def _predictor(posterior: Posterior, measure: Measure, noise: float | None) -> Predictor:
    if measure.dimension != posterior.x.shape[1]:
        raise ValueError(
            f"measure has dimension {measure.dimension}, the posterior's points have "
            f"{posterior.x.shape[1]} columns: give a measure on the same space"
        )
    measure = in_kind_of(measure, posterior.x)
    return Predictor(posterior, measure, _next_noise(posterior, noise))


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
