"""The expectation of a Gaussian process under a measure q: its value, its variance, their gradients in q.

For f ~ GP(m, k) given observations, with z_q the kernel mean and C the double integral of the kernel,

    E    = q[m] + z_q^T w,              w = K^-1 (y - m)
    var  = C(q, q) - z_q^T K^-1 z_q
    dE   = d q[m] + w^T dz_q,           dvar = 2 C(dq, q) - 2 (K^-1 z_q)^T dz_q

where d is the derivative in a parameter of q: for a Gaussian in its mean and covariance, for a mixture
also in its weights. Values and derivatives of f may have been observed. For a squared exponential kernel and
Gaussians or mixtures of them E and dE are those of a `KernelSum`, and under a Gaussian N(m, Sigma)

    dC/dSigma = -C (Lambda + 2 Sigma)^-1,        dC/dm = 0.

Other derivatives are those of :mod:`gp.embeddings`, by automatic differentiation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gp.arrays import Array, as_like, namespace
from gp.embeddings.embed import embed, gradient_in_parameters, in_kind_of, weighted_components
from gp.expectation.kernel_sum import KernelSum, Quadratic
from gp.integrals import Integrals, without_rounding
from gp.kernels import Constant, Linear, QuadraticTrend, SquaredExponential, Sum
from gp.means import Zero
from gp.measures import Gaussian, GaussianMixture, GaussianParameters, Measure
from gp.observations import Gradients, Values, covariance, pieces, require_same_space

if TYPE_CHECKING:
    from gp.regression.posterior import Posterior


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
    uncertainty = lambda: _uncertainty(posterior, q)  # noqa: E731
    if mean is None or type(q) not in (Gaussian, GaussianMixture) or type(q.mean) is not np.ndarray:
        return Expectation(posterior.integral(q).mean, mean_gradient(posterior, q), uncertainty)
    at = Integrals((in_kind_of(q, posterior.x),))
    require_same_space("q", at, "the observations' x", posterior.observations)
    if isinstance(q, GaussianMixture):
        return Expectation(*mean.integrate_mixture(q), uncertainty)
    part = mean.integrate(q.mean, q.covariance)
    return Expectation(part.value, GaussianParameters(part.mean, part.covariance), uncertainty)


def _uncertainty(posterior: Posterior, q: Measure) -> tuple[Array, Any]:
    """Return the variance of E_q[f], f of a ``posterior``, and its gradient in the parameters of q.

    That of z_q^T K^-1 z_q is twice the gradient of a posterior mean with the weights K^-1 z_q.
    """
    kernel, at = posterior.kernel, Integrals((in_kind_of(q, posterior.x),))
    whitened = posterior.factor.solve(covariance(kernel, posterior.observations, at))
    double = covariance(kernel, at, at)
    variance = without_rounding(double - whitened.T @ whitened, double, posterior)[0, 0]
    mirrored = replace(posterior, mean_function=Zero(), whitened=whitened[:, 0])
    explained = expectation(mirrored, q).gradient
    if type(kernel) is SquaredExponential and type(q) is Gaussian and type(q.mean) is np.ndarray:
        total = 2.0 * q.covariance + np.diag(kernel.lengthscale**2 * np.ones(q.dimension))
        prior = GaussianParameters(0.0 * q.mean, -double * np.linalg.inv(total))
    else:
        prior = gradient_in_parameters(lambda p: embed(kernel, p).double(), q)
    return variance, type(prior)._make(a - 2 * b for a, b in zip(prior, explained, strict=True))


def kernel_sum(posterior: Posterior) -> KernelSum | None:
    """Return the posterior mean as a sum of squared exponentials; ``None`` where it is not one.

    It is one for NumPy arrays in double precision, given values and derivatives, with a squared exponential,
    or its sum with constant, linear and quadratic kernels.
    """
    kernel, observed = posterior.kernel, posterior.observations
    terms = kernel.terms if isinstance(kernel, Sum) else (kernel,)
    bumps = [term for term in terms if type(term) is SquaredExponential]
    others = [term for term in terms if type(term) is not SquaredExponential]
    polynomial = all(isinstance(term, Constant | Linear | QuadraticTrend) for term in others)
    if len(bumps) != 1 or not polynomial or type(posterior.x) is not np.ndarray:
        return None
    if posterior.x.dtype != np.float64 or not all(type(b) in (Values, Gradients) for b in observed.blocks):
        return None
    points = np.concatenate([block.x for block in observed.blocks])
    values, slopes, at = np.zeros(len(points)), np.zeros(points.shape), 0
    for block, part in pieces(observed):
        rows, weights = slice(at, at + len(block.x)), posterior.weights[part]
        at += len(block.x)
        if isinstance(block, Gradients):
            slopes[rows] = block.spread(weights)
        else:
            values[rows] = weights
    kinds = {type(block) for block in observed.blocks}
    weights = values if Values in kinds else None, slopes if Gradients in kinds else None
    trend = Quadratic.of_mean(posterior.mean_function, points.shape[1])
    for term in others:
        trend = trend + Quadratic.of_kernel(term, points, *weights)
    lengthscale = np.asarray(bumps[0].lengthscale, dtype=float)
    return KernelSum(points, lengthscale, float(bumps[0].variance), trend, *weights)


def mean_gradient(posterior: Posterior, q: Measure) -> Any:
    """Return the gradient of the ``posterior`` mean of q[f] in the parameters of q, a named tuple; by torch.

    Weights of a mixture are free: their sum is not held at one. Raises TypeError where something else than
    values and derivatives was observed.
    """

    def mean(p: Measure) -> Array:
        prior, at, like = posterior.mean_function, Integrals((p,)), p.parameters()[0]
        parts = weighted_components(p) or ((1.0, p),)
        total = sum(weight * prior.expectation(part.mean, part.covariance) for weight, part in parts)
        for block, part in pieces(posterior.observations):
            if not isinstance(block, Values | Gradients):
                raise TypeError(f"no gradient through observations of {type(block).__name__}")
            cross = covariance(posterior.kernel, replace(block, x=as_like(block.x, like)), at)
            total = total + cross[:, 0] @ as_like(posterior.weights[part], like)
        return total

    return gradient_in_parameters(mean, in_kind_of(q, posterior.x))
