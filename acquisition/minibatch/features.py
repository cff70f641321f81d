"""Features of the data: a kernel over N rows as K = Phi Phi^T + diag(r), in O(N) time and memory.

The squared MMD of a weighted mini-batch to the data is the variance that a Gaussian process of the kernel
leaves of the mean over the data. All strategies that use a kernel use it through

    k(x_i, x_j) = <phi_i, phi_j> + [i = j] r_i,      phi_i in R^M, r_i = k(x_i, x_i) - |phi_i|^2 >= 0,

so k(x, x) is kept exactly. The mean of the kernel at row i is then <phi_i, mean phi> + r_i / N. Phi comes
from a Cholesky factorisation of K whose pivots are drawn with probabilities proportional to r (Chen,
Epperly, Tropp and Webber 2023, Algorithm 2.1), in blocks with rejection, which draws the same pivots
(Epperly, Tropp and Webber 2024): O(N M^2) once.

The kernel has to be one of quantities of which the gradient of a datum is a function:

    x                          the default choice; units in which clusters have covariance I reduce the error
    (x, y)                     regression; where gradients are affine in y, as for Gaussian errors, a smooth
                               kernel of x times 1 + <y, y'> (`affine_in_labels`)
    y x                        logistic regression, whose gradients are functions of it alone (`signed`)
    responsibilities           mixtures, once q is near its optimum
    gradients at a snapshot    any model, for one evaluation of each datum

Gradients are learnt as a linear function of features whose coefficients drift (`Coefficients`), by a Kalman
filter,

    g_i = B^T f_i + noise_i,   f_i = (1, phi_i) in R^M',   noise variance r_i + s^2,

with one covariance C (M', M') for all P coordinates of the gradient, in units of their prior variance.
Between steps the coefficients drift because q moves: C <- (1 - rho^2) C + rho^2 I, so that C stays between 0
and the prior covariance. A step costs O(M'^2 S).
"""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from acquisition.minibatch.settings import FEATURES
from acquisition.minibatch.strategy import Unlearning, require_rows, require_size
from acquisition.minibatch.uniform import UniformState
from gp.arrays import shown, to_numpy
from gp.checks import as_points, require_integer
from gp.kernels import Columns, Constant, Kernel, Linear, Matern32, Matern52
from gp.matrices import cholesky, positive_solve, solve_lower


