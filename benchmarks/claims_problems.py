"""Random posteriors, of the kinds on which claims of convergence were false, with known log evidence.

Each is drawn from (kind, seed). Its evidence is a closed form, a sum over a grid of closed forms, or, for
regressions, importance sampling from Student's t at the mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.integrate import quad
from scipy.special import gammaln, logsumexp
from scipy.stats import beta, chi2, multivariate_normal, multivariate_t, ncx2, norm, qmc

Array = np.ndarray
Density = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Posed:
    """A log joint of torch tensors, (L, D) -> (L,), with the box that a user would give.

    Attributes
    ----------
    box : (2, D), the plausible box.
    log_evidence : ln of its integral, within ``bounds`` where there are any.
    bounds : (2, D), entries may be infinite; None: unbounded.
    moments : (2, D), its means and standard deviations, NaN where they are not known; None: all of them.
    """

    log_joint: Density
    box: Array
    log_evidence: float
    bounds: Array | None = None
    moments: Array | None = None

    @property
    def dimension(self) -> int:
        """D."""
        return int(self.box.shape[1])

    def numpy(self, theta: Array) -> Array:
        """(L, D) -> (L,)."""
        with torch.no_grad():
            return np.asarray(self.log_joint(torch.as_tensor(np.atleast_2d(theta))).numpy())


def _tensor(x: Any) -> torch.Tensor:
    return torch.as_tensor(np.asarray(x, dtype=float))


def _turned(rng: np.random.Generator, dimension: int, spread: float = 4.0) -> tuple[Array, Array]:
    """A mean and a triangular factor with standard deviations that differ by up to ``spread``."""
    turn = np.linalg.qr(rng.normal(size=(dimension, dimension)))[0]
    scales = spread ** rng.uniform(-0.5, 0.5, dimension)
    return rng.normal(size=dimension), np.linalg.cholesky((turn * scales**2) @ turn.T)


def _around(mean: Array, root: Array, rng: np.random.Generator, sds: float = 2.0) -> Array:
    """A box of ``sds`` marginal standard deviations to either side of a point near the mean."""
    sd = np.linalg.norm(root, axis=1)
    middle = mean + 0.5 * sd * rng.uniform(-1, 1, len(mean))
    return np.stack([middle - sds * sd, middle + sds * sd])


def _gaussian(mean: Array, root: Array) -> Density:
    inverse, m = _tensor(np.linalg.inv(root)), _tensor(mean)
    constant = len(mean) / 2 * math.log(2 * math.pi) + np.log(np.diag(root)).sum()
    return lambda t: -0.5 * (((t - m) @ inverse.T) ** 2).sum(1) - constant


def ridge(rng: np.random.Generator) -> Posed:
    """A straight or hyperbolic ridge that ends at bounds: a sum, difference or product is determined."""
    shape, dimension = str(rng.choice(["sum", "difference", "product"])), int(rng.choice([2, 2, 3]))
    lower = rng.uniform(-8, -3, dimension) if shape != "product" else rng.uniform(0.2, 1, dimension)
    upper = lower + rng.uniform(5, 14, dimension)
    inside = lower + (upper - lower) * rng.uniform(0.3, 0.7, dimension)
    signs = np.ones(dimension) if shape == "sum" else np.r_[1.0, -np.ones(dimension - 1)]
    width = float(10 ** rng.uniform(-2, -0.7)) * (float(np.prod(inside)) if shape == "product" else 1.0)
    if shape == "product":
        of: Density = lambda t: t.prod(1)  # noqa: E731
    else:
        of = lambda t: t @ _tensor(signs)  # noqa: E731
    centre = float(of(_tensor(inside)[None]))
    n = 20_000 if dimension == 2 else 1_500
    axes = [
        low + (high - low) * (np.arange(n) + 0.5) / n
        for low, high in zip(lower[:-1], upper[:-1], strict=True)
    ]
    rest = np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], axis=1)
    offset = np.zeros(len(rest)) if shape == "product" else rest @ signs[:-1]
    slope = rest.prod(1) if shape == "product" else np.full(len(rest), signs[-1])
    ends = [(offset + slope * end - centre) / width for end in (lower[-1], upper[-1])]
    inner = np.abs(norm.cdf(ends[1]) - norm.cdf(ends[0])) * width * math.sqrt(2 * math.pi) / np.abs(slope)
    evidence = math.log(inner.mean()) + float(np.log(upper[:-1] - lower[:-1]).sum())
    quarter = (upper - lower) / 4
    return Posed(
        lambda t: -0.5 * ((of(t) - centre) / width) ** 2,
        np.stack([lower + quarter, upper - quarter]), evidence, np.stack([lower, upper]),
        np.pad(_weighted(rest, inner), ((0, 0), (0, 1)), constant_values=np.nan),
    )  # fmt: skip


def heavy(rng: np.random.Generator) -> Posed:
    """Student's t, 1 (Cauchy) or 1.5 to 4 degrees of freedom, D = 1 to 3."""
    dimension, degrees = int(rng.integers(1, 4)), float(rng.choice([1.0, rng.uniform(1.5, 4)]))
    mean, root = _turned(rng, dimension)
    inverse, shift = _tensor(np.linalg.inv(root)), float(rng.normal() * 5)
    constant = gammaln((degrees + dimension) / 2) - gammaln(degrees / 2)
    constant -= dimension / 2 * math.log(degrees * math.pi) + np.log(np.diag(root)).sum()
    power, m = (degrees + dimension) / 2, _tensor(mean)
    return Posed(
        lambda t: shift + constant - power * torch.log1p((((t - m) @ inverse.T) ** 2).sum(1) / degrees),
        _around(mean, root, rng, 3.0), shift,
    )  # fmt: skip


