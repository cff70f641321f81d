"""The forward-backward recursions of a hidden Markov model, over many pieces of sequences at once.

With alpha_t the filtered state (any multiple of p(z_t | x_1..t)), A the transitions and b_t the likelihoods
p(x_t | z_t), each relative to its largest,

    pred_t+1 = A^T alpha_t,                  alpha_t+1 = pred_t+1 * b_t+1                    (forward)
    w_t+1 = gamma_t+1 / pred_t+1,            gamma_t = alpha_t * (A w_t+1)                   (backward)

gamma_t is p(z_t | x) without further normalisation; the expected transitions are A * sum_t alpha_t w_t+1^T,
one matrix product. Rows of A need not sum to one: in variational inference A is exp(E[ln A]).

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

from dataclasses import dataclass

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
    forward = _Forward(pi, a, relative, layout, scratch)
    forward.run()
    backward = _Backward(a, forward, layout, scratch)
    backward.run()
    w = backward.w if weights is None else backward.w * weights
    pairs = np.matmul(forward.alpha[:-1], w[1:].transpose(0, 2, 1)).sum(axis=0)
    later, begins = layout.previous >= 0, layout.previous < 0
    pairs = a * (pairs + forward.ends[:, layout.previous[later]] @ w[0][:, later].T)
    gamma = backward.gamma
    floored = float(pairs[chain.transitions < FLOOR].sum())
    floored += float(gamma[0][:, begins][chain.initial < FLOOR].sum())
    if floored > TOLERANCE:
        return None
    # an entry at the floor is visited in proportion to its own probability
    gamma[0][:, begins] *= np.exp(np.minimum(chain.initial - FLOOR, 0.0))[:, None]
    pairs *= np.exp(np.minimum(chain.transitions - FLOOR, 0.0))
    return SmoothedStates(gamma, pairs, forward.log_evidence)


def _zeros(scratch: dict[str, np.ndarray], name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Memory with zeros where a piece has ended, as nothing is written there."""
    if name not in scratch or scratch[name].shape != shape:
        scratch[name] = np.zeros(shape)
    return scratch[name]


def _differs(now: np.ndarray, before: np.ndarray) -> np.ndarray:
    """The columns in which states ``now`` (K, n) are not those ``before``."""
    return np.flatnonzero((np.abs(now - before) > _SAME * now).any(axis=0))


