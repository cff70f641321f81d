"""Functions with narrow peaks: smooth elsewhere, and of another scale near a few places.

The lengthscales of a narrow peak make the function unknown between any two nodes under a stationary kernel,
and few nodes lie on the peak. Under the kernel

    k(v, v') = b exp(-|v - v'|^2 / (2 L^2)) + sum_j k_0(A_j (v - c_j), A_j (v' - c_j)),
    k_0(a, a') = exp(-(|a|^2 + |a'|^2) / (2 w)) exp(-sum_d (a_d - a'_d)^2 / (2 l_d^2))

functions are the sum of a smooth one and, for each peak j, a function that varies on the scale of the peak
and vanishes away from it. Centres c_j and whitening matrices A_j are found by a search; l, L and b are
hyperparameters. The variance, and so the nodes that reduce that of the integral, is where the peaks are.
The integrals are those of Gaussians (`gp.kernels.Mapped`, `gp.kernels.Tilted`). A box is mapped to the space
of N(0, I), as the truncated Gaussians of a box have no closed forms.

A peak is found where the value differs most from the level, the median at first: by the Gaussian through the
largest of these differences, or, where none is determined, by one as wide as the distance to the nearest
node. Once there are peaks the level is the smooth part of the process. Peaks are added, moved and made wider
and narrower as long as the evidence increases. For the D centre coordinates and the D(D+1)/2 widths of each
the log evidence is lowered by log(n)/2 (Schwarz 1978).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bqvi.quadrature.settings import PEAK_KERNEL, SEARCH, Effort
from bqvi.quadrature.surrogate import (
    CandidateProcess,
    Gram,
    MeasureChart,
    StandardData,
    fitted,
    identity,
    probit,
    surrogate,
)
from gp.fixed_points import Changes, gram_of
from gp.kernels import Kernel, Mapped, SquaredExponential, Sum, Tilted
from gp.kernels.base import Pullback
from gp.linalg import least_squares
from gp.matrices import cholesky, log_diagonal_sum, solve_lower
from gp.measures import Measure, Uniform
from gp.observations import Functional

PEAKED = "peaks"
"""The name of the candidate."""


def chart_of_peaks(measure: Measure) -> MeasureChart:
    """Return the coordinates v of the kernel, in which the measure is a Gaussian or a mixture of them."""
    return probit(measure.dimension) if isinstance(measure, Uniform) else identity(measure)


@dataclass(frozen=True, eq=False)
class PeakFamily:
    """The kernels above, with parameters (l (D,), L, b).

    Attributes
    ----------
    centres : c, (J, D). matrices : A, upper triangular, (J, D, D). Both in the coordinates v.
    """

    centres: np.ndarray
    matrices: np.ndarray
    smooth = False

    def kernel(self, parameters: np.ndarray) -> Kernel:
        lengthscales, (longer, variance) = parameters[:-2], parameters[-2:]
        near = Tilted(SquaredExponential(lengthscales, 1.0), -1.0 / PEAK_KERNEL.width)
        smooth = SquaredExponential(float(longer), float(variance))
        peaks = (Mapped(near, c, a) for c, a in zip(self.centres, self.matrices, strict=True))
        return Sum((smooth, *peaks))

    def gram(self, observed: Functional) -> Gram:
        count, width = self.centres.shape
        of_kernel = gram_of(self.kernel(np.ones(width + 2)), observed)
        # the kernel's parameters are (L, b), then (l, a variance) for each peak; l is the same for all
        share = np.hstack([np.eye(width), np.zeros((width, 1))])
        of_smooth = np.vstack([np.zeros((width, 2)), np.eye(2)])
        gathered = np.hstack(
            [of_smooth, np.vstack([np.tile(share, count), np.zeros((2, count * (width + 1)))])]
        )

        def gram(parameters: np.ndarray) -> tuple[np.ndarray, Pullback]:
            matrix, pullback = of_kernel(self.kernel(parameters))
            assert isinstance(pullback, Changes)  # as those of all parts are
            return matrix, Changes(
                lambda weights: gathered @ pullback(weights),
                lambda vectors: np.tensordot(gathered, pullback.times(vectors), 1),
            )

        return gram

    def limits(self, dimension: int) -> np.ndarray:
        """Return the limits of ln l (D,), ln L and ln b, as those of other families (:mod:`surrogate`)."""
        near, smooth = np.array(PEAK_KERNEL.lengthscales), np.array(PEAK_KERNEL.smooth_lengthscales)
        return np.column_stack([np.tile(near[:, None], dimension), smooth, PEAK_KERNEL.variances])


def drawn(family: PeakFamily, normal: np.ndarray) -> np.ndarray:
    """Return points (M, D) about the peaks, in the coordinates v, from standard normal points (M, D)."""
    shares = np.array_split(np.sqrt(PEAK_KERNEL.width) * normal, len(family.centres))
    parts = zip(family.centres, family.matrices, shares, strict=True)
    return np.concatenate([c + solve_lower(a.T, share.T, transposed=True).T for c, a, share in parts])


def smooth_part(member: CandidateProcess) -> np.ndarray:
    """Return the smooth part of the mean of a process with peaks at its data's points, (n, o)."""
    v, kernel, process = member.chart.forward(member.data.u), member.kernel, member.process
    assert isinstance(kernel, Sum)  # as the kernel of peaks is
    return process.mean + kernel.terms[0](v, v) @ process.weights


