"""Whether a surrogate is to be believed, and what is returned if it is not.

Four questions are asked, of data that are there anyway.

1. *Does it predict?* The nodes that come from the scrambled Sobol sequence represent the measure. At
   these the surrogate predicts each value from all others; the share explained is
   1 - sum e_i^2 / sum (f_i - mean of the others)^2.
2. *Is there evidence for it?* Its log evidence has to exceed that of independent values (a constant
   and noise) by ``LEAST_GAIN`` nats.
3. *Did it keep its promises?* If the standard deviations were right, the estimate after more nodes
   would differ from an earlier one by increments of variance sd_(t-1)^2 - sd_t^2 (a martingale), and the
   squared errors of leave-one-out predictions at the Sobol nodes would add up to what their variances
   add up to. With z_t^2 the squares of T increments in that unit, and r the ratio of the two sums, which
   counts as m nodes, the final variance is scaled by

       kappa^2 = max(1, (4 + sum_t z_t^2 + m r) / (2 + T + m)),

   drawn to 2 as if by two increments before. Nodes that are predicted better than promised (r < 1) count
   as at most ``MOST_REASSURED``: there are always more of them than of increments, and they say less about
   the integral.
4. *Does the integrand grow in the tails?* If the evidence is for functions that grow like
   exp(|u|^2 / 4) (:mod:`growing`), nodes say little about what lies beyond them, and averages less: the
   result is the surrogate's, not credible, and its standard deviation contains what may lie there
   (:mod:`tails`). The evidence for true growth is proportional to the number of nodes, that of a polynomial
   seen at few nodes is not: asked for are ``GROWTH_NATS`` for each node over every other candidate.

The plain average of f over the Sobol nodes is a second estimate from the same evaluations, a
randomised quasi-Monte Carlo one; as its standard deviation stands that of simple Monte Carlo, which it
seldom exceeds. A surrogate that explains at least ``EXPLAINED`` of the variance, with evidence, is
*credible*: the two are combined by their precisions,

    w = b^2 / (a^2 + b^2),   sd = w a + (1 - w) b,     a = kappa sd of the surrogate, b of the average,

as if they erred alike, which changes nothing where a << b. Otherwise the result says so, and is a
mixture with weight w max(0, share explained) / EXPLAINED for the surrogate (0 without evidence), its
variance containing the gap between the two.

While a surrogate predicts less than a share of max(0.7, 1 - 1/D), new nodes are taken from the Sobol
sequence: chosen nodes are no better than its guess, and the fallback grows as long as it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from bqvi.quadrature.ensemble import Ensemble
from bqvi.quadrature.monte_carlo import average
from bqvi.quadrature.tails import beyond

EXPLAINED = 0.5
LEAST_GAIN = 2.0
GROWTH_NATS = 0.9
MOST_REASSURED = 10.0
_PRIOR_COUNT, _PRIOR_SQUARE = 2.0, 2.0


def predicts(dimension: int) -> float:
    """Return the share explained from which a surrogate chooses the nodes."""
    return max(0.7, 1 - 1 / dimension)


@dataclass(frozen=True, eq=False)
class Past:
    """An earlier estimate: mean (o,) and variances (o,), in units of e^shift."""

    mean: Any
    variance: Any
    shift: float


@dataclass(frozen=True, eq=False)
class Judgement:
    """The answers.

    Attributes
    ----------
    explained : share of the variance that is predicted. gain : log evidence over that of noise.
    inflation : kappa. grows : whether the evidence is for growth in the tails.
    beyond : (o,), what may lie beyond the nodes then, in the units of the process; otherwise zero.
    """

    explained: float
    gain: float
    inflation: float
    grows: bool
    beyond: Any

    @property
    def predicts(self) -> bool:
        """Whether the surrogate has passed the first two questions."""
        return self.explained >= EXPLAINED and self.gain >= LEAST_GAIN

    @property
    def credible(self) -> bool:
        """Whether the surrogate's estimate is returned as it is."""
        return self.predicts and not self.grows

    @property
    def weight(self) -> float:
        """w, of the surrogate in the mixture."""
        if self.gain < LEAST_GAIN:
            return 0.0
        return float(np.clip(self.explained / EXPLAINED, 0.0, 1.0))

    @property
    def reason(self) -> str:
        """A sentence."""
        predicts = (
            f"left out one at a time, {max(self.explained, 0.0):.0%} of the variance at the Sobol nodes "
            f"is predicted, and the evidence over noise is {self.gain:.1f} nats"
        )
        tail = ""
        if self.inflation > 1.5:
            tail = (
                "; what was promised of earlier estimates and of nodes left out was too much, so "
                f"its standard deviation is multiplied by {self.inflation:.1f}"
            )
        if self.credible:
            return f"The surrogate is credible: {predicts}{tail}."
        if self.grows and self.predicts:
            return (
                "The surrogate is not credible: the integrand grows in the tails of the measure, like "
                "exp(|u|^2 / 4) or faster in units of its standard deviations: no node lies far enough out. "
                "The standard deviation contains what may be there. Propose nodes from a wider measure, with "
                f"the quotient of the densities in the integrand{tail}."
            )
        return (
            f"The surrogate is not credible: {predicts}. The estimate is a mixture of it (weight at "
            f"most {self.weight:.2f}) and of the average over the Sobol nodes{tail}."
        )


