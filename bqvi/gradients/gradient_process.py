"""A Gaussian process on the gradient of the log joint: D outputs with one kernel, integrals in closed form.

With q_0 = N(mu, L L^T) and theta = mu + L u, the process is on

    y(u) = L^T grad f(theta) + u,            f = ln p(X, theta),

which is zero where q_0 is the posterior: the prior mean zero of y is the estimate of sticking-the-landing.
All D outputs share a kernel and are independent a priori. This separable process is the
case of `gp.conditioning.conditioned` with one m x m matrix for D outputs.

In these units q is N(m, R R^T). At first m = 0 and R = I, and the process is used as long as q is near q_0.
Integrals are given in the units of q, e = R^-1 (u - m), in which the gradient is

    y_q(e) = R^T (y(u) - u) + e.

With alpha = K^-1 Y and c (m, 1 + D) the covariances of the observations with E[y] and E[y e],

    E[y] = alpha^T c_0,    E[y e^T] = alpha^T c_1,    E[y_q] = R^T (E[y] - m),    J = R^T (E[y e^T] - R) + I.

J is the expected Jacobian of y_q (identities of Bonnet and Stein); its symmetric part estimates E[R^T L^T
(Hessian of f) L R] + I. Together the moments are the natural gradient of the ELBO. The posterior covariance
of the functionals is their prior covariance less c^T K^-1 c.

The kernel is

    k(u, u') = s^2 (exp(-|b - b'|^2 / 2) + b0 + b1 u . u' + b2 l^4 b^T Q' b / 2),        b = B u / l,

where B^T B = M has the directions along which y is nonlinear (`Directions`), l is the lengthscale, and
b2 is the weight of a quadratic term of long range, for the skewness of the posterior, which the exponential
alone does not extrapolate. With Q = b b^T + |b|^2 I / 2 the term is (b . b')^2 / 2 + |b|^2 |b'|^2 / 4: for a
sum of functions of projections a . b, as of a regression, third derivatives are sums of a a a^T, and with a ~
N(0, I) the covariance of (a . b)^2 and (a . b')^2 is proportional to 2 (b . b')^2 + |b|^2 |b'|^2 (Isserlis).

Under q = N(m, R R^T), with e = R^-1 (u - m) standardised, c = B m / l, T = B R / l, A = I + T T^T,
a_n = A^-1 (b_n - c) and z_n = |A|^(-1/2) exp(-(b_n - c)^T a_n / 2), the covariances / s^2 of y(u_n) with the
functionals are

    E[y]     z_n + b0 + b1 u_n . m + b2 l^4 tr(S Q_n) / 2
    E[y e]   T^T (z_n a_n + b2 l^4 Q_n c) + b1 R^T u_n

and those of the functionals with one another, for A_2 = I + 2 T T^T, S = T T^T + c c^T, U = S + tr S I / 2,

    E[y], E[y]       |A_2|^(-1/2) + b0 + b1 |m|^2 + b2 l^4 tr(S U) / 2
    E[y], E[y e]     b1 R^T m + b2 l^4 T^T U c
    E[y e], E[y e]   |A_2|^(-1/2) T^T A_2^-1 T + b1 R^T R + b2 l^4 T^T (2 c c^T + |c|^2 I) T

*The noise* is assigned to observations of y by distance. Gradients are exact, but a
stationary kernel cannot fit all of their structure: where q has no mass y may be thousands of times as large
as under q, and a smooth function through such a point is wrong where q has its mass. The noise is therefore
the jitter near q, and e^((r - near) / fading) times the jitter beyond,

    r = max(|u|^2, |u|_M^2) / D,

with M the directions along which y is nonlinear; along others a distant point does not distort the fit.

*Directions along which y is nonlinear.* In units whitened by q, y(u) is a gradient, so its Jacobian is
symmetric, and the covariance over outputs of the residuals R of a linear fit, by weighted least squares with
a ridge as a slope is a priori about as large as y, measures the nonlinearity along input directions,

    C = R^T W R / sum(w),        M = (C / mean + (D / sum(w)) I)^(1/2), scaled to trace D,

with weights w that decrease from 1 for points beyond q (`whitened.jitter_multiple`). The second term keeps M
near I until there are many more points than directions. Where y is noisy the sum of the noise's variances is
subtracted from the diagonal of C, and the second term, the uncertainty of C, is multiplied by the squared
ratio of the diagonal before to that after. A kernel of u^T M u' is anisotropic along the directions of the
log joint, without further hyperparameters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from acquisition.conditioned import Candidates
from bqvi.gradients.standard_errors import mean_square, of_outputs
from bqvi.gradients.whitened import JITTER, WhitenedFrame, WhitenedMoments, jitter_multiple, typical_noise
from gp.conditioning.conditioned import Conditioned, Places
from gp.expectation import KernelMeans
from gp.matrices import positive_solve, symmetric_eigen

_LEAST = 1e-12
"""Share of the squares of the targets below which the residuals of a linear fit are rounding."""


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A fit to y at some points."""

    coefficients: np.ndarray
    """Rows a and B^T, (1 + D, D)."""

    @classmethod
    def of(cls, points: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> LinearFit:
        """The fit to y at (m, D) points with weights (m,)."""
        design = np.empty((len(points), 1 + points.shape[1]))
        design[:, 0], design[:, 1:] = 1.0, points
        weighted = design.T * weights
        gram = weighted @ design
        np.einsum("ii->i", gram)[:] += 1.0  # a slope is a priori about as large as y
        return cls(positive_solve(gram, weighted @ targets))

    def residuals(self, points: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """y - a - B u, (m, D)."""
        residuals: np.ndarray = points @ self.coefficients[1:]
        residuals += self.coefficients[0]
        np.subtract(targets, residuals, out=residuals)
        return residuals


@dataclass(frozen=True, eq=False)
class Directions:
    """M = V diag(r^2) V^T."""

    rotation: np.ndarray
    """Orthogonal V, (D, D)."""
    scales: np.ndarray
    """r, (D,)."""

    @classmethod
    def of(cls, points: np.ndarray, targets: np.ndarray, noise: np.ndarray | None = None) -> Directions:
        """The directions from (m, D) points and y there, with the variances of its noise, (m,)."""
        d = points.shape[1]
        weights = 1.0 / jitter_multiple(points)
        residuals = LinearFit.of(points, targets, weights).residuals(points, targets)
        spread = (residuals.T * weights) @ residuals
        whole = size = float(np.trace(spread)) / d
        if noise is not None:
            of_noise = float(weights @ noise)
            np.einsum("ii->i", spread)[:] -= of_noise
            size -= of_noise
        if not size > _LEAST * (float(np.vdot(targets, targets)) + 1.0):
            return cls(np.eye(d), np.ones(d))  # isotropic
        total = float(weights.sum())
        values, vectors = symmetric_eigen(spread / size)
        squares = np.sqrt(np.maximum(values, 0.0) + d / total * (whole / size) ** 2)
        return cls(vectors, np.sqrt(squares / squares.mean()))

    def scaled(self, points: np.ndarray) -> np.ndarray:
        """(m, D) points in units in which M is I."""
        return (points @ self.rotation) * self.scales


def shaped_noise(points: np.ndarray, directions: Directions | None, jitter: float = JITTER) -> np.ndarray:
    """The noise over s^2 of y at (m, D) points, (m,); ``directions`` are those of M, or None for M = I."""
    return jitter * jitter_multiple(points, points if directions is None else directions.scaled(points))


@dataclass(frozen=True, eq=False)
class SeparableKernel:
    """k / s^2, a `gp.conditioning.conditioned.BlockKernel` of D outputs."""

    lengthscale: float
    """l."""
    constant_variance: float
    """b0."""
    linear: float
    """b1."""
    quadratic: float = 0.0
    """b2."""
    directions: Directions | None = None
    """The directions of M; None for M = I."""

    def scaled(self, points: np.ndarray) -> np.ndarray:
        """B u of (m, D) points, the units in which M is I."""
        return points if self.directions is None else self.directions.scaled(points)

    def at(self, points: np.ndarray) -> Places:
        """The record of (m, D) points from which covariances are computed."""
        return Places.of(points, self.scaled(points) / self.lengthscale)

    def constant(self, points: np.ndarray) -> None:
        """None, as the mean of y is known."""

    def covariance(self, left: Places, right: Places) -> np.ndarray:
        """K / s^2 between m and n points, (m, n)."""
        kernel, inner = left.exponential(right)
        kernel += self.constant_variance
        kernel += (self.linear * left.points) @ right.points.T
        if self.quadratic != 0.0:
            inner *= inner
            inner += 2.0 * np.multiply.outer(left.halved, right.halved)
            inner *= 0.5 * self.quadratic * self.lengthscale**4
            kernel += inner
        return kernel

    def variances(self, places: Places) -> np.ndarray:
        """The diagonal of ``covariance`` of m points with themselves, (m,)."""
        bending = 3.0 * self.quadratic * self.lengthscale**4 * np.square(places.halved)
        squares = np.einsum("nd,nd->n", places.points, places.points)
        return 1.0 + self.constant_variance + self.linear * squares + bending


@dataclass(frozen=True, eq=False)
class SeparableFunctionals:
    """E[y] and E[y e] of one output under q = N(m, R R^T), e = R^-1 (u - m): 1 + D of them."""

    kernel: SeparableKernel
    q: WhitenedFrame
    """q in the units of u."""

    @cached_property
    def centre(self) -> np.ndarray:
        """c, (D,)."""
        return self.kernel.scaled(self.q.mean[None])[0] / self.kernel.lengthscale

    @cached_property
    def root(self) -> np.ndarray:
        """The matrix T, (D, D)."""
        return np.ascontiguousarray(self.kernel.scaled(self.q.scale.T).T) / self.kernel.lengthscale

    @cached_property
    def _spread(self) -> np.ndarray:
        """T T^T, (D, D)."""
        return np.asarray(self.root @ self.root.T)

    @cached_property
    def _bending(self) -> float:
        """b2, for inner products of points divided by l."""
        return self.kernel.quadratic * self.kernel.lengthscale**4

    def covariances(self, places: Places) -> np.ndarray:
        """Prior covariances / s^2 with y at m places, (m, 1 + D)."""
        kernel = self.kernel
        bumps = KernelMeans.of(places.scaled, 1.0, self.centre, self._spread)
        projected, along = places.scaled @ self.root, places.scaled @ self.centre
        bending = np.einsum("nd,nd->n", projected, projected)
        bending += along * along
        bending += places.halved * (np.trace(self._spread) + self.centre @ self.centre)
        found = np.empty((len(projected), 1 + projected.shape[1]))
        found[:, 0] = bumps.z + (0.5 * self._bending) * bending + kernel.constant_variance
        found[:, 0] += places.points @ (kernel.linear * self.q.mean)
        slopes = bumps.a @ self.root
        slopes *= bumps.z[:, None]
        projected *= along[:, None]
        projected += np.multiply.outer(places.halved, self.centre @ self.root)
        slopes += self._bending * projected
        slopes += places.points @ (kernel.linear * self.q.scale)
        found[:, 1:] = slopes
        return found

    @cached_property
    def prior(self) -> np.ndarray:
        """Prior covariance / s^2 of the functionals, (1 + D, 1 + D)."""
        kernel, q, c, root, d = self.kernel, self.q, self.centre, self.root, len(self.centre)
        spread, steep, shift, size = self._spread, root.T @ root, c @ root, float(c @ c)
        mean = float(np.trace(spread)) + size
        bending = 0.5 * float(np.vdot(spread, spread)) + float(shift @ shift)
        bending += 0.5 * size**2 + 0.25 * mean**2
        twice = KernelMeans.of(c[None], 1.0, c, 2.0 * spread)
        double = float(twice.z[0])
        found = np.empty((1 + d, 1 + d))
        found[0, 0] = (
            double
            + kernel.constant_variance
            + kernel.linear * float(q.mean @ q.mean)
            + self._bending * bending
        )
        found[0, 1:] = found[1:, 0] = (kernel.linear * q.mean) @ q.scale + self._bending * (
            shift @ steep + (size + 0.5 * mean) * shift
        )
        found[1:, 1:] = double * root.T @ twice.precision @ root + kernel.linear * q.scale.T @ q.scale
        found[1:, 1:] += self._bending * (2.0 * shift[:, None] * shift + size * steep)
        return found


@dataclass(frozen=True, eq=False)
class GradientProcess:
    """The process given m observations, and its integrals under q."""

    given: Conditioned
    """The process on y."""
    functionals: SeparableFunctionals
    """E[y] and E[y e] under q."""
    covariances: np.ndarray
    """c, (m, 1 + D)."""
    whitened: np.ndarray
    """W c, (m, 1 + D)."""
    noise: float = JITTER
    """Noise variance over s^2 of a new observation near q."""

    @classmethod
    def of(
        cls,
        points: np.ndarray,
        targets: np.ndarray,
        kernel: SeparableKernel,
        jitter: float = JITTER,
        measured: np.ndarray | None = None,
    ) -> GradientProcess:
        """Make the process of y at (m, D) points in q's units.

        ``measured`` is the variance of the noise of y over s^2, (m,); None where it is exact.
        """
        noise = partial(shaped_noise, directions=kernel.directions, jitter=jitter)
        given = Conditioned.of(kernel, points, targets, noise, measured)
        return _under(given, WhitenedFrame.standard(points.shape[1]), typical_noise(measured, jitter))

    def under(self, q: WhitenedFrame) -> GradientProcess:
        """The process for integrals under another q, which is in the units of the observations."""
        return _under(self.given, q, self.noise)

    def extended(
        self, points: np.ndarray, targets: np.ndarray, measured: np.ndarray | None = None
    ) -> GradientProcess:
        """The process given (n, D) more points, in the units of the observations, and y there; O(m^2 n)."""
        m = len(self.covariances)
        given = self.given.extended(points, targets, measured)
        covariances = np.concatenate(
            [self.covariances, self.functionals.covariances(given.places.at(slice(m, None)))]
        )
        whitened = np.concatenate([self.whitened, given.whitening[m:] @ covariances])
        return replace(self, given=given, covariances=covariances, whitened=whitened)

    def predict(self, points: np.ndarray) -> np.ndarray:
        """The posterior mean of y at (n, D) points in the units of the observations, (n, D)."""
        between = self.given.kernel.covariance(self.given.kernel.at(points), self.given.places)
        return np.asarray(between @ self.given.weights)

    @cached_property
    def at_q(self) -> WhitenedMoments:
        found, q = self.given.evidence.residual.T @ self.whitened, self.functionals.q
        return self._in_units_of_q(found[:, 0], found[:, 1:], np.zeros(len(q.mean)), q.mean)

    def moments(self, mean: np.ndarray, covariance: np.ndarray) -> WhitenedMoments:
        of, weights = self.functionals, self.given.weights
        root, scaled = of.root, self.given.places.scaled
        centre, spread = of.centre + root @ mean, root @ covariance @ root.T
        bumps = KernelMeans.of(scaled, 1.0, centre, spread)
        total, linear, bend = self._trend
        place = of.q.mean + of.q.scale @ mean
        expected = bumps.z @ weights + total + linear @ place
        expected += 0.5 * bend.reshape(len(bend), -1) @ (spread + np.outer(centre, centre)).reshape(-1)
        slopes = (weights.T @ (bumps.z[:, None] * bumps.a) + bend @ centre) @ root + linear @ of.q.scale
        return self._in_units_of_q(expected, slopes, mean, place)

    def _in_units_of_q(
        self, expected: np.ndarray, slopes: np.ndarray, mean: np.ndarray, place: np.ndarray
    ) -> WhitenedMoments:
        """Moments in units of q, from E[y] and E[dy/du] R under a Gaussian."""
        scale = self.functionals.q.scale
        jacobian = scale.T @ (slopes - scale)
        jacobian = 0.5 * (jacobian + jacobian.T)
        np.einsum("ii->i", jacobian)[:] += 1.0
        return WhitenedMoments(scale.T @ (expected - place) + mean, jacobian)

    @cached_property
    def _trend(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """b0 sum_n alpha_n, (D,), b1 alpha^T U, (D, D), and b2 l^2 sum_n alpha_n Q_n, (D, D, D)."""
        kernel, weights, scaled = self.given.kernel, self.given.weights, self.given.places.scaled
        m, d = scaled.shape
        squares = scaled[:, :, None] * scaled[:, None, :]
        np.einsum("nii->ni", squares)[:] += self.given.places.halved[:, None]
        bend = weights.T @ squares.reshape(m, d * d)
        return (
            kernel.constant_variance * weights.sum(0),
            kernel.linear * (weights.T @ self.given.points),
            kernel.quadratic * kernel.lengthscale**4 * bend.reshape(d, d, d),
        )

    def by_rule(self, targets: np.ndarray) -> WhitenedMoments:
        """The moments under q of other targets (m, D) at these points, by the same weights."""
        scale = self.functionals.q.scale
        found = scale.T @ (targets.T @ self.given.evidence.rules(self.whitened))
        return WhitenedMoments(found[:, 0], 0.5 * (found[:, 1:] + found[:, 1:].T))

    def candidates(self, pool: np.ndarray) -> Candidates:
        """Posterior moments / s^2 of y at (C, D) points in q's units.

        The functionals are those of one output, (C, 1 + D). Var E[y_i] has the weight D (`designs`).
        """
        kernel = self.given.kernel
        places = kernel.at(self.functionals.q.points(pool))
        cross = self.given.whitened_covariance(places)
        shared = self.functionals.covariances(places) - cross.T @ self.whitened
        shared[:, 0] *= np.sqrt(pool.shape[1])

        def columns(which: int | slice | np.ndarray) -> np.ndarray:
            known: np.ndarray = cross.T @ cross[:, which]
            return kernel.covariance(places, places.at(which)).reshape(known.shape) - known

        variances = kernel.variances(places) - np.einsum("mc,mc->c", cross, cross)
        return Candidates(shared, variances, columns)

    def functional_covariance(self) -> np.ndarray:
        """Posterior covariance of (E[y_i], E[y_i e]), (1 + D, 1 + D), the same for every output i."""
        return self.given.covariance(self.functionals.prior, self.whitened)

    def _changes(self) -> np.ndarray:
        """The changes of the flat moments when each node is left out, (m, F)."""
        residuals = self.given.left_out @ self.functionals.q.scale
        rules = self.given.evidence.rules(self.whitened)
        rows, columns = np.tril_indices(residuals.shape[1])
        turned = residuals[:, rows] * rules[:, 1 + columns] + residuals[:, columns] * rules[:, 1 + rows]
        return np.concatenate([residuals * rules[:, :1], 0.5 * turned], 1)

    def standard_deviations(self) -> WhitenedMoments:
        within, changes = self.model_deviations(), self._changes()
        squares = np.square(changes).sum(0) + np.square(changes.sum(0))
        left = WhitenedMoments.of_flat(squares, len(within.mean))
        variances = np.square(within.mean) + left.mean, np.square(within.jacobian) + left.jacobian
        return WhitenedMoments(np.sqrt(variances[0]), np.sqrt(variances[1]))

    def covariance(self) -> np.ndarray:
        """Covariance of the flat moments `at_q` (`standard_errors`), (F, F), with the jackknife's."""
        scale = self.functionals.q.scale
        return mean_square(of_outputs(scale.T @ scale, self.functional_covariance()), self._changes())

    def model_deviations(self) -> WhitenedMoments:
        """The model's posterior standard deviations, for independent outputs of y."""
        scale = self.functionals.q.scale
        outputs, slopes = scale.T @ scale, self.functional_covariance()
        own, functional = np.diagonal(outputs), np.maximum(np.diagonal(slopes), 0.0)
        crossed = np.outer(own, functional[1:])
        # variance of (X_ij + X_ji) / 2 with X = R^T E[y e^T]
        variance = 0.25 * (crossed + crossed.T + 2.0 * outputs * slopes[1:, 1:])
        return WhitenedMoments(np.sqrt(own * functional[0]), np.sqrt(np.maximum(variance, 0.0)))


def _under(given: Conditioned, q: WhitenedFrame, noise: float) -> GradientProcess:
    functionals = SeparableFunctionals(given.kernel, q)
    covariances = functionals.covariances(given.places)
    return GradientProcess(given, functionals, covariances, given.whitening @ covariances, noise)
