"""The importance-weighted bound's gradient by Bayesian quadrature of the log joint, as a plug-in.

The bound L_L = E ln (1/L) sum_l w_l is not linear in f = ln p(X, theta), so no process on f integrates it in
closed form. What is possible: a process given n evaluations, its posterior mean in the place of f, and
then Monte Carlo that costs no evaluation. With psi(u) = ln w up to a constant, in units whitened by q (the
normalised weights v do not see it), the doubly reparameterised gradient (Tucker et al. 2018) is

    g_delta = E[sum_l v_l^2 grad psi(u_l)],      g_Delta = E[sum_l v_l^2 grad psi(u_l) u_l^T]

over groups of L draws of N(0, I); IWAE's gradient has the same mean, so one form serves both bounds' names.

When it hurts: weights are exponentials of psi, so an error of a nat in the tails, which the ELBO's gradient
averages away, decides the weights. Where the process extrapolates badly for the number of nodes (heavy
tails, funnels: the schools' models in D = 10 with n = 20), plain DReG with the same evaluations is better;
`experiments/bq_importance.py` shows by how much.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bqvi.checks import require_integer
from bqvi.gradients.bayesian_quadrature import BayesianQuadrature
from bqvi.gradients.gradient import Batch, Gradient
from bqvi.gradients.gradient_process import GradientProcess
from bqvi.gradients.whitened import Frame, Moments
from bqvi.quadrature.kernel_sums import KernelSum


@dataclass(frozen=True)
class ImportanceQuadrature:
    """The natural gradient of L_L for a Gaussian q; biased as its process is.

    Parameters
    ----------
    samples : L >= 1; at 1 this is the ELBO
    quadrature : the process, its nodes and memory; of derivatives or of values, not separable: a separable
        process predicts gradients of no function
    groups : of L draws from the process, >= 1
    """

    samples: int = 10
    quadrature: BayesianQuadrature = field(
        default_factory=lambda: BayesianQuadrature(nodes=20, memory=0, process="derivative")
    )
    groups: int = 500

    gives_surrogate = False
    """Its process is the ELBO's: no trust region may climb that."""

    def __post_init__(self) -> None:
        require_integer("samples", self.samples, 1)
        require_integer("groups", self.groups, 1)
        if not isinstance(self.quadrature, BayesianQuadrature):
            raise TypeError(f"quadrature is {self.quadrature!r}; it must be a BayesianQuadrature")

    def start(self, model: Any, q: Any) -> Any:
        """The memory of the quadrature."""
        return self.quadrature.start(model, q)

    def __call__(
        self, model: Any, q: Any, batch: Batch, rng: np.random.Generator, memory: Any = None
    ) -> Gradient:
        """The natural gradient at q.

        Raises
        ------
        TypeError
            The quadrature's process is separable.
        """
        found = self.quadrature(model, q, batch, rng, memory)
        if found.surrogate is None:  # every point was a fault
            return found
        if isinstance(found.surrogate, GradientProcess):
            raise TypeError(
                "quadrature has a separable process, which is no model of ln w; use process='derivative', or "
                "a log joint with values only"
            )
        process: Any = found.surrogate
        moments = weighted_moments(process.posterior_mean, len(Frame.of(q).mean), self, rng)
        # the surrogate's own moments are the ELBO's: a geometry that asks for them would climb that
        return replace(found, values=Frame.of(q).natural_gradient(moments), surrogate=None)


def weighted_moments(
    psi: KernelSum, dimension: int, settings: ImportanceQuadrature, rng: np.random.Generator
) -> Moments:
    """(g_delta, g_Delta) as moments, symmetric: L_L does not change when u is rotated."""
    noise = rng.standard_normal((settings.groups * settings.samples, dimension))
    log_weights = psi(noise).reshape(settings.groups, settings.samples)
    weights = np.exp(log_weights - log_weights.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    slopes = np.square(weights).reshape(-1, 1) * psi.gradient(noise)
    crossed = slopes.T @ noise / settings.groups
    return Moments(slopes.sum(0) / settings.groups, 0.5 * (crossed + crossed.T))
