"""More integrands with known integrals, on which no choice in the library was made.

They are of the kinds of `integrands` with other shapes: turned, shifted, sharper, in other dimensions,
under other measures. A default is chosen on those of `integrands` and reported on these.
"""

from __future__ import annotations

from math import cos, exp, sqrt
from typing import Any

import numpy as np
from scipy.special import ndtr
from scipy.stats import chi2, norm

from experiments.problems.integrands import (
    Integrand,
    bump,
    bumps,
    cosine,
    exponential,
    gaussian_peak,
    genz_corner_peak,
    logistic_elbo,
    product_peak,
    rotated,
    standard,
)
from gp.measures import Gaussian, GaussianMixture, Uniform

__all__ = ["first", "second"]

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(200)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def _in_one_dimension(function: Any) -> float:
    """E[function(x)], x ~ N(0, 1), of an analytic function."""
    return float(_WEIGHTS @ function(_NODES))


def _turned(dimension: int, seed: int) -> Gaussian:
    """A Gaussian with a mean and correlations."""
    rng = np.random.default_rng(seed)
    return Gaussian(rng.uniform(-1, 1, dimension), rotated(list(np.linspace(0.3, 2.0, dimension)), seed))


def _three_components(dimension: int, seed: int) -> GaussianMixture:
    """A mixture of three Gaussians."""
    rng = np.random.default_rng(seed)
    covariances = np.stack([rotated(list(rng.uniform(0.2, 1.0, dimension)), seed + k) for k in range(3)])
    return GaussianMixture(np.array([0.5, 0.3, 0.2]), 1.5 * rng.standard_normal((3, dimension)), covariances)


def _sextic() -> Integrand:
    """(a.x)^6 / 15 - (b.x)^3 + x y: of degree 6, along axes that are turned."""
    a, b = np.array([0.6, -0.5]), np.array([0.3, 0.8])

    def function(x: Any) -> Any:
        return (x @ a) ** 6 / 15 - (x @ b) ** 3 + x[:, 0] * x[:, 1]

    return Integrand("sextic 2", "smooth", function, standard(2), float((a @ a) ** 3))


def _wave(dimension: int, frequency: float) -> Integrand:
    """cos(w.x + b) against a Gaussian with correlations."""
    w = frequency * np.cos(np.arange(dimension))
    return cosine(f"wave {dimension}", _turned(dimension, 11), w, 0.9)


def _ridge(dimension: int) -> Integrand:
    """exp(-5 (w.x - 1)^2), |w| = 1: varies along one direction."""
    w = np.linspace(-1.0, 1.5, dimension)
    w = w / np.linalg.norm(w)
    truth = exp(-5 / 11) / sqrt(11)
    return Integrand(
        f"ridge {dimension}",
        "peaky",
        lambda x: np.exp(-5 * (x @ w - 1) ** 2),
        standard(dimension),
        truth,
        True,
    )


def _three_modes() -> Integrand:
    """Three likelihoods of different shape and weight, D = 3."""
    places = [[1.0, 0.5, -0.5], [-1.2, 0.3, 0.4], [0.2, -1.0, 1.0]]
    parts = [bump("", "", standard(3), c, rotated([0.1, 0.25, 0.5], 20 + k)) for k, c in enumerate(places)]
    return bumps("three modes 3", (1.0, 0.7, 1.5), parts)


def _sharp_product_peak(d: int) -> Integrand:
    """With a up to 8."""
    a, w = np.linspace(4.0, 8.0, d), np.linspace(0.7, 0.4, d)
    return product_peak(f"sharp product peak {d}", "peaky", a, w)


def _turned_banana() -> Integrand:
    """exp(-(v - u^2/2 + 1)^2 / (2 s^2) - (u - 1/2)^2 / 2) with (u, v) turned by 40 degrees."""
    s, angle = 0.35, 0.7
    c = np.array([[cos(angle), -np.sin(angle)], [np.sin(angle), cos(angle)]])
    centre = 0.5 * _NODES**2 - 1
    inner = s / sqrt(1 + s**2) * np.exp(-(centre**2) / (2 * (1 + s**2)))
    truth = float(_WEIGHTS @ (np.exp(-((_NODES - 0.5) ** 2) / 2) * inner))

    def function(x: Any) -> Any:
        u, v = (x @ c).T
        return np.exp(-((v - u**2 / 2 + 1) ** 2) / (2 * s**2) - (u - 0.5) ** 2 / 2)

    return Integrand("turned banana 2", "peaky", function, standard(2), truth, True)


