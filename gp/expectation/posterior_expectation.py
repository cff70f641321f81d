"""The expectation of a Gaussian process under a measure q: its value, its variance, their gradients in q.

For f ~ GP(m, k) given observations, with z_q the kernel mean and C the double integral of the kernel,

    E    = q[m] + z_q^T w,              w = K^-1 (y - m)
    var  = C(q, q) - z_q^T K^-1 z_q
    dE   = d q[m] + w^T dz_q,           dvar = 2 C(dq, q) - 2 (K^-1 z_q)^T dz_q

where d is the derivative in a parameter of q: for a Gaussian in its mean and covariance, for a mixture
also in its weights. Values and derivatives of f may have been observed. For a squared exponential kernel and
Gaussians or mixtures of them all of these are in closed form: E and dE by `KernelSum`, var and dvar under a
Gaussian by `variance_of`, and the others by :mod:`gp.embeddings`, which has other kernels and measures too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gp.arrays import Array, namespace
from gp.embeddings import embed
from gp.expectation.gradient import mean_gradient
from gp.expectation.variance import variance_of
from gp.integrals import Integrals, require_space
from gp.means import Zero
from gp.measures import Gaussian, GaussianMixture, GaussianParameters, Measure
from gp.observations import covariance

if TYPE_CHECKING:
    from gp.posterior import Posterior


@dataclass(frozen=True, eq=False)
class Expectation:
    """E_q[f] of a Gaussian process.

    Attributes
    ----------
    mean : a number, of the kind of the posterior's arrays.
    gradient : a named tuple like ``q.parameters()``, the derivatives of the mean.
    uncertainty : returns the variance and its derivatives, a tuple like ``gradient``; they take longer than
        the mean, and are computed when they are first asked for.
    """

    mean: Array
    gradient: Any
    uncertainty: Callable[[], tuple[Array, Any]]

    @cached_property
    def _variance(self) -> tuple[Array, Any]:
        return self.uncertainty()

    @property
    def variance(self) -> Array:
        """The variance, a number."""
        return self._variance[0]

    @property
    def variance_gradient(self) -> Any:
        """Derivatives of the variance, like ``gradient``."""
        return self._variance[1]

    @property
    def sd(self) -> Array:
        """The standard deviation."""
        return namespace(self.variance).sqrt(self.variance)


def expectation(posterior: Posterior, q: Measure) -> Expectation:
    """Return the expectation of f under q with its gradients.

    Parameters
    ----------
    posterior : a posterior given values or derivatives of f. q : a measure with an embedding of its kernel.

    Raises
    ------
    gp.embeddings.UnknownPairError
        where kernel and measure have no embedding.
    ValueError
        where q is a measure on another space.

    Examples
    --------
    The expectation of x^2 under N(m, s) is m^2 + s, with the derivatives 2 m and 1:

    >>> import gp
    >>> import numpy as np
    >>> x = np.linspace(-4, 4, 17)[:, None]
    >>> process = gp.GaussianProcess(gp.kernels.SquaredExponential(2.0, 100.0), noise=1e-6)
    >>> posterior = process.condition(x, x[:, 0] ** 2)
    >>> found = gp.expectation.expectation(posterior, gp.measures.Gaussian(np.ones(1), 0.25 * np.eye(1)))
    >>> print(f"{found.mean:.2f} {found.gradient.mean[0]:.2f} {found.gradient.covariance[0, 0]:.2f}")
    1.25 2.00 1.00
    """
    mean = posterior.kernel_sum
    if mean is None or type(q) not in (Gaussian, GaussianMixture) or type(q.mean) is not np.ndarray:
        found = posterior.integral(q)
        gradient = mean_gradient(posterior, q)
        return Expectation(found.mean, gradient, lambda: (found.variance, variance_gradient(posterior, q)))
    require_space(posterior, q)

    if isinstance(q, GaussianMixture):
        return Expectation(
            *mean.integrate_mixture(q),
            lambda: (posterior.integral(q).variance, variance_gradient(posterior, q)),
        )
    assert isinstance(q, Gaussian)  # the only other class
    part = mean.integrate(q.mean, q.covariance)
    gradient = GaussianParameters(part.mean, part.covariance)
    return Expectation(part.value, gradient, lambda: variance_of(posterior, mean, q))


def variance_gradient(posterior: Posterior, q: Measure) -> Any:
    """Return the gradient of the variance of E_q[f], f of a ``posterior``, in the parameters of q.

    It is the gradient of a posterior mean with the weights K^-1 z_q.
    """
    at = Integrals((q,))
    whitened = posterior.factor.solve(covariance(posterior.kernel, posterior.observations, at))[:, 0]
    mirrored = replace(posterior, mean_function=Zero(), whitened=whitened)
    prior = embed(posterior.kernel, q).double_gradient()
    explained = expectation(mirrored, q).gradient
    return type(prior)._make(a - 2 * b for a, b in zip(prior, explained, strict=True))
