"""The information of an observation of f(x) about integrals: variance reduction, correlation, information.

Let T be J targets, linear functionals of f such as its integral against a measure, with posterior
covariance S and posterior covariances c(x) with f(x). An observation of f(x) with noise changes S
by a matrix of rank one, whatever its value:

    S  ->  S - c c^T / (v + noise).

Three criteria are one quantity, the squared length of signals R^T c relative to the predictive
variance, in three metrics R R^T:

    reduction       c^T W c / (v + noise)            expected variance, thesis Eq. 7.17, weights W
    correlation     c^T S^-1 c / (v + noise)         squared (multiple) correlation, in [0, 1]
    information     -log(1 - correlation) / 2        mutual information of f(x) + e and T, in nats

For one target they are increasing functions of each other: the node is the same.

Minimising the expected variance of the integral is due to Osborne et al. 2012 ("Active learning of
model evidence using Bayesian quadrature"); where hyperparameters are fixed the variance does
not depend on the value that will be observed, so that no expectation is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from acquisition.pointwise.criterion import Moments, Partials
from acquisition.pointwise.targets import PosteriorTargets
from gp.arrays import Array, as_like, at_most, namespace, positive, to_numpy
from gp.linalg import cholesky
from gp.linear_maps import lower_inverse
from gp.observations import Functional

_MOST_CORRELATED = 1e-12
"""The smallest 1 - correlation; smaller ones are rounding."""


class _LogReduction:
    """The logarithm of c^T W c / (v + noise), for any W."""

    logarithmic = True

    def score(self, at: Moments) -> Array:
        return namespace(at.variance).log(_reduction(at))

    def partials(self, at: Moments) -> Partials:
        return _partials_of_log(at)


@dataclass(frozen=True, eq=False)
class IntegralVarianceReduction(_LogReduction):
    """c^T W c / (v + noise): the reduction of the variance of the integral (thesis Eq. 7.17).

    Attributes
    ----------
    targets : J functionals (:class:`gp.Integrals`, ...); by default the integral against the
        measure that is bound.
    weights : (J,), non-negative, to reduce the weighted sum of the targets' variances (by default all 1); or
        R (J, r), to reduce the sum of the variances of the r combinations R^T T, such as one signed sum of
        many integrals.
    """

    targets: Functional | None = None
    weights: Array | None = None

    relative = False

    def combination(self, targets: PosteriorTargets) -> Array:
        """Return R with R R^T = W, (J, r); raises ValueError for weights that do not fit."""
        count, like = len(targets), targets.like
        if self.weights is None:
            return namespace(like).eye(count, dtype=like.dtype, device=like.device)
        host = to_numpy(self.weights).astype(float)
        if not np.all(np.isfinite(host)) or not np.any(host):
            raise ValueError(f"weights = {self.weights!r}: give finite numbers that are not all zero")
        if host.shape == (count,) and np.all(host >= 0):
            return as_like(np.diag(np.sqrt(host)), like)
        if host.ndim == 2 and host.shape[0] == count:
            return as_like(self.weights, like)
        raise ValueError(
            f"weights has shape {host.shape}, smallest entry {host.min():.3g}, and there are {count} "
            f"targets: give ({count},) that are not negative, or combinations ({count}, r)"
        )


@dataclass(frozen=True, eq=False)
class MutualInformation:
    """-log(1 - squared correlation) / 2: the information of f(x) about the targets, in nats.

    Attributes
    ----------
    targets : J functionals; by default the integral against the measure that is bound.
    """

    targets: Functional | None = None

    logarithmic = True
    relative = True

    def combination(self, targets: PosteriorTargets) -> Array:
        """Return R with R R^T = S^-1, (J, J)."""
        return _root_of_precision(targets)

    def score(self, at: Moments) -> Array:
        xp = namespace(at.variance)
        return xp.log(-0.5 * xp.log1p(-_correlation(at)))

    def partials(self, at: Moments) -> Partials:
        xp, inner = namespace(at.variance), _partials_of_log(at)
        correlation = _correlation(at)
        factor = correlation / ((correlation - 1) * xp.log1p(-correlation))
        assert inner.signals is not None  # the criterion is computed from signals
        return Partials(variance=factor * inner.variance, signals=factor[:, None] * inner.signals)


def _squared_signals(at: Moments) -> Array:
    """|s|^2, raised above zero where rounding or symmetry makes it vanish, (m,)."""
    return positive(namespace(at.signals).sum(at.signals**2, axis=1))


def _reduction(at: Moments) -> Array:
    """|s|^2 / (v + noise), (m,)."""
    return _squared_signals(at) / at.predictive_variance


def _correlation(at: Moments) -> Array:
    """|s|^2 / (v + noise) as a squared correlation, below 1 by more than rounding, (m,)."""
    reduction = positive(_reduction(at))
    xp = namespace(reduction)
    slack = max(_MOST_CORRELATED, 10 * float(xp.finfo(reduction.dtype).eps))
    return at_most(reduction, 1 - slack)


def _partials_of_log(at: Moments) -> Partials:
    return Partials(
        variance=-1 / at.predictive_variance,
        signals=2 * at.signals / _squared_signals(at)[:, None],
    )


def _root_of_precision(targets: PosteriorTargets) -> Array:
    """R = D^-1 C^-T for S = D C C^T D, where D are the targets' standard deviations."""
    covariance = targets.covariance
    xp = namespace(covariance)
    variances = xp.linalg.diagonal(covariance)
    if not bool(xp.all(variances > 0)):
        raise ValueError(
            "a target has no variance left, so nothing can be learnt about it: leave it out, or stop"
        )
    sd = xp.sqrt(variances)
    lower = cholesky(covariance / sd[:, None] / sd[None, :]).lower
    return lower_inverse(lower).T / sd[:, None]
