"""Score-function estimator, also REINFORCE (thesis Section 5.1, Eqs 5.3 and 5.11).

    dL/du = E_q[(f(theta) - ln q(theta)) d ln q(theta)/du],

since the score has mean zero. For the same reason any baseline b_l that does not depend on draw l
may be subtracted: here the mean of the other L - 1 draws (leave-one-out), with which the estimate remains
unbiased. The optimal baseline of parameter i, with score s_i,

    b_i = E[(f - ln q) s_i^2] / E[s_i^2],

minimises the variance; its expectations too are over the other draws. With the analytic entropy,
-ln q is left out of the bracket and dH/du is added (Eq. 5.11). Only values of f are needed.

For a conjugate model with its E step inside, both f and ln q are affine in t(theta) over the same base
measure, and the score in eta is t - mu. The estimate is then a regression of linear functions,

    f - ln q = <eta* - eta, t> + constant,     F dL/dmu = Cov(t) (eta* - eta),

with the covariance over the draws in place of F, and needs no autodiff.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from bqvi.arrays import Values, add, inner, subtract
from bqvi.families import GaussianMixture
from bqvi.families.family import Distribution, ExponentialFamily
from bqvi.gradients.amortised import LocalBound, local_gradient, require_plain, score_terms
from bqvi.gradients.black_box import (
    TorchPosterior,
    cost,
    log_joint_with_terms,
    reference_tensor,
    require_still,
    torch_posterior,
)
from bqvi.gradients.gradient import Batch, Gradient, local_step
from bqvi.gradients.standard_errors import of_mean, with_sampling
from bqvi.models.contracts import AmortisedModel, ConjugateModel, is_amortised, is_conjugate, update_target
from gp.arrays import Array, to_numpy
from gp.checks import require_integer, require_one_of

_BASELINES = {"none": 1, "leave-one-out": 2, "optimal": 3}
"""The smallest number of draws for each baseline."""


@dataclass(frozen=True)
class Score:
    """Score function with a leave-one-out baseline.

    Parameters
    ----------
    samples : L; at least 2 with a baseline, 3 with the optimal one
    baseline : True or 'leave-one-out' (mean of the other draws), 'optimal', or False or 'none'
    entropy : 'sampled' or 'analytic'
    errors : whether to return standard errors, by L backward passes at once, for L >= 2; they neglect the
        dependence between draws through their baselines
    """

    samples: int = 10
    baseline: bool | str = True
    entropy: str = "sampled"
    errors: bool = False

    needs_gradients = False
    mixtures = True
    """q may be a mixture of Gaussians, with the sampled entropy."""

    def __post_init__(self) -> None:
        require_one_of("baseline", self._baseline, _BASELINES)
        require_integer("samples", self.samples, max(_BASELINES[self._baseline], 1 + self.errors))
        require_one_of("entropy", self.entropy, ("sampled", "analytic"))

    def __call__(self, model: Any, q: Any, batch: Batch, rng: np.random.Generator) -> Gradient:
        """dL/du at q; for a conjugate model dL/dmu, without torch."""
        if is_conjugate(model) and self._in_closed_form:
            return self._conjugate(model, q, batch, rng)
        if is_amortised(model):
            return local_gradient(model, q, batch, rng, self.samples, self.local_bound(model))
        self._check(model, q)
        posterior = torch_posterior(q, reference_tensor(model, batch.rows))
        with torch.no_grad():
            theta = posterior.stopped.sample(self.samples, rng)  # draws without a path to the parameters of q
            reward, of_data = log_joint_with_terms(model, q, batch)(theta)
        log_q = posterior.q.log_prob(theta)
        if self.entropy == "sampled":
            reward = reward - log_q.detach()
        bound = float(reward.mean())
        optimal = self._baseline == "optimal"
        centred = _with_optimal_baseline(posterior, reward, log_q) if optimal else None
        advantage = _less_others(reward) if self._baseline == "leave-one-out" else reward
        terms = 0.0 * log_q if optimal else advantage * log_q
        errors = None
        if self.errors:
            each = None if of_data is None else partial(_of_rows, posterior, of_data, log_q)
            errors = with_sampling(of_mean(centred or posterior.each(terms)), each, self.samples, batch)
        objective = terms.mean()
        if self.entropy == "analytic":
            entropy = posterior.q.entropy
            objective, bound = objective + entropy, bound + float(entropy.detach())
        values = posterior.gradient(objective)
        if centred is not None:
            values = add(values, tuple(each.mean(0) for each in centred))
        return Gradient(
            values,
            natural=False,
            n_evaluations=cost(model, batch, self.samples),
            samples=self.samples,
            bound=bound,
            standard_error=errors,
        )

    def local_bound(self, model: AmortisedModel) -> LocalBound:
        """The terms of a datum, where an encoder of ``model`` gives q(z | x)."""
        require_plain(self, errors=self.errors)
        if self._baseline == "optimal":
            raise ValueError(
                "baseline is 'optimal', one number for each parameter and draw, which is not made for each "
                "datum of a batch; use 'leave-one-out'"
            )
        return partial(score_terms, baseline=self._baseline != "none", entropy=self.entropy)

    def _check(self, model: Any, q: Distribution) -> None:
        if not isinstance(q, GaussianMixture):
            return
        require_still(model)
        if self.entropy == "analytic":
            raise ValueError(
                "entropy is 'analytic', but q is a GaussianMixture, whose entropy has no closed form; use "
                "'sampled'"
            )

    @property
    def _in_closed_form(self) -> bool:
        return self.entropy == "sampled" and self._baseline != "optimal" and not self.errors

    def _conjugate(
        self, model: ConjugateModel, q: ExponentialFamily, batch: Batch, rng: np.random.Generator
    ) -> Gradient:
        local = local_step(model, q, batch)
        gap = subtract(update_target(model, local), q.natural)
        statistics = q.statistics(q.sample(self.samples, rng))
        constant = local.bound - float(inner(local.statistics, q.expected_statistics))
        constant += float(q.log_normaliser.sum()) - float(model.prior.log_normaliser.sum())
        reward = constant + sum(
            t.reshape(self.samples, -1) @ g.ravel() for t, g in zip(statistics, gap, strict=True)
        )
        advantage = _less_others(reward) if self._baseline == "leave-one-out" else reward
        covariance = tuple(
            np.tensordot(advantage, t - mu, 1) / self.samples
            for t, mu in zip(statistics, q.expected_statistics, strict=True)
        )
        evaluations = cost(model, batch, self.samples)
        return Gradient(
            q.fisher_solve(covariance),
            natural=True,
            n_evaluations=evaluations,
            samples=self.samples,
            bound=float(reward.mean()),
        )

    @property
    def _baseline(self) -> str:
        if isinstance(self.baseline, bool):
            return "leave-one-out" if self.baseline else "none"
        return self.baseline


def _with_optimal_baseline(posterior: TorchPosterior, reward: torch.Tensor, log_q: torch.Tensor) -> Values:
    """(r_l - b_l) s_l, (L, ...), with a baseline for each parameter and draw from the other draws."""
    rewards = to_numpy(reward).astype(float, copy=False)
    found = []
    for s in posterior.each(log_q):  # (L, ...)
        r = rewards.reshape(-1, *[1] * (s.ndim - 1))
        squares = np.square(s)
        weighted = r * squares
        others = squares.sum(0) - squares
        # a score that is zero at all other draws gets a baseline of zero
        baseline = (weighted.sum(0) - weighted) / np.where(others > 0.0, others, 1.0)
        found.append((r - baseline) * s)
    return tuple(found)


def _less_others(reward: Array) -> Array:
    """r_l - mean of r_j, j != l, of (L, ...)."""
    n = len(reward)
    return (reward - reward.mean(0)) * (n / (n - 1))


def _of_rows(posterior: TorchPosterior, terms: Any, log_q: Any, some: slice) -> Values:
    """The gradients of the data, (S, ...), from their terms (L, S) and ln q at ``some`` of the draws."""
    advantage = to_numpy(_less_others(terms))[some].astype(float)
    parts = posterior.each(log_q[some])
    return tuple(np.tensordot(advantage, part, (0, 0)) / len(advantage) for part in parts)
