"""The recursions of `forward_backward` as loops over pieces and time, for numba.

The states of one time in a block of pieces fit into the processor's first-level cache. pred and w are not
stored but computed again by one product each, as memory access takes most of the time. Functions take whole
tables (c, K, C) with a time and a first piece, because numba can infer that the entries of a row are
contiguous, which vectorised loops need, but not that those of a part of a table are.
"""

from __future__ import annotations

import numpy as np

from bqvi.models.compiled import compiled
from bqvi.models.compiled_exponential import exponentiate

_WIDTH = 128
"""The number of pieces in a block; 32, 64 and 128 were compared at 100,000 values."""


@compiled
def _row(table: np.ndarray, t: int, k: int, first: int, n: int) -> np.ndarray:
    """``n`` entries of a ``table`` (c, K, C), which are known to lie side by side only if taken so."""
    return table[t, k][first : first + n]


@compiled
def _product(matrix: np.ndarray, table: np.ndarray, t: int, first: int, n: int, out: np.ndarray) -> None:
    """``out`` (K, n) = ``matrix`` (K, K) times ``n`` columns of ``table`` (c, K, C) at ``t``."""
    size = len(matrix)
    for k in range(size):
        own = out[k][:n]
        row = _row(table, t, 0, first, n)
        weight = matrix[k, 0]
        for c in range(n):
            own[c] = weight * row[c]
        # two rows at a time, so that the sums are read and written half as often
        for j in range(1, size - 1, 2):
            row, next_row = _row(table, t, j, first, n), _row(table, t, j + 1, first, n)
            weight, next_weight = matrix[k, j], matrix[k, j + 1]
            for c in range(n):
                own[c] += weight * row[c] + next_weight * next_row[c]
        if size % 2 == 0:
            row = _row(table, t, size - 1, first, n)
            weight = matrix[k, size - 1]
            for c in range(n):
                own[c] += weight * row[c]


@compiled
def _divide(table: np.ndarray, t: int, first: int, n: int, out: np.ndarray) -> None:
    """``out`` (K, n) becomes ``n`` columns of ``table`` (c, K, C) at ``t`` divided by it."""
    for k in range(len(out)):
        own, row = out[k], _row(table, t, k, first, n)
        for c in range(n):
            own[c] = row[c] / own[c]


@compiled
def _add_pairs(
    alpha: np.ndarray,
    t: int,
    first: int,
    n: int,
    weights: np.ndarray,
    w: np.ndarray,
    scaled: np.ndarray,
    pairs: np.ndarray,
) -> None:
    """Add alpha_t w^T with ``weights``, summed over ``n`` pieces, to ``pairs`` (K, K)."""
    for j in range(len(w)):
        row = w[j]
        for c in range(n):
            scaled[c] = row[c] * weights[first + c]
        for i in range(len(w)):
            row = _row(alpha, t, i, first, n)
            total = 0.0
            for c in range(n):
                total += scaled[c] * row[c]
            pairs[i, j] += total


@compiled
def _normalise(table: np.ndarray, t: int, first: int, total: np.ndarray, logs: np.ndarray) -> None:
    """Columns of ``table`` at ``t`` to sum to one over states; ``logs`` (n,) of what they were divided by."""
    n = len(total)
    total[:] = 0.0
    for k in range(table.shape[1]):
        row = _row(table, t, k, first, n)
        for c in range(n):
            total[c] += row[c]
    for c in range(n):
        logs[c] = np.log(total[c])
        total[c] = 1.0 / total[c]
    for k in range(table.shape[1]):
        row = _row(table, t, k, first, n)
        for c in range(n):
            row[c] *= total[c]


@compiled
def _multiply(table: np.ndarray, other: np.ndarray, t: int, first: int, n: int, out: np.ndarray) -> None:
    """``n`` columns of ``out`` (c, K, C) at ``t`` = rows of ``table`` (K, n) times those of ``other``."""
    for k in range(len(table)):
        own, row, factor = _row(out, t, k, first, n), table[k], _row(other, t, k, first, n)
        for c in range(n):
            own[c] = row[c] * factor[c]