@dataclass(frozen=True, eq=False)
class Features:
    """K = Phi Phi^T + diag(r) over N rows."""

    phi: np.ndarray
    """(N, M); single precision where it has more than ten million entries."""
    residual: np.ndarray
    """r, (N,)."""
    kernel: Kernel | None = field(default=None)
    """The kernel that was factorised."""
    seconds: float = 0.0
    """Seconds that the factorisation took."""

    @classmethod
    def of(
        cls,
        x: np.ndarray,
        kernel: Kernel | None = None,
        *,
        rank: int = FEATURES.rank,
        seed: int = 0,
    ) -> Features:
        """Features of the rows of ``x``.

        Parameters
        ----------
        x : (N, D), finite
        kernel : over rows; None: Matern 3/2 with half the median distance as its lengthscale
        rank : M >= 1; fewer where the kernel has a lower rank
        seed : seed of the pivots, and of the rows whose median distance is taken

        Raises
        ------
        ValueError, TypeError
            ``x`` is not a table of finite numbers, all its rows are identical and no kernel was given, or
            the rank is not a positive integer.
        """
        x = _checked_rows(x)
        require_integer("rank", rank, 1)
        began = time.perf_counter()
        rng = np.random.default_rng(seed)
        if kernel is None:
            kernel = Matern32(FEATURES.multiple * median_distance(x, rng))
        elif not isinstance(kernel, Kernel):
            raise TypeError(f"kernel is {kernel!r}; it must be a kernel of gp.kernels, or None")
        phi, residual = pivoted_cholesky(x, kernel, min(rank, len(x)), rng)
        return cls(phi, residual, kernel, time.perf_counter() - began)

    def __len__(self) -> int:
        """N."""
        return len(self.phi)

    @property
    def rank(self) -> int:
        """M."""
        return int(self.phi.shape[1])

    @cached_property
    def mean(self) -> np.ndarray:
        """Mean of phi over the data, (M,)."""
        return np.asarray(self.phi.mean(axis=0, dtype=np.float64))

    def gram(self, indices: np.ndarray) -> np.ndarray:
        """K of distinct rows ``indices`` (S,), (S, S)."""
        phi = self.phi[indices].astype(np.float64, copy=False)
        gram = phi @ phi.T
        gram[np.diag_indices(len(indices))] += self.residual[indices]
        return np.asarray(gram)

    def kernel_mean(self, indices: np.ndarray) -> np.ndarray:
        """z_i = N^-1 sum_n k(x_i, x_n) for the rows i in ``indices``, (S,)."""
        return np.asarray(self.phi[indices] @ self.mean + self.residual[indices] / len(self))

    def __repr__(self) -> str:
        mark = zlib.crc32(np.ascontiguousarray(self.phi[:: max(1, len(self) // 100)]).tobytes())
        return f"Features(N={len(self)}, M={self.rank}, kernel={self.kernel}, checksum={mark:08x})"


def median_distance(x: np.ndarray, rng: np.random.Generator, most: int = 1000) -> float:
    """Median distance between different rows of at most ``most`` of the rows of ``x``.

    Raises
    ------
    ValueError
        All rows are identical: there is no distance to take.
    """
    rows = x if len(x) <= most else x[rng.choice(len(x), most, replace=False)]
    distances = pdist(rows)
    distances = distances[distances > 0.0]
    if len(distances) == 0:
        raise ValueError(
            "x has identical rows only: there is no distance to take a lengthscale from, and nothing to "
            "choose between; use Reshuffled"
        )
    return float(np.median(distances))


def pivoted_cholesky(
    x: np.ndarray, kernel: Kernel, rank: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Phi (N, M) with M <= ``rank``, and r (N,); see the module's docstring.

    Parameters
    ----------
    x : rows (N, C). kernel : the kernel over them. rank : the largest M.
    rng : the generator by which pivots are drawn.
    """
    n = len(x)
    dtype = np.float32 if n * rank > 10_000_000 else np.float64
    phi = np.zeros((n, rank), dtype)
    residual = np.array(kernel.diagonal(x), dtype=float)
    trace, used = residual.sum(), 0
    if not trace > 0.0:
        raise ValueError("the kernel is zero on the diagonal: all rows are alike under it")
    # the remaining trace is rounding
    while used < rank and residual.sum() > 1e-10 * trace:
        proposed = rng.choice(n, min(10, rank - used), p=residual / residual.sum())
        columns = _new_columns(x, kernel, phi[:, :used], residual, proposed, rng)
        phi[:, used : used + columns.shape[1]] = columns
        residual -= np.einsum("nm,nm->n", columns, columns)
        np.maximum(residual, 0.0, out=residual)
        used += columns.shape[1]
    return (phi if used == rank else np.ascontiguousarray(phi[:, :used])), residual


def _new_columns(
    x: np.ndarray,
    kernel: Kernel,
    phi: np.ndarray,
    residual: np.ndarray,
    proposed: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Columns of the factor for those ``proposed`` pivots that are accepted, (N, at least 1)."""
    at = x[proposed]
    block = np.asarray(kernel(at, at)) - phi[proposed] @ phi[proposed].T
    accepted, factor = _accepted(block, residual[proposed], rng)
    pivots = proposed[accepted]
    table = np.empty((len(x), len(pivots)))
    step = max(1, (1 << 18) // len(pivots))
    for start in range(0, len(x), step):  # blocks whose temporary arrays fit the cache
        rows = slice(start, start + step)
        part = np.asarray(kernel(x[rows], x[pivots])) - phi[rows] @ phi[pivots].T
        table[rows] = solve_lower(factor, part.T).T
    return table


def _accepted(
    block: np.ndarray, before: np.ndarray, rng: np.random.Generator
) -> tuple[list[int], np.ndarray]:
    """The proposals that are accepted: each with the share of its residual that those before it have left."""
    accepted: list[int] = []
    factor = np.zeros((0, 0))
    for i in range(len(block)):
        row = solve_lower(factor, block[accepted, i])
        residual = block[i, i] - row @ row
        if accepted and (rng.random() * before[i] > residual or residual <= 1e-12 * before[i]):
            continue
        grown = np.zeros((len(accepted) + 1, len(accepted) + 1))
        grown[:-1, :-1], grown[-1, :-1] = factor, row
        grown[-1, -1] = np.sqrt(max(residual, np.finfo(float).tiny))
        accepted, factor = [*accepted, i], grown
    return accepted, factor


def require_features(features: object) -> None:
    """Raise TypeError where ``features`` are none: an array, or rows with a kernel."""
    if isinstance(features, Features):
        return
    made = "Features.of(*rows_and_kernel)" if isinstance(features, tuple) else "Features.of(rows)"
    raise TypeError(
        f"features is {shown(features)}; it must be acquisition.minibatch.Features, made from the data by "
        f"minibatch.{made}"
    )


def affine_in_labels(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, Kernel]:
    """Rows (x, e) and the kernel k(x, x') (1 + <e, e'> / E), for gradients affine in y and smooth in x.

    With Gaussian errors, or any exponential family with mean f(x, theta), a datum's gradient is
    J(x)^T (y - f(x)) times a precision: affine in y for each x, and as smooth in x as the model. e is the
    residual of y after regression on a smooth function of x: near the optimum the gradient depends on this
    residual, and most of y itself is determined by x.

    Parameters
    ----------
    x : (N, D); columns are standardised
    y : (N, E); the residuals of its columns given x are standardised

    Raises
    ------
    ValueError
        All rows of x are identical, or x and y have different numbers of rows.
    """
    x, y = standardised(x), standardised(y)
    if len(x) != len(y):
        raise ValueError(f"y has {len(y)} rows and x {len(x)}; give one row of each for each datum")
    inputs, labels = tuple(range(x.shape[1])), tuple(range(x.shape[1], x.shape[1] + y.shape[1]))
    smooth = Matern52(median_distance(x, np.random.default_rng(0)))
    affine = Constant(1.0) + Columns(Linear(1.0 / y.shape[1]), labels)
    return np.column_stack([x, _unexplained(x, y, smooth)]), Columns(smooth, inputs) * affine


def _unexplained(x: np.ndarray, y: np.ndarray, kernel: Kernel) -> np.ndarray:
    """Standardised residuals (N, E) of y (N, E) regressed on few features of x, which cannot overfit."""
    rank = min(60, max(1, len(x) // 20))
    design = np.column_stack([np.ones(len(x)), Features.of(x, kernel, rank=rank).phi])
    gram = design.T @ design
    gram.flat[:: len(gram) + 1] += 0.01
    return standardised(y - design @ positive_solve(gram, design.T @ y))


def signed(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(2 y - 1) x, (N, D), for labels y in {0, 1}: gradients of a logistic regression are functions of it."""
    x, y = _checked_rows(x), np.asarray(y, float)
    if y.shape != (len(x),) or not np.isin(y, (0.0, 1.0)).all():
        raise ValueError("y must hold a label 0 or 1 for each row of x")
    return np.asarray((2.0 * y - 1.0)[:, None] * x)


def standardised(x: np.ndarray) -> np.ndarray:
    """The columns of ``x``, (N, D), with mean 0 and variance 1; constant columns become 0."""
    x = _checked_rows(x)
    scale = x.std(axis=0)
    return np.asarray((x - x.mean(axis=0)) / np.where(scale > 0.0, scale, 1.0))


def _checked_rows(x: np.ndarray) -> np.ndarray:
    """``x`` as a table (N, D) of finite float64; TypeError or ValueError where it is none."""
    table = np.asarray(to_numpy(as_points("x", x)), dtype=float)
    if not len(table):
        raise ValueError(f"x has shape {table.shape}; it must be (N, D) with N at least 1")
    return table


class Featured(Unlearning):
    """Strategies that choose by features and do not learn from gradients; both attributes are fields."""

    size: int
    features: Features

    def __post_init__(self) -> None:
        require_features(self.features)

    @property
    def setup_seconds(self) -> float:
        """Seconds that the computation of the features took."""
        return self.features.seconds

    def start(self, n: int, rng: np.random.Generator) -> Any:
        require_size(self.size, n)
        require_rows("features", len(self.features), n)
        return UniformState(n)


@dataclass(frozen=True)
class Coefficients:
    """The posterior of B."""

    mean: np.ndarray = field(metadata={"grows": True})
    """(P M',) row by row; empty before the first observation."""
    covariance: np.ndarray
    """C, (M', M')."""

    @classmethod
    def prior(cls, features: Features) -> Coefficients:
        """The prior N(0, I) of B."""
        return cls(np.zeros(0), np.eye(features.rank + 1))

    @property
    def known(self) -> bool:
        """Whether there have been observations."""
        return len(self.mean) > 0

    @property
    def table(self) -> np.ndarray:
        """The mean of B^T, (P, M')."""
        return self.mean.reshape(-1, len(self.covariance))

    def observed(
        self, design: np.ndarray, gradients: np.ndarray, noise: np.ndarray, drift: float
    ) -> Coefficients:
        """After gradients (S, P) at features ``design`` (S, M') with noise variances (S,), and a drift."""
        table = self.table if self.known else np.zeros((gradients.shape[1], len(self.covariance)))
        prior = (1.0 - drift**2) * self.covariance
        prior.flat[:: len(prior) + 1] += drift**2
        cross = design @ prior
        gram = cross @ design.T
        gram.flat[:: len(gram) + 1] += noise
        factor = cholesky(gram)
        both = np.hstack([cross, gradients - design @ table.T])
        solved = solve_lower(factor, both)
        whitened, errors = np.split(solved, [len(prior)], axis=1)
        # subtracting a matrix of the form A^T A keeps the covariance exactly symmetric
        return Coefficients((table + errors.T @ whitened).ravel(), prior - whitened.T @ whitened)


def design(features: Features, indices: np.ndarray) -> np.ndarray:
    """(1, phi_i) of rows ``indices``, (S, M')."""
    return np.column_stack([np.ones(len(indices)), features.phi[indices]])


def mean_design(features: Features) -> np.ndarray:
    """Mean of the design over the data, (M',)."""
    return np.concatenate([[1.0], features.mean])
