"""Pathwise estimator, the reparameterisation trick (thesis Section 5.2, Eqs 5.6 and 5.15).

theta = g(u, noise), so dL/du = E[d (f(theta) - ln q(theta)) / du]. Three treatments of the entropy, all
unbiased:

    sampled               differentiate -ln q_u(g(u, noise)) through the path and through u
    analytic              dH/du in closed form
    sticking-the-landing  through the path only (Roeder et al. 2017): drops the score, which has mean
                          zero; the variance vanishes as q approaches the posterior

The noise may be a design instead of independent draws (scrambled Sobol, antithetic-orthogonal), with which
the mean is unbiased and has a smaller variance for smooth integrands. Its points are dependent: standard
errors are from R independent randomisations (Owen 1997; L'Ecuyer and Lemieux 2000), designs of L / R points
each, with R - 1 degrees of freedom (a 95 % interval at R = 4 is +- 3.2 of it). R small designs average smooth
integrands less well than one large one; antithetic-orthogonal frames lose nothing at L = 2 D R.

The index of a draw's component of a mixture is not differentiable in the weights, but an expectation is
linear in them, E_q = sum_k w_k E_k, so L draws are taken in *every* component: the derivative in w_k is the
mean value in component k (Roeder, Wu and Duvenaud 2017 on mixtures, here with weights that are optimised
too). The treatments of the entropy are then

    sticking-the-landing   ln q(theta) with its parameters held, while w_k and theta move; the score that is
                           dropped has mean zero under the whole of q, not within a component. Where q is the
                           posterior, f - ln q is constant and sum_k dw_k = 0: the variance is zero
    analytic               a mixture's entropy has no closed form: 128 antithetic pairs in each component of q
                           alone, which cost no evaluation of f
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypeGuard

import numpy as np
import torch

from bqvi.arguments import AtLeast, Checked, Such, one_of
from bqvi.arrays import add
from bqvi.families import DiagonalGaussian, Gaussian, GaussianMixture
from bqvi.families.family import Distribution
from bqvi.gradients.amortised import LocalBound, local_gradient, pathwise_terms, require_plain
from bqvi.gradients.black_box import (
    TorchPosterior,
    by_strategy,
    cost,
    differentiable,
    log_joint_with_terms,
    reference_tensor,
    require_still,
    torch_posterior,
)
from bqvi.gradients.designs import AntitheticOrthogonal, Independent, NodeRule, Sobol
from bqvi.gradients.evaluations import evaluate_at_draws, is_as_stated
from bqvi.gradients.gradient import Batch, Gradient
from bqvi.gradients.settings import DESIGN
from bqvi.gradients.standard_errors import of_mean, with_sampling
from bqvi.models.contracts import AmortisedModel, is_amortised
from bqvi.models.log_joint import LogJoint
from gp.checks import require_integer

_ENTROPIES = ("sampled", "analytic", "sticking-the-landing")
_NOISE = Such(
    lambda given: isinstance(given, Independent | Sobol | AntitheticOrthogonal),
    "None, Sobol() or AntitheticOrthogonal() of bqvi.gradients.designs: other designs' points are not "
    "distributed as q",
)


@dataclass(frozen=True)
class Pathwise(Checked):
    """Reparameterised draws.

    Parameters
    ----------
    samples : L >= 1; for a mixture of Gaussians, in each of its components
    entropy : 'sampled', 'analytic' or 'sticking-the-landing'
    noise : a design of `designs` whose points are N(0, I) each (`Sobol`, `AntitheticOrthogonal`), for a
        Gaussian q or a mixture's components; None for independent draws
    errors : whether to return standard errors, by L backward passes at once, for L >= 2 draws; with a design
        by R passes, where the L points are drawn as R designs. There are none where the mini-batch strategy
        sums per-datum gradients itself
    randomisations : R >= 2, for a design with errors; L is a multiple of R, and of 2 R for
        `AntitheticOrthogonal`
    """

    samples: int = 1
    entropy: Annotated[str, one_of(_ENTROPIES)] = "analytic"
    noise: Annotated[NodeRule | None, _NOISE] = None
    errors: bool = False
    randomisations: Annotated[int, AtLeast(2)] = 4

    needs_gradients = True
    """Log joints of values only are refused."""
    per_datum = True
    """Gradients are available for each datum."""
    mixtures = True
    """q may be a mixture of Gaussians."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_integer("samples", self.samples, 2 if self.errors else 1)
        if self.errors and self._designed:
            unit = self.randomisations * (2 if isinstance(self.noise, AntitheticOrthogonal) else 1)
            if self.samples % unit:
                raise ValueError(
                    f"samples = {self.samples} with errors=True and noise {self.noise!r}; it must be a "
                    f"multiple of {unit}, so that randomisations = {self.randomisations} are alike"
                )

    @property
    def _designed(self) -> bool:
        """Whether draws depend on one another."""
        return not (self.noise is None or isinstance(self.noise, Independent))

    def __call__(self, model: Any, q: Any, batch: Batch, rng: np.random.Generator) -> Gradient:
        if is_amortised(model):
            return local_gradient(model, q, batch, rng, self.samples, self.local_bound(model))
        if is_as_stated(model) and _is_gaussian(q) and isinstance(q.mean, np.ndarray):
            return self._in_closed_form(model, q, batch, rng)
        mixture = isinstance(q, GaussianMixture)
        if mixture:
            require_still(model)
        posterior = torch_posterior(q, reference_tensor(model, batch.rows))
        theta = self._draw(posterior.q, rng)
        terms, of_data = log_joint_with_terms(model, q, batch)(theta)
        terms = differentiable(terms)
        if self.entropy != "analytic":
            measured = posterior.q if self.entropy == "sampled" else posterior.stopped
            terms = terms - measured.log_prob(theta)
        draws = len(terms)
        if mixture:  # the sums over components
            strata = (self.samples, q.n_components, -1)
            terms = (posterior.q.weights @ terms.reshape(strata))[:, 0]
            of_data = None if of_data is None else posterior.q.weights @ of_data.reshape(strata)
        objective, entropy = terms.mean(), None
        if self.entropy == "analytic":
            entropy = _entropy_terms(posterior, rng) if mixture else posterior.q.entropy
            objective = objective + entropy.mean()
        errors, of_rows = None, None if batch.combination is None else of_data
        if self.errors and of_rows is None:
            independent = self.independent(terms)
            errors = of_mean(posterior.each(independent))
            if mixture and entropy is not None:
                errors = tuple(map(np.hypot, errors, of_mean(posterior.each(entropy))))
            rows = None if of_data is None else self.independent(of_data)
            each = None if rows is None else lambda some: posterior.each(rows[some].mean(0))
            errors = with_sampling(errors, each, len(independent), batch)
        data = None if of_rows is None else posterior.each(of_rows.mean(0))
        values = posterior.gradient(objective)
        return Gradient(
            values if data is None else by_strategy(values, data, batch),
            natural=False,
            n_evaluations=cost(model, batch, draws),
            samples=draws,
            bound=float(objective.detach()),
            standard_error=errors,
        )

    def _in_closed_form(
        self, model: LogJoint, q: Gaussian | DiagonalGaussian, batch: Batch, rng: np.random.Generator
    ) -> Gradient:
        """The gradient for a function that its user gave, whose values and gradients are no part of a graph.

        With theta = m + L xi the log density -|xi|^2 / 2 - ln|L| + constant changes with u as the entropy
        does, draw by draw: gradients of the sampled and of the analytic entropy are the same.
        """
        noise = self.drawn_noise(self.noise or Independent(), q.dimension, rng)
        theta = q.from_noise(noise)
        made = evaluate_at_draws(model, batch, theta, gradients=True)
        slopes, value = np.asarray(made.gradients), float(made.values.mean())
        if self.entropy == "sticking-the-landing":
            slopes = slopes - q.log_prob_slopes(noise)
        gradient, errors = q.path_gradient(noise, slopes), None
        if self.errors:
            means = (self.randomisations if self._designed else self.samples, -1, q.dimension)
            errors = of_mean(q.path_gradient(noise.reshape(means), slopes.reshape(means)))
        if self.entropy != "sticking-the-landing":
            gradient = add(gradient, q.entropy_gradient)
        entropy = q.entropy if self.entropy == "analytic" else -q.log_prob(theta).mean()
        spent = cost(model, batch, self.samples)
        return Gradient(gradient, False, spent, self.samples, value + float(entropy), standard_error=errors)

    def local_bound(self, model: AmortisedModel) -> LocalBound:
        """The terms of a datum, where an encoder of ``model`` gives q(z | x)."""
        require_plain(self, noise=self.noise, errors=self.errors)
        return partial(pathwise_terms, entropy=self.entropy)

    def independent(self, terms: Any) -> Any:
        """Independent means of the terms (L, ...): the terms themselves, or (R, ...) means for a design."""
        if not self._designed:
            return terms
        return terms.reshape(self.randomisations, len(terms) // self.randomisations, *terms.shape[1:]).mean(1)

    def drawn_noise(self, design: NodeRule, dimension: int, rng: np.random.Generator) -> np.ndarray:
        """Standard normal points (L, D) of a design, D being ``dimension``, with random numbers from ``rng``.

        For standard errors they are those of R designs one after the other.
        """
        if not (self.errors and self._designed):
            return design.nodes(self.samples, dimension, rng)
        each = self.samples // self.randomisations
        return np.concatenate([design.nodes(each, dimension, rng) for _ in range(self.randomisations)])

    def _draw(self, q: Distribution, rng: np.random.Generator) -> Any:
        """Draws (L, ...); of a mixture of K components (L K, D), the draws of one design after the other."""
        if isinstance(q, GaussianMixture):
            if self.noise is None:
                noise = rng.standard_normal((self.samples, *q.means.shape))
            else:
                each = [self.drawn_noise(self.noise, q.dimension, rng) for _ in range(q.n_components)]
                noise = np.stack(each, 1)
            return q.strata(noise).reshape(-1, q.dimension)
        if self.noise is None:
            return q.rsample(self.samples, rng)
        if not _is_gaussian(q):
            raise TypeError(f"q is a {type(q).__name__}; a noise design needs one Gaussian over R^D")
        return q.from_noise(self.drawn_noise(self.noise, q.dimension, rng))


def _is_gaussian(q: object) -> TypeGuard[Gaussian | DiagonalGaussian]:
    """Whether q is one Gaussian over R^D."""
    return isinstance(q, Gaussian | DiagonalGaussian) and q.mean.ndim == 1


def _entropy_terms(posterior: TorchPosterior, rng: np.random.Generator) -> torch.Tensor:
    """Independent estimates of a mixture's -E[ln q], (n,), whose gradients in u are those of the entropy.

    Each estimate is from an antithetic pair in every component; the score of ln q, of mean zero, is left out.
    """
    q: GaussianMixture = posterior.q
    half = rng.standard_normal((DESIGN.entropy_pairs, *q.means.shape))
    logs: torch.Tensor = posterior.stopped.log_prob(q.strata(np.concatenate([half, -half]))) @ q.weights
    return -0.5 * logs.reshape(2, -1).sum(0)
