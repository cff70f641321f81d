"""A Gaussian process given its observations, with scale and constant at their most likely values.

Observed are B numbers at each of m points, n = m B rows, of O outputs that share a kernel and are
independent of one another: a function's values (B = 1, O = 1), its gradients (B = D, O = 1), both (B = 1 +
D, O = 1), or D outputs one by one (B = 1, O = D). Their covariance is s^2 K with K = K_0 + N, for a kernel
K_0 and a diagonal N of noise, and C C^T = K, W = C^-1. A constant c adds c b to the rows; where one is
fitted (O = 1), b is 1 for a value and 0 for a derivative.

Scale, constant and weights are those of `gp.evidence`, at their most likely values, with the inverse W of the
factor of K in the place of solves. An integral whose rule (`gp.evidence.Evidence.rules`) has the entries
rules_i at node i, where the targets exceed their prediction from the other nodes by r_i, changes by

    delta_i = rules_i^T r_i

without that node. The jackknife's variance and estimate of the bias (Quenouille 1949, Tukey 1958) are sum_i
delta_i delta_i^T and sum_i delta_i.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from gp.evidence import Evidence
from gp.expectation import KernelSum
from gp.linalg import Whitening
from gp.matrices import lower_product


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


Noise = Callable[[np.ndarray], np.ndarray]
"""From points (m, D) the diagonal of N: (m,), where a point has one, or (m B,)."""


class BlockKernel(Protocol):
    """A kernel between the numbers observed at points."""

    def at(self, points: np.ndarray) -> Places:
        """The record of (m, D) points from which covariances are computed."""

    def covariance(self, left: Places, right: Places) -> np.ndarray:
        """K_0 between m and n points, (m B, n B), the numbers of a point next to each other."""

    def constant(self, points: np.ndarray) -> np.ndarray | None:
        """b at (m, D) points, (m B,); None where no constant is fitted."""


@dataclass(frozen=True, eq=False)
class Conditioned:
    """The process given m points.

    Attributes
    ----------
    kernel : K_0, a `BlockKernel`, of the numbers observed at a point.
    noise : a function of points (m, D) that returns the diagonal of N.
    places : the record of the m points from which the kernel computes covariances.
    targets : (m, B) of one function, (m, O) of outputs.
    level : subtracted from the values before the solves, which lose digits where all values are near 1e6.
    evidence : of the rows' targets less the level, (n, O), with what is predicted from them.
    """

    kernel: Any
    noise: Noise
    places: Places
    targets: np.ndarray
    level: float
    evidence: Evidence

    @classmethod
    def of(
        cls,
        kernel: BlockKernel,
        points: np.ndarray,
        targets: np.ndarray,
        noise: Noise,
        measured: np.ndarray | None = None,
    ) -> Conditioned:
        """The process of a ``kernel`` from (m, D) points and the ``targets`` observed there, O(n^3).

        ``noise`` is N, as of the class; ``measured`` is added to the diagonal of N, (m,) or (m, B).

        Raises
        ------
        numpy.linalg.LinAlgError
            K is not positive definite in floating point.
        """
        places, basis = kernel.at(points), kernel.constant(points)
        gram = kernel.covariance(places, places)
        _add_noise(gram, noise(points), measured)
        level = 0.0 if basis is None else float(basis @ targets.reshape(-1)) / float(basis @ basis)
        evidence = _evidence(Whitening.of(gram), targets, basis, level)
        return cls(kernel, noise, places, targets, level, evidence)

    def extended(
        self, points: np.ndarray, targets: np.ndarray, measured: np.ndarray | None = None
    ) -> Conditioned:
        """The process given (l, D) more points and ``targets``, O(n^2 l B); ``measured`` is as of `of`."""
        new = self.kernel.at(points)
        gram = self.kernel.covariance(new, new)
        _add_noise(gram, self.noise(points), measured)
        factor = Whitening(self.whitening).extended(self.whitened_covariance(new), gram)
        places, targets = self.places.joined(new), np.concatenate([self.targets, targets])
        evidence = _evidence(factor, targets, self.kernel.constant(places.points), self.level)
        return replace(self, places=places, targets=targets, evidence=evidence)

    @property
    def points(self) -> np.ndarray:
        """(m, D)."""
        return self.places.points

    @property
    def whitening(self) -> np.ndarray:
        """W, lower triangular, (n, n)."""
        return self.evidence.factor.whitening

    @property
    def numbers(self) -> int:
        """B."""
        return len(self.whitening) // len(self.targets)

    @property
    def constant(self) -> float:
        """c; 0 where none is fitted."""
        return self.level + float(self.evidence.mean[0])

    @property
    def weights(self) -> np.ndarray:
        """alpha, in the shape of the targets."""
        return self.evidence.weights.reshape(self.targets.shape)

    @property
    def scale(self) -> float:
        """s^2."""
        return self.evidence.scale

    @cached_property
    def posterior_mean(self) -> KernelSum:
        """The posterior mean of one function, by the ``posterior_mean`` of its kernel."""
        mean: KernelSum = self.kernel.posterior_mean(self)
        return mean

    def whitened_covariance(self, places: Places) -> np.ndarray:
        """W k of further ``places``, (n, l B); inner products of its columns reduce their covariance."""
        return lower_product(self.whitening, self.kernel.covariance(self.places, places))

    @cached_property
    def left_out(self) -> np.ndarray:
        """Residuals r_i at each node of the process given the other nodes, in the shape of the targets.

        NaN where the other nodes do not determine the constant, as where there are none.
        """
        if self.numbers > 1:
            return self.evidence.left_out(np.arange(len(self.whitening)).reshape(-1, self.numbers))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.weights / self.evidence.precisions[:, None])

    def changes(self, whitened: np.ndarray, level: np.ndarray | float = 0.0) -> np.ndarray:
        """delta_i of F integrals by node, (m, F), O = 1; ``whitened`` and ``level`` are as of its rules."""
        rules = self.evidence.rules(whitened, level).reshape(*self.left_out.shape, -1)
        return np.asarray(np.einsum("nbf,nb->nf", rules, self.left_out))

    def covariance(
        self, prior: np.ndarray, whitened: np.ndarray, level: np.ndarray | float | None = None
    ) -> np.ndarray:
        """Posterior covariance (F, F) of F integrals of one output.

        ``prior``, ``whitened`` and ``level`` are as of `gp.evidence.Evidence.unit_covariance`.
        """
        return self.scale * self.evidence.unit_covariance(prior, whitened, level)


def _evidence(factor: Whitening, targets: np.ndarray, basis: np.ndarray | None, level: float) -> Evidence:
    rows = targets.reshape(len(factor.whitening), -1)
    if basis is None:
        return Evidence.of(factor, rows)
    return Evidence.of(factor, rows - level * basis[:, None], basis[:, None])


def _add_noise(gram: np.ndarray, *noises: np.ndarray | None) -> None:
    """Add variances, one for each row or for each point of several rows, to the diagonal."""
    for noise in (each for each in noises if each is not None):
        np.einsum("ii->i", gram)[:] += np.repeat(noise, len(gram) // noise.size)
