"""Hidden Markov models: Baum-Welch, variational Bayes and SVI over sequences.

    pi ~ Dir(a_0),   A_k ~ Dir(b_k),   theta_k ~ the components' prior
    z_1 ~ Cat(pi),   z_t | z_t-1 = k ~ Cat(A_k),   x_t | z_t = k ~ p(x | theta_k)

A sequence is a datum; its path z is its local variable, whose optimal q is a chain with transitions exp(E[ln
A]), computed exactly by `forward_backward` (MacKay 1997; Beal 2003, ch. 3). The data add to the natural
parameters the expected first states, the expected transitions, and the emissions' statistics. With
``family='point'`` coordinate ascent is Baum-Welch.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Self

import numpy as np

from bqvi.families import Dirichlet, Product
from bqvi.models.components import Components, Start, expectations_of
from bqvi.models.contracts import LocalStep, altered
from bqvi.models.data import Data
from bqvi.models.emissions import (
    Arranged,
    arranged,
    expected_emissions,
    finite_or_missing,
    known,
    log_base_measures,
)
from bqvi.models.forward_backward import (
    TOLERANCE,
    Chain,
    InLogarithms,
    SmoothedStates,
    smooth,
)
from bqvi.models.mixture import ExpectedLogJoint
from bqvi.models.sequences import SequenceLayout, Sequences
from gp.arrays import Array, shown, to_numpy
from gp.checks import require_integer, require_nonnegative, require_numbers

_LEAST = 1e-300
"""The least positive concentration: psi(b), about -1 / b, is finite."""


class HiddenMarkovModel:
    """Hidden Markov model; data are `Sequences`, a list of arrays (T_n,) or (T_n, D), or one array.

    NaN is a missing value and is integrated out: a row of it, or some of a row's columns where the emissions
    are Gaussian or independent over columns.

    Parameters
    ----------
    n_states : K >= 1
    emissions : the components of a mixture, as `gaussian_components("full")`, `categorical(V)`, `poisson()`:
        state k emits what component k generates
    initial_concentration : a_0, a number or (K,); default 1, which is flat
    transition_concentration : b, a number, (K,) or (K, K), row k of the transitions from k; default 1.
        Concentrations are positive, from 1e-300; a 0 forbids a start or a transition, and each row has a
        positive entry
    """

    def __init__(
        self,
        n_states: int,
        emissions: Components,
        *,
        initial_concentration: float | np.ndarray = 1.0,
        transition_concentration: float | np.ndarray = 1.0,
    ) -> None:
        k = self.n_states = require_integer("n_states", n_states, 1)
        if isinstance(emissions, type) or not hasattr(emissions, "expectations_at"):
            raise TypeError(f"emissions is {shown(emissions)}; it must be components, such as categorical(2)")
        self.emissions = emissions
        self.initial_concentration = _concentrations("initial_concentration", initial_concentration, (k,))
        self.transition_concentration = _concentrations(
            "transition_concentration", transition_concentration, (k, k)
        )

    def check(self, data: Data) -> Sequences:
        """`Sequences` whose values the emissions can have emitted."""
        given = _as_sequences(data)
        table = given.values.reshape(len(given.values), -1).astype(float)
        values = finite_or_missing(table)
        self.emissions.check(values[known(values)])
        return Sequences(values, given.lengths)

    def for_data(self, data: Data, weights: np.ndarray | None = None) -> Self:
        """The model with an emissions' prior settled by ``data``; called by `fit`.

        Parameters
        ----------
        data : the data, in a form that the model accepts
        weights : the weights (N,) of the sequences; default 1
        """
        rows = self.check(data)
        settled = self.emissions.for_data(*_known_values(rows, weights))
        return self if settled is self.emissions else altered(self, emissions=settled)

    @cached_property
    def prior(self) -> Product:
        return Product(
            {
                "initial": Dirichlet(self.initial_concentration),
                "transitions": Dirichlet(self.transition_concentration),
                self.emissions.name: self.emissions.prior(self.n_states),
            }
        )

    def initial(
        self, data: Sequences, how: str, rng: np.random.Generator, weights: np.ndarray | None = None
    ) -> Product:
        """A start with transitions drawn from the simplex, and emissions started by ``how``.

        Random numbers are from ``rng``; sequences of ``data`` have ``weights`` (N,), default 1. A transition
        or start whose concentration is below 1 and below that of others has fewer counts.
        """
        k, part = self.n_states, np.ones(len(data)) if weights is None else weights
        moves = rng.dirichlet(np.ones(k), k) * _allowed(self.transition_concentration)
        firsts = part.sum() / k * _allowed(self.initial_concentration)
        values, own = _known_values(data, weights)
        return Product(
            {
                "initial": Dirichlet(self.initial_concentration + firsts),
                "transitions": Dirichlet(self.transition_concentration + part @ data.lengths / k * moves),
                self.emissions.name: self.emissions.start(values, k, Start(how, rng, own)),
            }
        )

    def local_step(self, q: Product, rows: Sequences, weights: Array | None = None) -> LocalStep:
        layout, values, found, largest = self._smoothed(q, rows, weights)
        posterior, w = found.posterior, _of_pieces(weights, layout)
        if w is not None:
            posterior = posterior * w
        first = posterior[0][:, layout.previous < 0].sum(axis=1)
        emitted = values.statistics(self._emitted(q), values.visits(posterior))
        pieces = found.log_evidence + largest
        bound = float(pieces.sum() if w is None else w @ pieces)
        return LocalStep((first, found.transitions, *emitted), bound)

    def _chain(self, q: Product) -> Chain:
        """The chain of the best paths under ``q``, without what the prior forbids, whatever q says of it."""
        first, following = (q[name].expected_statistics[0] for name in ("initial", "transitions"))
        return Chain(
            np.where(self.initial_concentration > 0.0, first, -np.inf),
            np.where(self.transition_concentration > 0.0, following, -np.inf),
        )

    def _emitted(self, q: Product) -> ExpectedLogJoint:
        return expected_emissions(self.emissions, self.emissions.expectations(q[self.emissions.name]))

    def _smoothed(
        self, q: Product, rows: Sequences, weights: Array | None = None
    ) -> tuple[SequenceLayout, Arranged, SmoothedStates, np.ndarray]:
        """Layout, arranged values, posterior, and the log factors (C,) that the log evidence lacks."""
        chain, emitted = self._chain(q), self._emitted(q)
        layout, values = rows.layout, self._arranged(rows, rows.layout, "pieces")
        likelihoods = values.likelihoods(emitted)
        found = smooth(chain, likelihoods.relative, layout, _of_pieces(weights, layout), rows.scratch)
        floored = likelihoods.floored  # the floor adds to the evidence where it is visited
        if found is not None and (
            not floored.any() or values.visits(found.posterior)[floored].sum() <= TOLERANCE
        ):
            return layout, values, found, likelihoods.log_largest
        layout, values = rows.whole, self._arranged(rows, rows.whole, "whole")
        logs = values.logarithms(emitted)
        found = InLogarithms(chain, logs, layout).smoothed(_of_pieces(weights, layout))
        return layout, values, found, np.zeros(len(layout.lengths))

    def _arranged(self, rows: Sequences, layout: SequenceLayout, name: str) -> Arranged:
        """The values as passes over them take them, computed once for each `Sequences`."""
        if name not in rows.scratch:
            rows.scratch[name] = arranged(self.emissions, rows.values[layout.index], layout.shown)
        return rows.scratch[name]

    def log_base_measure(self, data: Sequences) -> float:
        return float(self.log_base_measures(data).sum())

    def log_base_measures(self, data: Sequences) -> np.ndarray:
        """The sum of ln h for each sequence of ``data``, (N,)."""
        return np.asarray(np.add.reduceat(log_base_measures(self.emissions, data.values), data.starts))

    def log_likelihood(self, data: Data, theta: Mapping[str, Array]) -> float:
        """ln p(x | theta), nats, over all paths.

        theta = {'initial': (K,), 'transitions': (K, K), and the components' by their name}, as ``q.mean``
        has them.
        """
        rows = self.check(data)
        with np.errstate(divide="ignore"):
            chain = Chain(np.log(theta["initial"]), np.log(theta["transitions"]))
        point = np.asarray(theta[self.emissions.name])
        expected = expectations_of(self.emissions, point, len(theta["initial"]))
        values = self._arranged(rows, rows.whole, "whole")
        logs = values.logarithms(expected_emissions(self.emissions, expected))
        found = InLogarithms(chain, logs, rows.whole).log_predictives()
        return float(found.sum(axis=0).sum()) + self.log_base_measure(rows)

    def log_evidence_bounds(self, q: Product, data: Data) -> np.ndarray:
        """(N,), ln of sum_z exp E[ln p(x_n, z)] under ``q``; of a point mass, ln p(x_n | theta)."""
        rows = self.check(data)
        layout, _, found, largest = self._smoothed(q, rows)
        own = np.bincount(layout.sequence, found.log_evidence + largest, minlength=len(rows))
        return np.asarray(own + self.log_base_measures(rows))

    def log_predictives(self, q: Product, data: Data) -> list[np.ndarray]:
        """ln p(x_t | x_1..t-1) under ``q``, (T_n,) of each sequence; sums are `log_evidence_bounds`."""
        rows, recursions = self._in_logarithms(q, data)
        found = recursions.log_predictives()
        own = rows.whole.in_time(found[:, None, :])[0]
        return rows.split(own + log_base_measures(self.emissions, rows.values))

    def _in_logarithms(self, q: Product, data: Data) -> tuple[Sequences, InLogarithms]:
        """Sequences that are not cut, and their recursions."""
        rows = self.check(data)
        logs = self._arranged(rows, rows.whole, "whole").logarithms(self._emitted(q))
        return rows, InLogarithms(self._chain(q), logs, rows.whole)

    def posteriors(self, q: Product, data: Data) -> list[np.ndarray]:
        """q(z_t = k), (T_n, K) of each sequence."""
        rows = self.check(data)
        layout, _, found, _ = self._smoothed(q, rows)
        return rows.split(layout.in_time(found.posterior).T)

    def decode(self, q: Product, data: Data) -> list[np.ndarray]:
        """The most probable state at each time under ``q``, (T_n,): the fewest expected errors."""
        return [posterior.argmax(axis=1) for posterior in self.posteriors(q, data)]

    def viterbi(self, q: Product, data: Data) -> list[np.ndarray]:
        """The most probable path under q(z), (T_n,) of each sequence."""
        rows, recursions = self._in_logarithms(q, data)
        paths = recursions.most_likely_paths()
        return rows.split(rows.whole.in_time(paths[:, None, :])[0])

    def representation(self, data: Sequences) -> np.ndarray:
        """Rows for a kernel over sequences: mean and spread of their values."""
        parts = [np.nan_to_num(part.reshape(len(part), -1)) for part in data.split(data.values)]
        return np.stack([np.concatenate([part.mean(axis=0), part.std(axis=0)]) for part in parts])


def _concentrations(name: str, given: float | np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Concentrations of ``shape``, from a number or as many as a row has, or as they are."""
    values, whole = require_numbers(name, given), " or ".join(map(str, dict.fromkeys((shape[-1:], shape))))
    if values.shape not in ((), shape[-1:], shape):
        raise ValueError(f"{name} has shape {values.shape}; it must be a number, or have shape {whole}")
    require_nonnegative(name, values)
    if (values[values > 0.0] < _LEAST).any():
        raise ValueError(
            f"{name} contains {values[values > 0.0].min():.3g}; it must be 0 or at least {_LEAST:g}"
        )
    return np.broadcast_to(values, shape).copy()


def _allowed(concentration: np.ndarray) -> np.ndarray:
    """The share of its counts that an entry starts with: 1 for the largest of its row and those above 1."""
    most = np.minimum(concentration, 1.0)
    return np.asarray(most / most.max(-1, keepdims=True))


def _of_pieces(weights: Array | None, layout: SequenceLayout) -> np.ndarray | None:
    return None if weights is None else np.asarray(to_numpy(weights), float)[layout.sequence]


def _known_values(rows: Sequences, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """The values that are not entirely missing, and theirs of the ``weights`` (N,) of sequences."""
    seen = known(rows.values)
    return rows.values[seen], None if weights is None else np.repeat(weights, rows.lengths)[seen]


def _as_sequences(data: Data) -> Sequences:
    if isinstance(data, Sequences):
        return data
    if isinstance(data, list | tuple):
        ragged = [np.ndim(part) for part in data] if len(data) else [1]
        return Sequences(np.asarray(data)) if max(ragged) == 0 else Sequences.from_list(data)
    return Sequences(data)
