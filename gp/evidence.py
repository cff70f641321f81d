"""The log evidence of targets given their covariance matrix, and its derivatives in that matrix.

Y (n, O) are O outputs that share K and are independent of one another, Y_o ~ N(H b_o, s K), with basis
functions H (n, p) of the mean. With K = C C^T and Z = C^-1 H,

    b = argmin |C^-1 Y - Z b|      generalised least squares, (p, O)
    R = C^-1 Y - Z b               whitened residual, (n, O)
    s = |R|^2 / (nu O)             the scale
    W = C^-T R                     weights of the posterior mean

    log p       = -(nu O log 2 pi s + |R|^2 / s + O log det K + O J) / 2
    d log p     = tr((W W^T / s - O P) dK) / 2

The scale and the mean follow one convention, which the caller names:

    "profiled"    s and b are at their most likely values: nu = n, J = 0, P = K^-1
    "marginal"    s and b are integrated out, with priors 1 / s and flat (restricted likelihood; O'Hagan 1991,
                  Rasmussen & Williams 2006 Eq. 2.45): nu = n - p, J = log det Z^T Z, P = K^-1 - K^-1 H
                  (Z^T Z)^-1 H^T K^-1, and predictions follow Student's t with nu degrees of freedom
    "known"       s = 1, since noise of known variance is part of K; b is profiled

Given the targets, a functional with prior variance c over s, covariances k with the data, and values h at the
basis functions has, with t = h - Z^T C^-1 k, the

    mean      h b + k^T W
    variance  s (c - k^T K^-1 k + t^T (Z^T Z)^-1 t),

in the marginal form times nu / (nu - 2), the variance of Student's t; of outputs, each with its own b,
R^T R / nu takes the place of s. The targets of rows i exceed their prediction from all others by P_ii^-1 W_i.

Along directions dK_i the average of the observed and the expected information (Gilmour, Thompson and Cullis
1995) is, with v_i = dK_i W and P_1 the P of the marginal form,

    (tr(v_i^T P_1 v_j) / s - tr(W^T v_i) tr(W^T v_j) / (nu O s^2)) / 2.

It is positive semi-definite: the curvature of Newton's method. Where s is known the second term is absent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, log, pi
from typing import Literal, TypeAlias

import numpy as np

from gp.arrays import Array
from gp.fixed_points.gram import Changes
from gp.kernels.base import Pullback
from gp.linalg import Factor, Whitening, inverse, least_squares
from gp.matrices import cholesky
from gp.priors import JointPrior
from gp.search import Expansion, Search, search

Convention: TypeAlias = Literal["profiled", "marginal", "known"]
_TINY = 1e-300
"""The smallest scale and pivot, whose logarithms have to be finite."""
_LEAST_DEGREES = 3.0
"""The smallest number of degrees of freedom: a t distribution with two or fewer has no variance."""


def log_density(squares: Array, volume: Array, degrees: int, outputs: int = 1, scale: float = 1.0) -> Array:
    """log p, of the module, as a number.

    Parameters
    ----------
    squares : |R|^2, the sum over outputs
    volume : log det K + J, of one output
    degrees : nu. outputs : O. scale : s > 0.
    """
    counted = degrees * outputs * log(2 * pi * scale) + squares / scale
    return -0.5 * (counted + outputs * volume)


@dataclass(frozen=True, eq=False)
class Evidence:
    """The evidence of targets, with scale, mean and weights, which are in closed form; and predictions.

    Attributes
    ----------
    factor : C, of K with its noise, (n, n), or its inverse, by products with which predictions are faster.
    convention : that of the scale and the mean, see the module.
    whitened_basis : Z, (n, p). coefficients : b, (p, O). residual : R, (n, O).
    least_scale : the smallest s, for targets that equal their mean.
    """

    factor: Factor | Whitening
    convention: Convention
    whitened_basis: np.ndarray
    coefficients: np.ndarray
    residual: np.ndarray
    least_scale: float

    @classmethod
    def of(
        cls,
        factor: Factor | Whitening,
        targets: np.ndarray,
        basis: np.ndarray | None = None,
        convention: Convention = "profiled",
        least_scale: float = _TINY,
    ) -> Evidence:
        """The evidence of targets Y (n, O) with basis H (n, p), ``None`` for a mean of zero; O(n^2 (O + p)).

        Parameters
        ----------
        factor : of K, (n, n)
        targets : Y, (n, O)
        basis : H, (n, p); its columns may have very different norms
        convention : 'profiled', 'marginal' or 'known', see the module
        least_scale : the smallest s, in squared units of Y
        """
        if basis is None or not basis.shape[1]:
            residual = factor.solve(targets)
            nothing = np.zeros((len(targets), 0))
            return cls(factor, convention, nothing, np.zeros((0, targets.shape[1])), residual, least_scale)
        p = basis.shape[1]
        both = np.empty((len(targets), p + targets.shape[1]), order="F")
        both[:, :p], both[:, p:] = basis, targets
        whitened = factor.solve(both)
        z, coefficients, residual = whitened[:, :p], *least_squares(whitened[:, :p], whitened[:, p:])
        return cls(factor, convention, z, coefficients, residual, least_scale)

    @property
    def outputs(self) -> int:
        """The number O of outputs."""
        return int(self.residual.shape[1])

    @property
    def degrees(self) -> int:
        """The number nu of degrees of freedom, at least 1."""
        n, p = self.whitened_basis.shape
        return int(max(n - p, 1) if self.convention == "marginal" else n)

    @cached_property
    def squares(self) -> float:
        """|R|^2."""
        return float(np.einsum("no,no->", self.residual, self.residual))

    @cached_property
    def scale(self) -> float:
        """The scale s; 1 where it is known."""
        if self.convention == "known":
            return 1.0
        return max(self.squares / (self.degrees * self.outputs), self.least_scale)

    @cached_property
    def value(self) -> float:
        """log p."""
        volume = float(self.factor.log_determinant) + self._volume
        return float(log_density(self.squares, volume, self.degrees, self.outputs, self.scale))

    @property
    def _volume(self) -> float:
        """The term J."""
        if self.convention != "marginal" or not self.whitened_basis.shape[1]:
            return 0.0
        return 2.0 * sum(log(max(abs(float(t)), _TINY)) for t in self._triangle.diagonal())

    @cached_property
    def _triangle(self) -> np.ndarray:
        """T with T^T T = Z^T Z, (p, p)."""
        z = self.whitened_basis
        return np.asarray(np.linalg.qr(z, mode="r")) if z.shape[1] > 1 else np.sqrt(z.T @ z)

    @cached_property
    def weights(self) -> np.ndarray:
        """W = K^-1 (Y - H b), (n, O)."""
        return self.factor.solve(self.residual, transposed=True)

    @cached_property
    def _inverse(self) -> np.ndarray:
        """K^-1, (n, n)."""
        if isinstance(self.factor, Factor):
            return inverse(self.factor)
        return self.factor.whitening.T @ self.factor.whitening

    @cached_property
    def projection(self) -> np.ndarray:
        """B (n, p), with P = K^-1 - B B^T in the marginal form: W = P Y."""
        if not self.whitened_basis.shape[1]:
            return self.whitened_basis
        solved, root = self.factor.solve(self.whitened_basis, transposed=True), self._triangle
        # the usual case, a constant: solving a single equation takes longer than the rest
        return solved / root if len(root) == 1 else np.linalg.solve(root.T, solved.T).T

    @cached_property
    def precisions(self) -> np.ndarray:
        """The diagonal of P, (n,), of which no matrix is kept."""
        squares = np.einsum("nm,nm->m", *(self.factor.whitening,) * 2)
        return squares - np.sum(self.projection**2, axis=1)

    @property
    def mean(self) -> np.ndarray:
        """The coefficient b of each output, (O,), for at most one basis function; zero without one."""
        return self.coefficients[0] if len(self.coefficients) else np.zeros(self.outputs)

    @cached_property
    def output_covariance(self) -> np.ndarray:
        """R^T R / nu, (O, O)."""
        return self.residual.T @ self.residual / self.degrees

    @cached_property
    def scales(self) -> np.ndarray:
        """The scale of each output, (O,), kept above zero."""
        return np.maximum(np.einsum("no,no->o", self.residual, self.residual) / self.degrees, _TINY)

    @property
    def inflation(self) -> float:
        """nu / (nu - 2), of variances where scale and mean are integrated out; otherwise 1."""
        nu = max(float(self.degrees), _LEAST_DEGREES)
        return nu / (nu - 2) if self.convention == "marginal" else 1.0

    def leave_one_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Errors y_i - E[y_i | others], (n, O), and their standard deviations (n, O)."""
        precision = np.maximum(self.precisions, _TINY)[:, None]
        return self.weights / precision, np.sqrt(self.inflation * self.scales / precision)

    def rules(self, whitened: np.ndarray, level: np.ndarray | float = 0.0) -> np.ndarray:
        """Weights of the targets in the means of F functionals, (n, F), or (n,) for one.

        Parameters
        ----------
        whitened : C^-1 times their covariances with the data, over s, (n, F) or (n,).
        level : h, the functionals of the one basis function, (F,) or a number.
        """
        if self.whitened_basis.shape[1]:
            z = self.whitened_basis[:, 0]
            whitened = whitened + np.multiply.outer(z, (level - whitened.T @ z) / self._information)
        return self.factor.solve(whitened, transposed=True)

    def projected(self, right: np.ndarray) -> np.ndarray:
        """P right, for (n, F), of the marginal form."""
        return self.rules(self.factor.solve(right))

    def expectations(self, whitened: np.ndarray, level: np.ndarray) -> np.ndarray:
        """The means (F, O) of functionals; arguments are as of `rules`."""
        found = whitened.T @ self.residual
        return found + level[:, None] * self.mean if len(self.coefficients) else found

    def unit_covariance(
        self, prior: np.ndarray, whitened: np.ndarray, level: np.ndarray | float | None = None
    ) -> np.ndarray:
        """The covariance (F, F) of functionals, for unit scale.

        Parameters
        ----------
        prior : their prior covariance, over s, (F, F).
        whitened, level : as of `rules`; the coefficient counts as known where ``level`` is None.
        """
        unit = prior - whitened.T @ whitened
        if self.whitened_basis.shape[1] and level is not None:
            missed = level - whitened.T @ self.whitened_basis[:, 0]
            unit = unit + np.outer(missed, missed) / self._information
        return np.asarray(unit)

    def variances(
        self, prior: np.ndarray, whitened: np.ndarray, level: np.ndarray | float | None = None
    ) -> np.ndarray:
        """The variances (F,), never negative, in O(n F); arguments as of `unit_covariance`, prior (F,)."""
        found = prior - np.einsum("nf,nf->f", whitened, whitened)
        if self.whitened_basis.shape[1] and level is not None:
            found += np.square(level - whitened.T @ self.whitened_basis[:, 0]) / self._information
        return np.asarray(self.scale * np.maximum(found, 0.0))

    def left_out(self, sets: np.ndarray) -> np.ndarray:
        """What targets exceed predictions by, (k, R), each of k ``sets`` (k, R) of rows left out; O = 1."""
        columns, shared = self.factor.whitening[:, sets].transpose(1, 2, 0), self.projection[sets]
        precisions = columns @ columns.mT - shared @ shared.mT
        return np.asarray(np.linalg.solve(precisions, self.weights[sets])[:, :, 0])

    def squares_left_out(self, sets: np.ndarray) -> np.ndarray:
        """Mean squared errors (k,) of `left_out` of ``sets`` over their covariances for unit scale."""
        return np.asarray(np.einsum("krs,kr->k", self.weights[sets], self.left_out(sets)) / sets.shape[1])

    @cached_property
    def _information(self) -> float:
        """Z^T Z of the one basis function."""
        z = self.whitened_basis[:, 0]
        return max(float(z @ z), _TINY)

    def matrix_gradient(self) -> np.ndarray:
        """d log p / dK, (n, n), symmetric; the caller may overwrite it."""
        gradient = (-0.5 * self.outputs) * self._inverse
        gradient += (0.5 / self.scale * self.weights) @ self.weights.T
        if self.convention == "marginal":
            gradient += (0.5 * self.outputs * self.projection) @ self.projection.T
        return gradient

    def information(self, moved: np.ndarray) -> np.ndarray:
        """The curvature of log p along dK_i, (I, I): the average information, positive semi-definite.

        Parameters
        ----------
        moved : v_i = dK_i W, (I, n, O)
        """
        w, rows = self.weights, moved.reshape(len(moved), -1)
        solved = self._inverse @ moved - self.projection @ (self.projection.T @ moved)
        product = rows @ solved.reshape(rows.shape).T
        if self.convention == "known":
            return 0.5 * product
        rising = rows @ w.reshape(-1)
        share = np.outer(rising, rising) / (self.degrees * self.outputs * self.scale)
        return 0.5 / self.scale * (product - share)


