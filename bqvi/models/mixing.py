"""The weights p(z_n = k) of a mixture: their priors, and the updates of their posteriors.

    DirichletWeights   pi ~ Dir(alpha_0)
    UniformWeights     pi_k = 1 / K, known
    Sticks             pi_t = v_t prod_{s < t} (1 - v_s), v_t ~ Beta(1 - d, alpha + t d): the Dirichlet
                       process (d = 0) and Pitman and Yor's, in one of two truncations

`Sticks` end after T components. **Truncated** (Blei and Jordan 2006): v_T = 1, so that the last component has
all remaining weight. **Tied** (after Kurihara, Welling and Vlassis 2007): beyond T the posterior of sticks
and components is the prior, and one more column of responsibilities, of weight prod_t (1 - v_t), represents
all components beyond T together, within which q(z_n) is the prior given the sticks.

A concentration alpha ~ Gamma(a, b) can be learnt: its optimal q(alpha) given q(v) is

    Gamma(a + T - 1, b - sum_t E ln(1 - v_t))           (T sticks, if tied)

which the local step computes together with q(z), so that the bound is a function of q(v) alone.

Each has the number of components with parameters (``n_components``), the ``name`` of the factor q of theta on
which the weights depend ('' if there is none), and its ``prior``; ``tied`` says whether a column of
responsibilities is for components that are as the prior has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import numpy as np

from bqvi.arguments import AtLeast, Checked, one_of
from bqvi.arrays import Values, like, namespace
from bqvi.families import Dirichlet, Gamma
from bqvi.families.family import FamilyOrPoint
from gp.arrays import Array
from gp.checks import positive_vector, require_above, require_integer


@dataclass(frozen=True)
class DirichletWeights:
    """pi ~ Dir(alpha_0).

    Parameters
    ----------
    n_components : K >= 1
    concentration : alpha_0 > 0, a number or (K,); default 1 / K, which empties superfluous components
    """

    n_components: int
    concentration: Any = None

    name = "weights"
    tied = False

    def __post_init__(self) -> None:
        k = require_integer("n_components", self.n_components, 1)
        alpha = 1.0 / k if self.concentration is None else self.concentration
        object.__setattr__(self, "n_components", k)
        object.__setattr__(self, "concentration", positive_vector("concentration", alpha, k))

    @property
    def prior(self) -> Dirichlet:
        return Dirichlet(self.concentration)

    def log_weights(self, q: FamilyOrPoint) -> np.ndarray:
        """E ln pi_k under the factor ``q``, (K,), or (K + 1,) if tied."""
        return np.asarray(q.expected_statistics[0])

    def log_weights_at(self, theta: Array) -> Array:
        """Log weights at ``theta``, which is ln pi."""
        return theta

    def statistics(self, q: FamilyOrPoint | None, counts: np.ndarray) -> Values:
        """What ``counts`` N_k under ``q`` add to the natural parameters of the prior."""
        return (counts,)

    def bound(self, q: FamilyOrPoint) -> float:
        """0: no term of the bound is left to add for ``q``."""
        return 0.0

    def start(self, shares: np.ndarray) -> Dirichlet:
        """A starting factor for components with ``shares`` (K,) of the data each, summing to N."""
        return Dirichlet(self.concentration + shares)


@dataclass(frozen=True)
class UniformWeights(Checked):
    """pi_k = 1 / K, known.

    Parameters
    ----------
    n_components : K >= 1
    """

    n_components: Annotated[int, AtLeast(1)]

    name = ""
    tied = False
    prior = None

    def log_weights(self, q: FamilyOrPoint) -> np.ndarray:
        """-ln K, (K,), whatever ``q`` is."""
        return np.full(self.n_components, -np.log(self.n_components))

    def log_weights_at(self, theta: Array) -> Array:
        """-ln K, (K,), for every ``theta``."""
        return self.log_weights(theta)

    def statistics(self, q: FamilyOrPoint | None, counts: np.ndarray) -> Values:
        """Nothing, whatever ``q`` and ``counts`` are."""
        return ()

    def bound(self, q: FamilyOrPoint) -> float:
        """0: no term of the bound is left to add for ``q``."""
        return 0.0

    def start(self, shares: np.ndarray) -> None:
        """Nothing to start for ``shares``."""


@dataclass(frozen=True)
class Sticks(Checked):
    """Stick-breaking weights of a Dirichlet process, or Pitman and Yor's.

    Parameters
    ----------
    n_components : T >= 1, where the sticks end
    concentration : alpha > 0, or the (shape, rate) of a gamma prior to learn it; default (1, 1)
    discount : d in [0, 1), Pitman and Yor's; above 0 only with a fixed concentration
    tail : 'truncated' or 'tied', see the module's docstring
    """

    n_components: Annotated[int, AtLeast(1)]
    concentration: float | tuple[float, float] = (1.0, 1.0)
    discount: float = 0.0
    tail: Annotated[str, one_of(("truncated", "tied"))] = "truncated"

    name = "sticks"

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.concentration
        for value in given if isinstance(given, tuple) else (given,):
            require_above("concentration", value, 0.0)
        if not 0.0 <= self.discount < 1.0:
            raise ValueError(f"discount is {self.discount}; it must be at least 0 and below 1")
        if self.discount > 0.0 and self.learnt:
            raise ValueError(
                f"discount is {self.discount} with a concentration to be learnt; give it as a number"
            )

    @property
    def learnt(self) -> bool:
        """Whether the concentration is."""
        return isinstance(self.concentration, tuple)

    @property
    def tied(self) -> bool:
        """Whether the tail is."""
        return self.tail == "tied"

    @property
    def n_sticks(self) -> int:
        """Sticks that are broken: T if tied, else T - 1."""
        return self.n_components if self.tied else self.n_components - 1

    @property
    def prior(self) -> Dirichlet:
        """Of (v, 1 - v), (sticks, 2); flat where the concentration is learnt: the rest is in the bound."""
        t = np.arange(1.0, self.n_sticks + 1.0)
        if isinstance(self.concentration, tuple):
            return Dirichlet(np.ones((self.n_sticks, 2)))
        return Dirichlet(
            np.column_stack([0.0 * t + 1.0 - self.discount, self.concentration + t * self.discount])
        )

    def log_weights(self, q: FamilyOrPoint) -> np.ndarray:
        """E ln pi under ``q``."""
        if self.learnt:
            self._log_rest(q)
        return np.asarray(self.log_weights_at(q.expected_statistics[0]))

    def log_weights_at(self, theta: Array) -> Array:
        """ln pi, (..., T) or, tied, (..., T + 1), at ``theta``: (ln v, ln(1 - v)), (..., sticks, 2)."""
        log_rest, xp = theta[..., 1].cumsum(-1), namespace(theta)
        none = like(np.zeros((*log_rest.shape[:-1], 1)), theta)
        return xp.concat([none, log_rest], axis=-1) + xp.concat([theta[..., 0], none], axis=-1)

    def concentration_given(self, q: FamilyOrPoint) -> Gamma:
        """The optimal q(alpha) given the sticks' factor q."""
        if not isinstance(self.concentration, tuple):
            raise ValueError(f"the concentration is known to be {self.concentration}")
        shape, rate = self.concentration
        return Gamma(np.asarray(shape + self.n_sticks), np.asarray(rate - self._log_rest(q)))

    def _log_rest(self, q: FamilyOrPoint) -> float:
        """sum_t E ln(1 - v_t), on which a learnt concentration depends."""
        log_rest = float(q.expected_statistics[0][..., 1].sum())
        if not np.isfinite(log_rest):
            raise ArithmeticError(_NOTHING_LEFT)
        return log_rest

    def statistics(self, q: FamilyOrPoint | None, counts: np.ndarray) -> Values:
        """The counts (N_t, N_{>t}) of ``counts``, and what a concentration learnt from ``q`` adds."""
        behind = counts[::-1].cumsum()[::-1]
        found = np.column_stack([counts[: self.n_sticks], behind[1 : self.n_sticks + 1]])
        if self.learnt:
            if q is None:
                raise ValueError(
                    "the concentration is to be learnt, which a mini-batch strategy that learns from "
                    "gradients or has negative weights cannot do; give it as a number, or another strategy"
                )
            found[:, 1] += float(self.concentration_given(q).mean) - 1.0
        return (found,)

    def bound(self, q: FamilyOrPoint) -> float:
        """E ln p(v | alpha) of a concentration learnt from ``q``, less KL(q(alpha) || p(alpha))."""
        if not isinstance(self.concentration, tuple):
            return 0.0
        shape, rate = self.concentration
        found = self.concentration_given(q)
        log_rest = self._log_rest(q)
        log_alpha = float(found.expected_statistics[0])
        divergence = float(found.kl(Gamma(np.asarray(shape), np.asarray(rate))))
        return self.n_sticks * log_alpha + (float(found.mean) - 1.0) * log_rest - divergence

    def start(self, shares: np.ndarray) -> Dirichlet:
        """A starting factor for ``shares`` (T,)."""
        behind = shares[::-1].cumsum()[::-1] - shares
        return Dirichlet(1.0 + np.column_stack([shares, behind])[: self.n_sticks])


Mixing: TypeAlias = DirichletWeights | UniformWeights | Sticks
"""A prior of weights."""
_NOTHING_LEFT = (
    "nothing is left behind a stick at a point estimate, where a learnt concentration has no maximum; give "
    "the concentration as a number of at least 1, or family 'full'"
)


def expected_weights(mixing: Mixing, q: Any) -> np.ndarray:
    """E pi, (K,) or (K + 1,), summing to 1."""
    if isinstance(mixing, Sticks):
        means = np.asarray(q.mean)
        rest = np.concatenate([[1.0], np.cumprod(means[:, 1])])
        return np.asarray(np.append(means[:, 0], 1.0) * rest)
    if isinstance(mixing, UniformWeights):
        return np.exp(mixing.log_weights(q))
    return np.asarray(q.mean)
