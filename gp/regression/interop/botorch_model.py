"""A posterior as a BoTorch model, which gives the joint distribution of f at points X (batch x q x D).

Most acquisition functions use means and variances only, some of thousands of points at once: the joint
covariance is computed when it is needed. With the Cholesky factor C of the covariance of the data,
z = C^-1 (y - m) and the whitened covariances H(X) = C^-1 k(data, X), (..., n, q),

    mean(X) = m(X) + H(X)^T z,        covariance(X) = k(X, X) - H(X)^T H(X),

and a marginalised posterior is the Gaussian with the mean and the covariance of its mixture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import torch
from botorch.models.model import Model
from botorch.posteriors.gpytorch import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal
from linear_operator.operators import CholLinearOperator, TriangularLinearOperator
from torch import Tensor

from gp.embeddings.embed import in_kind_of
from gp.integrals import Integrals
from gp.linalg import SMALLEST_EIGENVALUE, Factor, cholesky
from gp.observations import Functional, Gradients, Observations, Values, covariance, require_same_space
from gp.regression.posterior import Posterior

if TYPE_CHECKING:
    from gp.regression.marginal import MarginalPosterior


class JointPosterior(GPyTorchPosterior):
    """The distribution of f, or of noisy observations of it, at points x (batch x q x D).

    It has the interface that BoTorch expects of a Gaussian, but its covariance is computed at first use, and
    small variances are not raised.
    """

    def __init__(self, posterior: Posterior | MarginalPosterior, x: Tensor, noise: Tensor | None) -> None:
        self._posterior, self._x, self._noise = posterior, x, noise
        moments = posterior.mean_and_variance(x.reshape(-1, x.shape[-1]))
        self._mean, self._variance = (part.reshape(x.shape[:-1]) for part in moments)
        self._device, self._dtype = x.device, x.dtype
        self._is_mt = False

    @cached_property
    def distribution(self) -> MultivariateNormal:  # type: ignore[override]  # BoTorch only reads it
        """The joint distribution of the q points, as GPyTorch writes it."""
        matrix, scale = torch.zeros(()), torch.zeros(())
        for weight, part in zip(*_parts(self._posterior), strict=True):
            mean, prior, covariance = _moments(part, self._x)
            gap = mean - self._mean
            matrix = matrix + weight * (covariance + gap[..., :, None] * gap[..., None, :])
            scale = scale + weight * prior.detach()
        if self._noise is not None:
            matrix = matrix + torch.diag_embed(self._noise.expand(matrix.shape[:-1]))
        lower = _cholesky(matrix, scale).expand(*self._mean.shape, matrix.shape[-1])
        return MultivariateNormal(self._mean, CholLinearOperator(TriangularLinearOperator(lower)))

    @property
    def mean(self) -> Tensor:
        """Means, (batch x q x 1)."""
        return self._mean[..., None]

    @property
    def variance(self) -> Tensor:
        """Variances, (batch x q x 1)."""
        variance = self._variance if self._noise is None else self._variance + self._noise
        return variance.expand(self._mean.shape)[..., None]


def _parts(posterior: Posterior | MarginalPosterior) -> tuple[Sequence[float], Sequence[Posterior]]:
    """The posteriors of a mixture, or the posterior itself, with their weights."""
    if not isinstance(posterior, Posterior):
        return [float(weight) for weight in posterior.weights], posterior.posteriors
    return [1.0], [posterior]


def _moments(posterior: Posterior, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Means and prior variances (..., q), and covariances (..., q, q), at points x (..., q, D)."""
    flat, kernel = x.reshape(-1, x.shape[-1]), posterior.kernel
    cross = covariance(kernel, posterior.observations, Values(flat))
    whitened = posterior.factor.solve(cross).reshape(-1, *x.shape[:-1]).movedim(0, -2)
    mean = posterior.mean_function(flat).reshape(x.shape[:-1]) + whitened.mT @ posterior.whitened
    prior = torch.vmap(lambda each: kernel(each, each))(x.reshape(-1, *x.shape[-2:]))
    variance = kernel.diagonal(flat).reshape(x.shape[:-1])
    return mean, variance, prior.reshape(*x.shape[:-1], x.shape[-2]) - whitened.mT @ whitened