@compiled
def _column(matrix: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
    """``out`` (K,) = ``matrix`` (K, K) times ``x`` (K,)."""
    for k in range(len(out)):
        share = 0.0
        for j in range(len(out)):
            share += matrix[k, j] * x[j]
        out[k] = share


@compiled
def _differs(here: np.ndarray, before: np.ndarray, same: float) -> bool:
    """Whether an entry of ``here`` (K,) is another than ``before``, to a relative difference ``same``."""
    count = 0
    for k in range(len(here)):
        count += abs(here[k] - before[k]) > same * before[k]
    return count > 0


@compiled
def _entering(initial: np.ndarray, moved: np.ndarray, ends: np.ndarray, before: int, out: np.ndarray) -> None:
    """``out`` (K,): pred at the start of a piece after the piece ``before``, or of a first one, -1."""
    if before < 0:
        out[:] = initial
    else:
        _column(moved, ends[:, before], out)


@compiled
def _forward_block(
    initial: np.ndarray,
    moved: np.ndarray,
    b: np.ndarray,
    lengths: np.ndarray,
    previous: np.ndarray,
    first: int,
    every: int,
    alpha: np.ndarray,
    log_scale: np.ndarray,
) -> None:
    """alpha of the pieces from ``first`` on, those that are not first entered by any state alike."""
    last = min(first + _WIDTH, b.shape[2])
    pred, total = np.empty((len(moved), _WIDTH)), np.empty(_WIDTH)
    for k in range(len(moved)):
        share = moved[k].sum() / len(moved)
        for c in range(last - first):
            pred[k, c] = initial[k] if previous[first + c] < 0 else share
    _multiply(pred, b, 0, first, last - first, alpha)
    for t in range(1, lengths[first]):
        while lengths[last - 1] <= t:
            last -= 1
        n = last - first
        _product(moved, alpha, t - 1, first, n, pred)
        _multiply(pred, b, t, first, n, alpha)
        if t % every == 0:
            _normalise(alpha, t, first, total[:n], log_scale[t // every][first:last])


@compiled
def _forward_again(
    moved: np.ndarray,
    b: np.ndarray,
    c: int,
    length: int,
    every: int,
    same: float,
    here: np.ndarray,
    alpha: np.ndarray,
    log_scale: np.ndarray,
) -> None:
    """alpha of piece ``c``, entered by ``here`` (K,), until it agrees with the run before."""
    now = np.empty(len(here))
    for t in range(length):
        _column(moved, here, now)
        for k in range(len(here)):
            here[k] = now[k] * b[t, k, c]
        settled = False
        if t % every == 0 and t > 0:
            total = here.sum()
            log_scale[t // every, c] = np.log(total)
            for k in range(len(here)):
                here[k] /= total
            settled = not _differs(here, alpha[t, :, c], same)
        for k in range(len(here)):
            alpha[t, k, c] = here[k]
        if settled:
            return


@compiled
def forward(
    initial: np.ndarray,
    moved: np.ndarray,
    b: np.ndarray,
    lengths: np.ndarray,
    previous: np.ndarray,
    order: np.ndarray,
    every: int,
    same: float,
    alpha: np.ndarray,
    ends: np.ndarray,
    log_evidence: np.ndarray,
) -> None:
    """Fill alpha (c, K, C), its normalised ends (K, C), and the log evidence (C,) of each piece.

    ``initial`` (K,), ``moved`` A^T (K, K), likelihoods ``b`` (c, K, C), ``lengths`` (C,) falling,
    ``previous`` (C,), -1 for a first piece, ``order`` (C,) such that a piece comes after the one before it;
    normalised at each ``every`` steps, and equal to a relative difference ``same``.
    """
    n_states, n_pieces = b.shape[1], b.shape[2]
    log_scale = np.zeros((b.shape[0] // every + 1, n_pieces))
    guess = np.full(n_states, 1.0 / n_states)
    for first in range(0, n_pieces, _WIDTH):
        _forward_block(initial, moved, b, lengths, previous, first, every, alpha, log_scale)
    for c in order:
        if previous[c] >= 0:
            here = ends[:, previous[c]].copy()
            if _differs(guess, here, same):
                _forward_again(moved, b, c, lengths[c], every, same, here, alpha, log_scale)
        last = alpha[lengths[c] - 1, :, c]
        mass = last.sum()
        ends[:, c] = last / mass
        log_evidence[c] = np.log(mass) + log_scale[:, c].sum()


@compiled
def _backward_block(
    initial: np.ndarray,
    a: np.ndarray,
    moved: np.ndarray,
    alpha: np.ndarray,
    ends: np.ndarray,
    lengths: np.ndarray,
    previous: np.ndarray,
    weights: np.ndarray,
    first: int,
    gamma: np.ndarray,
    first_w: np.ndarray,
    pairs: np.ndarray,
) -> None:
    """gamma, w at the start, and sums of pairs, of pieces from ``first`` on as if each were a last one."""
    n_states, n_block, n = len(a), min(_WIDTH, len(lengths) - first), 0
    w, back = np.empty((n_states, _WIDTH)), np.empty((n_states, _WIDTH))
    scaled, pred = np.empty(_WIDTH), np.empty(n_states)
    for t in range(lengths[first] - 1, -1, -1):
        older = n
        while n < n_block and lengths[first + n] > t:
            n += 1
        _product(a, w[None], 0, 0, older, back)
        _multiply(back, alpha, t, first, older, gamma)
        for k in range(n_states):
            for c in range(first + older, first + n):
                gamma[t, k, c] = ends[k, c]
        if t > 0:
            _product(moved, alpha, t - 1, first, n, w)
            _divide(gamma, t, first, n, w)
            _add_pairs(alpha, t - 1, first, n, weights, w, scaled, pairs)
    for c in range(first, first + n_block):
        _entering(initial, moved, ends, previous[c], pred)
        first_w[:, c] = gamma[0, :, c] / pred


@compiled
def _backward_again(
    a: np.ndarray,
    moved: np.ndarray,
    alpha: np.ndarray,
    c: int,
    last: int,
    weight: float,
    every: int,
    same: float,
    here: np.ndarray,
    gamma: np.ndarray,
    pairs: np.ndarray,
) -> bool:
    """gamma of piece ``c`` from ``here`` (K,) at ``last`` back, and ``pairs``, until both are as before.

    Returns whether the start of the piece has changed.
    """
    pred, w = np.empty(len(here)), np.empty(len(here))
    for t in range(last, 0, -1):
        settled = t % every == 0 and not _differs(here, gamma[t, :, c], same)
        _column(moved, alpha[t - 1, :, c], pred)
        for k in range(len(here)):
            # the correction of what the first pass added to ``pairs``
            gap = weight * (here[k] - gamma[t, k, c]) / pred[k]
            for j in range(len(here)):
                pairs[j, k] += alpha[t - 1, j, c] * gap
            gamma[t, k, c] = here[k]
            w[k] = here[k] / pred[k]
        if settled:
            return False
        _column(a, w, here)
        for k in range(len(here)):
            here[k] *= alpha[t - 1, k, c]
    gamma[0, :, c] = here
    return True


@compiled
def backward(
    initial: np.ndarray,
    a: np.ndarray,
    alpha: np.ndarray,
    ends: np.ndarray,
    lengths: np.ndarray,
    previous: np.ndarray,
    following: np.ndarray,
    order: np.ndarray,
    weights: np.ndarray,
    every: int,
    same: float,
    gamma: np.ndarray,
    pairs: np.ndarray,
) -> None:
    """Fill gamma (c, K, C), and ``pairs`` (K, K): sum over time of alpha_t w_t+1^T with ``weights`` (C,).

    Parameters
    ----------
    initial, a : the probabilities (K,) of first states, and of transitions (K, K).
    alpha, ends : (c, K, C) and (K, C), as `forward` filled them. lengths : of the pieces, (C,), falling.
    previous, following : (C,), the piece of the same sequence before and after each; -1 for none.
    order : (C,), such that a piece comes after the one before it. weights : of the pieces, (C,).
    every : the number of steps from one normalisation to the next. same : the relative difference at which
        two messages are equal.
    gamma : (c, K, C), filled with the smoothed probabilities. pairs : (K, K), filled with the sums.
    """
    n_states, n_pieces = alpha.shape[1], alpha.shape[2]
    moved = np.ascontiguousarray(a.T)
    first_w, pred, message = np.empty((n_states, n_pieces)), np.empty(n_states), np.empty(n_states)
    guess = np.ones(n_states)
    pairs[:] = 0.0
    for first in range(0, n_pieces, _WIDTH):
        _backward_block(
            initial, a, moved, alpha, ends, lengths, previous, weights, first, gamma, first_w, pairs
        )
    for c in order[::-1]:
        if following[c] < 0:
            continue
        _column(a, first_w[:, following[c]], message)
        here, last = ends[:, c] * message, lengths[c] - 1
        here /= here.sum()
        if _differs(guess, message, same) and _backward_again(
            a, moved, alpha, c, last, weights[c], every, same, here, gamma, pairs
        ):
            _entering(initial, moved, ends, previous[c], pred)
            first_w[:, c] = here / pred
    for c in range(n_pieces):
        before = previous[c]
        if before >= 0:
            for i in range(n_states):
                for j in range(n_states):
                    pairs[i, j] += weights[c] * ends[i, before] * first_w[j, c]


@compiled
def symbol_likelihoods(table: np.ndarray, symbols: np.ndarray, out: np.ndarray) -> None:
    """``out`` (c, K, C): what ``table`` (K, V) has for ``symbols`` (c, C)."""
    for t in range(symbols.shape[0]):
        for k in range(len(table)):
            own, row = out[t, k], table[k]
            for c in range(symbols.shape[1]):
                own[c] = row[symbols[t, c]]


@compiled
def symbol_visits(symbols: np.ndarray, posterior: np.ndarray, out: np.ndarray) -> None:
    """Add to ``out`` (V, K) the ``posterior`` (c, K, C) at the times of each of the ``symbols`` (c, C)."""
    for t in range(symbols.shape[0]):
        for k in range(posterior.shape[1]):
            row = posterior[t, k]
            for c in range(symbols.shape[1]):
                out[symbols[t, c], k] += row[c]


@compiled
def _row_product(weights: np.ndarray, table: np.ndarray, t: int, own: np.ndarray) -> None:
    """``own`` (C,) = ``weights`` (P,) times ``table`` (c, P, C) at ``t``."""
    width = len(weights)
    row, weight = table[t, 0], weights[0]
    for c in range(len(own)):
        own[c] = weight * row[c]
    # two rows at a time, as in `_product`
    for p in range(1, width - 1, 2):
        row, next_row = table[t, p], table[t, p + 1]
        weight, next_weight = weights[p], weights[p + 1]
        for c in range(len(own)):
            own[c] += weight * row[c] + next_weight * next_row[c]
    if width % 2 == 0:
        row, weight = table[t, width - 1], weights[width - 1]
        for c in range(len(own)):
            own[c] += weight * row[c]


@compiled
def _raised(own: np.ndarray, floor: float, marks: np.ndarray) -> bool:
    """Raise what of ``own`` is below ``floor`` to it, and mark it; whether there was any."""
    below = 0
    for c in range(len(own)):
        below += own[c] < floor
    if below:
        for c in range(len(own)):
            marks[c] = own[c] < floor
            own[c] = max(own[c], floor)
    return below > 0


@compiled
def relative_likelihoods(
    weights: np.ndarray,
    table: np.ndarray,
    floor: float,
    out: np.ndarray,
    top: np.ndarray,
    floored: np.ndarray,
) -> bool:
    """``out`` (c, K, C) = exp of ``weights`` (K, P) times ``table`` (c, P, C), less the largest of each time.

    What is taken off is added to ``top`` (C,). Logarithms that would be below ``floor`` are raised to it and
    marked in ``floored`` (c, K, C); whether there was any is returned.
    """
    largest, found = np.empty(table.shape[2]), False
    bits = np.empty(table.shape[2], np.int64)
    powers = bits.view(np.float64)
    for t in range(len(table)):
        largest[:] = -np.inf
        for k in range(len(weights)):
            own = out[t, k]
            _row_product(weights[k], table, t, own)
            for c in range(len(own)):
                largest[c] = own[c] if own[c] > largest[c] else largest[c]
        for c in range(len(top)):
            top[c] += largest[c]
        for k in range(len(weights)):
            own = out[t, k]
            for c in range(len(own)):
                own[c] -= largest[c]
            if _raised(own, floor, floored[t, k]):
                found = True
            exponentiate(own, bits, powers)
    return found


@compiled
def weighted_sums(posterior: np.ndarray, table: np.ndarray, out: np.ndarray) -> None:
    """Add to ``out`` (K, P) the products of ``posterior`` (c, K, C) and ``table`` (c, P, C)."""
    for t in range(len(table)):
        for k in range(posterior.shape[1]):
            own = posterior[t, k]
            for p in range(table.shape[1]):
                row, total = table[t, p], 0.0
                for c in range(len(own)):
                    total += own[c] * row[c]
                out[k, p] += total
