"""What nodes leave of the uncertainty at targets, for any node and with gradients.

Nodes of a batch are chosen one after the other, and variances do not depend on what will be seen at them: so
each is conditioned on exactly. With h = C^-1 k(X, u) of the surrogate, nodes c and F F^T their posterior
covariance with noise,

    e(u) = F^-1 (k(c, u) - h(c)^T h(u))
    variance(u) = k(u, u) - |h(u)|^2 - |e(u)|^2,     cov(u, t) = k(u, t) - h(u)^T h(t) - e(u)^T e(t).

A criterion's partials in variance and covariances are pulled back through these to a gradient in u.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from acquisition.pointwise.criterion import Criterion
from bqvi.variational_bmc.surrogate import Surrogate

Vector = np.ndarray

_LEAST = 1e-12
_STEPS, _MOST_STEPS = 6, 9
_REACH = 0.5
"""How far a start may be climbed away from, in the frame's units."""


@dataclass(frozen=True, eq=False)
class NodeMoments:
    """What criteria may ask of f at candidates."""

    mean: Vector
    log_density: Vector
    variance: Vector
    predictive_variance: Vector
    signals: Vector


@dataclass(frozen=True, eq=False)
class Remaining:
    """Targets (S, D), and what is left of their variances (S,) once the chosen nodes (j, D) have been seen.

    Attributes
    ----------
    half : (N, S), C^-1 k(x, t). chosen_half : (N, j), the same of the nodes.
    factor : (j, j), lower Cholesky factor of the nodes' covariance, noise included.
    rows : (j, S), factor^-1 times the covariances of nodes and targets.
    """

    surrogate: Surrogate
    points: Vector
    half: Vector
    left: Vector
    noise: float
    chosen: Vector
    chosen_half: Vector
    factor: Vector
    rows: Vector

    @classmethod
    def of(
        cls, surrogate: Surrogate, points: Vector, half: Vector, variance: Vector, noise: float
    ) -> Remaining:
        """Before any node has been chosen."""
        none = np.zeros((0, points.shape[1]))
        return cls(
            surrogate, points, half, variance, noise, none, half[:, :0], np.zeros((0, 0)), half[:0]
        )  # fmt: skip

    def along(self, u: Vector, half: Vector) -> Vector:
        """factor^-1 times the covariances of nodes and u (m, D), (j, m)."""
        if not len(self.chosen):
            return half[:0]
        covariance = self.surrogate.covariance(self.chosen, u, self.chosen_half, half)
        found: Vector = solve_triangular(self.factor, covariance, lower=True, check_finite=False)
        return found

    def with_node(self, node: Vector, u: Vector, half: Vector) -> tuple[Remaining, Vector]:
        """With one node (D,) more, and the root (m,) of what it takes off the variances at u."""
        own = self.surrogate.half(node[None])
        row = self.along(node[None], own)[:, 0]
        variance = self.surrogate.moments(node[None], own)[1][0] - row @ row
        scale = np.sqrt(max(variance, self.surrogate.rounding) + self.noise + self.surrogate.rounding)
        to_targets = self.surrogate.covariance(node[None], self.points, own, self.half)[0] - row @ self.rows
        to_sieve = self.surrogate.covariance(node[None], u, own, half)[0] - row @ self.along(u, half)
        factor = np.zeros((len(row) + 1,) * 2)
        factor[:-1, :-1], factor[-1, :-1], factor[-1, -1] = self.factor, row, scale
        more = replace(
            self,
            left=np.maximum(self.left - (to_targets / scale) ** 2, _LEAST),
            chosen=np.concatenate([self.chosen, node[None]]),
            chosen_half=np.concatenate([self.chosen_half, own], axis=1),
            factor=factor,
            rows=np.concatenate([self.rows, to_targets[None] / scale]),
        )
        return more, to_sieve / scale

    def score(self, criterion: Criterion, u: Vector) -> tuple[Vector, Vector]:
        """The criterion at u (m, D), and its gradients (m, D)."""
        made = self.surrogate
        half = made.half(u)
        along = self.along(u, half)
        mean, variance = made.moments(u, half)
        variance = np.maximum(variance - np.einsum("jm,jm->m", along, along), made.rounding)
        signals = made.covariance(u, self.points, half, self.half) - along.T @ self.rows
        moments = NodeMoments(mean, mean, variance, variance + self.noise + made.rounding, signals)
        partials = criterion.partials(moments)
        assert partials.variance is not None
        assert partials.signals is not None
        gradient = self._pulled_back(u, half, along, partials.variance, partials.signals)
        return criterion.score(moments), gradient

    def _pulled_back(
        self, u: Vector, half: Vector, along: Vector, of_variance: Vector, of_signals: Vector
    ) -> Vector:
        """From partials in variances (m,) and signals (m, S) to gradients in u (m, D)."""
        made, kernel = self.surrogate, self.surrogate.kernel
        of_along = 2.0 * of_variance * along + self.rows @ of_signals.T
        of_nodes = _backward(self.factor, of_along)
        of_half = 2.0 * of_variance * half + self.half @ of_signals.T - self.chosen_half @ of_nodes
        weights = _backward(made.factor, of_half)
        gradient: Vector = of_variance[:, None] * kernel.diagonal_gradient(u)
        gradient += kernel.pulled_back(u, self.points, of_signals)
        gradient -= kernel.pulled_back(u, made.data.points, weights.T)
        if len(along):
            gradient -= kernel.pulled_back(u, self.chosen, of_nodes.T)
        return gradient


def _backward(factor: Vector, right: Vector) -> Vector:
    """F^-T right."""
    if not len(factor):
        return right
    found: Vector = solve_triangular(factor, right, lower=True, trans=1, check_finite=False)
    return found


def ascended(left: Remaining, criterion: Criterion, starts: Vector) -> Vector:
    """The best (D,) of ``starts`` (m, D) and of where a few steps of L-BFGS, from all together, lead."""

    def objective(flat: Vector) -> tuple[float, Vector]:
        scores, gradient = left.score(criterion, flat.reshape(starts.shape))
        return -float(scores.sum()), -gradient.reshape(-1)

    begin = starts.reshape(-1)
    found = minimize(
        objective, begin, jac=True, method="L-BFGS-B", bounds=[(x - _REACH, x + _REACH) for x in begin],
        options={"maxiter": _STEPS, "maxfun": _MOST_STEPS},
    )  # fmt: skip
    u = np.concatenate([starts, found.x.reshape(starts.shape)])
    best: Vector = u[int(np.argmax(left.score(criterion, u)[0]))]
    return best
