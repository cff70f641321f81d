"""Points, with the arrays from which a squared exponential is computed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Places"]


@dataclass(frozen=True, eq=False)
class Places:
    """m points, and b = B u / l in the units in which the kernel is exp(-|b - b'|^2 / 2)."""

    points: np.ndarray
    """u, (m, D)."""
    scaled: np.ndarray
    """b, (m, D)."""
    halved: np.ndarray
    """|b|^2 / 2, (m,)."""

    @classmethod
    def of(cls, points: np.ndarray, scaled: np.ndarray) -> Places:
        """Make the record of (m, D) points, given also in the kernel's units."""
        return cls(points, scaled, 0.5 * np.einsum("nd,nd->n", scaled, scaled))

    def at(self, index: int | slice | np.ndarray) -> Places:
        """One of them, or some."""
        which = [index] if isinstance(index, int) else index
        return Places(self.points[which], self.scaled[which], self.halved[which])

    def joined(self, others: Places) -> Places:
        """Return the record with further points."""
        return Places(
            np.concatenate([self.points, others.points]),
            np.concatenate([self.scaled, others.scaled]),
            np.concatenate([self.halved, others.halved]),
        )

    def exponential(self, others: Places) -> tuple[np.ndarray, np.ndarray]:
        """exp(-|b - b'|^2 / 2), and the inner products b . b', (m, n) each."""
        inner = self.scaled @ others.scaled.T
        kernel: np.ndarray = inner - self.halved[:, None]
        kernel -= others.halved
        np.minimum(kernel, 0.0, out=kernel)  # not positive but for rounding
        np.exp(kernel, out=kernel)
        return kernel, inner
