"""Peaks like those found that no node has shown: their integral, and nodes that would show them.

A surrogate with narrow peaks (:mod:`peaks`) is sure of the function away from them, where all it saw is
smooth. That there is a further peak of the same form has a probability of ``further`` for each known peak,
a priori, its centre being distributed as the measure is. A node at the distance d, in widths of the peak, has
shown it if h exp(-d^2 / 2), h the height, exceeds ``noticed`` standard deviations of the leave-one-out
prediction there. The mean square of the integral of a peak that no node has shown is added to the variance of
the integral. One in ``explore`` nodes is placed where most of this would be shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

import numpy as np
from scipy.spatial.distance import cdist

from bqvi.quadrature.peaks import PeakFamily, smooth_part
from bqvi.quadrature.settings import DESIGN, PEAK_KERNEL
from bqvi.quadrature.surrogate import CandidateProcess
from gp.low_discrepancy import shifted_sobol

__all__ = ["exploring", "unseen"]


@dataclass(frozen=True, eq=False)
class _Form:
    """Further peaks of the form of a known one, at M places.

    Attributes
    ----------
    matrix : A. radius : the squared distance in which a node usually shows the peak.
    integrals : (M, o), zero at places where a node would have shown it.
    """

    matrix: np.ndarray
    radius: float
    integrals: np.ndarray


def unseen(member: CandidateProcess) -> np.ndarray:
    """Return the mean square of the integral of a further peak, (o,), in units of the process."""
    total = np.zeros(member.data.outputs)
    if isinstance(member.family, PeakFamily):
        for form in _forms(member, member.family, _places(member)):
            total += PEAK_KERNEL.further * np.mean(form.integrals**2, axis=0)
    return total


def exploring(member: CandidateProcess, count: int) -> np.ndarray:
    """Return nodes (k, D), k <= ``count``, in standard coordinates, that would show most of such peaks."""
    if not (count and isinstance(member.family, PeakFamily)):
        return np.zeros((0, member.dimension))
    places = _places(member)
    forms = _forms(member, member.family, places)
    squares = [np.sum(form.integrals**2, axis=1) for form in forms]
    near = [
        cdist(places @ form.matrix.T, places @ form.matrix.T, "sqeuclidean") < form.radius for form in forms
    ]
    chosen: list[int] = []
    while len(chosen) < count:
        shown = np.sum([close @ square for close, square in zip(near, squares, strict=True)], axis=0)
        chosen.append(int(np.argmax(shown)))
        if not shown[chosen[-1]] > 0:
            return member.chart.backward(places[chosen[:-1]])
        squares = [np.where(c[chosen[-1]], 0.0, s) for c, s in zip(near, squares, strict=True)]
    return member.chart.backward(places[chosen])


def _places(member: CandidateProcess) -> np.ndarray:
    """Points (M, D) of the measure, in the chart."""
    measure = member.chart.measure
    return measure.from_unit_cube(shifted_sobol(measure.dimension, DESIGN.pool, 0))


def _forms(member: CandidateProcess, family: PeakFamily, places: np.ndarray) -> list[_Form]:
    v, n = member.chart.forward(member.data.u), len(member.data)
    sds = member.process.leave_one_out()[1][:n]
    density = np.exp(np.asarray(member.chart.measure.log_density(places)))[:, None]
    sizes = np.abs(member.data.values - smooth_part(member))
    found = []
    for centre, matrix in zip(family.centres, family.matrices, strict=True):
        height = sizes[np.argmin(np.sum(((v - centre) @ matrix.T) ** 2, axis=1))]
        falls = height / np.maximum(PEAK_KERNEL.noticed * sds, 1e-300)
        radii = 2 * np.log(np.maximum(falls, 1.0)).max(axis=1)
        shown = (cdist(places @ matrix.T, v @ matrix.T, "sqeuclidean") < radii).any(axis=1)
        volume = (2 * pi) ** (v.shape[1] / 2) / float(np.prod(np.diag(matrix)))
        integrals = np.where(shown[:, None], 0.0, height * volume * density)
        found.append(_Form(matrix, float(np.median(radii)), integrals))
    return found
