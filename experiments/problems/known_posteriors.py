"""Posteriors with known evidence and moments, and the distances of other posteriors from them.

Each `Problem` is a log joint of one parameter vector with its gradient, bounds, a plausible box, its log
evidence, its moments and independent draws. Their sources:

    rosenbrock     a chain x_1 - x_2 - ... - x_D: transfer matrices on a grid, exact to rounding; draws
                   from the grid's conditionals, spread uniformly over a cell
    cigar, lumpy   a Gaussian and a mixture of Gaussians: closed form
    banana         a rule on a fine grid of the box; draws from its cells
    logistic       569 tumours, 5 coefficients: constants, by importance sampling, see their docstring

Distances from them are measured by `mmtv` and `gskl` (see `bqvi.variational_bmc.diagnostics`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, logsumexp
from scipy.stats import multivariate_t, qmc

from bqvi.variational_bmc.diagnostics import gskl, mmtv
from gp.measures import GaussianMixture

__all__ = [
    "Density", "Pair", "Problem", "Sampler", "bounded_banana", "cigar", "gskl", "logistic", "logistic_data",
    "logistic_reference", "lumpy", "mmtv", "of_mixture", "planar", "problems", "rosenbrock", "unbounded",
]  # fmt: skip

Sampler = Callable[[int, np.random.Generator], np.ndarray]
Density = Callable[[np.ndarray], np.ndarray]
Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Problem:
    """A posterior that is known.

    Attributes
    ----------
    name : its name.
    log_density : (n, D) -> (n,), unnormalised.
    log_density_gradient : (n, D) -> (n, D).
    lower, upper, plausible_lower, plausible_upper : (D,).
    log_evidence : log of the integral of exp(log_density).
    mean, covariance : (D,), (D, D).
    sampler : n, generator -> independent draws (n, D).
    """

    name: str
    log_density: Callable[[np.ndarray], np.ndarray]
    log_density_gradient: Callable[[np.ndarray], np.ndarray]
    lower: np.ndarray
    upper: np.ndarray
    plausible_lower: np.ndarray
    plausible_upper: np.ndarray
    log_evidence: float
    mean: np.ndarray
    covariance: np.ndarray
    sampler: Sampler

    @property
    def dimension(self) -> int:
        """The number D of parameters."""
        return len(self.mean)

    def log_joint(self, theta: np.ndarray) -> float:
        """The log density at one vector theta (D,)."""
        return float(self.log_density(np.asarray(theta, float)[None])[0])

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Its gradient at one vector theta (D,), (D,)."""
        return self.log_density_gradient(np.asarray(theta, float)[None])[0]

    def sample(self, n: int, seed: int | np.random.Generator) -> np.ndarray:
        """Independent draws (n, D) by a seed."""
        return self.sampler(n, np.random.default_rng(seed))

    def bounds(self) -> dict[str, Any]:
        """The four bounds, as arguments of a call."""
        names = ("lower", "upper", "plausible_lower", "plausible_upper")
        return {name: getattr(self, name) for name in names}

    def noisy(self, sd: float, seed: int | np.random.Generator) -> Callable[[np.ndarray], float]:
        """`log_joint` with independent Gaussian noise of this sd by a seed, new at each call."""
        rng = np.random.default_rng(seed)
        return lambda theta: self.log_joint(theta) + sd * float(rng.standard_normal())

    def rescaled(self, width: float, shift: np.ndarray) -> Problem:
        """The plausible box ``width`` times as wide, moved by ``shift`` (D,) widths of the old one.

        It stays within the bounds: a box that would leave them is moved back, and cut if it is too wide.
        """
        old = self.plausible_upper - self.plausible_lower
        half = np.minimum(0.5 * width * old, 0.5 * (self.upper - self.lower))
        middle = 0.5 * (self.plausible_upper + self.plausible_lower) + shift * old
        middle = np.clip(middle, self.lower + half, self.upper - half)
        low, high = middle - half, middle + half
        return dataclasses.replace(self, plausible_lower=low, plausible_upper=high)

    def raised(self, offset: float) -> Problem:
        """The density times exp(``offset``)."""
        return dataclasses.replace(
            self,
            log_density=lambda x: self.log_density(x) + offset,
            log_evidence=self.log_evidence + offset,
        )


