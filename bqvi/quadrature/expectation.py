"""The expectation of a Gaussian process under a measure q: its value, its variance, their gradients in q.

For f ~ GP(m, k) given observations, with z_q the kernel mean and C the double integral of the kernel,

    E    = q[m] + z_q^T w,              w = K^-1 (y - m)
    var  = C(q, q) - z_q^T K^-1 z_q
    cov  = C(q, r) - z_q^T K^-1 z_r                     for a second measure r
    dE   = d q[m] + w^T dz_q,           dvar = 2 C(dq, q) - 2 (K^-1 z_q)^T dz_q

where d is the derivative in a parameter of q: for a Gaussian in its mean and covariance, for a mixture
also in its weights. All is analytic for a squared exponential kernel and Gaussians or mixtures of them
(:mod:`gp.embeddings.squared_exponential`); values and derivatives of f may have been observed. This is
the one place where ELBOs, their gradients and evidences take expectations of surrogates from; where they
are taken thousands of times a second, from its special case :mod:`bqvi.quadrature.kernel_sums`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gp.arrays import Array, namespace
from gp.embeddings import embed
from gp.integrals import Integrals, JointIntegral, integral_gradient
from gp.means import Zero
from gp.measures import Measure
from gp.observations import covariance
from gp.posterior import Posterior


@dataclass(frozen=True, eq=False)
class Expectation:
    """E_q[f] of a Gaussian process.

    Attributes
    ----------
    mean, variance : numbers, of the kind of the posterior's arrays.
    gradient, variance_gradient : named tuples like ``q.parameters()``, the derivatives of either.
    """

    mean: Array
    variance: Array
    gradient: Any
    variance_gradient: Any

    @property
    def sd(self) -> Array:
        """The standard deviation."""
        return namespace(self.variance).sqrt(self.variance)


def expectation(posterior: Posterior, q: Measure) -> Expectation:
    """Return the expectation of f under q with its gradients.

    Parameters
    ----------
    posterior : of values or derivatives of f. q : a measure with an embedding of its kernel.

    Raises
    ------
    gp.embeddings.UnknownPairError
        where kernel and measure have no embedding.
    """
    value = posterior.integral(q)
    return Expectation(
        value.mean, value.variance, integral_gradient(posterior, q), variance_gradient(posterior, q)
    )


def covariances(posterior: Posterior, measures: Sequence[Measure]) -> JointIntegral:
    """Return the means (m,) and the covariance (m, m) of the expectations under several measures."""
    return posterior.integral(tuple(measures))


def variance_gradient(posterior: Posterior, q: Measure) -> Any:
    """Return the gradient of the variance of E_q[f] in the parameters of q.

    K^-1 z_q takes the place of the weights of the mean, so it is a gradient of the same kind.
    """
    at = Integrals((q,))
    half = posterior.factor.solve(covariance(posterior.kernel, posterior.observations, at))[:, 0]
    mirrored = replace(posterior, mean_function=Zero(), whitened=half)
    prior = embed(posterior.kernel, q).double_gradient()
    explained = integral_gradient(mirrored, q)
    return type(prior)._make(a - 2 * b for a, b in zip(prior, explained, strict=True))
