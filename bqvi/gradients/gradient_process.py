"""A Gaussian process on the gradient of the log joint, in whitened units; its integrals in closed form.

q_0 = N(mu, L L^T), theta = mu + L u, and what is modelled is

    y(u) = L^T grad f(theta) + u,            f = ln p(X, theta),

which is zero where q_0 is the posterior: the prior mean zero of y is sticking-the-landing's estimate. All D
outputs share a kernel (`gradient_kernel`), so one m x m solve serves them all (`observed`).

q itself is N(m, R R^T) in these units: at first m = 0 and R = I, and the process serves on while q is near
q_0. What is said of integrals is in q's own units, e = R^-1 (u - m), in which the same gradient is

    y_q(e) = R^T (y(u) - u) + e.

With alpha = K^-1 Y and c (m, 1 + D) the covariances of the observations with E[y] and E[y e],

    E[y] = alpha^T c_0,    E[y e^T] = alpha^T c_1,    E[y_q] = R^T (E[y] - m),    J = R^T (E[y e^T] - R) + I.

J is the expected Jacobian of y_q (Bonnet's and Stein's identities); its symmetric part estimates E[R^T L^T
(Hessian of f) L R] + I. Together the moments are the ELBO's natural gradient. The posterior covariance
of the functionals is their prior covariance less c^T K^-1 c.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from acquisition.functionals import Candidates
from bqvi.gradients.gradient_kernel import Functionals, Places, Shape
from bqvi.gradients.jackknife import mean_square
from bqvi.gradients.moment_covariance import of_outputs
from bqvi.gradients.observed import JITTER, Observed, Prior
from bqvi.gradients.whitened import Frame, Moments
from gp.expectation import KernelMeans


@dataclass(frozen=True, eq=False)
class GradientProcess:
    """The process given m observations, and its integrals under q."""

    observed: Observed
    functionals: Functionals
    """Of q."""
    shared: np.ndarray
    """C, (m, 1 + D)."""
    explained: np.ndarray
    """W c, (m, 1 + D): what each observation tells of the functionals, after those before."""

    @classmethod
    def of(
        cls,
        points: np.ndarray,
        targets: np.ndarray,
        shape: Shape,
        jitter: float = JITTER,
        prior_slope: float = 0.0,
    ) -> GradientProcess:
        """From (m, D) points in q's units and y there."""
        observed = Observed.of(Prior(shape, jitter, prior_slope), points, targets)
        return _under(observed, Frame.standard(points.shape[1]))

    def under(self, q: Frame) -> GradientProcess:
        """For integrals under another q, in the units of the observations."""
        return _under(self.observed, q)

    def extended(self, points: np.ndarray, targets: np.ndarray) -> GradientProcess:
        """With (n, D) more points, in the units of the observations, and y there; O(m^2 n)."""
        places = Places.of(points, self.observed.prior.shape)
        observed = self.observed.extended(places, targets)
        shared = np.concatenate([self.shared, self.functionals.covariances(places)])
        explained = np.concatenate([self.explained, observed.whitening[len(self.shared) :] @ shared])
        return GradientProcess(observed, self.functionals, shared, explained)

    @property
    def points(self) -> np.ndarray:
        """U, (m, D)."""
        return self.observed.places.points

    @property
    def targets(self) -> np.ndarray:
        """Y, (m, D)."""
        return self.observed.targets

    @property
    def scale(self) -> float:
        """s^2, at its most likely value."""
        return self.observed.scale

    def predict(self, points: np.ndarray) -> np.ndarray:
        """The posterior mean of y at (n, D) points in the units of the observations, (n, D)."""
        prior = self.observed.prior
        between = prior.shape.covariance(Places.of(points, prior.shape), self.observed.places)
        mean: np.ndarray = between @ self.observed.weights
        return mean + prior.slope * points

    @cached_property
    def here(self) -> Moments:
        """The moments under q itself."""
        told = self.observed.half.T @ self.explained
        q = self.functionals.q
        return self._in_units_of_q(told[:, 0], told[:, 1:], np.zeros(len(q.mean)), q.mean)

    def moments(self, mean: np.ndarray, covariance: np.ndarray) -> Moments:
        """Of y_q under q' = N(mean, covariance), in q's units."""
        of, weights = self.functionals, self.observed.weights
        root, scaled = of.root, self.observed.places.scaled
        centre, spread = of.centre + root @ mean, root @ covariance @ root.T
        bumps = KernelMeans.of(scaled, 1.0, centre, spread)
        total, cross, bend = self._trend
        place = of.q.mean + of.q.scale @ mean
        expected = bumps.z @ weights + total + cross @ place
        expected += 0.5 * bend.reshape(len(bend), -1) @ (spread + np.outer(centre, centre)).reshape(-1)
        slopes = (weights.T @ (bumps.z[:, None] * bumps.a) + bend @ centre) @ root + cross @ of.q.scale
        return self._in_units_of_q(expected, slopes, mean, place)

    def _in_units_of_q(
        self, expected: np.ndarray, slopes: np.ndarray, mean: np.ndarray, place: np.ndarray
    ) -> Moments:
        """From E[y] and E[dy/du] R, less the prior mean's, under a law with mean ``mean``, or ``place``."""
        scale, slope = self.functionals.q.scale, self.observed.prior.slope
        jacobian = scale.T @ (slopes + (slope - 1.0) * scale)
        jacobian = 0.5 * (jacobian + jacobian.T)
        np.einsum("ii->i", jacobian)[:] += 1.0
        return Moments(scale.T @ (expected + (slope - 1.0) * place) + mean, jacobian)

    @cached_property
    def _trend(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """b0 sum_n alpha_n, (D,), b1 alpha^T U, (D, D), and b2 l^2 sum_n alpha_n b_n b_n^T, (D, D, D)."""
        shape, weights = self.observed.prior.shape, self.observed.weights
        scaled = self.observed.places.scaled
        m, d = scaled.shape
        bend = weights.T @ (scaled[:, :, None] * scaled[:, None, :]).reshape(m, d * d)
        return (
            shape.constant * weights.sum(0),
            shape.linear * (weights.T @ self.points),
            shape.quadratic * shape.lengthscale**4 * bend.reshape(d, d, d),
        )

    def candidates(self, pool: np.ndarray) -> Candidates:
        """What is known / s^2 of y at (C, D) points in q's units.

        The functionals are one output's, (C, 1 + D). Var E[y_i] counts D times (`designs`).
        """
        shape = self.observed.prior.shape
        places = Places.of(self.functionals.q.points(pool), shape)
        half = self.observed.between(places)
        shared = self.functionals.covariances(places) - half.T @ self.explained
        shared[:, 0] *= np.sqrt(pool.shape[1])

        def columns(which: Any) -> np.ndarray:
            told: np.ndarray = half.T @ half[:, which]
            left: np.ndarray = shape.covariance(places, places.at(which)).reshape(told.shape) - told
            return left

        variances = shape.variances(places) - np.einsum("mc,mc->c", half, half)
        return Candidates(shared, variances, columns)

    def functional_covariance(self) -> np.ndarray:
        """Posterior covariance of (E[y_i], E[y_i e]), (1 + D, 1 + D), the same for every output i."""
        covariance: np.ndarray = self.scale * (self.functionals.prior - self.explained.T @ self.explained)
        return covariance

    def standard_deviations(self) -> Moments:
        """Of the moments `here`: the model's variance and the jackknife's (`jackknife`) together."""
        within, observed = self.model_deviations(), self.observed
        left = (observed.weights / observed.inverse_diagonal[:, None]) @ self.functionals.q.scale
        rules = observed.whitening.T @ self.explained
        squares, bias = np.square(left).T @ np.square(rules), left.T @ rules
        mean = np.square(within.mean) + squares[:, 0] + np.square(bias[:, 0])
        # node i moves J_jk by (w_ij r_ik + w_ik r_ij) / 2
        crossed = left.T * rules[:, 1:].T
        moved = squares[:, 1:] + squares[:, 1:].T + 2.0 * crossed @ crossed.T
        moved += np.square(bias[:, 1:] + bias[:, 1:].T)
        return Moments(np.sqrt(mean), np.sqrt(np.square(within.jacobian) + 0.25 * moved))

    def covariance(self) -> np.ndarray:
        """Of the moments `here`, flat (`moment_covariance`), (F, F): the model's with the jackknife's."""
        observed, scale = self.observed, self.functionals.q.scale
        left = (observed.weights / observed.inverse_diagonal[:, None]) @ scale
        rules = observed.whitening.T @ self.explained
        rows, columns = np.tril_indices(len(scale))
        turned = left[:, rows] * rules[:, 1 + columns] + left[:, columns] * rules[:, 1 + rows]
        moved = np.concatenate([left * rules[:, :1], 0.5 * turned], 1)  # how much each node moves them
        model = of_outputs(scale.T @ scale, self.functional_covariance())
        covariance: np.ndarray = model + mean_square(moved)
        return covariance

    def model_deviations(self) -> Moments:
        """The model's posterior standard deviations: outputs of y are independent of one another."""
        scale = self.functionals.q.scale
        outputs, slopes = scale.T @ scale, self.functional_covariance()
        ours, theirs = np.diagonal(outputs), np.maximum(np.diagonal(slopes), 0.0)
        crossed = np.outer(ours, theirs[1:])
        # of (X_ij + X_ji) / 2, X = R^T E[y e^T]
        variance = 0.25 * (crossed + crossed.T + 2.0 * outputs * slopes[1:, 1:])
        return Moments(np.sqrt(ours * theirs[0]), np.sqrt(np.maximum(variance, 0.0)))


def _under(observed: Observed, q: Frame) -> GradientProcess:
    functionals = Functionals(observed.prior.shape, q)
    shared = functionals.covariances(observed.places)
    return GradientProcess(observed, functionals, shared, observed.whitening @ shared)
