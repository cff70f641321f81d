"""The gradient of E_q[f] in the parameters of q, for any kernel and measure with an embedding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gp.arrays import Array, namespace
from gp.embeddings.autodiff import jacobian_in_parameters
from gp.embeddings.embed import added, embed
from gp.embeddings.registry import Parameters, in_kind_of
from gp.means import Mean
from gp.measures import Gaussian, GaussianMixture, GaussianParameters, Measure, MixtureParameters
from gp.observations import Gradients, Values

if TYPE_CHECKING:
    from gp.posterior import Posterior


def mean_gradient(posterior: Posterior, q: Measure) -> Parameters:
    """Return the gradient, in the parameters of a measure, of the posterior mean of q[f].

    The posterior mean of f is m(x) plus a weighted sum of k(x, x_i) and its derivatives in x_i, so its
    integral is a weighted sum of kernel means and their derivatives, which is pulled back in one pass.

    Returns
    -------
    A named tuple like ``q.parameters()``: for a Gaussian the gradients in its mean (D,) and
    covariance (D, D), symmetric. Weights are free: their sum is not held at one.

    Raises
    ------
    TypeError
        where something else than values and derivatives was observed.
    """
    q = in_kind_of(q, posterior.x)
    pair = embed(posterior.kernel, q)
    parts = [_of_prior_mean(posterior.mean_function, q)]
    start = 0
    for block in posterior.observations.blocks:
        weights = posterior.weights[start : start + len(block)]
        start += len(block)
        if isinstance(block, Values):
            parts.append(pair.pullback(block.x, weights))
        elif isinstance(block, Gradients):
            none = namespace(block.x).zeros_like(block.x[:, 0])
            parts.append(pair.pullback(block.x, none, block.spread(weights)))
        else:
            raise TypeError(f"no gradient through observations of {type(block).__name__}")
    return added(parts)


def _of_prior_mean(function: Mean, q: Measure) -> Parameters:
    """Return the gradient of q[m]: closed for Gaussians and mixtures of them."""
    if isinstance(q, Gaussian):
        return GaussianParameters(*function.expectation_gradient(q.mean, q.covariance))
    if isinstance(q, GaussianMixture):
        return _of_prior_mean_under_mixture(function, q)
    return jacobian_in_parameters(lambda p: function.expectation(p.mean, p.covariance), q)


def _of_prior_mean_under_mixture(function: Mean, q: GaussianMixture) -> MixtureParameters:
    xp = namespace(q.means)
    components = [(q.means[k, :], q.covariances[k, :, :]) for k in range(q.means.shape[0])]
    slopes = [function.expectation_gradient(*component) for component in components]
    values: Array = xp.stack([function.expectation(*component) for component in components])
    means = q.weights[:, None] * xp.stack([slope for slope, _ in slopes])
    covariances = q.weights[:, None, None] * xp.stack([half for _, half in slopes])
    return MixtureParameters(values, means, covariances)