def half_cauchy(rng: np.random.Generator) -> Posed:
    """Mean and scale, half-Cauchy a priori, of three to six groups."""
    groups, scale = int(rng.integers(3, 7)), float(rng.uniform(0.5, 3))
    sds = rng.uniform(0.5, 2, groups)
    y = rng.normal() + sds * rng.normal(size=groups) + rng.normal(size=groups) * scale * rng.uniform(0, 2)
    ys, variances = _tensor(y), _tensor(sds**2)

    def log_joint(t: torch.Tensor) -> torch.Tensor:
        variance = variances + t[:, 1:] ** 2
        likelihood = -0.5 * ((ys - t[:, :1]) ** 2 / variance + torch.log(2 * math.pi * variance)).sum(1)
        prior = -0.5 * t[:, 0] ** 2 / 25 - math.log(5 * math.sqrt(2 * math.pi))
        return likelihood + prior + math.log(2 / (math.pi * scale)) - torch.log1p((t[:, 1] / scale) ** 2)

    def of_scale(angle: float) -> float:
        covariance = np.diag(sds**2 + (scale * math.tan(angle)) ** 2) + 25.0
        return float(multivariate_normal.pdf(y, np.zeros(groups), covariance)) * 2 / math.pi

    evidence = math.log(quad(of_scale, 0, math.pi / 2 - 1e-9, epsabs=0, epsrel=1e-8, limit=200)[0])
    box = np.array([[-3.0, 0.2 * scale], [3.0, 3 * scale]])
    return Posed(log_joint, box, evidence, np.array([[-np.inf, 0.0], [np.inf, np.inf]]))


def _mixture(parts: list[tuple[float, Array, Array]], box: Array) -> Posed:
    logs = [(math.log(weight), _gaussian(mean, root)) for weight, mean, root in parts]
    mean = np.sum([w * m for w, m, _ in parts], 0)
    variance = np.sum([w * ((root**2).sum(1) + (m - mean) ** 2) for w, m, root in parts], 0)
    return Posed(
        lambda t: torch.logsumexp(torch.stack([w + g(t) for w, g in logs]), 0), box, 0.0,
        moments=np.stack([mean, np.sqrt(variance)]),
    )  # fmt: skip