class PosteriorModel(Model):
    """A Gaussian process posterior with one output; made by ``gp.as_botorch_model``.

    Attributes
    ----------
    given : the posterior, or the mixture of posteriors, in torch.
    """

    def __init__(self, given: Posterior | MarginalPosterior) -> None:
        super().__init__()
        self.given = given

    @property
    def num_outputs(self) -> int:
        """One."""
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        """The batch dimensions of predictions at points that have none: none."""
        return torch.Size()

    @property
    def train_inputs(self) -> tuple[Tensor]:
        """The points that were observed, (n, D): a tuple of one, as in GPyTorch."""
        return (self.given.x,)

    @property
    def train_targets(self) -> Tensor:
        """The observations, (n,)."""
        return cast(Tensor, self.given.y)

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: Any = None,
    ) -> Any:
        """Return the joint distribution at points X (batch x q x D).

        Parameters
        ----------
        X : of the posterior's dtype and on its device.
        output_indices : ``None`` or ``[0]``.
        observation_noise : whether of noisy observations. If True, the noise of the process (its
            average, where each observation has its own); or variances, (batch x q x 1).
        posterior_transform : a BoTorch posterior transform.
        """
        if output_indices is not None:
            self.subset_output(output_indices)
        known = self.given.x
        if X.ndim < 2 or X.shape[-1] != known.shape[-1]:
            raise ValueError(
                f"X has shape {tuple(X.shape)}: give (batch x q x {known.shape[-1]}), as the "
                f"posterior has {known.shape[-1]} input columns"
            )
        points = Values(X.reshape(-1, X.shape[-1]))
        require_same_space("X", points, "the posterior's x", self.given.observations)
        noise = None if observation_noise is False else self._noise(observation_noise)
        posterior = JointPosterior(self.given, X, noise)
        return posterior if posterior_transform is None else posterior_transform(posterior)

    def subset_output(self, idcs: list[int]) -> PosteriorModel:
        """Return the model itself for ``[0]``; raise ValueError for other outputs."""
        if list(idcs) not in ([0], [-1]):
            raise ValueError(f"output indices = {idcs}: the model has one output, 0")
        return self

    def _noise(self, given: bool | Tensor) -> Tensor:
        """Return noise variances that broadcast with (batch x q)."""
        if isinstance(given, Tensor):
            return given[..., 0] if given.ndim else given
        noise = torch.as_tensor(self.given.noise, dtype=self.given.y.dtype, device=self.given.y.device)
        return noise.mean() if noise.ndim else noise


def as_tensors(posterior: Any) -> Any:
    """Return the posterior, or the mixture of them, in torch, cut off from any autodiff graph.

    Nothing is factorised again. NumPy arrays come to lie on the CPU, in their dtype.
    """
    if hasattr(posterior, "posteriors"):
        return replace(posterior, posteriors=tuple(map(as_tensors, posterior.posteriors)))
    if not isinstance(posterior, Posterior):
        raise TypeError(
            f"posterior is a {type(posterior).__name__}: give a gp.Posterior or MarginalPosterior"
        )
    y, noise = _tensor(posterior.y), posterior.noise
    return replace(
        posterior,
        observations=Observations(tuple(_block(block, y) for block in posterior.observations.blocks)),
        y=y,
        noise=float(noise) if getattr(noise, "ndim", 0) == 0 else _tensor(noise),
        factor=Factor(_tensor(posterior.factor.lower), posterior.factor.jitter),
        whitened=_tensor(posterior.whitened),
    )


def _tensor(values: Any) -> Tensor:
    return torch.as_tensor(values).detach()


def _block(block: Functional, like: Tensor) -> Functional:
    if isinstance(block, Values | Gradients):
        return replace(block, x=_tensor(block.x))
    if isinstance(block, Integrals):
        return replace(block, measures=tuple(in_kind_of(measure, like) for measure in block.measures))
    raise TypeError(
        f"the posterior has observations of kind {type(block).__name__}; BoTorch can be given one "
        "with Values, Gradients and Integrals"
    )


def _cholesky(matrix: Tensor, scale: Tensor) -> Tensor:
    """Factorise each of a batch (..., q, q), with jitter where pivots are too small (`gp.linalg.cholesky`).

    ``scale`` (..., q) holds the prior variances, which rounding errors and jitter are relative to. Raises
    NotPositiveDefiniteError where no reasonable jitter helps.
    """
    lower: Tensor
    lower, info = torch.linalg.cholesky_ex(matrix)
    least = torch.finfo(matrix.dtype).eps * SMALLEST_EIGENVALUE * scale
    pivots = torch.diagonal(lower.detach(), dim1=-2, dim2=-1) ** 2
    if bool(((info == 0) & (pivots >= least).all(dim=-1)).all()):
        return lower
    sets = zip(matrix.reshape(-1, *matrix.shape[-2:]), scale.reshape(-1, scale.shape[-1]), strict=True)
    return torch.stack([cholesky(each, variances).lower for each, variances in sets]).reshape(matrix.shape)
