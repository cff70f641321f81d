"""Functions with narrow peaks: smooth elsewhere, and of another scale near a few places.

The lengthscales of a narrow peak make the function unknown between any two nodes under a stationary kernel,
and few nodes lie on the peak. Under the kernel

    k(v, v') = b exp(-|v - v'|^2 / (2 L^2)) + sum_j k_0(A_j (v - c_j), A_j (v' - c_j)),
    k_0(a, a') = exp(-(|a|^2 + |a'|^2) / (2 w)) exp(-sum_d (a_d - a'_d)^2 / (2 l_d^2))

functions are the sum of a smooth one and, for each peak j, a function that varies on the scale of the peak
and vanishes away from it. Centres c_j and whitening matrices A_j are found by :mod:`peak_search`; l, L and b
are hyperparameters. The variance, and so the nodes that reduce that of the integral, is where the peaks are.
The integrals are those of Gaussians (`gp.kernels.Mapped`, `gp.kernels.Tilted`). A box is mapped to the space
of N(0, I), as the truncated Gaussians of a box have no closed forms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.quadrature.charts import MeasureChart, identity, probit
from bqvi.quadrature.families import Gram
from bqvi.quadrature.settings import PEAK_KERNEL
from bqvi.quadrature.surrogate import CandidateProcess
from gp.fixed_points import Changes, gram_of
from gp.kernels import Kernel, Mapped, SquaredExponential, Sum, Tilted
from gp.kernels.base import Pullback
from gp.measures import Measure, Uniform
from gp.observations import Functional
from gp.triangular import solve_lower

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
        """Return the limits of ln l (D,), ln L and ln b, as those of other families (:mod:`families`)."""
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