def _weighted(points: Array, weights: Array) -> Array:
    """Means and standard deviations (2, D) of points (n, D)."""
    mean = weights @ points / weights.sum()
    return np.stack([mean, np.sqrt(weights @ (points - mean) ** 2 / weights.sum())])


def spike(rng: np.random.Generator) -> Posed:
    """A slab, and a spike a hundredth to a tenth as wide at the middle of the box, which is seen."""
    dimension, weight, width = (
        int(rng.integers(1, 4)),
        float(rng.uniform(0.2, 0.8)),
        float(10 ** rng.uniform(-2, -1)),
    )
    mean, root = _turned(rng, dimension, 2.0)
    box = _around(mean, root, rng)
    middle = box.mean(0) + width * 0.3 * rng.normal(size=dimension)
    return _mixture([(weight, mean, root), (1 - weight, middle, width * root)], box)


def modes(rng: np.random.Generator) -> Posed:
    """Two Gaussians, one a third to a tenth as wide, 5 to 9 sds of the wide one apart."""
    dimension, weight, width = (
        int(rng.integers(1, 4)),
        float(rng.uniform(0.2, 0.8)),
        float(rng.uniform(0.1, 0.35)),
    )
    mean, root = _turned(rng, dimension, 2.0)
    away = rng.normal(size=dimension)
    other = mean + root @ (away / np.linalg.norm(away) * rng.uniform(5, 9))
    middle, half = (mean + other) / 2, np.abs(mean - other) / 2 + 1.5 * np.linalg.norm(root, axis=1)
    box = np.stack([middle - half, middle + half])
    return _mixture([(weight, mean, root), (1 - weight, other, width * root)], box)


def wide(rng: np.random.Generator) -> Posed:
    """A Gaussian in a plausible box that is 20 to 100 sds to a side in one of two or three parameters."""
    dimension = int(rng.integers(2, 4))
    mean, root = _turned(rng, dimension)
    box = _around(mean, root, rng)
    half = np.linalg.norm(root, axis=1)[0] * rng.uniform(10, 50)
    box[:, 0] = mean[0] + half * (rng.uniform(-0.8, 0.8) + np.array([-1, 1]))
    return _mixture([(1.0, mean, root)], box)


def steep(rng: np.random.Generator) -> Posed:
    """An exact Gaussian with sds of 1e-5 to 1e-3, a large constant, and a box of 20 to 60 sds to a side."""
    dimension, shift = int(rng.integers(1, 4)), float(rng.choice([0.0, -1e4, 1e5]))
    mean, root = _turned(rng, dimension)
    root = root * 10 ** rng.uniform(-5, -3)
    density = _gaussian(mean, root)
    moments = np.stack([mean, np.linalg.norm(root, axis=1)])
    box = _around(mean, root, rng, rng.uniform(10, 30))
    return Posed(lambda t: density(t) + shift, box, shift, moments=moments)


def floor(rng: np.random.Generator) -> Posed:
    """A standard Gaussian in a box, -40 to -1e300 or -inf beyond a half plane, a ball or a stripe."""
    shape, dimension = str(rng.choice(["half", "ball", "stripe"])), int(rng.choice([1, 2, 2, 8]))
    low = -float(rng.choice([40.0, 1e3, 1e6, 1e16, 1e30, 1e300, np.inf]))
    direction = rng.normal(size=dimension)
    direction /= np.linalg.norm(direction)
    a, edge = _tensor(direction), float(rng.uniform(-0.7, 0.7))
    density = _gaussian(np.zeros(dimension), np.eye(dimension))
    if shape == "ball":
        radius = math.sqrt(dimension) * float(rng.uniform(0.8, 1.5))
        allowed: Density = lambda t: ((t - edge * a) ** 2).sum(1) < radius**2  # noqa: E731
        mass = float(ncx2.cdf(radius**2, dimension, edge**2))
    elif shape == "half":
        allowed, mass = (lambda t: t @ a < edge), float(norm.cdf(edge))
    else:
        far = edge + float(rng.uniform(0.7, 2))
        allowed, mass = (
            (lambda t: (t @ a - (edge + far) / 2).abs() < (far - edge) / 2),
            float(norm.cdf(far) - norm.cdf(edge)),
        )
    bounds = np.array([[-8.0], [8.0]]) * np.ones(dimension)
    return Posed(
        lambda t: torch.where(allowed(t), density(t), torch.full_like(t[:, 0], low)),
        bounds / 4,
        math.log(mass),
        bounds,
    )