def judge(
    ensemble: Ensemble, sobol: Any, past: list[Past], values: Any = None, shift: float = 0.0
) -> Judgement:
    """Answer the four questions.

    Parameters
    ----------
    ensemble : fitted to n nodes. sobol : (n,), which of them come from the Sobol sequence.
    past : estimates in order of time, the present one last.
    values : (n, o), of f at the nodes in units of the process; without, nothing is said of the tails.
    shift : of the present units.
    """
    best = ensemble.best
    errors, sds = (part[: len(sobol)][sobol] for part in best.profile.leave_one_out())
    seen = best.data.values[sobol]
    m = len(seen)
    others = (seen - seen.mean(axis=0)) * m / max(m - 1, 1)
    total = float(np.sum(others**2))
    explained = 1.0 - float(np.sum(errors**2)) / total if total > 0 else 1.0
    grows = ensemble.growth > GROWTH_NATS * len(sobol)
    outside = np.zeros(best.data.outputs) if values is None or not grows else beyond(best.data.u, values)
    inflation = kappa(past, shift, left_out(errors, sds))
    return Judgement(explained, _gain(ensemble), inflation, grows, outside)


def left_out(errors: Any, sds: Any) -> tuple[float, float]:
    """Return r = sum error^2 / sum sd^2 of nodes left out, (m, o) both, and as how many nodes it counts.

    The squares of the largest standard deviations dominate the sums, so they are those of
    (sum sd^2)^2 / sum sd^4 nodes only. Of several outputs the one with the largest r is taken.
    """
    unit = np.maximum(sds.max(axis=0), 1e-300)
    variances, squares = (sds / unit) ** 2, (errors / unit) ** 2
    total = np.maximum(variances.sum(axis=0), 1e-300)
    count = np.minimum(total**2 / np.maximum(np.sum(variances**2, axis=0), 1e-300), len(sds))
    ratio = np.sum(squares, axis=0) / total
    worst = int(np.argmax(ratio))
    return float(ratio[worst]), float(count[worst])


def _gain(ensemble: Ensemble) -> float:
    """Log evidence over that of a constant mean and independent noise."""
    best = ensemble.best
    values = best.data.values
    n = len(values)
    spread = max(float(np.mean(values.var(axis=0))) * n / max(n - 1, 1), 1e-300)
    noise = -0.5 * values.shape[1] * (max(n - 1, 1) * np.log(spread) + np.log(n))
    if best.data.slopes is not None:
        return np.inf  # gradients have no place in the evidence of independent values
    return float(best.profile.log_likelihood - noise)


def kappa(past: list[Past], shift: float = 0.0, outside: tuple[float, float] = (1.0, 0.0)) -> float:
    """Return the factor on the standard deviation that earlier promises ask for, at least 1.

    ``outside`` are r and the count of :func:`left_out`.
    """
    ratio, nodes = outside
    nodes = nodes if ratio > 1 else min(nodes, MOST_REASSURED)
    total, count = _PRIOR_COUNT * _PRIOR_SQUARE + nodes * ratio, _PRIOR_COUNT + nodes
    for before, after in pairwise(past):
        scale = np.exp(before.shift - after.shift)
        variance = before.variance * scale**2
        fall = np.maximum(variance - after.variance, 0.25 * variance)
        known = fall > 0
        if not np.any(known):
            continue
        step = (after.mean - before.mean * scale)[known]
        total += float(np.mean(step**2 / fall[known]))
        count += 1
    return float(np.sqrt(max(1.0, total / count)))


def combined(mean: Any, covariance: Any, judgement: Judgement, sobol_values: Any) -> tuple[Any, Any]:
    """Return mean (o,) and covariance (o, o) of the result, from those of the surrogate."""
    covariance = judgement.inflation**2 * covariance + np.diag(judgement.beyond**2)
    if len(sobol_values) < 2 or (judgement.grows and judgement.predicts):
        return mean, covariance
    plain = average(sobol_values)
    own, other = np.diag(covariance), np.diag(plain.covariance)
    w = float(np.mean(other / np.maximum(own + other, 1e-300)))
    if judgement.credible:
        sd = w * np.sqrt(own) + (1 - w) * np.sqrt(other)
        scale = sd / np.sqrt(np.maximum(own, 1e-300))
        return w * mean + (1 - w) * plain.mean, covariance * np.outer(scale, scale)
    w *= judgement.weight
    gap = mean - plain.mean
    mixed = w * covariance + (1 - w) * plain.covariance + w * (1 - w) * np.outer(gap, gap)
    return w * mean + (1 - w) * plain.mean, mixed
