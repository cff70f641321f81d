"""The importance-weighted bound's gradient from a Gaussian process on the log joint, as a plug-in estimate.

It is an estimator of `bqvi.fit` like any other (``method=ImportanceQuadrature()``).

The bound L_L = E ln (1/L) sum_l w_l is not linear in f = ln p(X, theta), so its integral under a process on f
has no closed form. The plug-in estimate replaces f by the posterior mean of a process given n evaluations,
and draws from q without further evaluations. With phi(u) = ln w in units whitened by q, up to a constant that
cancels in the normalised weights v, the doubly reparameterised gradient (Tucker et al. 2018) is

    g_delta = E[sum_l v_l^2 grad phi(u_l)],      g_Delta = E[sum_l v_l^2 grad phi(u_l) u_l^T]

over groups of L draws of N(0, I). IWAE's gradient has the same mean, so this is an estimate of both.

In some cases the estimate is worse than that from draws: weights are exponentials of phi, so an error of a
nat in the tails, which has little effect on the ELBO's gradient, changes the weights by a factor. Where the
process extrapolates badly for the number of nodes, as in heavy tails, DReG with as many evaluations is
better; `bqvi run bq-importance` measures the difference.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np

from bqvi.arguments import AtLeast, Checked, Such
from bqvi.families import GaussianMixture
from bqvi.families.family import Distribution
from bqvi.gradients.bayesian_quadrature import BayesianQuadrature
from bqvi.gradients.gradient import Batch, Gradient
from bqvi.gradients.surrogates import FunctionSurrogate
from bqvi.gradients.whitened import WhitenedFrame, WhitenedMoments
from bqvi.models.log_joint import LogJointModel
from gp.expectation import KernelSum

_QUADRATURE = Such(lambda given: isinstance(given, BayesianQuadrature), "a BayesianQuadrature")


@dataclass(frozen=True)
class ImportanceQuadrature(Checked):
    """The natural gradient of L_L for a Gaussian q, with the bias of its process.

    Parameters
    ----------
    samples : L >= 1; at 1 this is the ELBO
    quadrature : the process, its nodes and memory; a process of derivatives or of values, and not the
        separable one, whose predictions are not the gradient of a function
    groups : >= 1, the number of groups of L draws
    """

    samples: Annotated[int, AtLeast(1)] = 10
    quadrature: Annotated[BayesianQuadrature, _QUADRATURE] = field(
        default_factory=lambda: BayesianQuadrature(nodes=20, memory=0, process="derivative")
    )
    groups: Annotated[int, AtLeast(1)] = 500

    gives_surrogate = False
    """False: its process is that of the ELBO, and a trust region would maximise the ELBO, not this bound."""

    def start(self, model: LogJointModel, q: Distribution) -> Any:
        """The memory of the process before a run of ``model`` from ``q``."""
        _require_one_gaussian(q)
        return self.quadrature.start(model, q)

    def __call__(
        self,
        model: LogJointModel,
        q: Distribution,
        batch: Batch,
        rng: np.random.Generator,
        memory: Any = None,
    ) -> Gradient:
        """The natural gradient at q.

        Raises
        ------
        TypeError
            The quadrature's process is separable, or q a mixture.
        """
        _require_one_gaussian(q)
        found = self.quadrature(model, q, batch, rng, memory)
        if found.surrogate is None:  # all evaluations have failed
            return found
        if not isinstance(found.surrogate, FunctionSurrogate):
            raise TypeError(
                "quadrature has a separable process, which is no model of ln w; use process='derivative', or "
                "a log joint with values only"
            )
        process = found.surrogate
        frame = WhitenedFrame.of(q)
        noise = rng.standard_normal((self.groups, self.samples, len(frame.mean)))
        values = frame.natural_gradient(_moments(process.given.posterior_mean, noise))
        # The surrogate is left out: its moments are those of the ELBO, and a geometry that uses them would
        # ascend the ELBO and not this bound.
        return replace(found, values=values, surrogate=None, covariance=None)


def _require_one_gaussian(q: Distribution) -> None:
    if isinstance(q, GaussianMixture):
        raise TypeError(
            "q is a GaussianMixture; ImportanceQuadrature draws its groups in the units of one Gaussian, and "
            "its gradient is a natural one, which a mixture has not. Start from one Gaussian"
        )


def _moments(phi: KernelSum, noise: np.ndarray) -> WhitenedMoments:
    """(g_delta, g_Delta) from groups of noise (G, L, D); symmetric: L_L does not change when u is rotated."""
    points = noise.reshape(-1, noise.shape[2])
    log_weights = phi(points).reshape(noise.shape[:2])
    weights = np.exp(log_weights - log_weights.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    terms = np.square(weights).reshape(-1, 1) * phi.gradient(points)
    crossed = terms.T @ points / len(noise)
    return WhitenedMoments(terms.sum(0) / len(noise), 0.5 * (crossed + crossed.T))