def curved(rng: np.random.Generator) -> Posed:
    """Saturation, Michaelis-Menten, or an epidemic, with two parameters and four to eight data."""
    shape, n = str(rng.choice(["saturation", "michaelis", "epidemic"])), int(rng.integers(4, 9))
    noise, truth = float(rng.uniform(0.05, 0.3)), rng.uniform([0.7, 0.4], [2.0, 1.5])
    x = _tensor(np.sort(rng.uniform(0.1, 1.5, n)))

    def curve(t: torch.Tensor) -> torch.Tensor:
        first, second = t[:, :1], t[:, 1:]
        if shape == "saturation":
            return first * (1 - torch.exp(-second * x))
        if shape == "michaelis":
            return first * x / (second + x)
        healthy, ill, path = 1 - 0.05 + 0 * first, 0.05 + 0 * first, []
        for _ in range(n * 4):
            new = healthy * (1 - torch.exp(-0.8 * first * ill))
            recovered = ill * (1 - torch.exp(-0.4 * second))
            healthy, ill = healthy - new, ill + new - recovered
            path.append(ill)
        return 5 * torch.cat(path[3::4], 1)

    y = curve(_tensor(truth)[None])[0] + _tensor(noise * rng.normal(size=n))
    bounds = np.array([[0.01, 0.01], rng.uniform(3, 8, 2)])

    def log_joint(t: torch.Tensor) -> torch.Tensor:
        return -0.5 * (((y - curve(t)) / noise) ** 2).sum(1) - n * math.log(noise * math.sqrt(2 * math.pi))

    evidence, moments = _on_grid(log_joint, bounds, 600)
    return Posed(log_joint, np.stack([bounds[0] + 0.1, bounds[1] * 0.6]), evidence, bounds, moments)


def _on_grid(log_joint: Density, bounds: Array, n: int) -> tuple[float, Array]:
    """ln of the integral by midpoints, n to an axis, and the moments."""
    axes = [low + (high - low) * (np.arange(n) + 0.5) / n for low, high in bounds.T]
    points = np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], axis=1)
    logs = torch.cat([log_joint(part) for part in torch.split(_tensor(points), 20_000)]).numpy()
    evidence = float(logsumexp(logs) - math.log(len(points)) + np.log(bounds[1] - bounds[0]).sum())
    return evidence, _weighted(points, np.exp(logs - logs.max()))


def laplace(log_joint: Density, start: Array) -> tuple[Array, Array]:
    """The mode, by Newton's method with halved steps, and the root of the covariance there."""
    point, identity = _tensor(start), torch.eye(len(start), dtype=torch.float64)

    def one(t: torch.Tensor) -> torch.Tensor:
        return log_joint(t[None])[0]

    curvature = identity
    for _ in range(100):
        slope = torch.autograd.functional.jacobian(one, point)  # type: ignore[no-untyped-call]
        curvature = -torch.autograd.functional.hessian(one, point)  # type: ignore[no-untyped-call]
        values, vectors = torch.linalg.eigh(curvature)
        curvature = (vectors * values.abs().clamp(min=1e-6)) @ vectors.T
        step, size = torch.linalg.solve(curvature, slope), 1.0
        while size > 1e-8 and not one(point + size * step) >= one(point):
            size /= 2
        point = point + size * step
        if float(step @ slope) < 1e-14:
            break
    return point.numpy(), np.linalg.cholesky(np.linalg.inv(curvature.numpy()))


