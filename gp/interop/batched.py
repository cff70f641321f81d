"""A posterior at batches of points, and conditioned further on batches of fantasies.

BoTorch evaluates many sets of q points at once, X (..., q, D). Acquisition functions of several steps
condition on simulated observations (fantasies) at points F (..., p, D), a different set in every batch.
Both follow from the Cholesky factor C of the covariance of the data and from z = C^-1 (y - m). With the
whitened covariances of the data and f at X,

    H_0(X) = C^-1 k(data, X)                         (..., n, q),

and, for fantasies at F with covariance A A^T = cov(F, F) + noise given all that came before,

    H_1(X) = A^-1 (k(F, X) - H_0(F)^T H_0(X))        (..., p, q),
    z_1    = A^-1 (y_F - mean(F))                    (..., p),

the new rows of the extended factor, predictions are sums over the stages:

    mean(X)          = m(X) + sum_i H_i(X)^T z_i
    covariance(X, Y) = k(X, Y) - sum_i H_i(X)^T H_i(Y)

Only the p x p blocks are factorised. Each stage has its own batch dimensions, which are broadcast only in
sums over stages, so that points shared by all fantasies are whitened once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gp.kernels.base import Kernel
from gp.linalg import (
    FIRST_JITTER,
    LAST_JITTER,
    LEAST_SCALE,
    NotPositiveDefiniteError,
)
from gp.observations import Values, covariance, require_same_kind
from gp.posterior import Posterior
from gp.rounding import SMALLEST_EIGENVALUE


@dataclass(frozen=True, eq=False)
class Fantasy:
    """Observations at x (..., p, D): H_i(x) of earlier stages, factor A (..., p, p), z (..., p)."""

    x: Tensor
    whitened: tuple[Tensor, ...]
    lower: Tensor
    z: Tensor


@dataclass(frozen=True, eq=False)
class Batched:
    """A posterior in torch, after ``fantasies`` in the order they were added."""

    posterior: Posterior
    fantasies: tuple[Fantasy, ...] = ()

    @property
    def batch_shape(self) -> torch.Size:
        """The batch dimensions of predictions at points that have no batch dimensions."""
        shapes = [part for f in self.fantasies for part in (f.x.shape[:-2], f.z.shape[:-1])]
        return torch.Size(np.broadcast_shapes(*shapes))

    @property
    def noise(self) -> Tensor:
        """Noise variance of a further observation: the average where each has its own, ()."""
        noise = self.posterior.noise
        values = torch.as_tensor(noise, dtype=self.posterior.y.dtype, device=self.posterior.y.device)
        return values.mean() if values.numel() else torch.zeros_like(values.sum())

    def whitened(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return H_0(x), H_1(x), ... for points x (..., q, D)."""
        flat = self._flat(x)
        cross = covariance(self.posterior.kernel, self.posterior.observations, Values(flat))
        rows = self.posterior.factor.solve(cross)
        rows = rows.reshape(cross.shape[0], *x.shape[:-1])  # (n, ..., q)
        whitened: tuple[Tensor, ...] = (rows.movedim(0, -2),)
        for fantasy in self.fantasies:
            cross = _prior_covariance(self.posterior.kernel, fantasy.x, x)
            cross = cross - _products(fantasy.whitened, whitened)
            lower = fantasy.lower.expand(*cross.shape[:-2], *fantasy.lower.shape[-2:])
            whitened = (*whitened, torch.linalg.solve_triangular(lower, cross, upper=False))
        return whitened

    def mean(self, x: Tensor, whitened: tuple[Tensor, ...]) -> Tensor:
        """Return the mean at x (..., q, D), (..., q), given H_i(x)."""
        mean: Tensor = self.posterior.mean_function(self._flat(x)).reshape(x.shape[:-1])
        stages = (self.posterior.whitened, *(fantasy.z for fantasy in self.fantasies))
        for rows, z in zip(whitened, stages, strict=True):
            mean = mean + (rows.mT @ z[..., None])[..., 0]
        return mean

    def variance(self, x: Tensor, whitened: tuple[Tensor, ...]) -> Tensor:
        """Return the variance at x (..., q, D), (..., q), never negative, given H_i(x)."""
        variance: Tensor = self.posterior.kernel.diagonal(self._flat(x)).reshape(x.shape[:-1])
        for rows in whitened:
            variance = variance - (rows**2).sum(dim=-2)
        return variance.clamp_min(0.0)

    def covariance(self, x: Tensor, whitened: tuple[Tensor, ...]) -> Tensor:
        """Return the covariance at x (..., q, D), (..., q, q), given H_i(x)."""
        return _prior_covariance(self.posterior.kernel, x, x) - _products(whitened, whitened)

    def conditioned(self, x: Tensor, y: Tensor, noise: Tensor) -> Batched:
        """Return the posterior after observations y (..., p) at x (..., p, D).

        The batch dimensions are broadcast. ``noise`` holds variances that broadcast with y.
        """
        whitened = self.whitened(x)
        matrix = self.covariance(x, whitened) + torch.diag_embed(noise.expand(x.shape[:-1]))
        lower = cholesky(matrix, self.scale(x)) if x.shape[-2] else matrix
        residual = (y - self.mean(x, whitened))[..., None]
        factor = lower.expand(*residual.shape[:-2], *lower.shape[-2:])
        z = torch.linalg.solve_triangular(factor, residual, upper=False)[..., 0]
        return replace(self, fantasies=(*self.fantasies, Fantasy(x, whitened, lower, z)))

    def scale(self, x: Tensor) -> Tensor:
        """Return the prior variances at x (..., q, D), (..., q), without a graph."""
        with torch.no_grad():
            variance: Tensor = self.posterior.kernel.diagonal(self._flat(x)).reshape(x.shape[:-1])
        return variance.detach()

    def _flat(self, x: Tensor) -> Tensor:
        """Return points (..., q, D) as one list of points, after checking what they are."""
        known = self.posterior.x
        if x.ndim < 2 or x.shape[-1] != known.shape[-1]:
            raise ValueError(
                f"X has shape {tuple(x.shape)}: give (batch x q x {known.shape[-1]}), as the "
                f"posterior has {known.shape[-1]} input columns"
            )
        require_same_kind("X", x, "the posterior's x", known)
        return x.reshape(-1, x.shape[-1])


