"""Importance-weighted bound and its two pathwise gradients (thesis Section 5.4).

    L_L = E[ln (1/L) sum_l w_l],   w_l = p(X, theta_l) / q(theta_l),   ELBO <= L_L <= ln p(X),

is a bound of its own (Burda et al. 2016). With normalised weights v_l = w_l / sum w:

    IWAE   sum_l v_l d ln w_l / du, through the path and through q's parameters (Eq. 5.32)
    DReG   sum_l v_l^2 d ln w_l / du, through the path only: the score term that IWAE contains is
           reparameterised once more (Tucker et al. 2018); the mean is the same, and the ratio of
           signal to noise does not fall as L grows
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from bqvi.arrays import Values
from bqvi.gradients.amortised import (
    Local,
    LocalBound,
    Terms,
    dreg_terms,
    iwae_terms,
    local_gradient,
    require_one_theta,
    require_plain,
)
from bqvi.gradients.black_box import (
    TorchPosterior,
    cost,
    differentiable,
    log_joint_function,
    reference_tensor,
    torch_posterior,
)
from bqvi.gradients.gradient import Batch, Gradient
from bqvi.models.contracts import AmortisedModel, is_amortised
from bqvi.models.log_joint import LogJointModel
from gp.arrays import to_numpy
from gp.checks import require_integer


@dataclass(frozen=True)
class _ImportanceWeighted:
    """The common part of the two gradients of the bound."""

    samples: int = 10
    errors: bool = False

    needs_gradients: ClassVar[bool] = True
    """Log joints of values only are refused."""
    importance_weighted: ClassVar[bool] = True
    """The bound that is ascended is that of `samples` draws."""
    _power: ClassVar[int]
    """The power of the normalised weights: 1 for IWAE, 2 for DReG, whose derivative is by the path only."""
    _terms: ClassVar[staticmethod[[Local], Terms]]
    """The terms of a datum, where an encoder gives q(z | x)."""

    def __post_init__(self) -> None:
        require_integer("samples", self.samples, 3 if self.errors else 1)

    def __call__(self, model: LogJointModel, q: Any, batch: Batch, rng: np.random.Generator) -> Gradient:
        """d L_L / du at q."""
        if is_amortised(model):
            return local_gradient(model, q, batch, rng, self.samples, self.local_bound(model))
        posterior = torch_posterior(q, reference_tensor(model, batch.rows))
        denominator = posterior.q if self._power == 1 else posterior.stopped
        theta = posterior.q.rsample(self.samples, rng)
        log_joint = differentiable(log_joint_function(model, q, batch)(theta))
        log_weights = log_joint - denominator.log_prob(theta)
        bound = objective = torch.logsumexp(log_weights, 0) - np.log(self.samples)
        known = self.errors and batch.weights is None  # of a mini-batch the bound is no sum over the data
        errors = _errors(posterior, log_weights, self._power) if known else None
        if self._power == 2:
            objective = (torch.softmax(log_weights.detach(), 0).square() * log_weights).sum()
        values = posterior.gradient(objective)
        return Gradient(
            values,
            natural=False,
            n_evaluations=cost(model, batch, self.samples),
            samples=self.samples,
            bound=float(bound.detach()),
            elbo=float(log_weights.mean().detach()),
            standard_error=errors,
        )

    def local_bound(self, model: AmortisedModel) -> LocalBound:
        """The terms of a datum, where an encoder of ``model`` gives q(z | x)."""
        require_plain(self, errors=self.errors)
        require_one_theta(model, self.samples)
        return self._terms


@dataclass(frozen=True)
class IWAE(_ImportanceWeighted):
    """Gradient of the importance-weighted bound of L draws.

    Parameters
    ----------
    samples : L >= 1; at 1 this is the sampled pathwise estimator of the ELBO
    errors : whether to return standard errors, by L backward passes at once, for L >= 3
    """

    _power, _terms = 1, staticmethod(iwae_terms)


@dataclass(frozen=True)
class DReG(_ImportanceWeighted):
    """Doubly reparameterised gradient of the importance-weighted bound of L draws.

    Parameters
    ----------
    samples : L >= 1; at 1 this is sticking-the-landing
    errors : whether to return standard errors, by L backward passes at once, for L >= 3
    """

    _power, _terms = 2, staticmethod(dreg_terms)


def _errors(posterior: TorchPosterior, log_weights: torch.Tensor, power: int) -> Values:
    """Jackknife errors of sum_l v_l^power d ln w_l / du, with weights normalised anew without each draw."""
    w = to_numpy(torch.softmax(log_weights.detach(), 0)).astype(float, copy=False)
    others = np.maximum(1.0 - w, 1e-300)  # zero where one draw has all the weight
    found = []
    for slopes in posterior.each(log_weights):
        weighted = (w**power).reshape(-1, *[1] * (slopes.ndim - 1)) * slopes
        without = weighted.sum(0) - weighted
        found.append(without / (others**power).reshape(-1, *[1] * (slopes.ndim - 1)))
    return tuple(np.sqrt((len(t) - 1) * t.var(0)) for t in found)
