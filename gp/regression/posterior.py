"""A Gaussian process given linear functionals of f (thesis Eqs 7.5 to 7.8).

With observations y = L f + e, prior mean m, kernel k, and noise e ~ N(0, Sigma), write
K = L k L^T + Sigma = C C^T for the covariance of y, and k_* for that of the predicted functionals with L f:

    mean        m_* + k_* w,                 w = K^-1 (y - L m) = C^-T z,   z = C^-1 (y - L m)
    covariance  k_** - V^T V,                V = C^-1 k_*^T
    evidence    log N(y; L m, K) = -|z|^2 / 2 - sum log C_ii - n/2 log 2 pi

More observations extend C and z by their rows. Values may be predicted, or any other functional of f.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, overload

import numpy as np

from gp.arrays import Array, as_like, is_torch, namespace, to_numpy
from gp.checks import as_noise, as_values, require_memory
from gp.embeddings.embed import in_kind_of
from gp.evidence import log_density
from gp.expectation.kernel_sum import KernelSum
from gp.integrals import Integral, Integrals, JointIntegral, without_rounding
from gp.kernels.base import Kernel, gradient_covariances
from gp.linalg import LARGE_PIVOT, Factor, NotPositiveDefiniteError, cholesky, extend, raised, sample_gaussian
from gp.means import Mean
from gp.measures import Measure
from gp.names import suggesting
from gp.observations import (
    Functional,
    Gradients,
    Observations,
    Values,
    as_functional,
    blocks_of,
    covariance,
    pieces,
    require_same_space,
)
from gp.regression.expectation import kernel_sum
from gp.regression.paths import Path, draw_path
from gp.regression.predictions import PosteriorMethods
from gp.threads import of_few

if TYPE_CHECKING:
    from gp.regression.hyperparameters import Hyperparameters

_MISSED = 1e-3
"""The largest error at values without noise, over theirs from the prior mean (.03 in single precision)."""
_FAR = 100.0
"""The largest deviation from values, in standard deviations of their noise and of rounding."""
_ROUNDING = 2.0
"""The error of a computed covariance, in rounding errors of its variances."""


@dataclass(frozen=True, eq=False)
class GradientMoments:
    """The Gaussian distribution of the gradient of f at m points.

    Attributes
    ----------
    mean : (m, D), covariance : (m, D, D), of the D partial derivatives at each point.
    """

    mean: Array
    covariance: Array


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(PosteriorMethods):
    """A Gaussian process conditioned on observations; made by ``GaussianProcess.condition``.

    Attributes
    ----------
    kernel, mean_function : the prior.
    observations : the n linear functionals that were observed.
    y : (n,), their values.
    noise : the noise variances, a number (of values; derivatives are exact) or (n,).
    factor : Cholesky factor of the covariance of y, with the jitter that it needed.
    whitened : (n,), z = C^-1 (y - m).
    hyperparameters : how ``gp.fit`` found kernel, mean and noise; ``None`` where they were given.
    """

    kernel: Kernel
    mean_function: Mean
    observations: Observations
    y: Array
    noise: Array
    factor: Factor
    whitened: Array
    hyperparameters: Hyperparameters | None = None

    def __repr__(self) -> str:
        noise = f"{self.noise:.4g}" if getattr(self.noise, "ndim", 0) == 0 else "one for each"
        return (
            f"Posterior({len(self.observations)} observations, kernel={self.kernel!r}, "
            f"mean={self.mean_function!r}, noise={noise}, jitter={self.jitter:.3g})"
        )

    @property
    def jitter(self) -> float:
        """Noise added so that K could be factorised, as a fraction of each variance; 0 if none."""
        return self.factor.jitter

    @cached_property
    def weights(self) -> Array:
        """The weights w = K^-1 (y - m), (n,)."""
        return self.factor.solve(self.whitened, transposed=True)

    @cached_property
    def kernel_sum(self) -> KernelSum | None:
        """The posterior mean as a sum of squared exponentials, whose Gaussian integrals are fast.

        ``None`` where the posterior mean has no such form, or where the arrays are not NumPy's.
        """
        return kernel_sum(self)

    @property
    def log_marginal_likelihood(self) -> Array:
        """The log evidence log p(y | kernel, mean, noise), a number."""
        squares = namespace(self.whitened).sum(self.whitened**2)
        return log_density(squares, self.factor.log_determinant, self.y.shape[0])

    @cached_property
    def is_singular(self) -> bool:
        """Whether the covariance of the observations is singular up to rounding: predictions lose digits."""
        if self.jitter > 0 or not len(self.observations):
            return self.jitter > 0
        least = LARGE_PIVOT * float(namespace(self.y).finfo(self.y.dtype).eps)
        return bool((self.factor.pivots < least * self.variances).any())

    @cached_property
    def variances(self) -> Array:
        """The variances of the observations, (n,)."""
        return _noise_variances(self.observations, self.noise) + self.observations.variance(self.kernel)

    @property
    def rounding(self) -> Array:
        """Variances (n,) of the errors of the observations that stand for jitter, or else for rounding."""
        return max(self.jitter, _ROUNDING * float(namespace(self.y).finfo(self.y.dtype).eps)) * self.variances

    def _lift(self, whitened: Array) -> Array:
        """Return (n, m) whose inner products are added to posterior covariances, for whitened ones (n, m)."""
        if self.jitter > 0 or not self.is_singular:
            return whitened[:0]
        return namespace(whitened).sqrt(self.rounding)[:, None] * self.factor.solve(whitened, transposed=True)

    def mean(self, x: Array | Functional) -> Array:
        """Return the posterior mean at points x (m, D), or of other functionals: (m,)."""
        at = self._predicted(x)
        return at.apply(self.mean_function) + self._cross(at) @ self.weights

    def mean_and_variance(self, x: Array | Functional) -> tuple[Array, Array]:
        """Return mean (m,) and variance (m,) at points x (m, D); the variance alone takes about as long."""
        at = self._predicted(x)
        with of_few(len(self.observations) + len(at)):
            cross = self._cross(at)
            mean = at.apply(self.mean_function) + cross @ self.weights
            whitened = self.factor.solve(cross.T)
            variance = at.variance(self.kernel) - _squares(whitened) + _squares(self._lift(whitened))
        return mean, namespace(whitened).clip(variance, 0.0, None)

    def covariance(self, x: Array | Functional, x2: Array | Functional | None = None) -> Array:
        """Return the posterior covariance of f at x (m, D) and at x2 (m2, D), (m, m2).

        Without ``x2``, that of f at x with itself.
        """
        at = self._predicted(x)
        whitened = self.factor.solve(self._cross(at).T)
        lift = self._lift(whitened)
        if x2 is None:
            return covariance(self.kernel, at, at) - whitened.T @ whitened + lift.T @ lift
        other = self._predicted(x2)
        other_whitened = self.factor.solve(self._cross(other).T)
        prior = covariance(self.kernel, at, other)
        return prior - whitened.T @ other_whitened + lift.T @ self._lift(other_whitened)

    def gradient(self, x: Array) -> GradientMoments:
        """Return mean (m, D) and covariance (m, D, D) of df/dx at points x (m, D)."""
        at = Gradients(x)
        m, dimension = at.x.shape
        mean = self.mean(at).reshape((m, dimension))
        whitened = self.factor.solve(self._cross(at).T).reshape((-1, m, dimension))
        prior = gradient_covariances(self.kernel, at.x)
        explained = namespace(whitened).einsum("nmd,nme->mde", whitened, whitened)
        return GradientMoments(mean, prior - explained)

    def leave_one_out(self) -> tuple[Array, Array]:
        """Return mean (n,) and sd (n,) of each observation, noise included, given all others.

        mean_i = y_i - w_i / P_i and sd_i = P_i^(-1/2), with w = K^-1 (y - m) and P the diagonal of K^-1
        (Rasmussen and Williams 2006, Eq. 5.12). Hyperparameters stay as they are.
        """
        xp = namespace(self.y)
        n = self.y.shape[0]
        identity = xp.eye(n, dtype=self.y.dtype, device=self.y.device)
        precision = _squares(self.factor.solve(identity))
        return self.y - self.weights / precision, xp.sqrt(1 / precision)

    @overload
    def integral(self, measure: Measure) -> Integral: ...

    @overload
    def integral(self, measure: Sequence[Measure]) -> JointIntegral: ...

    def integral(self, measure: Measure | Sequence[Measure]) -> Integral | JointIntegral:
        """Return the distribution of the integral of f (without noise) against a measure.

        Parameters
        ----------
        measure : a measure (:mod:`gp.measures`), or a sequence of m of them, for whose integrals
            the joint Gaussian is returned: mean (m,) and covariance (m, m).

        Raises
        ------
        gp.embeddings.UnknownPairError
            where the kernel has no embedding against the measure; the message lists the known pairs.
        ArithmeticError
            where a variance is negative beyond rounding: the embedding is not that of the kernel.
        """
        measures = (measure,) if isinstance(measure, Measure) else tuple(measure)
        if not all(isinstance(each, Measure) for each in measures):
            raise TypeError(f"measure = {measure!r}: give a measure, or a sequence of measures")
        at = Integrals(tuple(in_kind_of(each, self.x) for each in measures))
        require_same_space("measure", at, "the observations' x", self.observations)
        cross, prior = self._cross(at), covariance(self.kernel, at, at)
        whitened = self.factor.solve(cross.T)
        mean = at.apply(self.mean_function) + cross @ self.weights
        joint = JointIntegral(mean, without_rounding(prior - whitened.T @ whitened, prior, self))
        single = isinstance(measure, Measure)
        return Integral(joint.mean[0], joint.covariance[0, 0]) if single else joint

    @suggesting
    def sample(self, x: Array | Functional, n: int, seed: int | np.random.Generator = 0) -> Array:
        """Return n joint draws of f (without noise) at points x (m, D), by the seed: (n, m)."""
        at = self._predicted(x)
        scale = at.variance(self.kernel)
        return sample_gaussian(self.mean(at), self.covariance(at), n, seed, scale)

    def sample_path(self, seed: int | np.random.Generator = 0, n_features: int = 1024) -> Path:
        """Return one function drawn from the posterior by its seed, to be evaluated anywhere later.

        Pathwise conditioning (Wilson et al. 2020, "Efficiently sampling functions from Gaussian
        process posteriors", Eq. 12): a prior path of random features, plus the update
        k_* K^-1 (y - L path - e) that makes it agree with the observations. The prior path is
        exact for linear and constant kernels and otherwise right in mean and covariance, Gaussian
        as ``n_features`` grows. Raises TypeError for a kernel without random features.
        """
        rng = np.random.default_rng(seed)
        path = draw_path(self.kernel, self.mean_function, self.x, n_features, rng)
        noise = _noise_variances(self.observations, self.noise)
        added = self.jitter * (noise + self.observations.variance(self.kernel))
        sd = namespace(noise).sqrt(noise + added)
        errors = sd * as_like(rng.standard_normal(self.y.shape[0]), self.y)
        residual = self.y - self.observations.apply(path) - errors
        solved = self.factor.solve(self.factor.solve(residual), transposed=True)
        return replace(path, observations=self.observations, weights=solved)

    def extend(self, x: Array | Functional, y: Array, noise: Array | None = None) -> Posterior:
        """Return the posterior with m more observations, in O(n^2 m): equal to a refit.

        Where the old factor cannot be extended, because all rows need more jitter than it has, everything is
        factorised again, in O((n + m)^3), and the result's ``jitter`` is that of the new factor.

        Parameters
        ----------
        x : points (m, D), or functionals.
        y : (m,), their values.
        noise : their noise variances, a number or (m,); by default the number the process has.

        Raises
        ------
        ValueError
            If the process has a noise for each observation and ``noise`` is not given.
        NotPositiveDefiniteError
            If no small jitter makes the covariance of all observations positive definite.
        """
        added = self._predicted(x)
        y = as_values("y", flat(y), len(added), self.y)
        if noise is None and getattr(self.noise, "ndim", 0) == 1:
            raise ValueError(
                "noise = None, but the process has a noise for each observation: give the noise "
                "of the new ones"
            )
        noise = self.noise if noise is None else as_noise(noise, len(added), self.y)
        observed, xp = self.observations.with_functional(added), namespace(y)
        values = xp.concat([self.y, y])
        parts = (self.observations, self.noise), (added, noise)
        variances = noise if noise is self.noise else xp.concat([_noise_variances(*each) for each in parts])
        try:
            corner = _with_noise(covariance(self.kernel, added, added), added, noise)
            factor = extend(self.factor, self._cross(added).T, corner)
        except NotPositiveDefiniteError:
            whole = condition(self.kernel, self.mean_function, observed, values, variances)
            return replace(whole, hyperparameters=self.hyperparameters)
        new = factor.continue_solution(self.whitened, y - added.apply(self.mean_function))
        whitened = xp.concat([self.whitened, new])
        extended = replace(
            self, observations=observed, y=values, noise=variances, factor=factor, whitened=whitened
        )
        if extended.is_singular:
            _refuse_misses(extended, slice(None) if factor.jitter > self.jitter else slice(-len(added), None))
        return extended

    def in_tensors(self, like: Array) -> Posterior:
        """Return the posterior with tensors, of the kind of ``like``, in place of NumPy arrays."""
        blocks = [
            Values(as_like(block.x, like)) if isinstance(block, Values) else Gradients(as_like(block.x, like))
            for block in self.observations.blocks
        ]
        noise = self.noise if isinstance(self.noise, float) else as_like(self.noise, like)
        return condition(self.kernel, self.mean_function, blocks, as_like(self.y, like), noise)

    def _predicted(self, x: Array | Functional) -> Functional:
        at = as_functional(x)
        require_same_space("x", at, "the observations' x", self.observations)
        return at

    def _cross(self, at: Functional) -> Array:
        """Prior covariance of the predicted functionals with the observations, (m, n)."""
        return covariance(self.kernel, at, self.observations)


def condition(
    kernel: Kernel, mean: Mean, x: Array | Functional | Sequence[Functional], y: Array, noise: Array
) -> Posterior:
    """Condition a Gaussian process on observations; see ``GaussianProcess.condition``.

    Parameters
    ----------
    kernel, mean : those of the prior. x : points (n, D), or functionals.
    y : the observations (n,), or a list with an array for each block. noise : its variance, a number or (n,).
    """
    observed = as_functional(x)
    if not isinstance(observed, Observations):
        observed = Observations((observed,))
    require_memory(len(observed))
    y = as_values("y", flat(y), len(observed), observed.x)
    noise = as_noise(noise, len(observed), observed.x)
    with of_few(len(observed)):
        factor = cholesky(_with_noise(covariance(kernel, observed, observed), observed, noise))
        whitened = factor.solve(y - observed.apply(mean))
        posterior = Posterior(kernel, mean, observed, y, noise, factor, whitened)
        if posterior.is_singular:
            _refuse_misses(posterior)
    return posterior


def _with_noise(matrix: Array, observed: Functional, noise: Array) -> Array:
    """Return the covariance of the observations from that of the functionals, (n, n)."""
    if isinstance(noise, float) and noise == 0:
        return matrix
    common = isinstance(noise, float) and _only_values(observed)
    return raised(matrix, noise if common else _noise_variances(observed, noise), overwrite=True)


def _squares(columns: Array) -> Array:
    """Return the squared norms of columns (n, m), (m,)."""
    return (columns**2).sum(0) if is_torch(columns) else np.einsum("ij,ij->j", columns, columns)


def _only_values(observed: Functional) -> bool:
    return all(isinstance(block, Values) for block in blocks_of(observed))


def _noise_variances(observed: Functional, noise: Array) -> Array:
    """Return the noise variances, (n,): a common number is that of values only."""
    if getattr(noise, "ndim", 0) == 1:
        return noise
    xp, parts = namespace(observed.x), []
    for block in blocks_of(observed):
        ones = xp.ones(len(block), dtype=block.x.dtype, device=block.x.device)
        parts.append((as_like(noise, ones) if isinstance(block, Values) else 0.0) * ones)
    return parts[0] if len(parts) == 1 else xp.concat(parts)


def flat(y: Array | Sequence[Array]) -> Array:
    """One vector from a list of arrays, one for each block."""
    if isinstance(y, list | tuple) and y and all(hasattr(part, "ndim") for part in y):
        parts = [part if is_torch(part) else np.asarray(part) for part in y]
        return namespace(*parts).concat([part.reshape(-1) for part in parts])
    return y


def _refuse_misses(posterior: Posterior, rows: slice = slice(None)) -> None:
    """Raise ValueError where the mean misses values by more than their noise and rounding explain.

    Jitter, which makes a covariance of low rank or of points that nearly coincide positive definite, and
    rounding act as a noise that the user did not state. Exact values that are not among the kernel's
    functions are then missed by many of its standard deviations (the kernel scaled to values that are larger
    than its own), or, where variances are large, by a part of the values' distance from the prior mean or of
    their range, as a fit may make variance and mean so large that rounding explains all values.
    """
    observed, values = posterior.observations, to_numpy(posterior.y)
    noise = to_numpy(_noise_variances(observed, posterior.noise))
    centred = values - to_numpy(observed.apply(posterior.mean_function))
    variances, size, spread = to_numpy(posterior.variances), np.ones(len(values)), np.empty(len(values))
    rounding, eps = to_numpy(posterior.rounding), float(np.finfo(values.dtype).eps)
    for _, part in pieces(observed):
        square = np.mean(centred[part] ** 2)
        spread[part] = min(np.sqrt(square), np.ptp(values[part]) or np.inf) or np.inf
        size[part] = max(1.0, square / (np.mean(variances[part]) or np.inf))
    sd = (noise + size * np.maximum(rounding, eps * rounding.max())) ** 0.5  # sums are rounded at f = 0, too
    part = np.maximum(max(_MISSED, 100 * eps**0.5) * spread, _FAR * eps * np.abs(values))
    allowed = np.minimum(_FAR * sd, _FAR * noise**0.5 + part)
    if _only_values(observed):
        refuse_contradictions(posterior.x, posterior.y, np.minimum(10 * sd, allowed))
    missed = np.abs(values - to_numpy(posterior.mean(observed)))
    excess = (missed - allowed)[rows]
    if excess.size and excess.max() > 0:
        i = int(np.arange(len(values))[rows][excess.argmax()])
        raise ValueError(
            f"y[{i}] = {values[i]:.6g} is missed by {missed[i]:.3g}, more than noise and rounding explain: "
            "the kernel cannot hold these values, as it is of low rank or points nearly coincide: give "
            "`noise`, keep one of points that nearly coincide, or add a kernel such as SquaredExponential"
        )


def refuse_contradictions(x: Array, y: Array, allowed: Array) -> None:
    """Raise ValueError where y (n,) has two values at one point of x (n, D) that differ by too much.

    ``allowed`` (n,): for each value, the largest deviation from f that its noise explains.
    """
    points, values, slack = to_numpy(x), to_numpy(y), to_numpy(allowed)
    _, inverse = np.unique(points, axis=0, return_inverse=True)
    order = np.argsort(inverse.reshape(-1), kind="stable")
    same = np.diff(inverse.reshape(-1)[order]) == 0
    gap = np.abs(np.diff(values[order]))
    bad = np.flatnonzero(same & (gap > np.hypot(slack[order][:-1], slack[order][1:])))
    if bad.size:
        i, j = order[bad[0]], order[bad[0] + 1]
        raise ValueError(
            f"x[{i}] and x[{j}] are the same point, y[{i}] = {values[i]:.6g} and "
            f"y[{j}] = {values[j]:.6g} differ, and there is no noise that could explain it: give "
            "`noise`, or keep one value for each point"
        )