@dataclass(frozen=True, eq=False)
class BatchedMixture:
    """Several posteriors in torch with weights: the Gaussian with the moments of their mixture.

    Attributes
    ----------
    parts : J of them. log_weights : (J, ...), batched as fantasies are, whose density they include.
    """

    parts: tuple[Batched, ...]
    log_weights: Tensor

    @staticmethod
    def of(posteriors: Sequence[Posterior], weights: np.ndarray) -> BatchedMixture:
        """The mixture of posteriors in torch with ``weights`` (J,) of sum 1."""
        like = posteriors[0].y
        logs = torch.as_tensor(np.log(weights), dtype=like.dtype, device=like.device)
        return BatchedMixture(tuple(Batched(each) for each in posteriors), logs)

    @property
    def posterior(self) -> Posterior:
        """One of the posteriors; all have the same observations."""
        return self.parts[0].posterior

    @property
    def batch_shape(self) -> torch.Size:
        """The batch dimensions of predictions at points that have no batch dimensions."""
        return self.parts[0].batch_shape

    @property
    def noise(self) -> Tensor:
        """The mean noise variance of a further observation, ()."""
        weights = torch.softmax(self.log_weights.reshape(len(self.parts), -1).mean(dim=1), dim=0)
        return sum(
            (w * part.noise for w, part in zip(weights, self.parts, strict=True)), weights.new_zeros(())
        )

    def whitened(self, x: Tensor) -> tuple[Any, ...]:
        """Return H_i(x) of each part."""
        return tuple(part.whitened(x) for part in self.parts)

    def _average(self, values: list[Tensor], trailing: int) -> Tensor:
        """The weighted mean of values, which have so many dimensions after those of batches."""
        weights = torch.softmax(self.log_weights, dim=0)
        weights = weights.reshape(*weights.shape, *(1,) * trailing)
        return sum((w * value for w, value in zip(weights, values, strict=True)), 0.0 * values[0])

    def mean(self, x: Tensor, whitened: tuple[Any, ...]) -> Tensor:
        """Return the mean at x (..., q, D), (..., q)."""
        return self._average([p.mean(x, h) for p, h in zip(self.parts, whitened, strict=True)], 1)

    def variance(self, x: Tensor, whitened: tuple[Any, ...]) -> Tensor:
        """Return the variance at x (..., q, D), (..., q)."""
        mean, pairs = self.mean(x, whitened), list(zip(self.parts, whitened, strict=True))
        return self._average([p.variance(x, h) + (p.mean(x, h) - mean) ** 2 for p, h in pairs], 1)

    def covariance(self, x: Tensor, whitened: tuple[Any, ...]) -> Tensor:
        """Return the covariance at x (..., q, D), (..., q, q)."""
        mean, values = self.mean(x, whitened), []
        for part, rows in zip(self.parts, whitened, strict=True):
            apart = part.mean(x, rows) - mean
            values.append(part.covariance(x, rows) + apart[..., :, None] * apart[..., None, :])
        return self._average(values, 2)

    def conditioned(self, x: Tensor, y: Tensor, noise: Tensor) -> BatchedMixture:
        """Return the mixture after observations y (..., p) at x (..., p, D), weighted by their density."""
        parts = tuple(part.conditioned(x, y, noise) for part in self.parts)
        logs = []
        for part, before in zip(parts, self.log_weights, strict=True):
            last = part.fantasies[-1]
            pivots = torch.diagonal(last.lower, dim1=-2, dim2=-1)
            logs.append(before - 0.5 * (last.z**2).sum(dim=-1) - pivots.log().sum(dim=-1))
        return BatchedMixture(parts, torch.stack(logs))

    def scale(self, x: Tensor) -> Tensor:
        """Return the mean prior variances at x (..., q, D), (..., q), without a graph."""
        return torch.stack([part.scale(x) for part in self.parts]).mean(dim=0)


