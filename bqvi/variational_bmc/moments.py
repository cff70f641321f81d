"""Mean and covariance of the posterior, with those of q as a control variate, and their Monte Carlo error.

The moments from weighted draws alone would differ between two samples of one posterior by a symmetric KL
divergence of about D^2 / (2 M), a lower limit for any threshold of convergence. The moments of q have closed
forms, and its weights on the same draws are known. With w_s the weights of the posterior and c_s those of q,
both normalised,

    E[h] = beta E_q[h] + sum_s (w_s - beta c_s) h(u_s),     beta = sum_s w_s c_s / sum_s c_s^2,

has no error where q is the posterior. In other cases its error is known: in units z in which the posterior is
N(0, I), the moments of two independent samples differ, to second order, by the divergence

    sum_s a_s^2 (|z_s|^4 + D) / 2,     a_s = w_s - beta c_s,

which is D (D + 3) / (2 M) for M plain draws. It is an upper bound, as the draws are from a Sobol set.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.variational_bmc.correction import Correction
from bqvi.variational_bmc.settings import WEIGHTS
from bqvi.variational_bmc.variational import DiagonalMixture
from gp.triangular import cholesky, solve_lower

__all__ = ["PosteriorMoments", "moments_of"]


@dataclass(frozen=True, eq=False)
class PosteriorMoments:
    """The moments of the posterior, in the frame.

    Attributes
    ----------
    mean : the mean (D,). covariance : the covariance (D, D).
    floor : the divergence between two samples of the same posterior, nats.
    """

    mean: np.ndarray
    covariance: np.ndarray
    floor: float


def moments_of(found: Correction, q: DiagonalMixture) -> PosteriorMoments:
    """The moments by the weighted draws ``found`` of the mixture q, or of q if few draws carry weight."""
    of_q = np.exp(found.log_q - found.log_proposal)
    of_q = of_q / of_q.sum()
    blend = min(1.0, found.effective_sample_size / WEIGHTS.blended)
    weights = blend * found.weights + (1.0 - blend) * of_q
    weights = weights / weights.sum()
    beta = float(weights @ of_q) / float(of_q @ of_q)
    for share in (beta, 0.0):
        try:
            return _controlled(found.u, weights - share * of_q, share, q)
        # the difference of two weighted covariance matrices need not be positive definite
        except np.linalg.LinAlgError:
            continue
    raise np.linalg.LinAlgError("the draws have no covariance")


def _controlled(u: np.ndarray, rest: np.ndarray, share: float, q: DiagonalMixture) -> PosteriorMoments:
    """The moments from q with weight ``share`` and draws u (M, D) with the weights ``rest`` (M,)."""
    mean = share * q.mean + rest @ u
    centred, offset = u - mean, q.mean - mean
    covariance = share * (q.covariance + np.outer(offset, offset)) + (centred.T * rest) @ centred
    squares = np.square(solve_lower(cholesky(covariance), centred.T)).sum(0)
    return PosteriorMoments(mean, covariance, 0.5 * float(rest**2 @ (squares**2 + u.shape[1])))