@dataclass(frozen=True, eq=False)
class _Shape:
    """A peak: centre c (D,) and upper triangular whitening matrix A (D, D)."""

    centre: np.ndarray
    matrix: np.ndarray

    @property
    def narrow(self) -> bool:
        """Whether its share of N(0, I) is small."""
        precision = np.eye(len(self.centre)) + self.matrix.T @ self.matrix
        return bool(log_diagonal_sum(cholesky(precision)) > -np.log(PEAK_KERNEL.widest))

    def squares(self, v: np.ndarray) -> np.ndarray:
        """Return |A (v - c)|^2 at points (n, D), (n,)."""
        return np.sum(((v - self.centre) @ self.matrix.T) ** 2, axis=1)


@dataclass(frozen=True, eq=False)
class _FoundPeaks:
    """Peaks, the process with them, and its penalised evidence; without a process where there are none."""

    peaks: tuple[_Shape, ...] = ()
    member: CandidateProcess | None = None
    score: float = -np.inf


@dataclass(frozen=True, eq=False)
class _Search:
    """The search from ``data``, with the hyperparameters ``starts``."""

    measure: Measure
    data: StandardData
    starts: list[np.ndarray]

    @cached_property
    def v(self) -> np.ndarray:
        """The nodes in the coordinates of the kernel, (n, D)."""
        return chart_of_peaks(self.measure).forward(self.data.u)

    def tried(self, peaks: tuple[_Shape, ...]) -> _FoundPeaks:
        """The process with these peaks at the best of the starting hyperparameters."""
        family = PeakFamily(np.array([p.centre for p in peaks]), np.array([p.matrix for p in peaks]))
        first = surrogate(PEAKED, chart_of_peaks(self.measure), family, self.data, self.starts[0])
        best = _FoundPeaks(peaks)
        for start in self.starts:
            member = first.at(start)
            try:
                score = member.log_posterior - penalty(member)
            except np.linalg.LinAlgError:
                continue
            best = _FoundPeaks(peaks, member, score) if score > best.score else best
        return best

    def best(self, found: _FoundPeaks, others: Iterator[tuple[_Shape, ...]]) -> _FoundPeaks:
        """The best of what is found and of other peaks."""
        for peaks in others:
            tried = self.tried(peaks)
            found = tried if tried.score > found.score else found
        return found

    def sizes(self, found: _FoundPeaks) -> np.ndarray:
        """Distances of the values from the level, (n,)."""
        values = self.data.values
        level = np.median(values, axis=0) if found.member is None else smooth_part(found.member)
        return np.asarray(np.linalg.norm(values - level, axis=1))

    def beside_a_jump(self, node: int) -> bool:
        """Whether one of its neighbours has about the same value as ``node``, and another one has not.

        The neighbours are the nearest nodes on either side along each axis. Those of the top of a peak have
        other values, unless they are on the peak too.
        """
        steps = np.delete(self.v - self.v[node], node, axis=0)
        gaps = np.linalg.norm(np.delete(self.data.values, node, axis=0) - self.data.values[node], axis=1)
        axes, rows = np.argmax(np.abs(steps), axis=1), np.arange(len(steps))
        sides = 2 * axes + (steps[rows, axes] > 0)
        order = np.argsort(np.linalg.norm(steps, axis=1))
        _, nearest = np.unique(sides[order], return_index=True)
        beside = gaps[order][nearest]
        return bool(beside.min() < PEAK_KERNEL.jump * beside.max())

    def refined(self, found: _FoundPeaks) -> _FoundPeaks:
        """The peaks found, each in turn moved, made wider or narrower where the evidence is higher."""
        for j in range(len(found.peaks)):
            nearest = np.argmin([peak.squares(self.v) for peak in found.peaks], axis=0)
            own = np.where(nearest == j, self.sizes(found), 0.0)
            peak = found.peaks[j]
            others = [_Shape(peak.centre, peak.matrix / factor) for factor in PEAK_KERNEL.scaled]
            others += _through(self.v, own) if own.any() else []
            changed = [(*found.peaks[:j], other, *found.peaks[j + 1 :]) for other in others if other.narrow]
            found = self.best(found, iter(changed))
        return found

    def extended(self, found: _FoundPeaks, errors: np.ndarray | None) -> _FoundPeaks:
        """The peaks found with one more, or the same where the evidence is for none.

        ``errors`` are those of another surrogate at the nodes, (n,), by which the first peak is found too.
        """
        sizes = self.sizes(found)
        expected = np.zeros(len(sizes))
        for peak in found.peaks:
            squares = peak.squares(self.v)
            nearest = int(np.argmin(squares))
            height = sizes[nearest] * np.exp(min(squares[nearest], 10.0) / 2)
            expected += height * np.exp(-squares / (2 * PEAK_KERNEL.width))
        unexplained = np.where(sizes > PEAK_KERNEL.unexplained * expected, sizes, 0.0)
        if not unexplained.max() > 1e-3 * sizes.max():
            return found
        shapes = _through(self.v, unexplained)
        for differences in (unexplained,) if errors is None or found.peaks else (unexplained, errors):
            if found.peaks or not self.beside_a_jump(int(np.argmax(differences))):
                shapes += _about(self.v, differences)
        return self.best(found, ((*found.peaks, shape) for shape in shapes if shape.narrow))


