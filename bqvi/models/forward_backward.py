"""The forward-backward recursions of a hidden Markov model, over many pieces of sequences at once.

With alpha_t the filtered state (any multiple of p(z_t | x_1..t)), A the transitions and b_t the likelihoods
p(x_t | z_t), each relative to its largest,

    pred_t+1 = A^T alpha_t,        alpha_t+1 = b_t+1 * pred_t+1                              (forward)
    gamma_t = alpha_t * A w_t+1,   w_t = b_t * A w_t+1                                       (backward)

which is one recursion in both directions. With A w_t+1 at the end of a sequence 1 / sum alpha, gamma_t is
p(z_t | x) without further normalisation; the expected transitions are A * sum_t alpha_t w_t+1^T, one matrix
product. Rows of A need not sum to one: in variational inference A is exp(E[ln A]).

Sequences are cut into pieces (`sequences.SequenceLayout`). All pieces are first run forward from a guess of
their initial state. A piece whose guess differs from the end of the previous piece is then run again, until
its state agrees with that of the first run, after which both runs are equal. Where the chain mixes, the
second run is short, as the state soon becomes independent of the initial one. A chain that does not mix takes
as many runs as a sequence has pieces, with the same result.

Underflow is avoided by ln A and ln b of at least -70, and by a normalisation of alpha at each eighth step, so
that no state has less than exp(-9 * 70) of the weight. The floor adds weight to paths that have almost none.
If the expected number of visits to entries at the floor exceeds `TOLERANCE`, the recursions have to be done
in logarithms (`InLogarithms`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bqvi.arrays import logsumexp
from bqvi.models.sequences import SequenceLayout

FLOOR = -70.0
"""The least logarithm of a relative likelihood or probability; its exponential, 4e-31, is below rounding."""
_EVERY = 8
"""The number of steps between normalisations."""
_SIDE_BY_SIDE = 0.1
"""The share of changed pieces from which all pieces are run again, not a selection of them."""
_SAME = 1e-10
"""The relative difference below which states count as equal."""
TOLERANCE = 1e-10
"""The largest expected number of visits to entries at the floor, which bounds the error of ln p(x), nats."""
_IMPOSSIBLE = -1e30
"""The value of ln 0, so that the path with the fewest impossible steps is found where all paths have some."""


@dataclass(frozen=True)
class Chain:
    """The logarithms of the initial and transition probabilities of a chain (normalised or not)."""

    initial: np.ndarray
    """(K,)."""
    transitions: np.ndarray
    """(K, K), from row to column."""


@dataclass(frozen=True)
class SmoothedStates:
    """The result of the recursions."""

    posterior: np.ndarray
    """gamma, (c, K, C); 0 where a piece has ended."""
    transitions: np.ndarray
    """sum over time of p(z_t = i, z_t+1 = j | x), with the pieces' weights, (K, K)."""
    log_evidence: np.ndarray
    """ln p(x) of each piece given those before, (C,), without the factors of the relative likelihoods."""


def smooth(
    chain: Chain,
    relative: np.ndarray,
    layout: SequenceLayout,
    weights: np.ndarray | None = None,
    scratch: dict[str, np.ndarray] | None = None,
) -> SmoothedStates | None:
    """The posteriors of the states; None where too many transitions were at the floor.

    Parameters
    ----------
    relative : the likelihoods b (c, K, C) relative to the largest of each time, at least exp(`FLOOR`)
    weights : the weights (C,) of the pieces, default one
    scratch : memory of an earlier call with the same layout, as new memory takes as long as the recursions.
        The returned posterior is part of it, and valid until the next call
    """
    scratch = {} if scratch is None else scratch
    pi, a = (np.exp(np.maximum(x, FLOOR)) for x in (chain.initial, chain.transitions))
    forward = _Messages(np.ascontiguousarray(a.T), pi, relative, layout, scratch)
    forward.run()
    backward = _Messages(a, np.ones(len(pi)), relative, layout, scratch, forward)
    backward.run()
    w = backward.x if weights is None else backward.x * weights
    pairs = np.matmul(forward.x[:-1], w[1:].transpose(0, 2, 1)).sum(axis=0)
    later, begins = layout.previous >= 0, layout.previous < 0
    ends = forward.ends / forward.total
    pairs = a * (pairs + ends[:, layout.previous[later]] @ w[0][:, later].T)
    gamma = np.multiply(forward.x, backward.y, out=backward.y)
    floored = float(pairs[chain.transitions < FLOOR].sum())
    floored += float(gamma[0][:, begins][chain.initial < FLOOR].sum())
    if floored > TOLERANCE:
        return None
    # an entry at the floor is visited in proportion to its own probability
    gamma[0][:, begins] *= np.exp(np.minimum(chain.initial - FLOOR, 0.0))[:, None]
    pairs *= np.exp(np.minimum(chain.transitions - FLOOR, 0.0))
    return SmoothedStates(gamma, pairs, np.log(forward.scale).sum(axis=0) + np.log(forward.total))