def _factor(matrix: np.ndarray) -> Factor:
    return Factor(cholesky(matrix))


@dataclass(frozen=True, eq=False)
class LogPosterior:
    """Log evidence plus log prior of log hyperparameters psi (P,); an objective of `gp.search`.

    Attributes
    ----------
    gram : a function of psi that returns K_0 (n, n) and its pull-back to psi (`gp.fixed_points`). There is a
        curvature only where the pull-back has the derivatives as matrices (`gp.fixed_points.Changes`).
    noise : (n,), added to the diagonal of K_0. targets : (n, O). prior : the prior of psi.
    basis : H (n, p); ``None`` for a mean of zero. convention : that of scale and mean.
    noise_fitted : whether the last entry of psi is ln tau, so that tau ``noise`` is added, and ``gram`` takes
        the entries before it.
    known : the mean of the noise variances, where it is known: then s is ``known`` / tau.
    factor : a function of K that returns its factor; LinAlgError where K has none. Its jitter is part of K.
    least_scale : the smallest s, as of `Evidence`.
    matrix : a function of psi that returns K_0 alone; None where ``gram`` takes no longer.
    """

    gram: Callable[[np.ndarray], tuple[np.ndarray, Pullback]]
    noise: np.ndarray
    targets: np.ndarray
    prior: JointPrior
    basis: np.ndarray | None = None
    convention: Convention = "profiled"
    noise_fitted: bool = False
    known: float | None = None
    factor: Callable[[np.ndarray], Factor] = _factor
    least_scale: float = _TINY
    matrix: Callable[[np.ndarray], np.ndarray] | None = None

    def evidence(self, psi: np.ndarray) -> Evidence:
        """The evidence of the targets; LinAlgError where K is singular in floating point."""
        at = self._of_kernel(psi)
        return self._evidence(self.gram(at)[0] if self.matrix is None else self.matrix(at), psi)

    def value(self, psi: np.ndarray) -> float:
        """The log posterior, up to a constant; LinAlgError as of `evidence`."""
        return self.value_of(self.evidence(psi), psi)

    def value_of(self, found: Evidence, psi: np.ndarray) -> float:
        """The log posterior at psi, from the result ``found`` of `evidence` at psi."""
        value = found.value + self.prior.log_density(psi)[0]
        excess = self._excess(found, psi)
        return value - 0.5 * found.degrees * found.outputs * float(np.expm1(excess) - excess)

    def expanded(self, psi: np.ndarray) -> Expansion:
        """The log posterior with its gradient and, if there is one, its curvature."""
        matrix, pullback = self.gram(self._of_kernel(psi))
        found = self._evidence(matrix, psi)
        gradient = lambda: self._gradient(found, pullback, psi)  # noqa: E731
        if not isinstance(pullback, Changes):
            return Expansion(self.value_of(found, psi), gradient)
        curvature = lambda: self._curvature(found, pullback, psi)  # noqa: E731
        return Expansion(self.value_of(found, psi), gradient, curvature)

    def noisier(self, psi: np.ndarray) -> tuple[float, float]:
        """What more noise would gain at the optimum ``psi``, nats, and the factor of its sd that would."""
        free, start = replace(self, known=None), psi
        if not self.noise_fitted:
            parts = (self.prior.lower, self.prior.upper, self.prior.falloff, *self.prior.bounds)
            flat = zip(parts, (-inf, inf, 1.0, 0.0, 14.0), strict=True)
            start, prior = np.append(psi, 0.0), JointPrior(*(np.append(*both) for both in flat))
            free = replace(free, noise_fitted=True, prior=prior)
        more = [np.append(start[:-1], start[-1] + step) for step in (2.0, 4.0)]
        found = search(free, more, free.prior.bounds, Search(climbs=2))
        variance = np.exp(found.psi[-1]) * free.evidence(found.psi).scale / (self.known or 1.0)
        return found.value - self.value(psi), float(np.sqrt(variance))

    def _excess(self, found: Evidence, psi: np.ndarray) -> float:
        """ln of the most likely s over ``known`` / tau; 0 where that is not known."""
        return 0.0 if self.known is None else min(log(found.scale) + psi[-1] - log(self.known), 500.0)

    def _of_kernel(self, psi: np.ndarray) -> np.ndarray:
        return psi[:-1] if self.noise_fitted else psi

    def _noise(self, psi: np.ndarray) -> np.ndarray:
        return np.exp(psi[-1]) * self.noise if self.noise_fitted else self.noise

    def _evidence(self, matrix: np.ndarray, psi: np.ndarray) -> Evidence:
        matrix = matrix if matrix.flags.writeable else matrix.copy()
        diagonal = np.einsum("ii->i", matrix)
        before = diagonal.copy()
        diagonal += self._noise(psi)
        factor = self.factor(matrix)
        diagonal[:] = before  # restored, as a pull-back may read the matrix
        return Evidence.of(factor, self.targets, self.basis, self.convention, self.least_scale)

    def scale_slope(self, psi: np.ndarray) -> np.ndarray:
        """d ln s / d psi, (P,): minus the sum of w^T dK w over nu O s, with w the weights."""
        matrix, pullback = self.gram(self._of_kernel(psi))
        found = self._evidence(matrix, psi)
        share = -1.0 / (found.degrees * found.outputs * found.scale)
        return self._through(share * found.weights @ found.weights.T, found, pullback, psi)

    def _through(
        self, weights: np.ndarray, found: Evidence, pullback: Pullback, psi: np.ndarray
    ) -> np.ndarray:
        """The gradient in psi, (P,), of what changes by tr(weights dK); ``weights`` are overwritten."""
        if found.factor.jitter > 0:  # a fraction of variances, which depend on psi as well
            np.einsum("ii->i", weights)[:] *= 1 + found.factor.jitter
        gradient = pullback(weights)
        return np.append(gradient, weights.diagonal() @ self._noise(psi)) if self.noise_fitted else gradient

    def _gradient(self, found: Evidence, pullback: Pullback, psi: np.ndarray) -> np.ndarray:
        """The gradient in psi, (P,)."""
        weights, slope = found.matrix_gradient(), 0.0
        if self.known is not None:
            share = -0.5 * float(np.expm1(self._excess(found, psi)))
            slope = share * found.degrees * found.outputs
            # d ln s = -sum_o w_o^T dK w_o / (nu o s)
            weights -= share / found.scale * found.weights @ found.weights.T
        gradient = self._through(weights, found, pullback, psi)
        if self.noise_fitted:
            gradient[-1] += slope
        return gradient + self.prior.log_density(psi)[1]

    def _curvature(self, found: Evidence, pullback: Changes, psi: np.ndarray) -> np.ndarray:
        """Minus the Hessian, approximately, (P, P)."""
        w = found.weights
        moved = pullback.times(w)
        if self.noise_fitted:
            moved = np.concatenate([moved, (self._noise(psi)[:, None] * w)[None]])
        curvature: np.ndarray = found.information(moved) + self.prior.curvature(psi)
        if self.known is not None:
            of_log_scale = moved.reshape(len(moved), -1) @ w.reshape(-1) / -found.squares
            of_log_scale[-1] += 1.0
            size = 0.5 * found.degrees * found.outputs * np.exp(self._excess(found, psi))
            curvature += size * np.outer(of_log_scale, of_log_scale)
        return curvature
