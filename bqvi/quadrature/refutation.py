"""The test of an answer: evaluations that could refute it, predicted before they are made.

The answer to an integral of f > 0, given by its logarithm, is the density a = |m| p, with m the mean of the
surrogate and p the density of the measure. Where a is wrong the surrogate's variance may be small, and beyond
the region where the measure has mass there are no nodes at all. In each step some nodes u_i are therefore
draws of a mixture q of two densities, with equal weights:

    a^t / C           the answer tempered, so that its draws reach into its tails
    Student's t       with 2.5 times the scale of the answer (:mod:`bqvi.widened`)

Each is predicted before it is evaluated. By the last of them

    d = sum_i w_i |f(u_i) - m(u_i)| / sum_i w_i (f(u_i) + |m(u_i)|),      w_i = p(u_i) / q(u_i),

estimates the integral of |f - m| p over that of (f + |m|) p: the share of the mass in which f and its
surrogate differ. It lies between 0 and 1, and the logarithms of the integrals differ by at most 2 artanh d.
An answer with a share above ``allowed`` is not credible. The bound is part of the standard deviation.

A test so far out that the measure has no mass there is no node of the surrogate of f: under a Gaussian
measure f is the quotient of two densities, and may have any size there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from bqvi.importance import Proposal, normalised, resampled
from bqvi.quadrature.nodes import whitened_cross
from bqvi.quadrature.settings import REFUTATION
from bqvi.quadrature.surrogate import CandidateProcess
from bqvi.widened import Spread
from gp.measures import Measure

__all__ = ["Answer", "Tested", "test_of"]


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
        mean = process.mean[0] + whitened.T @ process.evidence.residual[:, 0] + self.level
        return self._log_sizes(mean), np.asarray(self.measure.log_density(u), float)

    def _log_sizes(self, values: np.ndarray) -> np.ndarray:
        """ln |f| (M,) for values of the process, of f or of g with f = g^2 / 2."""
        logs = np.log(np.maximum(np.abs(values), 1e-300))
        return self.log_unit + (logs if self.member.data.centred else 2.0 * logs - np.log(2.0))

    def draws(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Draws (M, D) of an adapted proposal, and the logarithms (M,) of a over its density."""
        data = self.member.data
        dimension = data.u.shape[1]
        sizes = self._log_sizes(data.values[:, 0] + self.level)
        order = np.argsort(-(sizes + np.asarray(self.measure.log_density(data.u))), kind="stable")
        top = data.u[order[: REFUTATION.centres]]
        widths = np.sort(cdist(top, data.u), axis=1)[:, min(2 * dimension, len(data) - 1)]
        factors = np.maximum(widths, 1e-9)[:, None, None] * np.eye(dimension)
        proposal = Proposal(np.ones(len(top)) / len(top), top, factors)
        whole = Proposal(np.ones(1), np.zeros((1, dimension)), np.eye(dimension)[None])
        for k in range(REFUTATION.rounds + 1):
            proposal = proposal.joined(whole, REFUTATION.whole)
            u = proposal.draws(REFUTATION.pool, seed + k)
            parts = proposal.density.log_parts(u)
            logs = np.sum(self.logs(u), axis=0) - np.logaddexp.reduce(parts, axis=0)
            if k < REFUTATION.rounds and np.isfinite(logs).any():
                proposal = proposal.adapted(u, normalised(logs), parts)
        return u, logs

    def tests(self, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Points (m, D), m <= ``count``, and predictions (m, 2): ln |m| and ln w."""
        u, logs = self.draws(seed)
        weights = normalised(logs)
        a = np.sum(self.logs(u), axis=0)
        tempered = logs + (REFUTATION.temper - 1.0) * np.where(np.isfinite(a), a, 0.0)
        constant = float(np.logaddexp.reduce(tempered)) - np.log(len(u))
        number = (count + seed % 2) // 2  # half of them, and of a single one half of the time
        near = u[np.unique(resampled(normalised(tempered), max(number, 1), seed))[:number]]
        wide = Spread.of(u, weights)
        far = wide.scattered(REFUTATION.pool, seed)
        inside = np.isfinite(np.asarray(self.measure.log_density(far)))
        share = max(float(inside.mean()), 1.0 / REFUTATION.pool)
        points = np.concatenate([near, far[inside][: count - len(near)]])
        log_m, log_p = self.logs(points)
        log_q = np.logaddexp(
            REFUTATION.temper * (log_m + log_p) - constant, wide.log_density(points) - np.log(share)
        )
        return points, np.stack([log_m, log_p - log_q], axis=1)


@dataclass(frozen=True)
class Tested:
    """The result of the last tests.

    Attributes
    ----------
    count : their number. differs : d; 1 where there are none.
    """

    count: int
    differs: float

    @property
    def survived(self) -> bool:
        """Whether they could have refuted the answer, and have not."""
        return 2 * self.count >= REFUTATION.tests and self.differs < REFUTATION.allowed

    @property
    def variance(self) -> float:
        """The variance of the integral over its square, that of a log-normal variable; 0 without tests."""
        if not self.count:
            return 0.0
        bound = 2.0 * float(np.arctanh(min(self.differs, 1.0 - 1e-16)))
        return float(np.expm1(min(bound**2, 700.0)))


def test_of(logs: np.ndarray, predicted: np.ndarray) -> Tested:
    """Return the result of the last tests.

    Parameters
    ----------
    logs : ln f (n,) at the nodes. predicted : (n, 2), ln |m| and ln w there; NaN at nodes that are no tests.
    """
    tested = np.flatnonzero(~np.isnan(predicted[:, 0]))[-REFUTATION.tests :]
    if not len(tested):
        return Tested(0, 1.0)
    f, (m, w) = logs[tested], predicted[tested].T
    shift = max(float(np.max(np.maximum(f, m) + w)), -1e300)
    f, m = np.exp(f + w - shift), np.exp(m + w - shift)
    return Tested(len(tested), float(np.sum(np.abs(f - m)) / max(float(np.sum(f + m)), 1e-300)))
