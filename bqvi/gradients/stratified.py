"""The pathwise estimator for q a mixture of Gaussians, stratified over its components.

The index of a draw's component is not differentiable in the weights, but a mixture's expectation is linear in
them,

    L = sum_k w_k E_k[f(theta) - ln q(theta)],        theta = m_k + L_k xi within component k,

so L draws are taken in *every* component: gradients in means and covariances are pathwise, and the derivative
in w_k is the mean value in component k (Roeder, Wu and Duvenaud 2017 on mixtures, here with weights that are
optimised too). The treatments of the entropy are those of `pathwise`, with

    sticking-the-landing   ln q(theta) with its parameters held, while w_k and theta move; the score that is
                           dropped has mean zero under the whole of q, not within a component. Where q is the
                           posterior, f - ln q is constant and sum_k dw_k = 0: the variance is zero
    analytic               a mixture's entropy has no closed form: 128 antithetic pairs in each
                           component of q alone, which cost no evaluation of f
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from bqvi.arrays import Values
from bqvi.families import GaussianMixture
from bqvi.gradients.black_box import TorchPosterior, cost, differentiable, log_joint_with_terms
from bqvi.gradients.gradient import Batch, Gradient
from bqvi.gradients.settings import MIXTURE
from bqvi.gradients.standard_errors import of_mean, with_sampling
from bqvi.models.log_joint import LogJointModel, is_moving

if TYPE_CHECKING:
    from bqvi.gradients.pathwise import Pathwise


def stratified_gradient(
    settings: Pathwise,
    model: LogJointModel,
    posterior: TorchPosterior,
    batch: Batch,
    rng: np.random.Generator,
) -> Gradient:
    """dL/du at a mixture q; evaluations are those of all components.

    Parameters
    ----------
    settings : L draws in each component, the treatment of the entropy, noise design and errors. model : a log
        joint.
    posterior : the mixture of K Gaussians over R^D, with leaves u. batch : the rows and the account. rng :
        draws theta.

    Raises
    ------
    ValueError
        The mini-batch strategy uses per-datum gradients, or standard errors are asked for with a noise
        design.
    TypeError
        The log joint changes with q.
    """
    q: GaussianMixture = posterior.q
    require_still(model)
    _require_independent(settings, batch)
    theta = q.strata(_noise(settings, q, rng))  # (L, K, D)
    values, of_data = log_joint_with_terms(model, q, batch)(theta.reshape(-1, q.dimension))
    values = differentiable(values).reshape(theta.shape[:2])
    if settings.entropy == "analytic":
        rest = entropy_terms(posterior, rng)
    else:
        measured = q if settings.entropy == "sampled" else posterior.stopped
        values, rest = values - measured.log_prob(theta), torch.zeros(1, dtype=values.dtype)
    terms = values @ q.weights
    errors = None
    if settings.errors:
        errors = of_mean(posterior.each(terms))
        if settings.entropy == "analytic":
            errors = together(errors, of_mean(posterior.each(rest)))
        rows = None if of_data is None else of_data.reshape(*theta.shape[:2], -1)
        each = None if rows is None else lambda some: posterior.each(q.weights @ rows[some].mean(0))
        errors = with_sampling(errors, each, settings.samples, batch)
    objective = terms.mean() + rest.mean()
    draws = settings.samples * q.n_components
    return Gradient(
        posterior.gradient(objective),
        natural=False,
        n_evaluations=cost(model, batch, draws),
        samples=draws,
        bound=float(objective.detach()),
        standard_error=errors,
    )


def _require_independent(settings: Pathwise, batch: Batch) -> None:
    """Raise ValueError where errors are asked for with a noise design, or gradients for each datum."""
    if settings.errors and settings.noise is not None:
        raise ValueError(
            f"errors is True with noise {settings.noise!r} for a GaussianMixture, whose points depend on one "
            "another; repeat the estimate instead, or leave noise out"
        )
    if batch.combination is not None:
        raise ValueError("q is a GaussianMixture, whose gradients do not come datum by datum; use Reshuffled")


def entropy_terms(
    posterior: TorchPosterior, rng: np.random.Generator, pairs: int = MIXTURE.entropy_pairs
) -> torch.Tensor:
    """``pairs`` independent estimates of -E[ln q], (pairs,), whose gradients in u are those of the entropy.

    Each estimate is from an antithetic pair in every component; the score of ln q, of mean zero, is left out.
    """
    q: GaussianMixture = posterior.q
    half = rng.standard_normal((pairs, *q.means.shape))
    theta = q.strata(np.concatenate([half, -half]))
    logs: torch.Tensor = posterior.stopped.log_prob(theta) @ q.weights
    return -0.5 * (logs[:pairs] + logs[pairs:])


def together(one: Values, other: Values) -> Values:
    """Standard errors of a sum of independent estimates."""
    return tuple(np.hypot(a, b) for a, b in zip(one, other, strict=True))


def require_still(model: LogJointModel) -> None:
    """Raise TypeError for a log joint that contains its E step, which is for one Gaussian q."""
    if is_moving(model):
        raise TypeError(
            f"model is a {type(model).__name__}, whose log joint moves with q and takes one Gaussian; for a "
            "GaussianMixture give the log joint with z summed out"
        )


def _noise(settings: Pathwise, q: GaussianMixture, rng: np.random.Generator) -> np.ndarray:
    if settings.noise is None:
        return rng.standard_normal((settings.samples, *q.means.shape))
    each = [settings.noise.nodes(settings.samples, q.dimension, rng) for _ in range(q.n_components)]
    return np.stack(each, 1)
