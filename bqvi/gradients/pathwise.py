"""Pathwise estimator, the reparameterisation trick (thesis Section 5.2, Eqs 5.6 and 5.15).

theta = g(u, noise), so dL/du = E[d (f(theta) - ln q(theta)) / du] under the sign. Three treatments of
the entropy, all unbiased:

    sampled               differentiate -ln q_u(g(u, noise)) through the path and through u
    analytic              dH/du in closed form
    sticking-the-landing  through the path only (Roeder et al. 2017): drops the score, which has mean
                          zero; the variance vanishes as q approaches the posterior
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bqvi.checks import require_integer, require_one_of
from bqvi.gradients.black_box import (
    cost,
    differentiable,
    log_joint_function,
    reference_tensor,
    torch_posterior,
)
from bqvi.gradients.gradient import Batch, Gradient

ENTROPIES = ("sampled", "analytic", "sticking-the-landing")


@dataclass(frozen=True)
class Pathwise:
    """Reparameterised draws.

    Parameters
    ----------
    samples : L >= 1
    entropy : 'sampled', 'analytic' or 'sticking-the-landing'
    """

    samples: int = 1
    entropy: str = "analytic"

    def __post_init__(self) -> None:
        require_integer("samples", self.samples, 1)
        require_one_of("entropy", self.entropy, ENTROPIES)

    def __call__(self, model: Any, q: Any, batch: Batch, rng: np.random.Generator) -> Gradient:
        """dL/du at q."""
        posterior = torch_posterior(q, reference_tensor(model, batch.rows))
        theta = posterior.q.rsample(self.samples, rng)
        objective = differentiable(log_joint_function(model, q, batch)(theta)).mean()
        if self.entropy == "analytic":
            objective = objective + posterior.q.entropy
        else:
            measured = posterior.q if self.entropy == "sampled" else posterior.stopped
            objective = objective - measured.log_prob(theta).mean()
        values = posterior.gradient(objective)
        evaluations = cost(model, batch, self.samples)
        return Gradient(values, False, evaluations, self.samples, float(objective.detach()))
