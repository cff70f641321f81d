"""Nodes where the gradient itself is uncertain, beside those that reduce the variance of its integrals."""

from __future__ import annotations

import numpy as np

from acquisition.conditioned import Candidates
from bqvi.gradients.designs import Informed, MomentVarianceReduction


class GradientUncertainty(MomentVarianceReduction):
    """Greedy choice of the candidates with the largest variance of y, weighted by N(u; 0, I)."""

    def _candidates(self, pool: np.ndarray, process: Informed) -> Candidates:
        known = process.candidates(pool)
        density = np.repeat(np.exp(-0.5 * np.square(pool).sum(1)), known.block)
        weighted = density[:, None] * known.columns(slice(None)) * density
        return Candidates.of(weighted, weighted, known.block)