def _student(dimension: int) -> Integrand:
    """prod (1 + (x - c)^2 / 3)^-2: likelihoods with heavy tails."""
    c = np.linspace(-0.5, 1.0, dimension)
    truth = float(np.prod([_in_one_dimension(lambda x, s=s: (1 + (x - s) ** 2 / 3) ** -2) for s in c]))

    def function(x: Any) -> Any:
        return np.prod((1 + (x - c) ** 2 / 3) ** -2, axis=1)

    return Integrand(f"heavy tails {dimension}", "smooth", function, standard(dimension), truth, True)


def _ball(dimension: int) -> Integrand:
    """1 where |x|^2 is below its median."""
    size = float(chi2.ppf(0.4, dimension))
    return Integrand(
        f"ball {dimension}",
        "rough",
        lambda x: 1.0 * (np.sum(x**2, axis=1) < size),
        standard(dimension),
        0.4,
        True,
    )


def _payoff(dimension: int) -> Integrand:
    """max(w.x - b, 0): a kink along no axis."""
    w, b = np.linspace(0.2, 0.8, dimension), 0.3
    size = float(np.linalg.norm(w))
    truth = size * float(norm.pdf(b / size)) - b * float(ndtr(-b / size))
    return Integrand(
        f"payoff {dimension}", "rough", lambda x: np.maximum(x @ w - b, 0.0), standard(dimension), truth, True
    )


def _box_corner(dimension: int) -> Integrand:
    """exp(-a.t) + a wave on a box that is no cube."""
    lower, upper = -np.ones(dimension), np.linspace(0.5, 2.0, dimension)
    a = np.linspace(1.0, 2.0, dimension)
    one = (np.exp(-a * lower) - np.exp(-a * upper)) / (a * (upper - lower))
    other = (np.cos(2 * lower) - np.cos(2 * upper)) / (2 * (upper - lower))
    truth = float(np.prod(one) + np.sum(other))

    def function(x: Any) -> Any:
        return np.exp(-x @ a) + np.sin(2 * x).sum(axis=1)

    return Integrand(f"box corner {dimension}", "smooth", function, Uniform(lower, upper), truth)


def _quarter(dimension: int) -> Integrand:
    """1 in a product of half lines, else -1/2: a jump along each axis."""
    b = np.linspace(0.8, 1.6, dimension)
    inside = float(np.prod(ndtr(b)))
    return Integrand(
        f"corner {dimension}", "rough", lambda x: 1.5 * np.all(x < b, axis=1) - 0.5, standard(dimension),
        1.5 * inside - 0.5,
    )  # fmt: skip


def _cosines(dimension: int) -> Integrand:
    """prod cos(c_d x_d)."""
    c = np.linspace(0.2, 0.6, dimension)
    return Integrand(
        f"cosines {dimension}", "wide", lambda x: np.prod(np.cos(x * c), axis=1), standard(dimension),
        exp(-0.5 * float(c @ c)),
    )  # fmt: skip


def first() -> tuple[Integrand, ...]:
    """Half of them."""
    return (
        bump("narrow 1", "peaky", standard(1), [0.8], np.diag([0.02])),
        bump(
            "correlated likelihood 2", "peaky", standard(2), [0.6, 0.4], np.array([[0.3, 0.27], [0.27, 0.3]])
        ),
        _sextic(),
        _wave(2, 2.0),
        _turned_banana(),
        _payoff(2),
        bump(
            "bump, mixture measure 3", "smooth", _three_components(3, 30), [0.3, -0.2, 0.5], 0.8 * np.eye(3)
        ),
        _box_corner(3),
        _student(3),
        _ball(3),
        bump(
            "bump, turned 5", "smooth", _turned(5, 7), 0.3 * np.ones(5), rotated([0.5, 1.0, 2.0, 3.0, 4.0], 8)
        ),
        genz_corner_peak(5),
        _ridge(5),
        _quarter(5),
        logistic_elbo(8, 5),
        _cosines(10),
    )


def second() -> tuple[Integrand, ...]:
    """The other half."""
    return (
        _sharp_product_peak(1),
        _wave(1, 3.0),
        _quarter(1),
        _student(2),
        _ridge(2),
        _sharp_product_peak(2),
        _ball(2),
        _three_modes(),
        _wave(3, 1.0),
        gaussian_peak("steep Gaussian 3", np.linspace(3.0, 1.5, 3), np.linspace(0.2, 0.8, 3)),
        bump("bump, turned 4", "peaky", _turned(4, 17), 0.5 * np.ones(4), rotated([0.2, 0.4, 0.8, 1.2], 18)),
        _box_corner(5),
        _payoff(5),
        bump(
            "bump, mixture measure 5", "smooth", _three_components(5, 40), 0.2 * np.ones(5), 2.0 * np.eye(5)
        ),
        logistic_elbo(3, 6),
        exponential("exponential 10", "wide", 0.25 * np.cos(np.arange(10))),
        _ball(10),
    )
