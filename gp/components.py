"""The terms of a sum of kernels, and the contribution of each to a posterior.

With a kernel k = k_1 + ... + k_T, f = m + f_1 + ... + f_T is a sum of independent functions, and the
covariance of f_t with the observations is that of k_t alone (Duvenaud 2014, "Automatic model construction
with Gaussian processes", section 2.4.5; thesis Eqs 7.7 and 7.8 with k_t in the place of k_*):

    mean        k_t* w,                    w = K^-1 (y - m)
    covariance  k_t** - V_t^T V_t,         V_t = C^-1 k_t*^T,   K = C C^T.

The means of the terms and the prior mean add up to the posterior mean. Their variances do not add
up, as the terms are correlated given the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gp.arrays import Array, is_torch, namespace
from gp.kernels.base import Kernel
from gp.kernels.composite import Sum
from gp.observations import Functional, as_functional, covariance
from gp.posterior import Posterior


@dataclass(frozen=True, eq=False)
class Component:
    """One term of a posterior; made by :func:`components`.

    Attributes
    ----------
    posterior : that of the sum. kernel : the kernel of this term.
    """

    posterior: Posterior
    kernel: Kernel

    def mean(self, x: Array | Functional) -> Array:
        """Return the term's mean at points x (m, D), or of other functionals: (m,)."""
        return self._cross(as_functional(x)) @ self.posterior.weights

    def mean_and_variance(self, x: Array | Functional) -> tuple[Array, Array]:
        """Return the term's mean and variance (never negative) at points x (m, D), (m,) and (m,)."""
        at = as_functional(x)
        cross = self._cross(at)
        whitened = self.posterior.factor.solve(cross.T)
        explained = (whitened**2).sum(0) if is_torch(whitened) else np.einsum("ij,ij->j", whitened, whitened)
        variance = namespace(whitened).clip(at.variance(self.kernel) - explained, 0.0, None)
        return cross @ self.posterior.weights, variance

    def _cross(self, at: Functional) -> Array:
        return covariance(self.kernel, at, self.posterior.observations)


def components(posterior: Posterior) -> tuple[Component, ...]:
    """Return the terms of the posterior's kernel in their order; one, if it is not a sum."""
    kernel = posterior.kernel
    terms = kernel.terms if isinstance(kernel, Sum) else (kernel,)
    return tuple(Component(posterior, term) for term in terms)