class _Forward:
    """alpha, pred (c, K, C) and the logarithms of what alpha was divided by."""

    def __init__(
        self,
        initial: np.ndarray,
        a: np.ndarray,
        b: np.ndarray,
        layout: SequenceLayout,
        scratch: dict[str, np.ndarray],
    ) -> None:
        self.moved = np.ascontiguousarray(a.T)
        self.initial, self.b, self.layout = initial, b, layout
        self.alpha, self.pred = (_zeros(scratch, name, b.shape) for name in ("alpha", "pred"))
        self.log_scale = np.zeros((len(b), b.shape[2]))
        self.entered = np.full(b.shape[1:], 1.0 / b.shape[1])
        self.entered[:, layout.previous < 0] = 0.0

    def run(self) -> None:
        """Run the pieces until the initial state of each is the end of the piece before."""
        layout, later = self.layout, self.layout.previous >= 0
        self._run_all(first=True)
        while True:
            ends = self.alpha[layout.lengths - 1, :, np.arange(len(layout.lengths))].T
            self.end_sums = ends.sum(axis=0)
            self.ends = ends / self.end_sums
            entering = np.where(later, self.ends[:, layout.previous], 0.0)
            changed = _differs(entering, self.entered)
            if not len(changed):
                break
            self.entered[:, changed] = entering[:, changed]
            few = len(changed) < _SIDE_BY_SIDE * len(later)
            self._run_again(*((changed, 0) if few else self._run_all(first=False)))

    @property
    def log_evidence(self) -> np.ndarray:
        """(C,)."""
        return self.log_scale.sum(axis=0) + np.log(self.end_sums)

    def _start(self, pieces: np.ndarray | slice) -> np.ndarray:
        start: np.ndarray = self.moved @ self.entered[:, pieces]
        start[:, self.layout.previous[pieces] < 0] = self.initial[:, None]
        return start

    def _run_all(self, first: bool) -> tuple[np.ndarray, int]:
        """Run all pieces from their starts; unless it is the ``first`` run, while most differ from before.

        Return those that still differ, and the time. Slices are several times faster than chosen columns.
        """
        alpha, pred, b, running = self.alpha, self.pred, self.b, self.layout.running
        pred[0] = self._start(slice(None))
        np.multiply(pred[0], b[0], out=alpha[0])
        # iterating over tables takes half as long as indexing them, which counts where pieces are few
        rows = zip(alpha[:-1], pred[1:], alpha[1:], b[1:], running[1:].tolist(), strict=False)
        for t, (before, now, here, likelihood, n) in enumerate(rows, start=1):
            if n < alpha.shape[2]:
                before, now, here, likelihood = (x[:, :n] for x in (before, now, here, likelihood))
            np.matmul(self.moved, before, out=now)
            if t % _EVERY:
                np.multiply(now, likelihood, out=here)
                continue
            last = None if first else here.copy()
            np.multiply(now, likelihood, out=here)
            total = here.sum(axis=0)
            here /= total
            np.log(total, out=self.log_scale[t, :n])
            if last is not None and len(differs := _differs(here, last)) < _SIDE_BY_SIDE * n:
                return differs, t
        return np.empty(0, np.intp), len(b)

    def _run_again(self, pieces: np.ndarray, done: int) -> None:
        """Run chosen pieces from the step after ``done``, until each agrees with the run before."""
        lengths = self.layout.lengths
        if not len(pieces):
            return
        now = self._start(pieces)
        here = self.alpha[done][:, pieces]
        for t in range(done + 1 if done else 0, len(self.b)):
            if t > 0:
                pieces = pieces[: np.searchsorted(-lengths[pieces], -t)]  # pieces longer than t
                if not len(pieces):
                    return
                now = self.moved @ here[:, : len(pieces)]
            here = now * self.b[t][:, pieces]
            self.pred[t][:, pieces] = now
            if t % _EVERY == 0 and t > 0:
                total = here.sum(axis=0)
                here /= total
                self.log_scale[t, pieces] = np.log(total)
                differs = _differs(here, self.alpha[t][:, pieces])
                self.alpha[t][:, pieces] = here
                pieces, here = pieces[differs], here[:, differs]
            else:
                self.alpha[t][:, pieces] = here


