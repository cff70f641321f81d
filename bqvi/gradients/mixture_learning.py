"""What a process on the log joint f is given, for q a mixture, and which of its hyperparameters are likely.

A process is on f less a prior mean. Two are on offer, either known wherever it is asked for:

    the Gaussian with q's moments    psi = f + |u|^2 / 2 in its units: smooth, and right about nothing else
    q itself, at the last round      psi = f - ln q: constant once q is the posterior, as sticking-the-landing
                                     has it; but far from there it has ridges between q's components too

Both explain the same observations, so the evidence of the two can be compared, and chooses. Each is fitted
from the hyperparameters before, if those were its own, and from a short lengthscale: between two modes the
evidence has two maxima, waves, or a polynomial with noise whose lengthscale is ten times longer, and from the
latter no search comes back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.families import GaussianMixture
from bqvi.gradients.memory import Memory
from bqvi.gradients.mixture_draws import log_density
from bqvi.gradients.mixture_gradient import Surface
from bqvi.gradients.surrogates import OnBoth, OnDerivatives, OnValues
from bqvi.gradients.whitened import FORGOTTEN, Frame

SHORT = 0.25
"""Lengthscale, over sqrt(D), that a search starts from, shorter than any that is likely: from below it climbs
to the waves. On two mixtures with 8 to 25 nodes a dimension .2 and .35 found the highest maximum of eight
starts; .5 fell short of it by 80 to 250 nats in one fit of four, 2 in nearly all."""

Kind = OnBoth | OnDerivatives | OnValues


@dataclass(frozen=True, eq=False)
class Seen:
    """The evaluations that a process is built on."""

    frame: Frame
    points: np.ndarray
    """Theta, (m, D)."""
    values: np.ndarray
    """F, (m,)."""
    gradients: np.ndarray
    """Grad f, (m, D) or (m, 0)."""

    @classmethod
    def of(cls, known: Memory, frame: Frame, most: int) -> Seen:
        """The last ``most``, less those far from q unless nearly all are."""
        points = known.points[-most:]
        near = np.square(frame.whiten(points)).sum(1) < FORGOTTEN * points.shape[1]
        if near.sum() < 2:
            near[:] = True
        return cls(frame, points[near], known.values[-most:][near], known.gradients[-most:][near])

    def process(self, kind: Kind, mean: GaussianMixture | None, logs: np.ndarray) -> Surface:
        """Given what is seen; ``mean`` None is the Gaussian."""
        return kind.process(*self.told(kind, mean), logs)

    def told(self, kind: Kind, mean: GaussianMixture | None) -> tuple[np.ndarray, np.ndarray]:
        """Points u and targets."""
        whitened, values, gradients = self.frame.whiten(self.points), self.values, self.gradients
        if mean is not None:  # the kind takes the Gaussian off, ln q is to be
            logs, slopes = log_density(mean, self.points)
            values = values - logs - 0.5 * np.square(whitened).sum(1)
            if gradients.shape[1]:
                gradients = gradients - slopes - np.linalg.solve(self.frame.scale.T, whitened.T).T
        return whitened, kind.targets(self.frame, whitened, values, gradients)


@dataclass(frozen=True, eq=False)
class Learnt:
    """A process and how it came to be."""

    hyperparameters: np.ndarray
    relative: bool
    """Whether the prior mean is the mixture's."""
    process: Surface


def most_likely(seen: Seen, kind: Kind, q: GaussianMixture, before: tuple[np.ndarray, bool] | None) -> Learnt:
    """Of both means and their starts, by evidence; ``before``: hyperparameters and mean of the last fit."""
    short = np.log([SHORT * np.sqrt(seen.points.shape[1]), 0.1, 0.1])
    found = list[Learnt]()
    for relative in (False, True):
        mean = q if relative else None
        told = seen.told(kind, mean)
        start = before[0] if before is not None and before[1] == relative else None
        fits = (kind.fit(*told, start), kind.fit(*told, short))
        found += [Learnt(logs, relative, kind.process(*told, logs)) for logs in fits]
    return max(found, key=lambda learnt: log_evidence(learnt.process))


def log_evidence(process: Surface) -> float:
    """Of what the process is given, with s^2 at its most likely value, up to a constant."""
    try:
        halves = float(np.log(np.einsum("ii->i", process.factor)).sum())
        return -0.5 * process.targets.size * float(np.log(process.scale + 1e-300)) - halves
    except np.linalg.LinAlgError:
        return -np.inf
