"""Integrands with known integrals, of several kinds, D = 1 to 10.

Each integral is known in closed form, or by a one-dimensional rule that is exact to rounding. The
integrands of Genz live on the unit cube; under a Gaussian they are composed with its distribution
function. ``kind`` is the difficulty of each: "smooth" (analytic, varies on the scale of the
measure), "peaky" (most of the integral comes from a small part of the measure), "rough" (a kink or a
jump) or "wide" (D = 10).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import cos, erf, exp, factorial, pi, sqrt
from typing import Any

import numpy as np
from scipy.special import erfc, expit, log_expit, ndtr

from gp.measures import Gaussian, GaussianMixture, Measure, Uniform

__all__ = [
    "Integrand", "banana", "bump", "bumps", "cosine", "exponential", "gaussian_peak", "genz_corner_peak",
    "half_space", "integrands", "logistic_elbo", "on_cube", "product_peak", "rotated", "standard",
]  # fmt: skip

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(200)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True, eq=False)
class Integrand:
    """A function of points (n, D), the measure it is integrated against, and its integral."""

    name: str
    kind: str
    function: Callable[[Any], Any]
    measure: Measure
    truth: float
    non_negative: bool = False


def standard(dimension: int) -> Gaussian:
    """N(0, I)."""
    return Gaussian(np.zeros(dimension), np.ones(dimension))


def rotated(spectrum: list[float], seed: int) -> np.ndarray:
    """A covariance (D, D) with these eigenvalues in random directions."""
    rng = np.random.default_rng(seed)
    q, _ = np.linalg.qr(rng.standard_normal((len(spectrum), len(spectrum))))
    root = q * np.sqrt(spectrum)
    return root @ root.T


def bump(name: str, kind: str, measure: Measure, centre: Any, covariance: Any) -> Integrand:
    """exp(-(x - c)^T B^-1 (x - c) / 2) against a Gaussian or a mixture of them.

    Parameters
    ----------
    name, kind : of the integrand. measure : a Gaussian, or a mixture of them, in D dimensions. centre : c,
        (D,).
    covariance : B, (D, D).
    """
    centre, precision = np.asarray(centre, dtype=float), np.linalg.inv(covariance)
    components = measure.components if isinstance(measure, GaussianMixture) else (measure,)
    weights = measure.weights if isinstance(measure, GaussianMixture) else [1.0]
    truth = 0.0
    for weight, part in zip(weights, components, strict=True):
        total = part.covariance + covariance
        shift = centre - part.mean
        ratio = np.linalg.det(covariance) / np.linalg.det(total)
        truth += weight * sqrt(ratio) * exp(-0.5 * shift @ np.linalg.solve(total, shift))

    def function(x: Any) -> Any:
        d = x - centre
        return np.exp(-0.5 * np.einsum("ni,ij,nj->n", d, precision, d))

    return Integrand(name, kind, function, measure, truth, non_negative=True)


def cosine(name: str, measure: Gaussian, frequency: Any, phase: float) -> Integrand:
    """cos(w.x + b).

    Parameters
    ----------
    name : of the integrand. measure : in D dimensions. frequency : w, (D,). phase : b.
    """
    w = np.asarray(frequency, dtype=float)
    truth = cos(w @ measure.mean + phase) * exp(-0.5 * w @ measure.covariance @ w)
    return Integrand(name, "smooth", lambda x: np.cos(x @ w + phase), measure, float(truth))


def exponential(name: str, kind: str, a: np.ndarray) -> Integrand:
    """exp(a.x), log-normal; ``name`` and ``kind`` are the integrand's, ``a`` is (D,)."""
    truth = exp(0.5 * float(a @ a))
    return Integrand(name, kind, lambda x: np.exp(x @ a), standard(len(a)), truth, True)