class _Backward:
    """gamma and w, (c, K, C)."""

    def __init__(
        self, a: np.ndarray, forward: _Forward, layout: SequenceLayout, scratch: dict[str, np.ndarray]
    ) -> None:
        self.a, self.forward, self.layout = a, forward, layout
        self.gamma, self.w = (_zeros(scratch, name, forward.alpha.shape) for name in ("gamma", "w"))
        self.message = np.ones(forward.alpha.shape[1:])

    def run(self) -> None:
        """Run the pieces until the last state of each agrees with the start of the piece after."""
        goes_on = self.layout.following >= 0
        self._run_all(first=True)
        while True:
            leaving = np.where(goes_on, (self.a @ self.w[0])[:, self.layout.following], 1.0)
            changed = _differs(leaving, self.message)
            if not len(changed):
                break
            self.message[:, changed] = leaving[:, changed]
            few = len(changed) < _SIDE_BY_SIDE * len(goes_on)
            self._run_again(*((changed, len(self.w)) if few else self._run_all(first=False)))

    def _last(self, pieces: np.ndarray | slice) -> np.ndarray:
        """gamma at the ends of ``pieces``."""
        last = self.forward.ends[:, pieces] * self.message[:, pieces]
        return np.asarray(last / last.sum(axis=0))

    def _run_all(self, first: bool) -> tuple[np.ndarray, int]:
        """Run all pieces backwards; unless it is the ``first`` run, while most differ from before.

        Return those that still differ, and the time.
        """
        alpha, pred, gamma, w = map(list, (self.forward.alpha, self.forward.pred, self.gamma, self.w))
        running, pieces = self.layout.running.tolist(), len(self.message[0])
        for t in range(len(alpha) - 1, -1, -1):
            n, older, here = running[t], running[t + 1], gamma[t]
            check = not first and t % _EVERY == 0 and n == pieces and older > 0.5 * n
            last = here.copy() if check else None
            if older == pieces:
                np.matmul(self.a, w[t + 1], out=here)
                np.multiply(here, alpha[t], out=here)
                np.divide(here, pred[t], out=w[t])
            else:
                if older:
                    np.matmul(self.a, w[t + 1][:, :older], out=here[:, :older])
                    here[:, :older] *= alpha[t][:, :older]
                if n > older:
                    here[:, older:n] = self._last(slice(older, n))
                np.divide(here[:, :n], pred[t][:, :n], out=w[t][:, :n])
            if last is not None and len(differs := _differs(here, last)) < _SIDE_BY_SIDE * n:
                return differs, t
        return np.empty(0, np.intp), 0

    def _run_again(self, pieces: np.ndarray, done: int) -> None:
        """Run chosen pieces back from the step before ``done``, until each agrees with the run before."""
        alpha, pred = self.forward.alpha, self.forward.pred
        lengths = self.layout.lengths
        if not len(pieces):
            return
        last = self._last(pieces)
        open_ = np.ones(len(pieces), bool)
        for t in range(min(int(lengths[pieces[0]]), done) - 1, -1, -1):
            older = np.searchsorted(-lengths[pieces], -(t + 1))  # number of pieces longer than t + 1
            n = np.searchsorted(-lengths[pieces], -t)
            use = np.flatnonzero(open_[:n])
            if not len(use):
                continue
            chosen = pieces[use]
            here = alpha[t][:, chosen] * (self.a @ self.w[t + 1][:, chosen]) if older else np.empty(0)
            if n > older:
                fresh = use >= older
                here = last[:, use] if not older else np.where(fresh, last[:, use], here)
            if t % _EVERY == 0:
                before = self.gamma[t][:, chosen]
                settled = (np.abs(here - before) <= _SAME * before).all(axis=0)
                open_[use[settled & (use < older)]] = False
            self.gamma[t][:, chosen] = here
            self.w[t][:, chosen] = here / pred[t][:, chosen]


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

    def _filtered(self) -> tuple[np.ndarray, np.ndarray]:
        """ln p(z_t | x_1..t), (c, K, C), and ln p(x_t | x_1..t-1), (c, C)."""
        log_b = self.log_likelihood
        alpha, found = np.zeros(log_b.shape), np.zeros((len(log_b), log_b.shape[2]))
        here = self.initial[:, None] + log_b[0]
        for t in range(len(log_b)):
            n = self.layout.running[t]
            if t > 0:
                steps = here[:, None, :n] + self.transitions[:, :, None]
                here = logsumexp(np.moveaxis(steps, 0, -1)) + log_b[t, :, :n]
            found[t, :n] = logsumexp(here.T)
            here = here - found[t, :n]
            alpha[t, :, :n] = here
        return alpha, found

    def most_likely_paths(self) -> np.ndarray:
        """The states (c, C) of the most probable path of each sequence (Viterbi 1967); 0 after its end."""
        log_b, running = self.log_likelihood, self.layout.running
        best = self.initial[:, None] + log_b[0]
        came_from = np.zeros(log_b.shape, np.int16)
        state = np.zeros(log_b.shape[2], np.intp)
        for t in range(len(log_b)):
            n = running[t]
            if t > 0:
                steps = best[:, None, :n] + self.transitions[:, :, None]
                came_from[t, :, :n] = steps.argmax(axis=0)
                best = steps.max(axis=0) + log_b[t, :, :n]
            ending = slice(running[t + 1], n)
            state[ending] = best[:, ending].argmax(axis=0)
        paths = np.zeros((len(log_b), log_b.shape[2]), np.intp)
        for t in range(len(log_b) - 1, -1, -1):
            n = running[t]
            paths[t, :n] = state[:n]
            state[:n] = came_from[t, state[:n], np.arange(n)]
        return paths


def _normalised(logs: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The exponentials of ``logs``, normalised over ``axes``, also where impossible steps leave no digits."""
    weights = np.exp(logs - logs.max(axis=axes, keepdims=True))
    return np.asarray(weights / weights.sum(axis=axes, keepdims=True))
