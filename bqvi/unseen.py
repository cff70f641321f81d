"""Modes that no point has shown: what they are expected to add to the logarithm of an integral.

A posterior has a mode beside the known ones with a small probability (``HIDDEN.prior``). It may lie anywhere
in a region, and be s times as wide as a known one, with ln s uniform between ln s_0 (``HIDDEN.narrowest``)
and 0. Let s(c), between s_0 and 1, be the width from which a mode at c would have been noticed by an
evaluation. The share of modes that would have been noticed by none is the average h of
ln(s(c) / s_0) / ln(1 / s_0) over places c. With as much mass as the known ones, such a mode adds log 2 nats.

Points that are spread over a region are counted by the mode to which they lead. Let n of them lead to known
modes, f of these modes be reached from a single point each, s points lead nowhere, and g points be expected
to lead to further modes. The odds that the next point leads to an unseen mode are then about

    (f + s / 6 + g) / (n + 2 - f).

For s = g = 0 and large n this is the estimate of Good (1953), by which the unseen modes have the share f / n
of all points. Of six points that lead nowhere one is counted as leading to an unseen mode. If points lead to
modes in proportion to their mass, log(1 + odds) nats are missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist


@dataclass(frozen=True)
class HiddenModeSettings:
    """What is presumed of modes that were not seen."""

    prior: float = 0.05
    """The probability of a mode beside the known ones."""
    narrowest: float = 0.1
    """The least width of a mode that is searched for, in units of a known one."""
    worth: float = 0.005
    """The share of modes that an evaluation has to reveal, where others are useful otherwise."""
    surprising: float = 4.0
    """The excess of a value over what all others predict, in sds, if it may be the flank of a mode."""


HIDDEN = HiddenModeSettings()


@dataclass(frozen=True, eq=False)
class Evaluated:
    """Evaluations of a log density, and what is known of its modes.

    Attributes
    ----------
    points : (n, D). depths : (n,), of the values below the top, in nats.
    outlined : (n,), the depths there of a density with the known modes.
    whitening : (R, D, D), the inverse of a root of the covariance of each known mode.
    """

    points: np.ndarray
    depths: np.ndarray
    outlined: np.ndarray
    whitening: np.ndarray

    def noticed(self, places: np.ndarray) -> np.ndarray:
        """The width (m,) from which a mode at ``places`` (m, D) is noticed by an evaluation.

        With the shape of a known mode and s times its width, and at least as high as the highest one, a mode
        exceeds a value d nats below the top up to the distance s sqrt(2 d) in units of the known one. A value
        below that of the known modes counts as theirs, since it may be a floor or a failure.
        """
        return self._widths(places, self.points, np.minimum(self.depths, self.outlined)).min(1)

    def expected(self, places: np.ndarray, points: np.ndarray, outlined: np.ndarray) -> np.ndarray:
        """The widths (m, k) from which modes will be noticed by an evaluation at each of ``points`` (k, D).

        The expected depth, and one nat, is that of the known modes there, ``outlined`` (k,), times the ratio
        of both at the nearest evaluation, as tails may be heavier.
        """
        ratios = (1.0 + np.minimum(self.depths, self.outlined)) / (1.0 + self.outlined)
        return self._widths(places, points, (1 + outlined) * ratios[cdist(points, self.points).argmin(1)] - 1)

    def _widths(self, places: np.ndarray, points: np.ndarray, depths: np.ndarray) -> np.ndarray:
        distances = [cdist(places @ each.T, points @ each.T) for each in self.whitening]
        return np.min(distances, axis=0) / np.sqrt(2.0 * np.maximum(depths, 1.0))

    def search(
        self, places: np.ndarray, outlined: np.ndarray, outside: np.ndarray, most: int
    ) -> tuple[float, list[int], list[float]]:
        """The share of modes that are hidden, and the places that reveal most of them, with their gains.

        Parameters
        ----------
        places : (M, D), of the region. outlined : (M,), the depths of the known modes there.
        outside : (M,), whether they lie in no known mode. most : the largest number of places to evaluate.
        """
        left = np.flatnonzero(outside & (cdist(places, self.points).min(1) > 0.0))
        now, then = np.zeros(len(places)), np.zeros((len(places), len(left)))
        now[outside] = self.noticed(places[outside])
        then[outside] = self.expected(places[outside], places[left], outlined[left])
        chosen, gains = revealing(now, then, most)
        return float(hidden(now).mean()), [int(left[i]) for i in chosen], gains


def hidden(widths: np.ndarray) -> np.ndarray:
    """Return the shares of modes that are hidden where they are noticed from these ``widths`` on."""
    return 1.0 - np.log(np.clip(widths, HIDDEN.narrowest, 1.0)) / math.log(HIDDEN.narrowest)


def revealing(now: np.ndarray, then: np.ndarray, most: int) -> tuple[list[int], list[float]]:
    """Return the points after which the fewest modes are hidden, one after the other, and the gains.

    A gain is the decrease of the average share of hidden modes. Points without a gain are left out.

    Parameters
    ----------
    now : the widths (M,) at places from which modes are noticed by the evaluations so far.
    then : the widths (M, C) from which they will be noticed by an evaluation at each of C points.
    most : the largest number of points.
    """
    left, shares = hidden(now), hidden(then)
    chosen, gains = list[int](), list[float]()
    while len(chosen) < min(most, then.shape[1]):
        all_gains = np.maximum(left[:, None] - shares, 0.0).mean(0)
        best = int(all_gains.argmax())
        if not all_gains[best] > 0.0:
            break
        chosen.append(best)
        gains.append(float(all_gains[best]))
        left = np.minimum(left, shares[:, best])
    return chosen, gains


def expected_rise(
    share: float, count: float = 0.0, once: float = 0.0, nowhere: float = 0.0, unknown: float = 0.0
) -> float:
    """Return the nats that unseen modes are expected to add to the log integral.

    Parameters
    ----------
    share : the share h of modes that would not have been noticed.
    count : the number of points that lead to known modes.
    once : the number of modes to which at most one of these points leads.
    nowhere : the number of points that lead nowhere.
    unknown : the number of points that lead to modes not yet found.
    """
    odds = (once + nowhere / 6.0 + unknown) / max(count + 2.0 - once, 1.0)
    return math.log1p(odds) + HIDDEN.prior * math.log(2.0) * share