def with_peaks(
    measure: Measure,
    data: StandardData,
    errors: np.ndarray | None,
    earlier: tuple[np.ndarray, np.ndarray, np.ndarray] | None,
    effort: Effort,
) -> CandidateProcess | None:
    """Return the fitted candidate with peaks, or ``None`` where there are none.

    Parameters
    ----------
    measure : a Gaussian, a mixture of them or a box, in standard coordinates.
    errors : leave-one-out errors of another candidate at the nodes, (n,), where there is no earlier fit.
    earlier : centres, matrices and psi of the last fit, or ``None``. effort : that of the fit.
    """
    search = _Search(measure, data, _starts(data) if earlier is None else [earlier[2], *_starts(data)])
    found = _FoundPeaks()
    if earlier is not None:
        found = search.refined(search.tried(tuple(map(_Shape, *earlier[:2]))))
    while len(found.peaks) < 4:
        more = search.extended(found, errors)
        if len(more.peaks) == len(found.peaks):
            break
        found = search.refined(more)
    if found.member is None:
        return None
    return fitted([found.member.at(start) for start in search.starts], effort, earlier is not None)


def penalty(member: CandidateProcess) -> float:
    """Return the nats by which the evidence of a candidate with peaks is lowered."""
    assert isinstance(member.family, PeakFamily)
    count, dimension = member.family.centres.shape
    n = len(member.data)
    return PEAK_KERNEL.nats * n + 0.5 * count * dimension * (dimension + 3) / 2 * float(np.log(n))


