"""Score-function estimator, also REINFORCE (thesis Section 5.1, Eqs 5.3 and 5.11).

    dL/du = E_q[(f(theta) - ln q(theta)) d ln q(theta)/du],

since the score has mean zero. For the same reason any baseline b_l that does not depend on draw l
may be taken off: here the mean of the other L - 1 draws (leave-one-out), which keeps the estimate
unbiased. With the analytic entropy, -ln q leaves the bracket and dH/du is added (Eq. 5.11).
Needs values of f only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from bqvi.checks import require_integer, require_one_of
from bqvi.gradients.black_box import (
    cost,
    detached,
    log_joint_function,
    reference_tensor,
    torch_posterior,
)
from bqvi.gradients.gradient import Batch, Gradient


@dataclass(frozen=True)
class Score:
    """Score function with a leave-one-out baseline.

    Parameters
    ----------
    samples : L; at least 2 with the baseline
    baseline : whether to take off the mean of the other draws
    entropy : 'sampled' or 'analytic'
    """

    samples: int = 10
    baseline: bool = True
    entropy: str = "sampled"

    def __post_init__(self) -> None:
        require_integer("samples", self.samples, 2 if self.baseline else 1)
        require_one_of("entropy", self.entropy, ("sampled", "analytic"))

    def __call__(self, model: Any, q: Any, batch: Batch, rng: np.random.Generator) -> Gradient:
        """dL/du at q."""
        posterior = torch_posterior(q, reference_tensor(model, batch.rows))
        with torch.no_grad():
            theta = detached(posterior.q.sample(self.samples, rng))
            reward = log_joint_function(model, q, batch)(theta)
        log_q = posterior.q.log_prob(theta)
        if self.entropy == "sampled":
            reward = reward - log_q.detach()
        advantage = _less_others(reward) if self.baseline else reward
        objective = (advantage * log_q).mean()
        bound = float(reward.mean())
        if self.entropy == "analytic":
            entropy = posterior.q.entropy
            objective, bound = objective + entropy, bound + float(entropy.detach())
        values = posterior.gradient(objective)
        evaluations = cost(model, batch, self.samples)
        return Gradient(values, False, evaluations, self.samples, bound)


def _less_others(reward: torch.Tensor) -> torch.Tensor:
    """r_l - mean of r_j, j != l."""
    n = len(reward)
    return (reward - reward.mean()) * (n / (n - 1))
