"""What is not known of the moments, as one covariance matrix; and of the gradient that they make.

Flat, the moments of `whitened` are x = (E[y], lower triangle of J row by row), F = D + D (D + 1) / 2 numbers.
Their covariance is that of the model and the jackknife's (`jackknife`) together,

    C = Cov(x | observations) + sum_n delta_n delta_n^T + (sum_n delta_n) (sum_n delta_n)^T,

with delta_n = x - x_(-n), whose diagonal is that of `Surrogate.standard_deviations` squared. The natural
gradient is linear in them: with B = L^-1, G = B^T J B / 2 and dL/dmu = (B^T E[y] - 2 G mu, G), it is A x,
and its covariance A C A^T.

Under N(0, I) a function with kernel v exp(-|u - u'|^2 / (2 l^2)) + b1 u . u' + b2 (u . u')^2 / 2 has, less
its scale, E[grad psi] and E[Hessian psi] that are uncorrelated (one is odd, one even), and

    Cov(E[d_i psi], E[d_j psi])          = (v c_1 + b1) delta_ij
    Cov(E[d_i d_j psi], E[d_k d_l psi])  = v c_2 delta_ij delta_kl
                                           + (v c_2 + b2) (delta_ik delta_jl + delta_il delta_jk)

with c_1, c_2 of `gp.expectation.jacobian_variance`.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from bqvi.arrays import Values
from bqvi.gradients.jackknife import mean_square
from bqvi.gradients.whitened import Frame
from gp.expectation import jacobian_variance


def of_function(
    dimension: int, lengthscale: float, height: float, linear: float, quadratic: float
) -> np.ndarray:
    """Prior covariance / s^2 of (E[grad psi], E[Hessian psi]) under N(0, I), (F, F); the terms are above."""
    rows, columns = np.tril_indices(dimension)
    one, two = jacobian_variance(dimension, lengthscale)
    same = (rows == columns).astype(float)
    # of the lower triangle's pairs, k <= i: delta_il delta_jk is one only where all four are the same
    bends = (height * two + quadratic) * np.diag(1.0 + same) + height * two * np.outer(same, same)
    prior: np.ndarray = scipy.linalg.block_diag((height * one + linear) * np.eye(dimension), bends)
    return prior


def posterior(prior: np.ndarray, scale: float, explained: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """Covariance of the flat moments, (F, F): the model's with the jackknife's.

    Parameters
    ----------
    prior : / s^2, (F, F)
    scale : s^2
    explained : what independent observations of variance 1 tell of the moments, (m, F)
    moved : how much each node moves them, (n, F)
    """
    covariance: np.ndarray = scale * (prior - explained.T @ explained) + mean_square(moved)
    return covariance


def of_outputs(outputs: np.ndarray, functionals: np.ndarray) -> np.ndarray:
    """Covariance of the flat moments, (F, F), where J is the symmetric part of X = (x_1, ..., x_D)^T.

    Parameters
    ----------
    outputs : O (D, D), covariance between the D outputs of each functional
    functionals : S (1 + D, 1 + D), covariance between E[y_i] and the row X_i of one output: Cov(X_ij, X_kl) =
        O_ik S_jl, with E[y_i] the column before X's first
    """
    d = len(outputs)
    rows, columns = np.tril_indices(d)
    slopes = functionals[1:, 1:]
    whole = np.empty((d + len(rows), d + len(rows)))
    whole[:d, :d] = functionals[0, 0] * outputs
    crossed = outputs[:, rows] * functionals[0, 1 + columns] + outputs[:, columns] * functionals[0, 1 + rows]
    whole[:d, d:] = 0.5 * crossed
    whole[d:, :d] = whole[:d, d:].T
    ends = (rows, columns)
    whole[d:, d:] = 0.0
    for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
        both = outputs[np.ix_(ends[a], ends[b])] * slopes[np.ix_(ends[1 - a], ends[1 - b])]
        whole[d:, d:] += 0.25 * both
    return whole


def of_gradient(frame: Frame, covariance: np.ndarray) -> np.ndarray:
    """Covariance of the natural gradient from that of the flat moments, (F, F).

    (P, P), for the entries of its two arrays one after the other: P = D + D^2, or 2 D for a diagonal q.
    """
    linear = _gradient_map(frame)
    carried: np.ndarray = linear @ covariance @ linear.T
    if frame.diagonal:
        return carried
    d = len(frame.mean)
    rows, columns = np.tril_indices(d)
    square = np.empty((d, d), dtype=int)
    square[rows, columns] = square[columns, rows] = d + np.arange(len(rows))
    entries = np.concatenate([np.arange(d), square.reshape(-1)])
    repeated: np.ndarray = carried[np.ix_(entries, entries)]
    return repeated


def standard_errors(covariance: np.ndarray, values: Values) -> Values:
    """Square roots of the diagonal of (P, P), in the shapes of ``values``."""
    sd = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    parts = np.split(sd, np.cumsum([v.size for v in values])[:-1])
    return tuple(part.reshape(v.shape) for part, v in zip(parts, values, strict=True))


def _gradient_map(frame: Frame) -> np.ndarray:
    """A: from the flat moments to dL/dmu, of whose second part only the lower triangle, or the diagonal."""
    d = len(frame.mean)
    rows, columns = np.tril_indices(d)
    share = np.where(rows == columns, 0.25, 0.5)
    inverse: np.ndarray = scipy.linalg.solve_triangular(frame.scale, np.eye(d), lower=True)
    ours, theirs = (np.arange(d), np.arange(d)) if frame.diagonal else (rows, columns)
    second = (
        share
        * (
            inverse[np.ix_(rows, ours)] * inverse[np.ix_(columns, theirs)]
            + inverse[np.ix_(columns, ours)] * inverse[np.ix_(rows, theirs)]
        ).T
    )
    if frame.diagonal:
        pulled = second * frame.mean[:, None]
    else:
        place = inverse @ frame.mean
        pulled = share * (inverse[rows].T * place[columns] + inverse[columns].T * place[rows])
    nothing = np.zeros((len(second), d))
    return np.block([[inverse.T, -2.0 * pulled], [nothing, second]])