def _prior_covariance(kernel: Kernel, x: Tensor, y: Tensor) -> Tensor:
    """Return k(x, y), (..., q, r), for x (..., q, D) and y (..., r, D), batches broadcast."""
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    if not batch:
        return torch.as_tensor(kernel(x, y))
    last = len(batch) - 1
    pairs = [part.expand(*batch, *part.shape[-2:]).flatten(0, last) for part in (x, y)]
    gram: Tensor = torch.vmap(kernel)(*pairs)
    return gram.reshape(*batch, *gram.shape[-2:])


def cholesky(matrix: Tensor, scale: Tensor) -> Tensor:
    """Factorise each of a batch (..., p, p) with as little jitter as ``gp.linalg.cholesky`` adds.

    Here a matrix is judged by its pivots alone, which suffices for values at a few points
    (:mod:`gp.rounding`). ``scale`` (..., p) holds the prior variances, which rounding errors and jitter are
    relative to. Raises NotPositiveDefiniteError where no reasonable jitter helps.
    """
    rounding = torch.finfo(matrix.dtype).eps
    least = rounding * SMALLEST_EIGENVALUE * scale
    scale = torch.maximum(scale, LEAST_SCALE * scale.amax(dim=-1, keepdim=True))
    jitter, level = torch.zeros_like(matrix[..., 0]), 0.0
    while level <= LAST_JITTER:
        lower: Tensor
        lower, info = torch.linalg.cholesky_ex(matrix + torch.diag_embed(jitter))
        pivots = torch.diagonal(lower.detach(), dim1=-2, dim2=-1) ** 2
        bad = (info > 0) | (pivots < least).any(dim=-1)
        if not bool(bad.any()):
            return lower
        level = max(10 * level, FIRST_JITTER)
        jitter = torch.where(bad[..., None], level * rounding * scale, jitter)
    raise NotPositiveDefiniteError(
        f"the joint covariance of {matrix.shape[-1]} points is not positive definite, not even "
        f"with a jitter of {level / 10 * rounding:.3g} of their prior variances: drop points that "
        "coincide, or check that the kernel is positive semi-definite (gp.testing.check_kernel)"
    )


def _products(left: tuple[Tensor, ...], right: tuple[Tensor, ...]) -> Tensor:
    """Return sum_i left_i^T right_i over the stages both have."""
    total = left[0].mT @ right[0]
    for a, b in zip(left[1:], right[1:], strict=True):
        total = total + a.mT @ b
    return total
