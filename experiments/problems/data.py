"""Data of the experiments: simulated from a seed, or from packages; nothing is read from a folder."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gp.checks import Seed, generator

__all__ = [
    "CENTRES",
    "Clusters",
    "Floats",
    "digit_counts",
    "digits",
    "labelled",
    "penguins",
    "simulate",
    "simulate_states",
    "thesis",
]

Floats = NDArray[np.float64]

CENTRES: Floats = np.array([[6, 3], [3, 6], [12, 15], [9, 6], [3, 14], [9, 11], [13, 1]], dtype=float)
"""Centres of the seven clusters of the thesis (github.com/BenGutteridge/4YP, run_VI.py); the nearest two
are 4.2 standard deviations apart."""


@dataclass(frozen=True)
class Clusters:
    """Data with labels, and a mixture of Gaussians that describes them.

    Attributes
    ----------
    x : ndarray of float, shape (N, D)
    labels : ndarray of int, shape (N,)
    weights : ndarray of float, shape (C,)
    means : ndarray of float, shape (C, D)
        Of a mixture with identity covariance: the one that generated the data, or that of the labels.
    """

    x: Floats
    labels: NDArray[np.int64]
    weights: Floats
    means: Floats

    @property
    def truth(self) -> dict[str, Floats]:
        """Parameters in the form of `GaussianMixture.log_likelihood`."""
        return {"weights": self.weights, "means": self.means}


def simulate(
    n: int, weights: np.ndarray, means: np.ndarray, covariance: np.ndarray, seed: Seed
) -> tuple[np.ndarray, np.ndarray]:
    """``n`` draws of a mixture with shared covariance: data (N, D) and labels (N,).

    Parameters
    ----------
    n : the number of draws. weights : (K,), of sum 1. means : (K, D). covariance : (D, D), of every
        component.
    seed : an integer or a generator.
    """
    rng = generator(seed)
    labels = rng.choice(len(weights), n, p=weights)
    noise = rng.standard_normal((n, means.shape[1])) @ np.linalg.cholesky(covariance).T
    return means[labels] + noise, labels


def simulate_states(
    initial: np.ndarray, transitions: np.ndarray, lengths: np.ndarray, seed: Seed
) -> np.ndarray:
    """(sum of lengths,) states of chains, one after the other.

    Parameters
    ----------
    initial : the probabilities of first states (K,). transitions : (K, K), rows of sum 1.
    lengths : the lengths of the chains. seed : an integer or a generator.
    """
    rng = generator(seed)
    last = np.cumsum(transitions, axis=1)
    states = np.empty(int(np.sum(lengths)), np.intp)
    begins = set((np.cumsum(lengths) - lengths).tolist())
    first = np.cumsum(initial)
    for t, u in enumerate(rng.random(len(states))):
        row = first if t in begins else last[states[t - 1]]
        states[t] = min(int(np.searchsorted(row, u * row[-1], side="right")), len(row) - 1)
    return states


def thesis(n: int, rng: np.random.Generator) -> Clusters:
    """Draw the thesis' data: seven clusters of equal weight and identity covariance (Section 6).

    Parameters
    ----------
    n : int
        700 in the thesis.
    rng : Generator
    """
    weights = np.full(len(CENTRES), 1.0 / len(CENTRES))
    x, labels = simulate(n, weights, CENTRES, np.eye(2), rng)
    return Clusters(x, labels, weights, CENTRES)


def penguins() -> Clusters:
    """Palmer penguins: 342 birds, 4 measurements, 3 species; the 2 birds without measurements left out.

    Standardised, then mapped as `labelled` does.
    """
    from palmerpenguins import load_penguins

    columns = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
    table = load_penguins()[["species", *columns]].dropna()
    x = table[columns].to_numpy(dtype=float)
    labels = np.unique(table["species"].to_numpy(dtype=str), return_inverse=True)[1]
    return labelled((x - x.mean(axis=0)) / x.std(axis=0), labels)


def digits(components: int = 10) -> Clusters:
    """Digits of scikit-learn: 1797 images of 10 digits, on their first principal components.

    Mapped as `labelled` does.
    """
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    centred = pixels - pixels.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2][:components]
    return labelled(centred @ axes.T, labels)


def digit_counts() -> tuple[Floats, NDArray[np.int64]]:
    """Digits of scikit-learn as counts: 1797 images of 64 pixels from 0 to 16, and their labels."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return np.asarray(pixels, dtype=float), np.asarray(labels, dtype=np.int64)


def labelled(x: Floats, labels: NDArray[np.int64]) -> Clusters:
    """Map data so that the covariance pooled within the labels is the identity, and the mean 0.

    A mixture with that covariance known is then one with covariance I: the same model in other
    coordinates. The mixture of the labels has their shares and their means.

    Parameters
    ----------
    x : ndarray of float, shape (N, D)
    labels : ndarray of int, shape (N,), values 0 to C - 1, each present
    """
    counts = np.bincount(labels)
    means = np.stack([x[labels == c].mean(axis=0) for c in range(len(counts))])
    residuals = x - means[labels]
    factor = np.linalg.cholesky(residuals.T @ residuals / len(x))
    origin = x.mean(axis=0)

    def mapped(points: Floats) -> Floats:
        return np.linalg.solve(factor, (points - origin).T).T

    return Clusters(mapped(x), labels, counts / len(x), mapped(means))
