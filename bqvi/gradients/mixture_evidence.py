"""The process on a log joint f for q a mixture: its prior mean and its hyperparameters, by evidence.

A process is on f less a prior mean, which is one of two:

    the Gaussian with q's moments    phi = f + |u|^2 / 2 in its units, which is smooth
    q itself, at the last round      phi = f - ln q, which is constant where q is the posterior, as in
                                     sticking-the-landing, but has ridges between the components of q
                                     elsewhere

Both explain the same observations, so their evidences can be compared, and the mean with the larger one is
used. Each is fitted from the earlier hyperparameters, if those belong to the same mean, and from a short
lengthscale: between two modes the evidence has two maxima, one for an oscillating function and one for a
polynomial with noise, whose lengthscale is ten times longer, and from the latter a search does not reach the
former.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.families import GaussianMixture
from bqvi.gradients.function_process import FunctionSurrogate
from bqvi.gradients.memory import Memory
from bqvi.gradients.mixture_draws import log_density
from bqvi.gradients.settings import MIXTURE, SEARCH
from bqvi.gradients.surrogates import Observed, OnFunction
from bqvi.gradients.whitened import WhitenedFrame, near_q

__all__ = ["FittedProcess", "Used", "most_likely"]


@dataclass(frozen=True, eq=False)
class Used:
    """The evaluations on which a process is conditioned."""

    frame: WhitenedFrame
    points: np.ndarray
    """theta, (m, D)."""
    values: np.ndarray
    """f, (m,)."""
    gradients: np.ndarray
    """grad f, (m, D) or (m, 0)."""

    @classmethod
    def of(cls, known: Memory, frame: WhitenedFrame, most: int) -> Used:
        """The last ``most`` evaluations, without those far from q unless nearly all are."""
        known = known.censored
        points = known.points[-most:]
        near = near_q(frame.whiten(points))
        return cls(frame, points[near], known.values[-most:][near], known.gradients[-most:][near])

    def observed(self, kind: OnFunction, mean: GaussianMixture | None) -> Observed:
        """The observations in the units of the frame, less the prior ``mean``; None is the Gaussian."""
        whitened, values, gradients = self.frame.whiten(self.points), self.values, self.gradients
        # this kind of process subtracts the Gaussian's ln q, which is replaced by ln q of the mixture
        if mean is not None:
            logs, slopes = log_density(mean, self.points)
            values = values - logs - 0.5 * np.square(whitened).sum(1)
            if gradients.shape[1]:
                gradients = gradients - slopes - whitened @ self.frame.inverse
        return Observed(whitened, kind.targets(self.frame, whitened, values, gradients))


@dataclass(frozen=True, eq=False)
class FittedProcess:
    """A process, its hyperparameters and its prior mean."""

    hyperparameters: np.ndarray
    relative: bool
    """Whether the prior mean is that of the mixture."""
    process: FunctionSurrogate


def most_likely(
    used: Used, kind: OnFunction, q: GaussianMixture, before: tuple[np.ndarray, bool] | None
) -> FittedProcess:
    """The fit of the largest evidence; ``before`` are hyperparameters and mean of the last fit.

    Parameters
    ----------
    used : the observations, with their points (n, D). kind : whether values, gradients or both are observed.
    q : the mixture, whose density may be the prior mean. before : the hyperparameters and whether the mean
        was that of the mixture, of the last fit; None for the first.

    Raises
    ------
    numpy.linalg.LinAlgError
        No fit has a Gram matrix that is positive definite in floating point.
    """
    short = np.log([MIXTURE.short * np.sqrt(used.points.shape[1]), SEARCH.part, SEARCH.part])
    found = list[FittedProcess]()
    for relative in (False, True):
        given = used.observed(kind, q if relative else None)
        start = before[0] if before is not None and before[1] == relative else None
        for logs in (kind.fit(given, start), kind.fit(given, short)):
            try:
                found.append(FittedProcess(logs, relative, kind.process(given, logs)))
            except np.linalg.LinAlgError:
                continue
    if not found:
        raise np.linalg.LinAlgError("no hyperparameters make the Gram matrix positive definite")
    return max(found, key=lambda fitted: fitted.process.given.log_evidence)
