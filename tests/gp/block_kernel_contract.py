"""A contract test that the author of a new kernel between observations can call.

A kernel that passes :func:`check_block_kernel` can be given to :class:`gp.conditioning.Conditioned`. The
oracle is dense linear algebra on its own covariance matrix (an inverse, generalised least squares, refits
without a node), which shares nothing with the triangular factors and their extension.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gp.conditioning.conditioned import BlockKernel, Conditioned
from gp.testing import require, require_close

_LEVEL = 1e3
"""Added to values where the kernel fits a constant: the process must lose no digits by it."""


def check_block_kernel(
    kernel: BlockKernel,
    dimension: int = 2,
    outputs: int = 1,
    *,
    noise: float = 0.05,
    points: np.ndarray | None = None,
    seed: int = 0,
) -> None:
    """Raise AssertionError, saying what is wrong, unless ``kernel`` and its process keep their contract.

    Parameters
    ----------
    kernel : of B numbers a point.
    dimension : columns D of the points that it is tried on.
    outputs : O, which share the kernel; above 1 only where B is 1 and no constant is fitted.
    noise : variance added to the diagonal of K, in units of s^2.
    points : (9, D), for kernels that are not defined at standard normal points; ``dimension`` is then not
        used.
    seed : seed of points and targets.
    """
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((9, dimension)) if points is None else points
    gram = _check_covariance(kernel, x)
    numbers = len(gram) // len(x)
    basis = kernel.constant(x)
    targets = rng.standard_normal((len(x), outputs if numbers == 1 else numbers))
    if basis is not None:
        require(basis.shape == (len(gram),), f"constant(points) has to be (m B,), and is {basis.shape}")
        targets = targets + _LEVEL * basis.reshape(len(x), -1)

    def noise_of(places: np.ndarray) -> np.ndarray:
        return np.full(len(places), noise)

    whole = Conditioned.of(kernel, x, targets, noise_of)
    grown = Conditioned.of(kernel, x[:5], targets[:5], noise_of).extended(x[5:6], targets[5:6])
    for given in (whole, grown.extended(x[6:], targets[6:])):
        _check_given(given, gram + noise * np.eye(len(gram)), basis, targets)
        _check_left_out(given, noise_of)


def _check_covariance(kernel: BlockKernel, x: np.ndarray) -> np.ndarray:
    places, copied = kernel.at(x), kernel.at(x.copy())
    require_close(places.points, x, 0.0, "at(points).points has to be the points")
    gram = kernel.covariance(places, places)
    require(gram.ndim == 2 and len(gram) == gram.shape[1], f"covariance has shape {gram.shape}")
    require(len(gram) % len(x) == 0, f"covariance of {len(x)} points has {len(gram)} rows, not m B of them")
    numbers = len(gram) // len(x)
    require_close(gram, gram.T, 1e-12, "covariance(p, p) has to be symmetric")
    require_close(kernel.covariance(places, copied), gram, 1e-12, "equal points have to have one covariance")
    part = kernel.covariance(kernel.at(x[:3]), kernel.at(x[3:]))
    split = 3 * numbers
    require_close(part, gram[:split, split:], 1e-12, "numbers of a point have to stand next to each other")
    joined = kernel.at(x[:3]).joined(kernel.at(x[3:]))
    require_close(
        kernel.covariance(joined, joined), gram, 1e-12, "joined places have to be those of all points"
    )
    lowest, highest = np.linalg.eigvalsh(gram)[[0, -1]]
    require(lowest >= -1e-12 * len(gram) * highest, f"covariance has an eigenvalue of {lowest:.3g}")
    return gram


def _check_given(
    given: Conditioned, covariance: np.ndarray, basis: np.ndarray | None, targets: np.ndarray
) -> None:
    """Compare constant, weights, scale, evidence and covariances with those by the inverse of K."""
    inverse = np.linalg.inv(covariance)
    right = targets.reshape(len(covariance), -1)
    constant, projected = 0.0, inverse
    if basis is not None:
        total = float(basis @ inverse @ basis)
        constant = float(basis @ inverse @ right[:, 0]) / total
        projected = inverse - np.outer(inverse @ basis, basis @ inverse) / total
        right = right - constant * basis[:, None]
    weights = inverse @ right
    scale = float(np.vdot(right, weights)) / right.size
    size = max(1.0, abs(constant))
    require_close(given.constant / size, constant / size, 1e-9, "constant has to be that of least squares")
    require_close(given.weights, weights.reshape(targets.shape), 1e-7, "weights have to be K^-1 (Y - b c)")
    require_close(given.scale, scale, 1e-7, "scale has to be (Y - b c)^T K^-1 (Y - b c) / (n O)")
    volume = 0.5 * float(np.linalg.slogdet(covariance)[1])
    evidence = -right.shape[1] * volume - 0.5 * right.size * (np.log(2.0 * np.pi * scale) + 1.0)
    require_close(given.evidence.value, evidence, 1e-8, "log_evidence has to be that of the targets")
    # stands for integrals whose covariances with the rows are those of the first three rows
    cross = covariance[:, :3]
    whitened = given.whitening @ cross
    level = np.arange(3.0)
    rules = inverse @ cross
    if basis is not None:
        rules = projected @ cross + np.outer(inverse @ basis, level) / float(basis @ inverse @ basis)
    require_close(
        given.evidence.rules(whitened, level), rules, 1e-7, "rules have to be the weights of least squares"
    )
    prior = 2.0 * np.eye(3) + covariance[:3, :3]
    found = given.covariance(prior, whitened)
    require_close(found, scale * (prior - cross.T @ inverse @ cross), 1e-7, "covariance of integrals")
    require_close(given.evidence.variances(np.diag(prior), whitened), np.diag(found), 1e-9, "variances")


def _check_left_out(given: Conditioned, noise: Callable[[np.ndarray], np.ndarray]) -> None:
    """Compare residuals at a node, and changes of an integral, with the process without that node."""
    kernel, x, targets = given.kernel, given.points, given.targets
    places, left = given.places, given.left_out
    numbers = given.numbers
    for i in (0, len(x) - 1):
        rest = np.arange(len(x)) != i
        others = Conditioned.of(kernel, x[rest], targets[rest], noise)
        cross = kernel.covariance(others.places, kernel.at(x[i : i + 1]))
        expected = cross.T @ others.weights.reshape(len(cross), -1)
        basis = kernel.constant(x[i : i + 1])
        if basis is not None:
            expected = expected + others.constant * basis[:, None]
        residual = targets[i].reshape(numbers, -1) - expected
        require_close(left[i].reshape(residual.shape), residual, 1e-6, f"left_out at node {i}")
    if targets.shape[1] == numbers:  # the targets are of one function
        whitened = given.whitened_covariance(places)[:, :1]
        change = np.einsum("nbf,nb->nf", given.evidence.rules(whitened).reshape(len(x), numbers, -1), left)
        require_close(given.changes(whitened), change, 1e-9, "changes")
