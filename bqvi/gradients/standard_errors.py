"""The standard errors of gradients: from draws, from mini-batches, and from a process on the log joint.

*From L draws.* A mean of L terms g_l has the standard error sd(g_l) / sqrt(L), for each entry. The
importance-weighted estimators are functions of all draws, and their standard error is that of the jackknife:
with theta_(-l) the estimate without draw l,

    se^2 = (L - 1) / L sum_l |theta_(-l) - mean theta_(-.)|^2.

For a mean the two agree. Both are too short where few terms have most of the variance, as for weighted
estimates under a q narrower than the posterior, where the variance may be infinite.

*From a mini-batch.* With weights w_i = 1 / pi_i and gradients g_i of the data, the variance of sum_i w_i g_i
over mini-batches is estimated by

    V(g, g) = S / (S - 1) sum_i (1 - pi_i) |w_i g_i - a|^2,   a = sum_i (1 - pi_i) w_i g_i / sum_i (1 - pi_i)

(Deville 1999), without bias for equal probabilities, exact for as many independent draws, and too large where
a design does better. The variance over the draws is of the mini-batch's sum, and contains that over
mini-batches of each draw's difference from the mean, which V of the means over draws would count twice. Added
is V(g', g'') of the means over two halves of the draws, whose expectation is V of the expected gradients.

By quadrature, V(g, g) is the variance of what the fixed rule gives. The covariance of the process is of all
data: less the share of Y^T P Y (`gp.conditioning.conditioned`) that V of the rows' targets makes.

*From a process.* As a vector, the moments of `whitened` are x = (E[y], lower triangle of J row by row),
F = D + D (D + 1) / 2 numbers. With delta_n = x - x_(-n), changes without node n, estimates of their error are

    M = Cov(x | observations)  and  V = sum_n delta_n delta_n^T + (sum_n delta_n) (sum_n delta_n)^T.

M assumes a stationary kernel; log joints are steep far from the mode and flat at it, so that it is too small
in the tails. V, the jackknife's variance and squared bias, is too small where nodes are few. C = M + S V S
with a diagonal S has the larger variance of each entry. The trust region's steps have the sum of both.

The natural gradient is linear in the moments: with B = L^-1, G = B^T J B / 2 and dL/dmu = (B^T E[y] - 2 G
mu, G), it is A x, and its covariance A C A^T.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bqvi.arrays import Values, unflat
from bqvi.gradients.gradient import Batch
from bqvi.gradients.whitened import WhitenedFrame
from gp.arrays import to_numpy


def of_mean(terms: Values) -> Values:
    """Standard errors of means of L terms, each array (L, ...)."""
    return tuple(t.std(0, ddof=1) / np.sqrt(len(t)) for t in terms)


def with_sampling(
    errors: Values, each: Callable[[slice], Values] | None, draws: int, batch: Batch
) -> Values | None:
    """The standard errors of a gradient with those of its mini-batch; None where these are not known.

    Parameters
    ----------
    errors : given the mini-batch. each : a function that returns the gradients of the data, arrays (S, ...),
        means over some of the draws; None where there are none. draws : how many, independent ones. batch :
        the mini-batch, or all data.
    """
    if batch.weights is None:
        return errors
    if each is None or batch.corrections is None or batch.size < 2:
        return None
    weights = to_numpy(batch.weights)
    if not batch.corrections(weights).any():  # every datum is in the mini-batch
        return errors
    first, last = each(slice(draws // 2)), each(slice(draws // 2, None))
    return tuple(
        np.sqrt(np.square(error) + np.maximum(over_batches(a, b, batch), 0.0).reshape(np.shape(error)))
        for error, a, b in zip(errors, first, last, strict=True)
    )


def over_batches(first: np.ndarray, last: np.ndarray, batch: Batch) -> np.ndarray:
    """V(g', g'') of each entry, (P,), of gradients of the data ``first`` and ``last``, (S, ...)."""
    weights = to_numpy(batch.weights)
    left = np.maximum(batch.corrections(weights), 1e-300)  # type: ignore[misc]
    a, b = (np.asarray(part).reshape(len(weights), -1) * weights[:, None] for part in (first, last))
    centred = (a - left @ a / left.sum()) * (b - left @ b / left.sum())
    return np.asarray(left @ centred * (batch.size / (batch.size - 1)))


def mean_square(model: np.ndarray, changes: np.ndarray) -> np.ndarray:
    """C of F numbers, (F, F), from M of the ``model`` and the changes by node, (n, F)."""
    rows = np.concatenate([changes, changes.sum(0, keepdims=True)])
    excess = 1.0 - np.diagonal(model) / np.maximum(np.square(rows).sum(0), 1e-300)
    rows *= np.sqrt(np.maximum(excess, 0.0))
    return np.asarray(model + rows.T @ rows)


def of_outputs(outputs: np.ndarray, functionals: np.ndarray) -> np.ndarray:
    """Covariance of the flat moments, (F, F), where J is the symmetric part of X = (x_1, ..., x_D)^T.

    Parameters
    ----------
    outputs : O (D, D), covariance between the D outputs of each functional
    functionals : S (1 + D, 1 + D), covariance between E[y_i] and the row X_i of one output: Cov(X_ij, X_kl) =
        O_ik S_jl, with E[y_i] as column 0
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


def of_gradient(frame: WhitenedFrame, covariance: np.ndarray) -> np.ndarray:
    """Covariance of the natural gradient from that of the flat moments, (F, F).

    (P, P), for the entries of its two arrays one after the other: P = D + D^2, or 2 D for a diagonal q.
    """
    linear = _gradient_map(frame)
    found: np.ndarray = linear @ covariance @ linear.T
    if frame.diagonal:
        return found
    d = len(frame.mean)
    rows, columns = np.tril_indices(d)
    square = np.empty((d, d), dtype=int)
    square[rows, columns] = square[columns, rows] = d + np.arange(len(rows))
    entries = np.concatenate([np.arange(d), square.reshape(-1)])
    return found[np.ix_(entries, entries)]


def standard_errors(covariance: np.ndarray, values: Values) -> Values:
    """Square roots of the diagonal of (P, P), in the shapes of ``values``."""
    return unflat(np.sqrt(np.maximum(np.diagonal(covariance), 0.0)), values)


def _gradient_map(frame: WhitenedFrame) -> np.ndarray:
    """A, from the flat moments to dL/dmu, the second part as its lower triangle or diagonal."""
    d = len(frame.mean)
    rows, columns = np.tril_indices(d)
    share = np.where(rows == columns, 0.25, 0.5)
    inverse = frame.inverse
    i, j = (np.arange(d), np.arange(d)) if frame.diagonal else (rows, columns)
    second = (
        share
        * (
            inverse[np.ix_(rows, i)] * inverse[np.ix_(columns, j)]
            + inverse[np.ix_(columns, i)] * inverse[np.ix_(rows, j)]
        ).T
    )
    if frame.diagonal:
        pulled = second * frame.mean[:, None]
    else:
        place = inverse @ frame.mean
        pulled = share * (inverse[rows].T * place[columns] + inverse[columns].T * place[rows])
    nothing = np.zeros((len(second), d))
    return np.block([[inverse.T, -2.0 * pulled], [nothing, second]])
