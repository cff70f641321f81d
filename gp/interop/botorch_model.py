"""A posterior as a BoTorch model.

BoTorch calls a model for the joint distribution of its output at points X (batch x q x D), and
acquisition functions of several steps for the model conditioned on simulated observations (fantasies).
Most use means and variances only, some of thousands of points at once: the joint covariance is
computed when it is needed.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

import torch
from botorch.models.model import Model
from botorch.posteriors.gpytorch import GPyTorchPosterior
from botorch.sampling.base import MCSampler
from gpytorch.distributions import MultivariateNormal
from linear_operator.operators import CholLinearOperator, TriangularLinearOperator
from torch import Tensor

from gp.interop.batched import Batched, BatchedMixture, cholesky
from gp.posterior import Posterior


class JointPosterior(GPyTorchPosterior):
    """The distribution of f, or of noisy observations of it, at points x (batch x q x D).

    It has the interface that BoTorch expects of a Gaussian, but its covariance is computed at first use, and
    small variances are not raised.
    """

    def __init__(self, batched: Batched | BatchedMixture, x: Tensor, noise: Tensor | None) -> None:
        self._batched, self._x, self._noise = batched, x, noise
        self._halves = batched.whitened(x)
        self._mean = batched.mean(x, self._halves)
        self._device, self._dtype = x.device, x.dtype
        self._is_mt = False

    @cached_property
    def distribution(self) -> MultivariateNormal:  # type: ignore[override]  # BoTorch only reads it
        """The joint distribution of the q points, as GPyTorch writes it."""
        matrix = self._batched.covariance(self._x, self._halves)
        if self._noise is not None:
            matrix = matrix + torch.diag_embed(self._noise.expand(matrix.shape[:-1]))
        lower = cholesky(matrix, self._batched.scale(self._x))
        lower = lower.expand(*self._mean.shape, lower.shape[-1])
        return MultivariateNormal(self._mean, CholLinearOperator(TriangularLinearOperator(lower)))

    @property
    def mean(self) -> Tensor:
        """Means, (batch x q x 1)."""
        return self._mean[..., None]

    @property
    def variance(self) -> Tensor:
        """Variances, (batch x q x 1)."""
        variance = self._batched.variance(self._x, self._halves)
        if self._noise is not None:
            variance = variance + self._noise
        return variance.expand(self._mean.shape)[..., None]


class PosteriorModel(Model):
    """A Gaussian process posterior with one output; made by ``gp.as_botorch_model``.

    Attributes
    ----------
    batched : the posterior, in torch, with the fantasies on which BoTorch has conditioned it.
    """

    def __init__(self, posterior: Posterior | Batched | BatchedMixture) -> None:
        super().__init__()
        self.batched = Batched(posterior) if isinstance(posterior, Posterior) else posterior

    @property
    def num_outputs(self) -> int:
        """One."""
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        """The batch dimensions that fantasies have brought; none at first."""
        return self.batched.batch_shape

    @property
    def train_inputs(self) -> tuple[Tensor]:
        """The points that were observed, (n, D): a tuple of one, as in GPyTorch."""
        return (self.batched.posterior.x,)

    @property
    def train_targets(self) -> Tensor:
        """The observations, (n,)."""
        return cast(Tensor, self.batched.posterior.y)

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
        noise = None if observation_noise is False else self._noise(observation_noise)
        posterior = JointPosterior(self.batched, X, noise)
        return posterior if posterior_transform is None else posterior_transform(posterior)

    def condition_on_observations(
        self, X: Tensor, Y: Tensor, noise: Tensor | None = None, **kwargs: Any
    ) -> PosteriorModel:
        """Return the model after observations Y (batch x p x 1) at X (batch x p x D).

        Y may have batch dimensions in front that X has not, one set of values for each; ``noise``
        holds variances (batch x p x 1), by default as in :meth:`posterior`.
        """
        variances = self._noise(True if noise is None else noise)
        return PosteriorModel(self.batched.conditioned(X, Y[..., 0], variances))

    def fantasize(
        self,
        X: Tensor,
        sampler: MCSampler,
        observation_noise: Tensor | None = None,
        **kwargs: Any,
    ) -> PosteriorModel:
        """Return the model after observations at X (batch x p x D) drawn from it by ``sampler``.

        Its batch dimensions are those of the sampler, then those of X.
        """
        if X.shape[-2] == 0:
            shape = (*sampler.sample_shape, *X.shape[:-2], 0, 1)
            return self.condition_on_observations(X, X.new_zeros(shape), observation_noise)
        noise = True if observation_noise is None else observation_noise
        drawn = sampler(self.posterior(X, observation_noise=noise))
        return self.condition_on_observations(X, drawn, observation_noise)

    def subset_output(self, idcs: list[int]) -> PosteriorModel:
        """Return the model itself for ``[0]``; raise ValueError for other outputs."""
        if list(idcs) not in ([0], [-1]):
            raise ValueError(f"output indices = {idcs}: the model has one output, 0")
        return self

    def _noise(self, given: bool | Tensor) -> Tensor:
        """Return noise variances that broadcast with (batch x q)."""
        if not isinstance(given, Tensor):
            return self.batched.noise
        return given[..., 0] if given.ndim else given
