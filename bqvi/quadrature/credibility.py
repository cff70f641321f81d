"""The checks by which a surrogate counts as credible, and the estimate that is returned where it does not.

Four checks are made with the evaluations of the run.

1. *Does it predict?* The nodes of the scrambled Sobol sequence represent the measure. At these the surrogate
   predicts each value from all others; the share explained is 1 - sum e_i^2 / sum (f_i - mean of the
   others)^2. Few of them lie on a narrow peak; a surrogate with such peaks is judged at all nodes.
2. *Is it singular?* If |f| is as P^-k, P the share of the measure where it is larger, what exceeds the
   largest f_1 adds f_1 P_1 k / (1 - k) to the integral. It may not be more than two standard deviations where
   errors at the fifth of nodes with the largest |f|, from which k is, are above .1 |f|. Each node has the
   share of the points nearest to it.
3. *Were its standard deviations right?* With r the ratio of the squared errors at the Sobol nodes to their
   variances, which counts as m nodes (at most 10 if r < 1), the final variance is multiplied by

       kappa^2 = max(1, (4 + m r) / (2 + m)),

   shrunk towards 2 by a prior of two nodes. The variance of the process, from p hyperparameters that are
   fitted to N numbers, is divided by (1 - p / N)^2 before (generalised cross-validation; Craven and Wahba
   1979). At a jump only the predictions of the two nodes beside it are wrong. Without node i the integral
   changes by w_i e_i, its weight times its error. The variance is not less than that of the process and the
   excess of the sum of these squares over its expectation sum w_i^2 s_i^2 and a standard deviation of it,
   sqrt(2 sum w_i^4 s_i^4) (a jackknife, less its expectation).
4. *Does the integrand grow in the tails?* If the evidence is for functions that grow like exp(|u|^2 / 4)
   (`gp.kernels.Tilted`), the nodes hardly determine the integrand beyond them, and averages even less. True
   growth has evidence in proportion to the nodes, a polynomial seen at few nodes has not: ``growth_nats`` for
   each node over every other candidate are required, and, once .99 is explained, an exponent that does not
   decrease towards the outermost nodes (`slows`). Of an f that is given by its logarithm the share of
   the integral beyond the nodes is known too (:mod:`rises`).

The plain average of f over the Sobol nodes is a second estimate. Its variance is taken to be that of simple
Monte Carlo, which randomised quasi-Monte Carlo seldom exceeds, plus that of one more node with the value
expected beyond the one farthest from the average, farthest / (1 - k) for a Pareto tail of shape k from 0 to
.8. A surrogate that explains at least ``explained`` of the variance is *credible*, and the result is its own.
Otherwise it is the average of the two estimates, and of their variances, with weight
w max(0, share explained) / explained for the surrogate and

    w = b^2 / (a^2 + b^2),     a the standard deviation of the surrogate (after 3. and 4.), b of the average.

An output with equal values c has the standard deviation |c| / (n + 2), as if the next of n + 2 nodes were the
first to differ, by |c|. Where c = 0 the size of f is not known, and it is infinite.

While a surrogate predicts less than a share of max(.7, 1 - 1/D), new nodes are taken from the Sobol sequence.

*Heavy tails.* Beyond a high threshold t, |f| under the measure is distributed nearly as a generalised Pareto
variable, P(|f| - t > y) = (1 + k y / sigma)^(-1/k). With k > 1/2 an average of draws has no variance, and it
is unreliable from k of about 0.7 on (Vehtari et al. 2024; `bqvi.importance` estimates k).

*Exponent.* Polynomials and exp(a.u) grow too, more slowly farther out. Locally the exponent is

    beta(r) = E[f u.grad f] / E[f^2 |u|^2] over nodes at radius r:   constant for exp(beta |u|^2 / 2),
                                                                     |a| / r for exp(a.u), p / r^2 for |u|^p.

*Evaluations that could refute it*, each predicted without its value. The answer to an integral of f > 0,
given by its logarithm, is the density a = |m| p, with m the mean of the surrogate and p the density of the
measure. Where a is wrong the surrogate's variance may be small. In each step some nodes u_i are therefore
draws of a mixture q of two densities, with equal weights:

    a^t / C           the answer tempered, so that its draws reach into its tails
    Student's t       with 2.5 times the scale of the answer (:mod:`bqvi.importance`)

Each is predicted by the surrogate of all other nodes, with mean m_i and standard deviation s_i. With the
integral Z of the answer and w_i = p(u_i) / q(u_i), two numbers follow from the n tests:

    ln(1 + d / Z),   d^2 = sum_i w_i^2 (f(u_i) - m_i)^2 / n^2
    kappa,           from the ratio of sum_i w_i^2 (f(u_i) - m_i)^2 to sum_i w_i^2 s_i^2

d is the standard error of the average of w (f - m), by which a control variate m corrects the integral. The
share that is not seen, whose square is added to the variance of ln Z, is the largest of d / Z, of that beyond
the nodes and of what unseen modes are expected to add (:mod:`bqvi.unseen`). kappa is the factor by which
errors exceed their sds. An answer with few tests, or of which d or kappa is large, is not credible.
No test lies where the measure has no mass, as a quotient of two densities may have any size there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import chdtri

from bqvi.importance import PARETO, WIDENING, Proposal, Spread, covering, normalised, pareto_shape, resampled
from bqvi.quadrature.ensemble import Ensemble
from bqvi.quadrature.nodes import whitened_cross
from bqvi.quadrature.peaks import PeakFamily
from bqvi.quadrature.settings import CREDIBILITY, TAILS
from bqvi.quadrature.surrogate import CandidateProcess
from bqvi.runs.settings import ENGINES
from gp.low_discrepancy import shifted_sobol
from gp.measures import Measure, Uniform

ALL_THE_SAME = (
    "All values are the same. If the integrand is a constant, that is the integral; the standard deviation "
    "is that of one further node at which it differs by as much as its size."
)
NOTHING_SEEN = (
    "All values are zero, which says nothing of the size of the integrand elsewhere: the standard deviation "
    "is infinite. If no value is larger than h in size, h / (n + 2) stands for it: one further node would "
    "be the first that is not zero."
)


def verdict(values: np.ndarray, log_weights: np.ndarray | None = None) -> tuple[float, bool, str]:
    """Return k, whether an average of draws can be used, and a sentence if it is not.

    Parameters
    ----------
    values : (n, o), values of f at draws; the output with the heaviest tail decides.
    log_weights : (n,), logarithms of importance weights by which f has been multiplied; their tail is checked
        too.
    """
    columns = [np.abs(column) for column in np.transpose(values)]
    if log_weights is not None and np.max(log_weights) > -np.inf:
        columns.append(np.exp(log_weights - np.max(log_weights)))
    shape = max(pareto_shape(column) for column in columns)
    share = max(float(column.max()) / max(float(column.sum()), 1e-300) for column in columns)
    if share > TAILS.most_of_one:
        return shape, False, (
            f"One of {len(values)} points carries {share:.0%} of the sum: the estimate and its standard "
            "deviation are those of the points that happened to be drawn. Draw from a measure nearer to "
            "where the integrand is large."
        )  # fmt: skip
    if shape > PARETO.unusable:
        return shape, False, (
            f"The largest values have a Pareto tail of shape {shape:.2f}, above {PARETO.unusable}: by "
            "these points the average has no variance, and the standard deviation is too small. Draw "
            "from a measure with heavier tails."
        )  # fmt: skip
    return shape, True, ""


def slows(u: np.ndarray, values: np.ndarray, slopes: np.ndarray) -> bool:
    """Whether f grows more slowly among the outermost quarter of nodes than among the quarter before.

    Parameters
    ----------
    u : nodes (n, D) in standard coordinates of a Gaussian. values : f, (n, o). slopes : df/du, (n, D, o).
    """
    squares = np.sum(u**2, axis=1)
    radial = np.einsum("nd,ndo,no->n", u, slopes, values)
    weights = squares * np.sum(values**2, axis=1)
    order, count = np.argsort(squares), max(len(u) // 4, 1)
    outer, before = order[-count:], order[-2 * count : -count]
    exponents = [radial[k].sum() / max(weights[k].sum(), 1e-300) for k in (before, outer)]
    return bool(exponents[1] < TAILS.slower * exponents[0])


@dataclass(frozen=True)
class Tested:
    """The result of evaluations that could have refuted an answer (:mod:`credibility`).

    Attributes
    ----------
    count : their number. error : of the logarithm of the integral. inflation : kappa of their predictions.
    """

    count: int
    error: float
    inflation: float

    @property
    def survived(self) -> bool:
        """Whether the answer has been tested, and not been refuted."""
        right = self.error < CREDIBILITY.allowed and self.inflation < ENGINES.grown
        return self.count > 1 and right

    @property
    def sd(self) -> float:
        """The standard deviation of the integral over its size, with this error of its logarithm."""
        return float(np.sinh(min(self.error, 350.0)))


@dataclass(frozen=True, eq=False)
class Judgement:
    """The results of the checks.

    Attributes
    ----------
    explained : share of the variance that is predicted. inflation : kappa.
    grows : whether the evidence is for growth in the tails.
    constant, zero : (o,), whether all values of an output are the same, and zero.
    excess : (o,), the variance beside that of the process, by the jackknife.
    unexplored : whether the logarithms leave room for a mode that no node has shown (:mod:`rises`).
    modes, hidden : the nats that unseen modes are expected to add, and those that no node would show.
    beyond : the share of the integral that may lie beyond the nodes by the logarithms.
    singular : the integral beyond the largest values, in standard deviations.
    tested : the result of evaluations that could have refuted it; None where there are no such tests.
    """

    explained: float
    inflation: float
    grows: bool
    constant: np.ndarray
    excess: np.ndarray
    zero: np.ndarray
    singular: float
    unexplored: bool = False
    modes: float = 0.0
    hidden: float = 0.0
    beyond: float = 0.0
    tested: Tested | None = None

    @property
    def predicts(self) -> bool:
        """Whether the surrogate has passed the first check."""
        return self.explained >= CREDIBILITY.explained

    @property
    def credible(self) -> bool:
        """Whether the surrogate's estimate is returned unchanged."""
        doubted = self.grows or self.unexplored or self.singular > 2.0 or self.beyond >= CREDIBILITY.allowed
        return self.predicts and not doubted and (self.tested is None or self.tested.survived)

    def with_unseen(self, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        """The ``covariance`` (o, o) of integrals ``mean`` (o,) with what was not seen."""
        share = max(self.modes, self.beyond, 0.0 if self.tested is None else self.tested.sd)
        return covariance + np.diag(np.square(share * mean))

    @property
    def weight(self) -> float:
        """w, the weight of the surrogate in the mixture."""
        return float(np.clip(self.explained / CREDIBILITY.explained, 0.0, 1.0))

    @property
    def reason(self) -> str:
        """The results in a sentence."""
        share = f"{max(self.explained, 0.0):.0%} of the variance at the Sobol nodes"
        predicts = f"left out one at a time, {share} is predicted"
        if self.tested is not None and self.tested.count:
            predicts += f", by {self.tested.count} evaluations that tested it the log integral may be off by "
            predicts += f"{self.tested.error:.2g}, their errors {self.tested.inflation:.1f} times their sds"
        if self.singular > 2.0:
            predicts += (
                f", and the largest values grow like a power: {self.singular:.1f} standard deviations "
            )
            predicts += "may lie beyond, but not for a variable in which f is bounded, as x = t^2 for x^-1/2"
        tail = ""
        if self.inflation > ENGINES.grown:
            tail = (
                "; nodes left out were further off than their standard deviations, so "
                f"its standard deviation is multiplied by {self.inflation:.1f}"
            )
        if self.constant.all():
            return NOTHING_SEEN if self.zero.all() else ALL_THE_SAME
        if self.credible:
            return f"The surrogate is credible: {predicts}{tail}."
        if (self.grows or self.beyond >= CREDIBILITY.allowed) and self.predicts:
            return (
                "The surrogate is not credible: the integrand grows in the tails of the measure, as "
                "exp(|u|^2 / 4) does in units of its standard deviations, or nearly as its density falls: no "
                "node lies far enough out. Propose nodes from a wider measure, with the quotient of the "
                f"densities in the integrand{tail}."
            )
        if self.unexplored and self.predicts:
            return (
                "The surrogate is not credible: by the logarithms at the nodes, f may be as large as at the "
                f"largest of them at a place where no node lies; a larger budget explores it{tail}."
            )
        return (
            f"The surrogate is not credible: {predicts}. The estimate is a mixture of it (weight at "
            f"most {self.weight:.2f}) and of the average over the Sobol nodes{tail}."
        )


def judge(
    ensemble: Ensemble,
    sobol: np.ndarray,
    values: np.ndarray,
    weights: np.ndarray,
    variances: np.ndarray,
    measure: Measure | None,
    tested: Tested | None = None,
) -> Judgement:
    """Make the four checks, the second if there is a ``measure``.

    Parameters
    ----------
    ensemble : surrogates fitted to n nodes. sobol : (n,), which of the nodes are from the Sobol sequence.
    values : (n, o), values of f at the nodes in units of the process.
    weights : (m,), derivatives of the integral in the m observations. variances : of the integrals, (o,).
    measure : in standard coordinates. tested : the result of tests, if any.
    """
    best = ensemble.best
    all_errors, all_sds = best.process.leave_one_out()
    judged = _judged(ensemble, sobol)
    errors, sds = (part[: len(sobol)][judged] for part in (all_errors, all_sds))
    explained = share_explained(errors, best.data.values[judged])
    grows = ensemble.growth > 0.9 * len(sobol)
    if grows and explained > 0.99:
        grows = not slows(best.data.u, values, best.slopes())
    inflation = kappa(*left_out(errors, sds))
    excess = unexpected_change(weights[:, None] * all_errors, weights[:, None] * all_sds)
    singular, sd = 0.0, float(np.sqrt(np.sum(inflation**2 * variances + excess)))
    if measure is not None:
        singular = _beyond_largest(best, values, all_errors[: len(sobol)], measure) / max(sd, 1e-300)
    constant, zero = np.ptp(best.data.values, axis=0) == 0, np.abs(values).max(axis=0) == 0
    return Judgement(explained, inflation, grows, constant, excess, zero, singular, tested=tested)


def unexpected_change(changes: np.ndarray, sds: np.ndarray) -> np.ndarray:
    """Return the excess of sums of squares of changes (m, o) over their expectation, (o,)."""
    squares = sds**2
    expected = squares.sum(axis=0) + np.sqrt(2 * np.sum(squares**2, axis=0))
    return np.maximum(np.sum(changes**2, axis=0) - expected, 0.0)


def explained_by(ensemble: Ensemble, sobol: np.ndarray) -> float:
    """Make the first check alone."""
    errors, _ = ensemble.best.process.leave_one_out()
    judged = _judged(ensemble, sobol)
    return share_explained(errors[: len(sobol)][judged], ensemble.best.data.values[judged])


def _judged(ensemble: Ensemble, sobol: np.ndarray) -> np.ndarray:
    """The nodes (n,) at which predictions are judged: all of them where there are narrow peaks."""
    return np.ones_like(sobol) if isinstance(ensemble.best.family, PeakFamily) else sobol


def share_explained(errors: np.ndarray, values: np.ndarray) -> float:
    """Return 1 - sum e_i^2 / sum (f_i - mean of the others)^2 for (m, o) both; 0 where f does not vary."""
    m = len(values)
    others = (values - values.mean(axis=0)) * m / max(m - 1, 1)
    total = float(np.sum(others**2))
    return 1.0 - float(np.sum(errors**2)) / total if total > 0 else 0.0


def left_out(errors: np.ndarray, sds: np.ndarray) -> tuple[float, float]:
    """Return r = sum error^2 / sum sd^2 of leave-one-out errors, (m, o) both, and the number it counts as.

    The squares of the largest standard deviations dominate the sums, so the effective number of nodes is
    (sum sd^2)^2 / sum sd^4. Of several outputs the one with the largest r is used.
    """
    unit = np.maximum(sds.max(axis=0), 1e-300)
    variances, squares = (sds / unit) ** 2, (errors / unit) ** 2
    total = np.maximum(variances.sum(axis=0), 1e-300)
    count = np.minimum(total**2 / np.maximum(np.sum(variances**2, axis=0), 1e-300), len(sds))
    ratio = np.sum(squares, axis=0) / total
    worst = int(np.argmax(ratio))
    return float(ratio[worst]), float(count[worst])


def _beyond_largest(member: CandidateProcess, f: np.ndarray, errors: np.ndarray, measure: Measure) -> float:
    """The integral beyond the largest |f| (check 2), of f and errors (n, o); 0 where errors are small."""
    points = measure.from_unit_cube(shifted_sobol(measure.dimension, 16 * ENGINES.draws, 0))
    shares = np.bincount(cKDTree(member.data.u).query(points)[1], minlength=len(f)) / len(points)
    errors = errors if member.data.centred else errors * (member.data.values - 0.5 * errors)  # f = g^2 / 2
    sizes = np.linalg.norm(f, axis=1)
    order = np.argsort(np.where(shares > 0, -sizes, 0.0))[: max(len(f) // 5, 5)]
    p, largest = np.maximum(shares[order], 1e-300), np.maximum(sizes[order], 1e-300)
    if p @ np.sum(errors[order] ** 2, axis=1) <= 0.01 * (p @ largest**2):
        return 0.0
    k = float(np.clip(-np.polyfit(np.log(np.cumsum(p) - 0.5 * p), np.log(largest), 1)[0], 0.0, 0.95))
    return float(largest[0] * p[0] * k / (1.0 - k))


def kappa(ratio: float, nodes: float) -> float:
    """Return the factor on the standard deviation that leave-one-out errors require, at least 1.

    Parameters
    ----------
    ratio, nodes : r and the count of :func:`left_out`.
    """
    nodes = nodes if ratio > 1 else min(nodes, 10.0)
    total = 2.0 * 2.0 + nodes * ratio  # the prior on kappa^2 counts as two nodes and has the mean two
    return float(np.sqrt(max(1.0, total / (2.0 + nodes))))


def combined(
    mean: np.ndarray, covariance: np.ndarray, judgement: Judgement, values: np.ndarray, sobol: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean (o,) and covariance (o, o) of the result, from those of the surrogate.

    Parameters
    ----------
    values : (n, o), values of f at the nodes in units of the process. sobol : (n,), which nodes are from the
        Sobol sequence.
    """
    # the unit of values that are all the same is their size: see `of_constants`
    constant, inflated = (judgement.constant / (len(values) + 2.0)) ** 2, judgement.inflation**2 * covariance
    excess = np.maximum(judgement.excess - np.diag(inflated - covariance), 0.0)
    covariance = inflated + np.diag(constant + excess)
    alone = judgement.credible or judgement.constant.all() or (judgement.grows and judgement.predicts)
    if alone or np.sum(sobol) < 2:
        return mean, covariance
    plain_mean, plain = drawn(values, sobol)
    own, other = np.diag(covariance), np.diag(plain)
    shares = (other / np.maximum(own + other, 1e-300))[~judgement.constant]
    w = float(np.mean(shares)) * judgement.weight
    return w * mean + (1 - w) * plain_mean, w * covariance + (1 - w) * plain


def average(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean (o,) of independent values (n, o), n >= 2, and its covariance (o, o)."""
    n = len(values)
    mean = values.mean(axis=0)
    centred = values - mean
    return mean, centred.T @ centred / (n - 1) / n


def drawn(values: np.ndarray, sobol: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the average over Sobol nodes, and its covariance with that of one more node.

    See the module; parameters are those of :func:`combined`.
    """
    mean, covariance = average(values[sobol])
    farthest = np.abs(values - mean).max(axis=0)
    # the median of the values of a peak is the level outside of it
    seen = np.abs(values[sobol] - np.median(values[sobol], axis=0))
    shapes = np.clip([pareto_shape(column) for column in seen.T], 0.0, 0.8)
    further = farthest / (1 - shapes) / (np.sum(sobol) + 1)
    return mean, covariance + np.diag(further**2)


@dataclass(frozen=True, eq=False)
class Answer:
    """The density a = |m| p of a surrogate.

    Attributes
    ----------
    member : the process. measure : in standard coordinates. level : what is added to its values so that they
        are those of f. log_unit : the logarithm of their unit.
    """

    member: CandidateProcess
    measure: Measure
    level: float
    log_unit: float

    def logs(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """ln |m| (M,) and ln p (M,) at points u (M, D)."""
        process = self.member.process
        whitened = whitened_cross(self.member, self.member.chart.forward(u))
        mean = process.mean[0] + whitened.T @ process.residual[:, 0] + self.level
        logs = np.log(np.maximum(np.abs(mean), 1e-300))  # of f, or of g with f = g^2 / 2
        sizes = self.log_unit + (logs if self.member.data.centred else 2.0 * logs - np.log(2.0))
        return sizes, np.asarray(self.measure.log_density(u), float)

    def _inside(self, u: np.ndarray) -> np.ndarray:
        """Whether the measure has mass near points (M, D), (M,)."""
        if isinstance(self.measure, Uniform):
            return np.isfinite(np.asarray(self.measure.log_density(u)))
        reach = ENGINES.wider**2 * float(chdtri(u.shape[1], 1.0 - WIDENING.reached))
        return np.asarray(np.sum(u**2, axis=1) < reach)

    def log_size(self, u: np.ndarray) -> np.ndarray:
        """ln a at points u (M, D), (M,)."""
        return np.sum(self.logs(u), axis=0)

    def draws(self, seed: int, count: int = ENGINES.draws) -> tuple[np.ndarray, np.ndarray]:
        """Draws (M, D) of a proposal that covers a, and the logarithms (M,) of a over its density."""
        d = self.member.data.u.shape[1]
        standard = Proposal(np.ones(1), np.zeros((1, d)), np.eye(d)[None])
        proposal = covering(standard, self.member.data.u, self.log_size, ENGINES.draws, seed)
        u = proposal.draws(count, seed)
        return u, self.log_size(u) - proposal.density.log_density(u)

    def tests(self, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Points (m, D), m <= ``count``, and ln w (m,) there."""
        u, logs = self.draws(seed)
        weights = normalised(logs)
        a = self.log_size(u)
        tempered = logs + (WIDENING.temper - 1.0) * np.where(np.isfinite(a), a, 0.0)
        tempered = np.where(self._inside(u), tempered, -np.inf)
        constant = float(np.logaddexp.reduce(tempered)) - np.log(len(u))
        number = (count + seed % 2) // 2  # half of them, and of a single one half of the time
        near = u[np.unique(resampled(normalised(tempered), max(number, 1), seed))[:number]]
        wide = Spread.of(u, weights)
        far = wide.scattered(ENGINES.draws, seed)
        inside = self._inside(far)
        share = max(float(inside.mean()), 1.0 / ENGINES.draws)
        points = np.concatenate([near, far[inside][: count - len(near)]])
        log_m, log_p = self.logs(points)
        log_q = np.logaddexp(
            WIDENING.temper * (log_m + log_p) - constant, wide.log_density(points) - np.log(share)
        )
        return points, log_p - log_q + np.log(2.0)


def test_of(answer: Answer, log_weights: np.ndarray, log_integral: float) -> Tested:
    """Return the result of the tests.

    Parameters
    ----------
    answer : that of a surrogate of n nodes. log_weights : (n,), ln w; NaN at nodes that are no tests.
    log_integral : ln Z.
    """
    tested = np.flatnonzero(~np.isnan(log_weights))
    if not len(tested):
        return Tested(0, 0.0, 1.0)
    member, log_w = answer.member, log_weights[tested]
    errors, sds = (part[tested] for part in member.process.leave_one_out())
    values = member.data.values[tested] + answer.level
    # of f = g^2 / 2 the error is that of g times the mean of g and its prediction
    slopes = 1.0 if member.data.centred else 0.5 * (np.abs(values) + np.abs(values - errors))
    scale = np.exp(log_w - np.max(log_w))[:, None] * slopes
    size = max(float(np.linalg.norm(scale * errors)) / len(tested), 1e-300)
    error = float(np.logaddexp(0.0, np.log(size) + np.max(log_w) + answer.log_unit - log_integral))
    return Tested(len(tested), error, kappa(*left_out(scale * errors, scale * sds)))