def unbounded(dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Bounds (D,), (D,) of D = ``dimension`` parameters without bounds: -inf and inf."""
    return np.full(dimension, -np.inf), np.full(dimension, np.inf)


def _logs(x: np.ndarray) -> np.ndarray:
    """Logarithms, -inf of zeros."""
    return np.log(x, out=np.full(x.shape, -np.inf), where=x > 0.0)


@dataclass(frozen=True, eq=False)
class _Chain:
    """A density on a grid that is a product of factors of neighbours: exp(sum_i own(x_i) + pair(x_i, x_i+1)).

    Attributes
    ----------
    grid : (m,), equidistant.
    transfer : (m, m), exp(pair) times the width of a cell and times exp(own) of the second entry.
    first : (m,), exp(own) times the width of a cell.
    length : D.
    """

    grid: np.ndarray
    transfer: np.ndarray
    first: np.ndarray
    length: int

    def backward(self) -> list[np.ndarray]:
        """For each i the sum over all later coordinates, given x_i; (m,) each."""
        messages = [np.ones(len(self.grid))]
        for _ in range(self.length - 1):
            messages.insert(0, self.transfer @ messages[0])
        return messages

    def forward(self) -> list[np.ndarray]:
        """For each i the sum over all earlier coordinates, with x_i; (m,) each."""
        messages = [self.first]
        for _ in range(self.length - 1):
            messages.append(messages[-1] @ self.transfer)
        return messages

    def moments(self) -> tuple[float, np.ndarray, np.ndarray]:
        """Log of the total, mean and covariance."""
        back, front = self.backward(), self.forward()
        total = float(self.first @ back[0])
        x, d = self.grid, self.length
        mean = np.array([front[i] @ (back[i] * x) for i in range(d)]) / total
        second = np.empty((d, d))
        for i in range(d):
            carried = front[i] * x
            second[i, i] = carried @ (back[i] * x)
            for j in range(i + 1, d):
                carried = carried @ self.transfer
                second[i, j] = second[j, i] = carried @ (back[j] * x)
        return math.log(total), mean, second / total - np.outer(mean, mean)

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draws (n, D): cells by their conditionals, a uniform place in each."""
        back = self.backward()
        start = self.first * back[0]
        columns = [rng.choice(len(start), size=n, p=start / start.sum())]
        for i in range(1, self.length):
            columns.append(self._next(columns[-1], back[i], rng))
        step = self.grid[1] - self.grid[0]
        cells = self.grid[np.stack(columns, axis=1)]
        return cells + step * (rng.random(cells.shape) - 0.5)

    def _next(self, before: np.ndarray, back: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A draw of the next cell for each of the cells ``before`` (n,)."""
        values, where = np.unique(before, return_inverse=True)
        tables = np.cumsum(self.transfer[values] * back, axis=1)
        tables /= tables[:, -1:]
        # One search for all tables: table k is shifted by k, so that together they are one ascending list.
        lifted = (tables + np.arange(len(values))[:, None]).ravel()
        found = np.searchsorted(lifted, where + rng.random(len(before)), side="right")
        return np.minimum(found - where * len(self.grid), len(self.grid) - 1)


@cache
def _rosenbrock_chain(dimension: int, step: float) -> _Chain:
    grid = np.arange(-9.0, 27.0, step)  # the mass outside of the grid is 1e-18
    own = -0.5 * (grid / 3.0) ** 2 - math.log(3.0) - 0.5 * math.log(2 * math.pi) + math.log(step)
    pair = -((grid[:, None] ** 2 - grid) ** 2) - ((grid[:, None] - 1.0) ** 2) / 100.0
    return _Chain(grid, np.exp(pair + own), np.exp(own), dimension)


@cache
def rosenbrock(dimension: int, step: float = 0.02) -> Problem:
    """-sum_i [(x_i^2 - x_(i+1))^2 + (x_i - 1)^2 / 100] + log N(x; 0, 9 I) in a dimension D >= 2.

    The moments are those of a chain on a grid of this step.
    """
    chain = _rosenbrock_chain(dimension, step)
    log_evidence, mean, covariance = chain.moments()

    def log_density(x: np.ndarray) -> np.ndarray:
        a, b = x[:, :-1], x[:, 1:]
        chained = ((a * a - b) ** 2 + (a - 1.0) ** 2 / 100.0).sum(axis=1)
        prior = 0.5 * (x * x).sum(axis=1) / 9.0 + dimension * (math.log(3.0) + 0.5 * math.log(2 * math.pi))
        return -chained - prior

    def gradient(x: np.ndarray) -> np.ndarray:
        a, b = x[:, :-1], x[:, 1:]
        out = -x / 9.0
        out[:, :-1] -= 4.0 * a * (a * a - b) + (a - 1.0) / 50.0
        out[:, 1:] += 2.0 * (a * a - b)
        return out

    return Problem(
        f"Rosenbrock {dimension}", log_density, gradient, *unbounded(dimension),
        np.full(dimension, -3.0), np.full(dimension, 3.0), log_evidence, mean, covariance, chain.sample,
    )  # fmt: skip


def of_mixture(
    name: str, mixture: GaussianMixture, plausible_lower: np.ndarray, plausible_upper: np.ndarray
) -> Problem:
    """A normalised mixture of Gaussians.

    Parameters
    ----------
    name : of the problem. mixture : in D dimensions. plausible_lower, plausible_upper : (D,).
    """
    precisions = np.linalg.inv(mixture.covariances)

    def gradient(x: np.ndarray) -> np.ndarray:
        parts = np.stack([part.log_density(x) for part in mixture.components])  # (K, n)
        shares = np.exp(parts + _logs(mixture.weights)[:, None] - mixture.log_density(x))
        pulls = np.einsum("kij,knj->kni", precisions, mixture.means[:, None] - x)
        return np.einsum("kn,kni->ni", shares, pulls)

    return Problem(
        name, mixture.log_density, gradient, *unbounded(mixture.dimension), plausible_lower, plausible_upper,
        0.0, mixture.mean, mixture.covariance, mixture.sample,
    )  # fmt: skip


@cache
def cigar(dimension: int, seed: int = 0, length: float = 100.0) -> Problem:
    """N(linspace(-1, 1), Q^T diag(1, .., 1, length^2) Q), of this dimension; ln Z = 0.

    Q is a random rotation by the seed.
    """
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.standard_normal((dimension, dimension)))
    spectrum = np.append(np.ones(dimension - 1), length**2)
    covariance = (turn.T * spectrum) @ turn
    mixture = GaussianMixture(np.ones(1), np.linspace(-1, 1, dimension)[None], covariance[None])
    box = 2.0 * np.sqrt(np.diag(covariance)) + 1.0
    return of_mixture(f"cigar {dimension}", mixture, -box, box)


@cache
def lumpy(dimension: int, seed: int = 0) -> Problem:
    """12 Gaussians with means in the unit cube of this dimension, by the seed; ln Z = 0.

    Their standard deviations are permutations of sqrt(linspace(.04, .36)).
    """
    rng = np.random.default_rng(seed)
    means = rng.random((12, dimension))
    variances = np.stack([rng.permutation(np.linspace(0.04, 0.36, dimension)) for _ in range(12)])
    weights = rng.exponential(size=12)
    mixture = GaussianMixture(weights / weights.sum(), means, variances)
    reach = 3.0 * np.sqrt(np.diag(mixture.covariance))
    return of_mixture(f"lumpy {dimension}", mixture, mixture.mean - reach, mixture.mean + reach)


def planar(
    name: str,
    log_density: Density,
    gradient: Density,
    support: Pair,
    bounds: Pair,
    plausible: Pair,
    cells: int,
) -> Problem:
    """A density in the plane, its evidence and moments by Gauss's rule, draws from the cells of a grid.

    Parameters
    ----------
    name, log_density, gradient : of the problem.
    support : lower and upper corner (2,) of a box outside of which there is no mass.
    bounds, plausible : of the problem.
    cells : a side; the rule has a fifth as many nodes a side.
    """
    lower, upper = support
    nodes, weights = np.polynomial.legendre.leggauss(cells // 5)
    half = 0.5 * (upper - lower)
    axes = [h * (nodes + 1.0) + lo for lo, h in zip(lower, half, strict=True)]
    points = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)
    logs = log_density(points)
    top = logs.max()
    mass = np.exp(logs - top) * np.outer(weights, weights).ravel() * half.prod()
    total = mass.sum()
    mean = mass @ points / total
    centred = points - mean
    covariance = (centred.T * mass) @ centred / total
    return Problem(
        name, log_density, gradient, *bounds, *plausible, float(top + np.log(total)), mean, covariance,
        _cells(log_density, lower, upper, cells),
    )  # fmt: skip


@cache
def bounded_banana(cells: int = 1500) -> Problem:
    """-(y - x^2 / 2)^2 / .5 - (x - 1)^2 / 2.88 - ln 50 on [0, 5] x [0, 10], of so many ``cells`` a side."""

    def log_density(x: np.ndarray) -> np.ndarray:
        a, b = x[:, 0], x[:, 1]
        return -((b - 0.5 * a * a) ** 2) / 0.5 - (a - 1.0) ** 2 / 2.88 - math.log(50.0)

    def gradient(x: np.ndarray) -> np.ndarray:
        a, b = x[:, 0], x[:, 1]
        gap = b - 0.5 * a * a
        return np.stack([4.0 * gap * a - (a - 1.0) / 1.44, -4.0 * gap], axis=1)

    bounds = np.zeros(2), np.array([5.0, 10.0])
    plausible = np.array([0.5, 0.5]), np.array([3.0, 5.0])
    return planar("bounded banana", log_density, gradient, bounds, bounds, plausible, cells)


def _cells(log_density: Callable[[Any], Any], lower: np.ndarray, upper: np.ndarray, n: int) -> Sampler:
    """Draws from the cells of an n x n grid of a box, uniform in a cell."""
    step = (upper - lower) / n
    axes = [lo + h * (np.arange(n) + 0.5) for lo, h in zip(lower, step, strict=True)]
    points = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)
    logs = log_density(points)
    table = np.cumsum(np.exp(logs - logs.max()))
    table /= table[-1]

    def sample(count: int, rng: np.random.Generator) -> np.ndarray:
        cell = np.minimum(np.searchsorted(table, rng.random(count), side="right"), len(table) - 1)
        return points[cell] + step * (rng.random((count, 2)) - 0.5)

    return sample


_LOGISTIC_LOG_EVIDENCE = -103.672392
_LOGISTIC_MEAN = (0.972901, -4.824152, -1.627718, -1.612460, -0.750339)
_LOGISTIC_COVARIANCE = (
    (0.04203015, -0.01725635, -0.01567577, -0.01728965, -0.00124624),
    (-0.01725635, 0.2632487, 0.05783115, 0.06894245, 0.02048967),
    (-0.01567577, 0.05783115, 0.05867429, 0.03332275, 0.00932375),
    (-0.01728965, 0.06894245, 0.03332275, 0.07996999, -0.02921018),
    (-0.00124624, 0.02048967, 0.00932375, -0.02921018, 0.07310026),
)
"""Of `logistic`: `logistic_reference(20, seed)` averaged over the seeds 0 to 3. Standard errors: 9e-6 of the
log evidence, 4e-6 of the mean."""


@cache
def logistic_data() -> tuple[np.ndarray, np.ndarray]:
    """Mean radius, texture, smoothness and symmetry of 569 tumours, standardised, after a 1; and +-1.

    Needs scikit-learn, which has these data.
    """
    from sklearn.datasets import load_breast_cancer

    table = load_breast_cancer()
    names = ["mean radius", "mean texture", "mean smoothness", "mean symmetry"]
    columns = table.data[:, [list(table.feature_names).index(name) for name in names]]
    standard = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    return np.column_stack([np.ones(len(standard)), standard]), np.where(table.target == 1, 1.0, -1.0)


def _logistic_density(x: np.ndarray) -> np.ndarray:
    rows, signs = logistic_data()
    prior = 0.5 * (x * x).sum(axis=1) / 2.5**2 + 5 * (math.log(2.5) + 0.5 * math.log(2 * math.pi))
    return log_expit((x @ rows.T) * signs).sum(axis=1) - prior


def _logistic_gradient(x: np.ndarray) -> np.ndarray:
    rows, signs = logistic_data()
    return (expit(-(x @ rows.T) * signs) * signs) @ rows - x / 2.5**2


def logistic_reference(power: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (2^power, 5) and log weights (2^power,) of an importance sample of the logistic posterior.

    A scrambled Sobol sequence, by the seed, through a Student t with 8 degrees of freedom at Laplace's
    approximation; the mean of the weights is the evidence.
    """
    mode = np.zeros(5)
    rows, signs = logistic_data()
    for _ in range(50):  # Newton's method on a concave function
        share = expit((rows @ mode) * signs)
        hessian = (rows.T * (share * (1 - share))) @ rows + np.eye(5) / 2.5**2
        mode = mode + np.linalg.solve(hessian, _logistic_gradient(mode[None])[0])
    covariance = np.linalg.inv(hessian)
    cube = qmc.Sobol(6, seed=np.random.default_rng(seed)).random_base2(power)
    points = _student(cube, mode, covariance, 8.0)
    proposal = multivariate_t(mode, covariance, df=8).logpdf(points)
    density = np.concatenate(
        [_logistic_density(part) for part in np.array_split(points, max(1, 2**power >> 14))]
    )
    return points, density - proposal


def _student(cube: np.ndarray, centre: np.ndarray, covariance: np.ndarray, degrees: float) -> np.ndarray:
    """Points (n, D) of a Student t from a cube (n, D + 1)."""
    from scipy.special import ndtri
    from scipy.stats import chi2

    inside = np.clip(cube, 1e-12, 1 - 1e-12)
    normals = ndtri(inside[:, :-1]) @ np.linalg.cholesky(covariance).T
    return centre + normals * np.sqrt(degrees / chi2.ppf(inside[:, -1:], degrees))


@lru_cache(maxsize=1)
def _logistic_pool() -> tuple[np.ndarray, np.ndarray]:
    points, logs = logistic_reference(16, 0)
    share = np.exp(logs - logsumexp(logs))
    return points, np.cumsum(share / share.sum())


def _logistic_draws(n: int, rng: np.random.Generator) -> np.ndarray:
    points, table = _logistic_pool()
    return points[np.minimum(np.searchsorted(table, rng.random(n), side="right"), len(table) - 1)]


@cache
def logistic() -> Problem:
    """Logistic regression of 569 tumours on 4 features and an intercept, prior N(0, 2.5^2)."""
    return Problem(
        "logistic 5",
        _logistic_density,
        _logistic_gradient,
        *unbounded(5),
        np.full(5, -2.5),
        np.full(5, 2.5),
        _LOGISTIC_LOG_EVIDENCE,
        np.array(_LOGISTIC_MEAN),
        np.array(_LOGISTIC_COVARIANCE),
        _logistic_draws,
    )


def problems() -> tuple[Problem, ...]:
    """All of them, in the usual dimensions."""
    return (
        *(rosenbrock(d) for d in (2, 4, 6)),
        *(cigar(d) for d in (2, 4, 6)),
        *(lumpy(d) for d in (2, 4)),
        bounded_banana(),
        logistic(),
    )