def sampled_evidence(
    log_joint: Density, start: Array, power: int = 15, both: bool = False
) -> tuple[float, Array]:
    """ln Z and the moments by importance sampling from t (5 degrees) at the mode.

    The density has a mirror symmetry where ``both``, with half of the mass about the mode's mirror image.
    """
    mean, root = laplace(log_joint, start)
    dimension, rng = len(mean), np.random.default_rng(0)
    uniform = qmc.Sobol(dimension + 1, seed=rng).random(2**power)
    radius = np.sqrt(5 / np.maximum(chi2.ppf(uniform[:, -1], 5), 1e-12))[:, None]
    draws = mean + 1.2 * norm.ppf(np.clip(uniform[:, :-1], 1e-12, 1 - 1e-12)) * radius @ root.T
    proposal = multivariate_t(mean, 1.44 * root @ root.T, df=5)
    logq = proposal.logpdf(draws)
    if both:  # a density with a mirror symmetry: half of its mass, where both halves are drawn from equally
        logq = np.logaddexp(logq, proposal.logpdf(-draws)) - math.log(2)
    logs = torch.cat([log_joint(part) for part in torch.split(_tensor(draws), 4096)]).numpy()
    logs -= logq
    weights = np.exp(logs - logs.max())
    if both:
        draws, weights = np.concatenate([draws, -draws]), np.tile(weights, 2)
    return float(logsumexp(logs) - math.log(len(logs))), _weighted(draws, weights)


def factor(rng: np.random.Generator) -> Posed:
    """Loadings of one factor, D = 3 to 5, which are determined up to their sign."""
    dimension, n = int(rng.integers(3, 6)), 60
    truth = rng.uniform(0.5, 1.2, dimension) * rng.choice([-1, 1], dimension)
    x = rng.normal(size=(n, 1)) * truth + 0.7 * rng.normal(size=(n, dimension))
    scatter, noise = _tensor(x.T @ x), 0.49

    def log_joint(t: torch.Tensor) -> torch.Tensor:
        square = (t**2).sum(1)
        trace = torch.diagonal(scatter).sum() - ((t @ scatter) * t).sum(1) / (noise + square)
        logdet = (dimension - 1) * math.log(noise) + torch.log(noise + square)
        return -0.5 * (trace / noise + n * logdet + square + (n + 1) * dimension * math.log(2 * math.pi))

    evidence, moments = sampled_evidence(log_joint, truth, both=True)
    return Posed(log_joint, np.array([[-1.5], [1.5]]) * np.ones(dimension), evidence, moments=moments)


def regression_density(
    rng: np.random.Generator, shape: str, dimension: int, n: int = 200
) -> tuple[Density, Array]:
    """A log joint with priors N(0, 25), and the coefficients that data were drawn with."""
    features = np.column_stack([np.ones(n), rng.normal(size=(n, dimension - 1))])
    truth = np.r_[rng.uniform(1, 2.5), rng.normal(size=dimension - 1) * 0.6]
    if shape == "weibull":
        truth[-1] = rng.uniform(0, 0.6)
        features = features[:, :-1]
    x, line = _tensor(features), features @ truth[: features.shape[1]]
    y = {
        "logistic": lambda: (rng.random(n) < 1 / (1 + np.exp(-line))).astype(float),
        "probit": lambda: (rng.random(n) < norm.cdf(line)).astype(float),
        "poisson": lambda: rng.poisson(np.exp(np.minimum(line, 6))).astype(float),
        "robust": lambda: line + rng.standard_t(3, n),
        "weibull": lambda: line + np.log(rng.weibull(np.exp(truth[-1]), n)),
    }[shape]()
    data, signs = _tensor(y), _tensor(2 * y - 1)

    def likelihood(t: torch.Tensor) -> torch.Tensor:
        if shape == "weibull":
            z = torch.exp(t[:, -1:]) * (data - t[:, :-1] @ x.T)
            return t[:, -1:] + z - torch.exp(z)
        eta = t @ x.T
        if shape == "logistic":
            return torch.nn.functional.logsigmoid(signs * eta)
        if shape == "probit":
            return torch.special.log_ndtr(signs * eta)
        if shape == "poisson":
            return data * eta - torch.exp(eta) - torch.lgamma(data + 1)
        return -2 * torch.log1p((data - eta) ** 2 / 3) - 1.0

    constant = dimension * math.log(5 * math.sqrt(2 * math.pi))

    def log_joint(t: torch.Tensor) -> torch.Tensor:
        value = likelihood(t).sum(1) - (t**2).sum(1) / 50 - constant
        return torch.where(value.isnan(), -math.inf, value)  # differences of infinities, far out

    return log_joint, truth


