"""A Gaussian process given its observations, with scale and constant at their most likely values.

Observed are B numbers at each of m points, n = m B rows, of O outputs that share a kernel and are
independent of one another: a function's values (B = 1, O = 1), its gradients (B = D, O = 1), both (B = 1 +
D, O = 1), or D outputs one by one (B = 1, O = D). Their covariance is s^2 K with K = K_0 + N, for a kernel
K_0 and a diagonal N of noise, and C C^T = K, W = C^-1. A constant c adds c b to the rows; where one is
fitted (O = 1), b is 1 for a value and 0 for a derivative. Then

    c       = b^T K^-1 Y / (b^T K^-1 b)                  generalised least squares
    s^2     = tr((Y - b c)^T K^-1 (Y - b c)) / (n O)     maximum likelihood
    alpha   = K^-1 (Y - b c)                             weights of the posterior mean
    P       = K^-1 - K^-1 b b^T K^-1 / (b^T K^-1 b)      weights of targets: alpha = P Y

The scale is its most likely value given c. Without node i, hyperparameters and s^2 kept, the other nodes
predict its numbers with the residual

    r_i = (P_ii)^-1 alpha_i                              (block i, B x B, B x O)

and an integral with covariances k (n, F) with the rows, whose estimate is rules^T Y with rules = K^-1 k +
K^-1 b (h - b^T K^-1 k) / (b^T K^-1 b), h the integral of a constant of 1, changes by

    delta_i = rules_i^T r_i.

The jackknife's variance and estimate of the bias (Quenouille 1949, Tukey 1958) are sum_i delta_i delta_i^T
and sum_i delta_i.

With further observations C grows by rows [X^T M], and W by rows M^-1 [-X^T W, I], in O(n^2) for each,

    X = W k,    M M^T = K_new - X^T X.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from gp.evidence import log_density
from gp.triangular import cholesky, lower_product, triangular_inverse


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


_TINY = float(np.finfo(float).tiny)
Noise = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From points (m, D) and targets there the diagonal of N: (m,), where a point has one, or (m B,)."""


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
    kernel : K_0, of the numbers observed at a point.
    noise : a function of points (m, D) and targets that returns the diagonal of N.
    places : the record of the m points from which the kernel computes covariances.
    """

    kernel: BlockKernel
    noise: Noise
    places: Places
    targets: np.ndarray
    """(m, B) of one function, (m, O) of outputs."""
    level: float
    """Subtracted from the values before the solves, which lose digits where all values are near 1e6."""
    whitening: np.ndarray
    """W, lower triangular, (n, n)."""
    whitened: np.ndarray
    """W [Y - level b, b], (n, O + 1); without a constant (n, O)."""
    solved: np.ndarray
    """K^-1 [Y - level b, b], likewise."""
    precisions: np.ndarray
    """The diagonal blocks of K^-1, (m, B, B)."""

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
        places = kernel.at(points)
        gram = kernel.covariance(places, places)
        numbers = len(gram) // len(points)
        _add_noise(gram, noise(points, targets))
        if measured is not None:
            _add_noise(gram, measured)
        by_columns = triangular_inverse(cholesky(gram, overwrite=True))
        whitening = np.ascontiguousarray(by_columns)
        basis = kernel.constant(points)
        level = 0.0 if basis is None else float(basis @ targets.reshape(-1)) / float(basis @ basis)
        whitened = whitening @ _right(targets, basis, level, numbers)
        return cls(
            kernel,
            noise,
            places,
            targets,
            level,
            whitening,
            whitened,
            whitening.T @ whitened,
            _diagonal_blocks(by_columns, numbers),
        )

    def extended(
        self, points: np.ndarray, targets: np.ndarray, measured: np.ndarray | None = None
    ) -> Conditioned:
        """The process given (l, D) more points and ``targets``, O(n^2 l B); ``measured`` is as of `of`."""
        new, basis = self.kernel.at(points), self.kernel.constant(points)
        n, numbers = len(self.whitening), self.numbers
        cross = self.whitened_covariance(new)
        gram = self.kernel.covariance(new, new) - cross.T @ cross
        _add_noise(gram, self.noise(points, targets))
        if measured is not None:
            _add_noise(gram, measured)
        last = triangular_inverse(cholesky(gram, overwrite=True))
        whitening = np.zeros((n + len(gram), n + len(gram)))
        whitening[:n, :n] = self.whitening
        rows = whitening[n:]
        rows[:, :n] = -(last @ cross.T) @ self.whitening
        rows[:, n:] = last
        right = _right(targets, basis, self.level, numbers)
        whitened = last @ (right - cross.T @ self.whitened)
        solved, precisions = rows.T @ whitened, _diagonal_blocks(rows, numbers)
        solved[:n] += self.solved
        precisions[: len(self.precisions)] += self.precisions
        return Conditioned(
            self.kernel,
            self.noise,
            self.places.joined(new),
            np.concatenate([self.targets, targets]),
            self.level,
            whitening,
            np.concatenate([self.whitened, whitened]),
            solved,
            precisions,
        )

    @property
    def points(self) -> np.ndarray:
        """(m, D)."""
        return self.places.points

    @property
    def numbers(self) -> int:
        """B."""
        return int(self.precisions.shape[1])

    @cached_property
    def basis(self) -> np.ndarray | None:
        """b, (n,); None where no constant is fitted."""
        return self.kernel.constant(self.points)

    @cached_property
    def _constant(self) -> tuple[float, float]:
        """c - level, and b^T K^-1 b; (0, 0) without a constant."""
        if self.basis is None:
            return 0.0, 0.0
        y, b = self.whitened.T
        total = max(float(b @ b), _TINY)
        return float(y @ b) / total, total

    @property
    def constant(self) -> float:
        """c; 0 where none is fitted."""
        return self.level + self._constant[0]

    def _less_constant(self, both: np.ndarray) -> np.ndarray:
        """The first columns less c - level times the last, (n, O)."""
        return both if self.basis is None else both[:, :1] - self._constant[0] * both[:, 1:]

    @cached_property
    def weights(self) -> np.ndarray:
        """alpha, in the shape of the targets."""
        return self._less_constant(self.solved).reshape(self.targets.shape)

    @cached_property
    def residuals_whitened(self) -> np.ndarray:
        """W (Y - b c), (n, O): independent, of variance s^2."""
        return self._less_constant(self.whitened)

    @cached_property
    def scale(self) -> float:
        """s^2."""
        white = self.residuals_whitened
        return float(np.vdot(white, white)) / white.size

    @property
    def log_evidence(self) -> float:
        """Log evidence at the profiled scale and constant, as of `gp.evidence`."""
        white = self.residuals_whitened
        volume = -2.0 * float(np.log(np.einsum("ii->i", self.whitening)).sum())
        (n, outputs), scale = white.shape, max(self.scale, _TINY)
        return float(log_density(scale * n * outputs, volume, n, outputs, scale))

    def whitened_covariance(self, places: Places) -> np.ndarray:
        """W k of further ``places``, (n, l B); inner products of its columns reduce their covariance."""
        return lower_product(self.whitening, self.kernel.covariance(self.places, places))

    def left_out(self) -> np.ndarray:
        """Residuals r_i at each node of the process given the other nodes, in the shape of the targets.

        NaN where the other nodes do not determine the constant, as where there are none.
        """
        if self.numbers == 1:
            variances = self._projected_precisions[:, 0, 0]
            with np.errstate(invalid="ignore", divide="ignore"):
                return np.asarray(self.weights / variances[:, None])
        return np.asarray(np.linalg.solve(self._projected_precisions, self.weights[:, :, None])[:, :, 0])

    @cached_property
    def _projected_precisions(self) -> np.ndarray:
        """The diagonal blocks of P, (m, B, B)."""
        if self.basis is None:
            return self.precisions
        pulled = self.solved[:, 1].reshape(-1, self.numbers)
        return self.precisions - pulled[:, :, None] * (pulled / self._constant[1])[:, None, :]

    def rules(self, whitened: np.ndarray, level: np.ndarray | float = 0.0) -> np.ndarray:
        """Weights of the targets in F integrals, (n, F).

        Parameters
        ----------
        whitened : W k, of their covariances with the rows, (n, F)
        level : h, the integrals of a constant of 1, (F,)
        """
        found: np.ndarray = self.whitening.T @ whitened
        if self.basis is None:
            return found
        b, total = self.whitened[:, 1], self._constant[1]
        found += self.solved[:, 1:] * ((level - b @ whitened) / total)
        return found

    def projected(self, right: np.ndarray) -> np.ndarray:
        """P right, for (n, R)."""
        return self.rules(self.whitening @ right)

    def changes(self, whitened: np.ndarray, level: np.ndarray | float = 0.0) -> np.ndarray:
        """delta_i of F integrals of one function by node, (m, F); ``whitened``, ``level`` as of `rules`."""
        left = self.left_out()
        rules = self.rules(whitened, level).reshape(*left.shape, -1)
        return np.asarray(np.einsum("nbf,nb->nf", rules, left))

    def left_out_sets(self, sets: np.ndarray) -> np.ndarray:
        """Residuals (k, R) where ``sets`` (k, R) of rows are left out in place of nodes; O = 1."""
        columns = self.whitening[:, sets].transpose(1, 2, 0)
        precisions = columns @ columns.mT
        if self.basis is not None:
            pulled = self.solved[:, 1][sets]
            precisions -= pulled[:, :, None] * (pulled / self._constant[1])[:, None, :]
        return np.asarray(np.linalg.solve(precisions, self.weights.reshape(-1)[sets][:, :, None])[:, :, 0])

    def covariance(
        self, prior: np.ndarray, whitened: np.ndarray, level: np.ndarray | float | None = None
    ) -> np.ndarray:
        """Posterior covariance of F integrals of one output, (F, F).

        Parameters
        ----------
        prior : their prior covariance over s^2, (F, F)
        whitened : W k, of their covariances with the rows, (n, F)
        level : h, the integrals of a constant of 1, (F,); None where the constant is known
        """
        covariance = prior - whitened.T @ whitened
        if self.basis is not None and level is not None:
            missed = level - self.whitened[:, 1] @ whitened
            covariance = covariance + missed[:, None] * (missed / self._constant[1])
        return np.asarray(self.scale * covariance)

    def variances(
        self, prior: np.ndarray, whitened: np.ndarray, level: np.ndarray | float | None = None
    ) -> np.ndarray:
        """The diagonal of `covariance` (F,), never negative, from that of the ``prior`` (F,); O(n F).

        ``whitened`` and ``level`` are as of `covariance`.
        """
        found = prior - np.einsum("nf,nf->f", whitened, whitened)
        if self.basis is not None and level is not None:
            found += np.square(level - self.whitened[:, 1] @ whitened) / self._constant[1]
        return np.asarray(self.scale * np.maximum(found, 0.0))


def _add_noise(gram: np.ndarray, noise: np.ndarray) -> None:
    np.einsum("ii->i", gram)[:] += np.repeat(noise, len(gram) // noise.size)


def _right(targets: np.ndarray, basis: np.ndarray | None, level: float, numbers: int) -> np.ndarray:
    """[Y - level b, b], (m B, O + 1), or Y (m B, O)."""
    if basis is None:
        return targets.reshape(len(targets) * numbers, -1)
    return np.column_stack([targets.reshape(-1) - level * basis, basis])


def _diagonal_blocks(rows: np.ndarray, numbers: int) -> np.ndarray:
    """Of R^T R for rows R (r, m B), (m, B, B); R is copied unless it is in the order of columns."""
    if numbers == 1:
        return np.asarray(np.einsum("nm,nm->m", rows, rows)[:, None, None])
    columns = np.ascontiguousarray(rows.T).reshape(-1, numbers, len(rows))
    return columns @ columns.mT