def _polynomial() -> Integrand:
    """1 + x + x^2 y + y^4 / 3 + x z^3: degree 4 under a correlated Gaussian, by a product rule."""
    measure = Gaussian(np.array([0.3, -0.2, 0.1]), rotated([1.5, 0.8, 0.4], 1))

    def function(x: Any) -> Any:
        return 1 + x[:, 0] + x[:, 0] ** 2 * x[:, 1] + x[:, 1] ** 4 / 3 + x[:, 0] * x[:, 2] ** 3

    nodes, weights = np.polynomial.hermite_e.hermegauss(4)
    grid = np.array(list(product(nodes, repeat=3)))
    w = np.prod(np.array(list(product(weights / weights.sum(), repeat=3))), axis=1)
    truth = float(w @ function(measure.map.from_standard(grid)))
    return Integrand("polynomial 3", "smooth", function, measure, truth)


def on_cube(
    name: str, kind: str, dimension: int, function: Any, truth: float, box: bool = False
) -> Integrand:
    """A function of the unit cube, against the box itself or carried to N(0, I) by its CDF.

    Parameters
    ----------
    name, kind : of the integrand. dimension : D. function : of points (n, D) of the cube. truth : its
        integral.
    box : whether the measure is uniform on the cube.
    """
    if box:
        measure: Measure = Uniform(np.zeros(dimension), np.ones(dimension))
        return Integrand(name, kind, function, measure, truth)
    return Integrand(name, kind, lambda x: function(ndtr(x)), standard(dimension), truth)


def _genz_oscillatory(dimension: int, size: float, box: bool = False) -> Integrand:
    """cos(2 pi u + a.t)."""
    a = size * np.arange(1, dimension + 1) / sum(range(1, dimension + 1))
    phase = 2 * pi * 0.3
    truth = (np.exp(1j * phase) * np.prod((np.exp(1j * a) - 1) / (1j * a))).real
    name = f"Genz oscillatory {'box ' if box else ''}{dimension}"
    return on_cube(name, "smooth", dimension, lambda t: np.cos(phase + t @ a), float(truth), box)


def product_peak(name: str, kind: str, a: np.ndarray, w: np.ndarray) -> Integrand:
    """prod 1 / (a^-2 + (t - w)^2); ``name`` and ``kind`` are the integrand's, ``a`` and ``w`` are (D,)."""
    truth = float(np.prod(a * (np.arctan(a * (1 - w)) + np.arctan(a * w))))

    def function(t: Any) -> Any:
        return np.prod(1 / (a**-2.0 + (t - w) ** 2), axis=1)

    return on_cube(name, kind, len(a), function, truth)


def genz_corner_peak(dimension: int, box: bool = False) -> Integrand:
    """(1 + a.t)^-(D + 1), by inclusion and exclusion over the corners."""
    a = np.linspace(0.6, 1.2, dimension)
    corners = np.array(list(product([0, 1], repeat=dimension)))
    signs = (-1.0) ** corners.sum(axis=1)
    truth = float(np.sum(signs / (1 + corners @ a)) / (factorial(dimension) * np.prod(a)))
    return on_cube(
        f"Genz corner peak {dimension}", "smooth", dimension,
        lambda t: (1 + t @ a) ** (-dimension - 1.0), truth, box,
    )  # fmt: skip


def gaussian_peak(name: str, a: np.ndarray, w: np.ndarray, box: bool = False) -> Integrand:
    """exp(-a^2 |t - w|^2); ``name`` is the integrand's, ``a`` and ``w`` are (D,), ``box`` as of `on_cube`."""
    one = [sqrt(pi) / (2 * s) * (erf(s * (1 - c)) + erf(s * c)) for s, c in zip(a, w, strict=True)]
    return on_cube(
        name, "smooth", len(a), lambda t: np.exp(-np.sum(a**2 * (t - w) ** 2, axis=1)), float(np.prod(one)),
        box,
    )  # fmt: skip


