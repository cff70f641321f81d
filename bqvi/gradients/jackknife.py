"""What an estimate would have been without each of its nodes: the sampling error of Bayesian quadrature.

The posterior variance of an integral answers for what the kernel does not determine, under a kernel
that is stationary and the same for all outputs. Log joints are neither: they are steep where q came from and
flat at its mode, and hyperparameters fitted to the bulk of the nodes understate what the tails hide. The
nodes know: with w = K^-1 c the quadrature weights of a functional and r_i = [K^-1 y]_i / [K^-1]_ii the
residual at node i of the process given the others, its estimate changes by

    theta - theta_(-i) = w_i r_i

when node i is left out, hyperparameters kept (blocks of a node's D numbers together: r_i = ([K^-1]_ii)^-1
[K^-1 y]_i). With delta_i that change, the jackknife's variance and its estimate of the bias are

    sum_i delta_i delta_i^T,        sum_i delta_i        (Quenouille 1949; Tukey 1958).

In a regression the first is the variance that allows for noise of unequal size (HC3, MacKinnon and White
1985). The second is what tails that nodes have yet to reach go on adding: there all nodes move an estimate
the same way, and without it intervals for a separable process on a banana hold three times in four. Variance,
square of the bias and posterior variance are added: any alone leaves the intervals too short, the first two
where nodes are few, the last where the log joint is far from stationary.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg


def inverse_of(factor: np.ndarray) -> np.ndarray:
    """K^-1 from the lower Cholesky factor of K, (m, m)."""
    lower: np.ndarray = scipy.linalg.lapack.dpotri(factor, lower=1)[0]
    inverse: np.ndarray = np.tril(lower) + np.tril(lower, -1).T
    return inverse


def residuals(inverse: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """R_i of m nodes for each of D outputs with one kernel, (m, D), from K^-1 and K^-1 Y."""
    found: np.ndarray = weights / np.einsum("ii->i", inverse)[:, None]
    return found


def mean_square(moved: np.ndarray) -> np.ndarray:
    """Variance and squared bias of F numbers, (F, F), from how much each of n nodes moves them, (n, F)."""
    bias = moved.sum(0)
    found: np.ndarray = moved.T @ moved + bias[:, None] * bias
    return found


def block_residuals(inverse: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """R_i of m nodes that observe D numbers each, (m, D), from K^-1 (m D, m D) and K^-1 y as (m, D)."""
    m, d = weights.shape
    blocks = inverse.reshape(m, d, m, d)[np.arange(m), :, np.arange(m), :]
    found: np.ndarray = np.linalg.solve(blocks, weights[:, :, None])[:, :, 0]
    return found