def _starts(data: StandardData) -> list[np.ndarray]:
    """Starting points of psi."""
    dimension = data.u.shape[1]
    near, smooth = np.array(PEAK_KERNEL.starting_lengthscales) * dimension**0.25
    noise = (SEARCH.starting_noises_of_noisy if data.noisy else SEARCH.starting_noises)[0]
    return [
        np.log([*np.full(dimension, near), smooth, variance, noise])
        for variance in PEAK_KERNEL.starting_variances
    ]


def _about(v: np.ndarray, sizes: np.ndarray) -> list[_Shape]:
    """A round peak at the largest size, as wide as the distance to the nearest other node.

    There is none where the size there is about as large: the node is then one of a plateau, as beside a jump.
    """
    top = int(np.argmax(sizes))
    away = np.linalg.norm(v - v[top], axis=1)
    away[top] = np.inf
    nearest = int(np.argmin(away))
    if sizes[nearest] > PEAK_KERNEL.plateau * sizes[top] or away[nearest] == 0:
        return []
    return [_Shape(v[top], np.eye(v.shape[1]) / away[nearest])]


def _through(v: np.ndarray, sizes: np.ndarray) -> list[_Shape]:
    """Gaussian peaks through the largest sizes (n,), and through those among them nearest to the largest."""
    dimension = v.shape[1]
    few = 3 * (dimension + 2) + dimension * (dimension - 1) // 2
    order = np.argsort(-sizes)[: 2 * few]
    order = order[sizes[order] > 0]
    top, away = order[0], np.linalg.norm(v[order] - v[order[0]], axis=1)
    longest = 2 * np.min(away[away > 0], initial=1.0)
    found = []
    for chosen in (order[:few], order[np.sort(np.argsort(away)[:few])]):
        if len(chosen) < dimension + 3:
            continue
        slope, curvatures, _ = peak_through(v[chosen] - v[top], np.log(sizes[chosen]))
        try:
            factor = cholesky(curvatures)
        except np.linalg.LinAlgError:
            continue
        step = solve_lower(factor, solve_lower(factor, slope), transposed=True)
        length = float(np.linalg.norm(step))
        found.append(_Shape(v[top] + step * min(1.0, longest / max(length, 1e-300)), factor.T))
    return found


def peak_through(away: np.ndarray, logs: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return b (D,), C (D, D) of a + b.d - d.C d / 2 fitted to logarithms (k,) at d (k, D), and the residual.

    C is a number times the identity, unless a positive definite C has a much smaller residual. The residual
    is the sum of squares over the degrees of freedom; infinite where there are none.
    """
    dimension = away.shape[1]
    few = 2 * (dimension + 2)
    squares = np.sum(away**2, axis=1)
    round_columns = np.column_stack([np.ones(len(away)), away, -0.5 * squares])
    found, residual = _least_squares(round_columns[:few], logs[:few])
    slope, curvatures = found[1:-1], found[-1] * np.eye(dimension)
    rows, columns = np.triu_indices(dimension)
    any_columns = np.column_stack([round_columns[:, :-1], -0.5 * away[:, rows] * away[:, columns]])
    if dimension > 1 and len(away) > any_columns.shape[1] + 1:
        found, of_any = _least_squares(any_columns, logs)
        full = np.zeros((dimension, dimension))
        full[rows, columns] = 0.5 * found[dimension + 1 :]
        full = full + full.T
        if of_any < PEAK_KERNEL.rounder * residual and _root(full) is not None:
            return found[1 : dimension + 1], full, of_any
    return slope, curvatures, residual


def _root(matrix: np.ndarray) -> np.ndarray | None:
    """The Cholesky factor of a matrix, None where it is not positive definite."""
    try:
        return cholesky(matrix)
    except np.linalg.LinAlgError:
        return None


def _least_squares(columns: np.ndarray, logs: np.ndarray) -> tuple[np.ndarray, float]:
    """Return coefficients by least squares, and the sum of squares over the degrees of freedom."""
    found = least_squares(columns, logs[:, None])[0][:, 0]
    free = len(logs) - columns.shape[1]
    return found, float(np.sum((logs - columns @ found) ** 2)) / free if free > 0 else np.inf