def _genz_continuous(dimension: int) -> Integrand:
    """exp(-a |t - w|): a kink."""
    a, w = np.linspace(1.5, 3.0, dimension), np.linspace(0.3, 0.6, dimension)
    truth = float(np.prod((2 - np.exp(-a * w) - np.exp(-a * (1 - w))) / a))
    return on_cube(
        f"Genz continuous {dimension}", "rough", dimension,
        lambda t: np.exp(-np.abs(t - w) @ a), truth,
    )  # fmt: skip


def _genz_discontinuous(dimension: int) -> Integrand:
    """exp(a.t) where t_1 < w_1 and t_2 < w_2, else 0: a jump."""
    a = np.linspace(1.0, 2.0, dimension)
    top = np.ones(dimension)
    top[:2] = [0.55, 0.7][:dimension]
    truth = float(np.prod((np.exp(a * top) - 1) / a))
    return on_cube(
        f"Genz discontinuous {dimension}", "rough", dimension,
        lambda t: np.exp(t @ a) * np.all(t < top, axis=1), truth,
    )  # fmt: skip


def half_space(dimension: int) -> Integrand:
    """1 where w.x > b: a jump along no axis."""
    w, b = np.linspace(1.0, 2.0, dimension), 0.7
    truth = float(ndtr(-b / np.linalg.norm(w)))
    return Integrand(
        f"half space {dimension}", "rough", lambda x: 1.0 * (x @ w > b), standard(dimension), truth, True
    )


def _probit(dimension: int) -> Integrand:
    """Phi(a + w.x)."""
    w = np.linspace(0.3, 0.9, dimension)
    truth = float(ndtr(-0.4 / sqrt(1 + w @ w)))
    return Integrand(
        f"probit {dimension}", "smooth", lambda x: ndtr(x @ w - 0.4), standard(dimension), truth, True
    )


def bumps(name: str, heights: Sequence[float], parts: Sequence[Integrand]) -> Integrand:
    """The sum of ``parts`` of one measure, each times one of ``heights``: peaky, called ``name``."""

    def function(x: Any) -> Any:
        return sum(h * part.function(x) for h, part in zip(heights, parts, strict=True))

    truth = sum(h * part.truth for h, part in zip(heights, parts, strict=True))
    return Integrand(name, "peaky", function, parts[0].measure, float(truth), True)


def _bimodal() -> Integrand:
    """Two narrow likelihoods of different weight, D = 2."""
    places, variances = ([1.2, 0.8], [-1.0, -0.6]), ([0.09, 0.16], [0.16, 0.04])
    parts = [bump("", "", standard(2), c, np.diag(v)) for c, v in zip(places, variances, strict=True)]
    return bumps("bimodal 2", (1.0, 0.6), parts)


def banana() -> Integrand:
    """exp(-(y - x^2)^2 / (2 s^2)) against N(0, I): y in closed form, x by Gauss-Hermite."""
    s = 0.5
    one = s / sqrt(1 + s**2) * np.exp(-(_NODES**4) / (2 * (1 + s**2)))
    truth = float(_WEIGHTS @ one)

    def function(x: Any) -> Any:
        return np.exp(-((x[:, 1] - x[:, 0] ** 2) ** 2) / (2 * s**2))

    return Integrand("banana 2", "peaky", function, standard(2), truth, True)


def _heavy_tail() -> Integrand:
    """(1 + x^2)^-1 in D = 1: analytic in a narrow strip only."""
    truth = sqrt(pi / 2) * exp(0.5) * float(erfc(1 / sqrt(2)))
    return Integrand("rational 1", "smooth", lambda x: 1 / (1 + x[:, 0] ** 2), standard(1), truth, True)


def _growing() -> Integrand:
    """exp(x^2 / 4) cos(y): grows so fast that its variance is infinite."""
    truth = sqrt(2) * exp(-0.5)

    def function(x: Any) -> Any:
        return np.exp(x[:, 0] ** 2 / 4) * np.cos(x[:, 1])

    return Integrand("heavy tail 2", "peaky", function, standard(2), truth)