def _zeros(scratch: dict[str, np.ndarray], name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Memory with zeros where a piece has ended, as nothing is written there."""
    if name not in scratch or scratch[name].shape != shape:
        scratch[name] = np.zeros(shape)
    return scratch[name]


def _differs(now: np.ndarray, before: np.ndarray) -> np.ndarray:
    """The columns in which states ``now`` (K, n) are not those ``before``."""
    return np.flatnonzero((np.abs(now - before) > _SAME * now).any(axis=0))


class _Messages:
    """x_t = b_t * y_t, y_t = M x of the time before, in either direction, each (c, K, C).

    Forwards M is A^T, x is alpha and y pred; backwards M is A, x is w and y is gamma / alpha. Backwards x is
    divided by what it was divided by forwards, so that the sum of alpha y over states, 1 where a piece ends,
    is 1 at all times.

    Parameters
    ----------
    matrix : M. outer : y where a sequence begins, (K,). b : the relative likelihoods.
    layout, scratch : as of `smooth`. forward : the messages forwards, for those backwards.
    """

    def __init__(
        self,
        matrix: np.ndarray,
        outer: np.ndarray,
        b: np.ndarray,
        layout: SequenceLayout,
        scratch: dict[str, np.ndarray],
        forward: _Messages | None = None,
    ) -> None:
        self.matrix, self.b, self.layout, self.forward = matrix, b, layout, forward
        backwards = forward is not None
        self.times = range(len(b))[:: -1 if backwards else 1]
        self.begin, self.end = (layout.lengths - 1, 0 * layout.lengths)[:: 1 if backwards else -1]
        self.before = layout.following if backwards else layout.previous
        self.x = _zeros(scratch, "w" if backwards else "alpha", b.shape)
        self.y: Any = _zeros(scratch, "gamma", b.shape) if backwards else [np.empty(b.shape[1:])] * len(b)
        own = np.ones((1 + len(b) // _EVERY, b.shape[2]))
        self.scale: np.ndarray = own if forward is None else forward.scale
        # a guess where another piece comes before
        self.entering = np.where(self.before < 0, outer[:, None], matrix.sum(axis=1)[:, None])

    def run(self) -> None:
        """Run the pieces until each begins where the piece before ends.

        ``ends`` are then x where pieces end, (K, C), and ``total`` their sums.
        """
        self._run_all(first=True)
        while True:
            self.ends = self.x[self.end, :, np.arange(len(self.end))].T
            self.total = self.ends.sum(axis=0)
            moved = (self.matrix @ (self.ends / self.total))[:, self.before]
            entering = np.where(self.before < 0, self.entering, moved)
            changed = _differs(entering, self.entering)
            if not len(changed):
                break
            self.entering[:, changed] = entering[:, changed]
            few = len(changed) < _SIDE_BY_SIDE * len(self.end)
            self._run_again(*((changed, 0) if few else self._run_all(first=False)))

    def _start(self) -> np.ndarray:
        """y where pieces begin, (K, C)."""
        if self.forward is None:
            return self.entering
        return np.asarray(self.entering / (self.forward.ends * self.entering).sum(axis=0))

    def _run_all(self, first: bool) -> tuple[np.ndarray, int]:
        """Run all pieces from their starts; unless it is the ``first`` run, while most differ from before.

        Return those that still differ, and the number of times done. Slices are several times faster than
        chosen columns.
        """
        start, pieces, turn = self._start(), len(self.end), self.times.step
        # iterating over tables takes half as long as indexing them, which counts where pieces are few
        tables = (list(x)[::turn] for x in (self.x, self.y, self.b))
        rows = zip(self.times, self.layout.running[self.times].tolist(), *tables, strict=True)
        before, older = self.x[0], 0
        for t, n, here, moved, likelihood in rows:
            if older == pieces == n:
                np.matmul(self.matrix, before, out=moved)
            else:
                older = min(older, n)  # these have begun
                here, moved, likelihood = here[:, :n], moved[:, :n], likelihood[:, :n]
                np.matmul(self.matrix, before[:, :older], out=moved[:, :older])
                if older < n:
                    moved[:, older:] = start[:, older:n]
            if t % _EVERY:
                np.multiply(moved, likelihood, out=here)
            else:
                # of pieces that have yet to begin nothing is known
                last = None if first or older < n else here.copy()
                np.multiply(moved, likelihood, out=here)
                self._divide(here, t, slice(n))
                if last is not None and len(differs := _differs(here, last)) < _SIDE_BY_SIDE * n:
                    return differs, abs(t - self.times.start) + 1
            before, older = here, n
        return np.empty(0, np.intp), len(self.b)

    def _divide(self, here: np.ndarray, t: int, pieces: np.ndarray | slice) -> None:
        """Divide x at ``t`` (K, n) by its sum, or by that of alpha."""
        scale = self.scale[t // _EVERY]
        if self.forward is None:
            scale[pieces] = here.sum(axis=0)
        here /= scale[pieces]

    def _run_again(self, pieces: np.ndarray, done: int) -> None:
        """Run chosen ``pieces`` from the time after those ``done``, until each agrees with the run before."""
        start, lengths, times = self._start(), self.layout.lengths[pieces], self.times
        runs = np.ones(len(pieces), bool)
        for i in range(done, len(times) if len(pieces) else 0):
            t, chosen = times[i], np.flatnonzero(runs & (lengths > times[i]))
            if not len(chosen):
                if not runs.any():
                    return
                continue
            use = pieces[chosen]
            fresh = self.begin[use] == t
            moved = np.where(fresh, start[:, use], self.matrix @ self.x[times[i - 1]][:, use])
            here = moved * self.b[t][:, use]
            if t % _EVERY == 0:
                self._divide(here, t, use)
                agree = (np.abs(here - self.x[t][:, use]) <= _SAME * here).all(axis=0)
                runs[chosen[agree & ~fresh]] = False
            self.y[t][:, use], self.x[t][:, use] = moved, here


class InLogarithms:
    """The recursions in logarithms, for sequences that are not cut, some twenty times slower.

    Parameters
    ----------
    chain : the probabilities of first states and of transitions
    log_likelihood : ln p(x_t | state), (c, K, C)
    layout : which of the C sequences still run at each of c times
    """

    def __init__(self, chain: Chain, log_likelihood: np.ndarray, layout: SequenceLayout) -> None:
        self.initial, self.transitions, self.log_likelihood = (
            np.maximum(logs, _IMPOSSIBLE) for logs in (chain.initial, chain.transitions, log_likelihood)
        )
        self.layout = layout

    def smoothed(self, weights: np.ndarray | None = None) -> SmoothedStates:
        """As `smooth`, with ``weights`` of the sequences (C,), default 1."""
        a, log_b = self.transitions, self.log_likelihood
        alpha, logs = self._filtered()
        beta, pairs = np.zeros(log_b.shape), np.zeros(a.shape)
        w = np.ones(log_b.shape[2]) if weights is None else weights
        for t in range(len(log_b) - 2, -1, -1):
            n = self.layout.running[t + 1]
            ahead = a[:, :, None] + (log_b[t + 1] + beta[t + 1])[None, :, :n]
            beta[t, :, :n] = logsumexp(np.moveaxis(ahead, 1, -1))
            pairs += _normalised(alpha[t, :, None, :n] + ahead, (0, 1)) @ w[:n]
        gamma = _normalised(alpha + beta, (1,)) * self.layout.shown[:, None, :]
        return SmoothedStates(gamma, pairs, logs.sum(axis=0))

    def log_predictives(self) -> np.ndarray:
        """ln p(x_t | x_1..t-1), (c, C), 0 where a sequence has ended; sums over time are log evidences."""
        return self._filtered()[1]

    def _filtered(
        self, summed: Callable[[np.ndarray], np.ndarray] = logsumexp
    ) -> tuple[np.ndarray, np.ndarray]:
        """ln p(z_t | x_1..t), (c, K, C), and ln p(x_t | x_1..t-1), (c, C), paths ``summed`` or maximised."""
        log_b = self.log_likelihood
        alpha, found = np.zeros(log_b.shape), np.zeros((len(log_b), log_b.shape[2]))
        here = self.initial[:, None] + log_b[0]
        for t in range(len(log_b)):
            n = self.layout.running[t]
            if t > 0:
                steps = here[:, None, :n] + self.transitions[:, :, None]
                here = summed(np.moveaxis(steps, 0, -1)) + log_b[t, :, :n]
            found[t, :n] = summed(here.T)
            here = here - found[t, :n]
            alpha[t, :, :n] = here
        return alpha, found

    def most_likely_paths(self) -> np.ndarray:
        """The states (c, C) of the most probable path of each sequence (Viterbi 1967); 0 after its end."""
        best, running = self._filtered(partial(np.max, axis=-1))[0], self.layout.running
        paths = np.zeros((len(best), best.shape[2]), np.intp)
        for t in range(len(best) - 1, -1, -1):
            later, n = running[t + 1], running[t]
            paths[t, later:n] = best[t, :, later:n].argmax(axis=0)
            onward = self.transitions[:, paths[t + 1, :later]] if later else 0.0
            paths[t, :later] = (best[t, :, :later] + onward).argmax(axis=0)
        return paths


def _normalised(logs: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The exponentials of ``logs``, normalised over ``axes``, also where impossible steps leave no digits."""
    weights = np.exp(logs - logs.max(axis=axes, keepdims=True))
    return np.asarray(weights / weights.sum(axis=axes, keepdims=True))
