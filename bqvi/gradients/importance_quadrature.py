"""The importance-weighted bound's gradient from a Gaussian process on the log joint, as a plug-in estimate.

The bound L_L = E ln (1/L) sum_l w_l is not linear in f = ln p(X, theta), so its integral under a process on f
has no closed form. The plug-in estimate replaces f by the posterior mean of a process given n evaluations,
and draws from q without further evaluations. With phi(u) = ln w in units whitened by q, up to a constant that
cancels in the normalised weights v, the doubly reparameterised gradient (Tucker et al. 2018) is

    g_delta = E[sum_l v_l^2 grad phi(u_l)],      g_Delta = E[sum_l v_l^2 grad phi(u_l) u_l^T]

over groups of L draws of N(0, I). IWAE's gradient has the same mean, so this is an estimate of both.

Standard errors are roots of the sums of three squares, entry by entry:

    the process' uncertainty         root mean square of g[phi_s] - g[phi] over draws phi_s of its posterior
    its nodes                        the jackknife, g[phi] - g[phi_(-i)]
    groups                           the Monte Carlo error over the groups of L draws

all on the same draws of u (`gp.conditioning.function_draws`). The delta method is not used, because g is
nonlinear in phi, which enters weights as an exponential. Not included are the uncertainty of the
hyperparameters, and tails without nodes, which have much of the weight where L is large.

In some cases the estimate is worse than that from draws: weights are exponentials of phi, so an error of a
nat in the tails, which has little effect on the ELBO's gradient, changes the weights by a factor. Where the
process extrapolates badly for the number of nodes (heavy tails, funnels: the schools' models in D = 10 with n
= 20), DReG with the same evaluations is better; `experiments/gradients/importance.py` measures the
difference. From values alone, L = 5 and n = 10 and 20, the plug-in had the smaller median error in 14 of 24
cases, although DReG uses gradients (six seeds).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bqvi.arrays import Values
from bqvi.checks import require_integer
from bqvi.families import GaussianMixture
from bqvi.families.family import Distribution
from bqvi.gradients.bayesian_quadrature import BayesianQuadrature
from bqvi.gradients.function_process import FunctionSurrogate
from bqvi.gradients.gradient import Batch, Gradient
from bqvi.gradients.settings import IMPORTANCE
from bqvi.gradients.standard_errors import of_mean
from bqvi.gradients.whitened import WhitenedFrame, WhitenedMoments
from bqvi.models.log_joint import LogJointModel
from gp.conditioning.function_draws import FunctionAt, drawn
from gp.conditioning.function_process import FunctionProcess

__all__ = ["ImportanceQuadrature", "moments_of", "weighted_slopes"]


@dataclass(frozen=True)
class ImportanceQuadrature:
    """The natural gradient of L_L for a Gaussian q, with the bias of its process.

    Parameters
    ----------
    samples : L >= 1; at 1 this is the ELBO
    quadrature : the process, its nodes and memory; a process of derivatives or of values, and not the
        separable one, whose predictions are not the gradient of a function
    groups : >= 1, the number of groups of L draws; at least 2 with errors
    errors : whether to return standard errors; .8 s for 20 nodes in D = 10, as phi is evaluated on all groups
        for each of 32 draws and each node
    """

    samples: int = 10
    quadrature: BayesianQuadrature = field(
        default_factory=lambda: BayesianQuadrature(nodes=20, memory=0, process="derivative")
    )
    groups: int = 500
    errors: bool = False

    gives_surrogate = False
    """False: its process is that of the ELBO, and a trust region would maximise the ELBO, not this bound."""

    def __post_init__(self) -> None:
        require_integer("samples", self.samples, 1)
        require_integer("groups", self.groups, 2 if self.errors else 1)
        if not isinstance(self.quadrature, BayesianQuadrature):
            raise TypeError(f"quadrature is {self.quadrature!r}; it must be a BayesianQuadrature")

    def start(self, model: LogJointModel, q: Distribution) -> Any:
        """The memory of the quadrature for a run of ``model`` from ``q``."""
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
        terms = weighted_slopes(FunctionAt.of(process.posterior_mean, _flat(noise)), noise)
        values = frame.natural_gradient(moments_of(terms, noise))
        errors = _errors(process, frame, noise, terms, rng) if self.errors else None
        # The surrogate is left out: its moments are those of the ELBO, and a geometry that uses them would
        # ascend the ELBO and not this bound.
        return replace(found, values=values, surrogate=None, standard_error=errors, covariance=None)


def _require_one_gaussian(q: Distribution) -> None:
    if isinstance(q, GaussianMixture):
        raise TypeError(
            "q is a GaussianMixture; ImportanceQuadrature draws its groups in the units of one Gaussian, and "
            "its gradient is a natural one, which a mixture has not. Start from one Gaussian"
        )


def weighted_slopes(phi: FunctionAt, noise: np.ndarray) -> np.ndarray:
    """v_l^2 grad phi(u_l), (G, L, D), from phi at groups of draws (G, L, D)."""
    log_weights = phi.values.reshape(noise.shape[:2])
    weights = np.exp(log_weights - log_weights.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    return np.square(weights)[:, :, None] * phi.gradients.reshape(noise.shape)


def moments_of(terms: np.ndarray, noise: np.ndarray) -> WhitenedMoments:
    """(g_delta, g_Delta) as moments, symmetric: L_L does not change when u is rotated."""
    crossed = _flat(terms).T @ _flat(noise) / len(noise)
    return WhitenedMoments(_flat(terms).sum(0) / len(noise), 0.5 * (crossed + crossed.T))


def _errors(
    process: FunctionProcess,
    frame: WhitenedFrame,
    noise: np.ndarray,
    terms: np.ndarray,
    rng: np.random.Generator,
) -> Values:
    """Standard errors of the gradient; ``terms`` (G, L, D) are those of the groups."""
    points, found = _flat(noise), moments_of(terms, noise)

    def squares(functions: Iterable[FunctionAt]) -> list[Values]:
        """Squared changes of the gradient with each function; the gradient is linear in the moments."""
        others = [moments_of(weighted_slopes(phi, noise), noise) for phi in functions]
        changes = [WhitenedMoments(m.mean - found.mean, m.jacobian - found.jacobian) for m in others]
        return [tuple(np.square(part) for part in frame.natural_gradient(change)) for change in changes]

    model = squares(drawn(process, points, IMPORTANCE.draws, rng, IMPORTANCE.features))
    nodes = squares(FunctionAt.of(phi, points) for phi in process.without_each_node())
    groups = zip(terms[:, None], noise[:, None], strict=True)
    gradients = [frame.natural_gradient(moments_of(term, u)) for term, u in groups]
    sampled = of_mean(tuple(np.array(part) for part in zip(*gradients, strict=True)))
    parts = (zip(*model, strict=True), zip(*nodes, strict=True), sampled)
    return tuple(np.sqrt(np.mean(a, 0) + np.sum(b, 0) + np.square(c)) for a, b, c in zip(*parts, strict=True))


def _flat(groups: np.ndarray) -> np.ndarray:
    """(G, L, D) as (G L, D)."""
    return groups.reshape(-1, groups.shape[2])
