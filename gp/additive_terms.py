"""The terms of a sum of kernels, and the contribution of each to a posterior.

With a kernel k = k_1 + ... + k_T, f = m + f_1 + ... + f_T is a sum of independent functions, and the
covariance of f_t with the observations is that of k_t alone (Duvenaud 2014, "Automatic model construction
with Gaussian processes", section 2.4.5; thesis Eqs 7.7 and 7.8 with k_t in the place of k_*):

    mean        k_t* w,                    w = K^-1 (y - m)
    covariance  k_t** - V_t^T V_t,         V_t = C^-1 k_t*^T,   K = C C^T.

The means of the terms and the prior mean add up to the posterior mean; their variances do not, as the terms
are correlated given the data.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gp.kernels.composite import Sum
from gp.marginal import MarginalPosterior
from gp.means import Zero
from gp.posterior import Posterior


def components(posterior: Posterior | MarginalPosterior) -> tuple[Any, ...]:
    """Return the terms of the posterior's kernel in their order; one, if it is not a sum.

    Each is a posterior whose mean, covariances, draws and integrals are those of the term; ``kernel`` is its
    kernel. The observations, their evidence and their residuals are those of the sum. Of a mixture over
    hyperparameters each is such a mixture.
    """
    if isinstance(posterior, MarginalPosterior):
        terms_of_each = zip(*map(components, posterior.posteriors), strict=True)
        return tuple(replace(posterior, posteriors=terms) for terms in terms_of_each)
    kernel = posterior.kernel
    terms = kernel.terms if isinstance(kernel, Sum) else (kernel,)
    return tuple(replace(posterior, kernel=term, mean_function=Zero()) for term in terms)