def regression(rng: np.random.Generator) -> Posed:
    """Logistic, probit, Poisson, robust or Weibull regression, with a near, default, far or wide box."""
    shape = str(rng.choice(["logistic", "probit", "poisson", "robust", "weibull"]))
    log_joint, truth = regression_density(rng, shape, dimension := int(rng.integers(2, 6)))
    mean, root = laplace(log_joint, truth)
    where = str(rng.choice(["near", "default", "far", "wide"]))
    sd = np.linalg.norm(root, axis=1)
    middle, half = {
        "near": (mean, 2 * sd), "default": (0 * mean, 2 + 0 * sd),
        "far": (mean + 10 * sd * rng.choice([-1, 1], dimension), 2 * sd), "wide": (mean, 60 * sd),
    }[where]  # fmt: skip
    evidence, moments = sampled_evidence(log_joint, truth)
    return Posed(log_joint, np.stack([middle - half, middle + half]), evidence, moments=moments)


def singular(rng: np.random.Generator) -> Posed:
    """x^a (1 - x)^b in one or two dimensions, exponents -.6 to 1: Euler's beta functions."""
    dimension = int(rng.integers(1, 3))
    a, b = rng.uniform(-0.6, 1, dimension), rng.choice([0.0, 0.5, 2.0], dimension)
    evidence = float((gammaln(a + 1) + gammaln(b + 1) - gammaln(a + b + 2)).sum())
    bounds = np.array([[0.0], [1.0]]) * np.ones(dimension)
    return Posed(
        lambda t: torch.log(t) @ _tensor(a) + torch.log1p(-t) @ _tensor(b),
        np.array([[0.2], [0.8]]) * np.ones(dimension), evidence, bounds,
        np.stack([beta(a + 1, b + 1).mean(), beta(a + 1, b + 1).std()]),
    )  # fmt: skip


def gaussian(rng: np.random.Generator) -> Posed:
    """A Gaussian, D = 1 to 5."""
    mean, root = _turned(rng, int(rng.integers(1, 6)))
    return _mixture([(1.0, mean, root)], _around(mean, root, rng))


def skewed(rng: np.random.Generator) -> Posed:
    """Azzalini's skew normal, D = 1 to 4."""
    mean, root = _turned(rng, dimension := int(rng.integers(1, 5)))
    density, m, inverse = _gaussian(mean, root), _tensor(mean), _tensor(np.linalg.inv(root))
    slope = rng.uniform(0, 4) * np.eye(dimension)[0]
    tilt = root @ slope * math.sqrt(2 / math.pi / (1 + slope @ slope))
    return Posed(
        lambda t: density(t) + math.log(2) + torch.special.log_ndtr((t - m) @ inverse.T @ _tensor(slope)),
        _around(mean, root, rng), 0.0,
        moments=np.stack([mean + tilt, np.sqrt((root**2).sum(1) - tilt**2)]),
    )  # fmt: skip


KINDS: dict[str, Callable[[np.random.Generator], Posed]] = {
    "ridge": ridge, "heavy": heavy, "half_cauchy": half_cauchy, "spike": spike, "modes": modes, "wide": wide,
    "steep": steep, "floor": floor, "curved": curved, "factor": factor, "regression": regression,
    "singular": singular, "gaussian": gaussian, "skewed": skewed,
}  # fmt: skip


def problem(kind: str, seed: int) -> Posed:
    """The problem of (kind, seed)."""
    return KINDS[kind](np.random.default_rng([list(KINDS).index(kind), seed]))
