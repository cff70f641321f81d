"""The test of an answer: evaluations that could refute it, each predicted without its value.

The answer to an integral of f > 0, given by its logarithm, is the density a = |m| p, with m the mean of the
surrogate and p the density of the measure. Where a is wrong the surrogate's variance may be small. In each
step some nodes u_i are therefore draws of a mixture q of two densities, with equal weights:

    a^t / C           the answer tempered, so that its draws reach into its tails
    Student's t       with 2.5 times the scale of the answer (:mod:`bqvi.widened`)

Each is predicted by the surrogate of all other nodes, with mean m_i and standard deviation s_i. With the
integral Z of the answer and w_i = p(u_i) / q(u_i), two numbers follow from the n tests:

    ln(1 + d / Z),   d^2 = sum_i w_i^2 (f(u_i) - m_i)^2 / n^2
    kappa,           from the ratio of sum_i w_i^2 (f(u_i) - m_i)^2 to sum_i w_i^2 s_i^2

d is the standard error of the average of w (f - m), by which a control variate m corrects the integral, and
part of the standard deviation. kappa is the factor by which the errors exceed their standard deviations. An
answer with few tests, or of which either number is large, is not credible. No test lies so far out that the
measure has no mass there, where a quotient of two densities may have any size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri

from bqvi.importance import Proposal, covering, normalised, resampled
from bqvi.quadrature.credibility import Tested, kappa, left_out
from bqvi.quadrature.nodes import whitened_cross
from bqvi.quadrature.settings import DESIGN, REFUTATION
from bqvi.quadrature.surrogate import CandidateProcess
from bqvi.widened import WIDENING, Spread
from gp.measures import Measure, Uniform


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
        return self._log_sizes(mean), np.asarray(self.measure.log_density(u), float)

    def _log_sizes(self, values: np.ndarray) -> np.ndarray:
        """ln |f| (M,) for values of the process, of f or of g with f = g^2 / 2."""
        logs = np.log(np.maximum(np.abs(values), 1e-300))
        return self.log_unit + (logs if self.member.data.centred else 2.0 * logs - np.log(2.0))

    def _inside(self, u: np.ndarray) -> np.ndarray:
        """Whether the measure has mass near points (M, D), (M,)."""
        if isinstance(self.measure, Uniform):
            return np.isfinite(np.asarray(self.measure.log_density(u)))
        reach = DESIGN.stretch**2 * float(chdtri(u.shape[1], REFUTATION.outside))
        return np.asarray(np.sum(u**2, axis=1) < reach)

    def log_size(self, u: np.ndarray) -> np.ndarray:
        """ln a at points u (M, D), (M,)."""
        return np.sum(self.logs(u), axis=0)

    def draws(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Draws (M, D) of a proposal that covers a, and the logarithms (M,) of a over its density."""
        d = self.member.data.u.shape[1]
        standard = Proposal(np.ones(1), np.zeros((1, d)), np.eye(d)[None])
        proposal = covering(standard, self.member.data.u, self.log_size, DESIGN.pool, seed)
        u = proposal.draws(DESIGN.pool, seed)
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
        far = wide.scattered(DESIGN.pool, seed)
        inside = self._inside(far)
        share = max(float(inside.mean()), 1.0 / DESIGN.pool)
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