def logistic_elbo(dimension: int, seed: int) -> Integrand:
    """ln p(y, theta) of a logistic regression under q: for each datum an integral in one dimension."""
    rng = np.random.default_rng(seed)
    n = 60
    x = np.column_stack([np.ones(n), rng.standard_normal((n, dimension - 1))])
    theta = rng.standard_normal(dimension)
    signs = np.where(rng.random(n) < expit(x @ theta), 1.0, -1.0)
    precision = (x.T * 0.15) @ x + 0.1 * np.eye(dimension)
    q = Gaussian(0.8 * theta, np.linalg.inv(precision))
    location = signs * (x @ q.mean)
    spread = np.sqrt(np.einsum("ni,ij,nj->n", x, q.covariance, x))
    truth = float(np.sum(log_expit(location[:, None] + spread[:, None] * _NODES) @ _WEIGHTS))
    truth -= float(q.mean @ q.mean + np.trace(q.covariance)) / 20

    def function(t: Any) -> Any:
        return np.sum(log_expit(signs * (t @ x.T)), axis=1) - np.sum(t**2, axis=1) / 20

    kind = "smooth" if dimension < 10 else "wide"
    return Integrand(f"logistic ELBO {dimension}", kind, function, q, truth)


def _additive(dimension: int) -> Integrand:
    """sum_d sin(x_d + c_d) + 0.1 |x|^2."""
    c = np.linspace(0.2, 1.5, dimension)
    truth = exp(-0.5) * float(np.sin(c).sum()) + 0.1 * dimension

    def function(x: Any) -> Any:
        return np.sum(np.sin(x + c) + 0.1 * x**2, axis=1)

    return Integrand(f"additive {dimension}", "wide", function, standard(dimension), truth)


def _two_components() -> GaussianMixture:
    """A mixture of two Gaussians in the plane."""
    return GaussianMixture(
        np.array([0.4, 0.6]),
        np.array([[-1.5, 0.0], [1.0, 0.5]]),
        np.stack([rotated([0.6, 0.3], 4), rotated([1.0, 0.4], 5)]),
    )


def integrands() -> tuple[Integrand, ...]:
    """All of them."""
    correlated = Gaussian(np.array([0.5, -0.3]), rotated([1.4, 0.5], 2))
    return (
        bump("bump 1", "smooth", standard(1), [0.7], np.diag([0.6])),
        _heavy_tail(),
        bump("bump, full covariance 2", "smooth", correlated, [0.2, 0.6], rotated([0.8, 0.15], 3)),
        bump("bump, mixture measure 2", "smooth", _two_components(), [0.4, 0.1], np.diag([0.5, 0.9])),
        _genz_oscillatory(2, 9.0),
        _genz_oscillatory(2, 9.0, box=True),
        genz_corner_peak(2),
        _genz_continuous(2),
        _genz_discontinuous(2),
        _bimodal(),
        banana(),
        _growing(),
        _polynomial(),
        cosine("cosine 3", standard(3), [1.0, -0.8, 0.6], 0.5),
        product_peak("Genz product peak 3", "smooth", np.linspace(2.0, 4.0, 3), np.linspace(0.3, 0.6, 3)),
        bump("narrow likelihood 3", "peaky", standard(3), [0.3, -0.2, 0.4], np.diag([0.06, 0.09, 0.12])),
        half_space(3),
        exponential("exponential 4", "smooth", np.linspace(0.3, 0.7, 4)),
        _probit(5),
        gaussian_peak("Genz Gaussian box 5", np.linspace(1.0, 2.5, 5), np.linspace(0.35, 0.7, 5), True),
        bump("bump, far 5", "peaky", standard(5), [1.0, 0.5, 0.0, -0.5, -1.0], 0.8 * np.eye(5)),
        logistic_elbo(5, 1),
        bump("bump 10", "wide", standard(10), 0.2 * np.ones(10), 2.0 * np.eye(10)),
        _additive(10),
        logistic_elbo(10, 2),
        _genz_discontinuous(10),
    )
