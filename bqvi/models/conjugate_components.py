"""Components of any exponential family with a conjugate prior, each stated in a few lines.

The likelihood is written with the statistics t of the prior's family,

    ln p(x | theta) = <T(x), t(theta)> + ln h(x),

T(x) a tuple of arrays with the shapes of the prior's natural parameters. Then a datum adds T(x) to those, and
the expected log density is <T(x), E t>. The canonical form exp(<T, eta> - A(eta)) with a prior exp(<tau, eta>
- n A(eta)) is the case t = (eta, -A), T(x) = (T(x), 1). For example counts, Poisson with a gamma prior whose
t = (ln lambda, -lambda):

    ConjugateComponents(
        component_prior=Gamma(np.ones(D), np.ones(D)),
        statistics_of=lambda x: (x, np.ones_like(x)),
        log_base_measure_of=lambda x: -gammaln(x + 1.0).sum(1),
    )

The functions below return the usual components. Their default priors have the weight of one datum at the mean
of the data. Their columns are independent, so that a missing value (NaN) is integrated out by omitting its
factor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from bqvi.arrays import Values, add, like, namespace
from bqvi.families import Dirichlet, Gamma
from bqvi.models.components import Components, Start, start_from_clusters
from bqvi.models.data import (
    Data,
    has_missing,
    log_factorials,
    require_counts,
    require_observed_columns,
    spread,
)
from bqvi.models.mixture import AffineLogJoint, Lift, lifted
from bqvi.models.normal_components import require_table
from gp.arrays import Array, is_torch, to_numpy
from gp.checks import positive_vector, require_above, require_each, require_integer, require_positive

_LEAST = -1e30
"""The value of an expected statistic of minus infinity, so that its product with 0 is 0."""


@dataclass(frozen=True)
class ConjugateComponents(Components):
    """A likelihood with its conjugate prior; see the module's docstring.

    Parameters
    ----------
    component_prior : of one component's parameters, a family; or a function to one, of the data (N, D) and
        their weights (N,), None for ones
    statistics_of : T, a function of rows (N, D) to a tuple of arrays (N, ...), each beside a natural
        parameter of the prior
    log_base_measure_of : ln h, a function of rows (N, D): (N,)
    validate : a function that raises a ValueError for data outside the support; default none
    name : of the factor of theta
    by_column : whether the columns are independent, and each array of T has an axis of columns behind that of
        rows. NaN is then a missing value: its T is 0, and ``log_base_measure_of`` must omit it. The other
        functions are given 0 in its place, but a prior that is a function of the data is given NaN
    nominal : whether values have no distances, so that components of a single column, which has no clusters,
        start at the frequencies of all rows, times noise
    """

    component_prior: Any
    statistics_of: Callable[[np.ndarray], Values]
    log_base_measure_of: Callable[[np.ndarray], np.ndarray]
    validate: Callable[[np.ndarray], None] | None = None
    name: str = "components"
    by_column: bool = False
    nominal: bool = False

    def for_data(self, data: Data, weights: np.ndarray | None = None) -> Self:
        """With a prior that is a function of ``data`` settled; ``weights`` (N,) of the rows."""
        require_observed_columns(data)
        if not callable(self.component_prior):
            return self
        return replace(self, component_prior=self.component_prior(data, weights))

    def check(self, data: Data) -> np.ndarray:
        """(N, D), finite (or NaN), as float64, and T of a row beside the prior's natural parameters."""
        x: np.ndarray = to_numpy(require_table(data, None, self.by_column)).astype(float, copy=False)
        if self.validate is not None:
            self.validate(np.where(np.isnan(x), 0.0, x))
        if not callable(self.component_prior):
            found = tuple(np.shape(part)[1:] for part in self.statistics_of(np.nan_to_num(x[:1])))
            wanted = tuple(np.shape(eta) for eta in self.component_prior.natural)
            if found != wanted:
                raise ValueError(
                    f"statistics of data with D = {x.shape[1]} have shapes {found} beside natural "
                    f"parameters of the prior of shapes {wanted}; they must be the same"
                )
        return x

    def prior(self, n_components: int) -> Any:
        one = self._prior
        return one.from_natural(
            tuple(np.tile(eta, (n_components, *(1,) * np.ndim(eta))) for eta in one.natural)
        )

    @property
    def _prior(self) -> Any:
        if callable(self.component_prior):
            raise ValueError(
                "the prior is to be taken from data, of which there are none yet; use "
                "model.for_data(data), as fit does"
            )
        return self.component_prior

    @property
    def size(self) -> int:
        """P, all entries of T."""
        return sum(int(np.size(eta)) for eta in self._prior.natural)

    def lift(self) -> Lift:
        return Lift(self.size, self.fill)

    def fill(self, columns: np.ndarray, out: np.ndarray) -> None:
        """Write T of ``columns`` (D, n) to ``out`` (P, n)."""
        out[...] = like(self._table(to_numpy(columns).T).T, out)

    def _table(self, x: np.ndarray) -> np.ndarray:
        """T of rows, (N, P), 0 where a value is missing."""
        if not (self.by_column and has_missing(x)):
            return self._flat(self.statistics_of(x))
        shown = ~np.isnan(x)
        parts = self.statistics_of(np.where(shown, x, 0.0))
        return self._flat(tuple(part * shown.reshape(shown.shape + (1,) * (part.ndim - 2)) for part in parts))

    @property
    def centre(self) -> np.ndarray:
        return np.zeros(1)

    def expectations_at(self, theta: Array, n_components: int) -> Values:
        """t(theta) at ``theta``."""
        return self._prior.statistics(theta)

    def affine(
        self, expected: Values, log_weights: np.ndarray, shown: np.ndarray | None = None
    ) -> AffineLogJoint:
        slope = self._flat(expected)
        if not is_torch(slope):
            slope = np.where(np.isneginf(slope), _LEAST, slope)
        return AffineLogJoint(slope, log_weights, lift=self.lift())

    def _flat(self, values: Values) -> Array:
        """(..., P) of arrays whose last axes are those of the natural parameters."""
        pairs = zip(values, self._prior.natural, strict=True)
        parts = [x.reshape(*x.shape[: x.ndim - np.ndim(eta)], -1) for x, eta in pairs]
        return namespace(parts[0]).concat(parts, axis=-1)

    def statistics(
        self, counts: np.ndarray, sums: np.ndarray, expected: Any = None, shown: np.ndarray | None = None
    ) -> Values:
        natural = self._prior.natural
        parts = np.split(sums, np.cumsum([np.size(eta) for eta in natural])[:-1], axis=1)
        return tuple(
            part.reshape(len(counts), *np.shape(eta)) for part, eta in zip(parts, natural, strict=True)
        )

    def log_base_measure(self, data: Data) -> np.ndarray:
        """ln h, (N,)."""
        return np.asarray(self.log_base_measure_of(data))

    def representation(self, data: Data) -> np.ndarray:
        """T in units of its standard deviations; what is missing is at the median."""
        x = to_numpy(data)
        if has_missing(x):
            x = np.where(np.isnan(x), np.nanmedian(x, axis=0), x)
        table = lifted(x, self.lift())
        return np.asarray((table - table.mean(axis=0)) / spread(table))

    def start(self, data: Data, n_components: int, begin: Start) -> Any:
        if not self.nominal or data.shape[1] > 1:
            return start_from_clusters(self, data, n_components, begin)
        part = np.ones(len(data)) if begin.weights is None else begin.weights
        total = part @ lifted(data, self.lift()) / n_components
        noise = begin.rng.standard_exponential((n_components, len(total)))
        started = self.statistics(np.ones(n_components), total * (0.5 + 0.5 * noise))
        prior = self.prior(n_components)
        return prior.from_natural(add(prior.natural, started))


def poisson(shape: float = 1.0, rate: float | np.ndarray | None = None) -> ConjugateComponents:
    """Independent Poisson counts in each column, rates ~ Gamma(shape, rate); data whole, not negative.

    Parameters
    ----------
    shape : > 0
    rate : > 0, a number or (D,); default ``shape`` over the column's mean
    """
    return ConjugateComponents(
        _gamma_prior(shape, rate, lambda means, n: shape / np.maximum(means, 1.0 / n)),
        lambda x: (x, np.ones_like(x)),
        lambda x: -np.nansum(log_factorials(x), axis=1),
        require_counts,
        "rates",
        by_column=True,
    )


def exponential(shape: float = 1.0, rate: float | np.ndarray | None = None) -> ConjugateComponents:
    """Independent exponential variables in each column, rates ~ Gamma(shape, rate); data not negative.

    Parameters
    ----------
    shape : > 0
    rate : > 0, a number or (D,); default ``shape`` times the column's mean
    """
    return ConjugateComponents(
        _gamma_prior(shape, rate, lambda means, n: shape * np.where(means > 0.0, means, 1.0)),
        lambda x: (np.ones_like(x), x),
        lambda x: np.zeros(len(x)),
        lambda x: require_each("data", x, x >= 0.0, "it must not be negative"),
        "rates",
        by_column=True,
    )


def _gamma_prior(
    shape: float, rate: float | np.ndarray | None, default: Callable[[np.ndarray, float], np.ndarray]
) -> Callable[[np.ndarray, np.ndarray | None], Gamma]:
    """The prior of each column's rate; the ``default`` is of the columns' means and the number of rows."""
    require_above("shape", shape, 0.0)
    if rate is not None:
        require_positive("rate", np.asarray(rate, float))

    def prior(x: np.ndarray, weights: np.ndarray | None) -> Gamma:
        if rate is not None:
            rates = positive_vector("rate", rate, x.shape[1])
        else:
            part = np.ones(len(x)) if weights is None else weights
            rates = default(part @ np.nan_to_num(x) / (part @ ~np.isnan(x)), part.sum())
        return Gamma(np.full(x.shape[1], shape), rates)

    return prior


def bernoulli(first: float = 0.5, second: float = 0.5) -> ConjugateComponents:
    """Independent binary columns, p(x = 1) ~ Beta(first, second); data (N, D) of 0 and 1.

    Parameters
    ----------
    first, second : > 0; default Jeffreys' prior
    """
    require_above("first", first, 0.0)
    require_above("second", second, 0.0)

    return ConjugateComponents(
        lambda x, _: Dirichlet(np.tile([first, second], (x.shape[1], 1))),
        lambda x: (np.stack([x, 1.0 - x], axis=-1),),
        lambda x: np.zeros(len(x)),
        lambda x: require_each("data", x, (x == 0.0) | (x == 1.0), "it must be 0 or 1"),
        "probabilities",
        by_column=True,
    )


def categorical(n_categories: int, concentration: float | np.ndarray = 0.5) -> ConjugateComponents:
    """Independent columns of C categories each, probabilities ~ Dir(concentration); data of 0, .., C - 1.

    Parameters
    ----------
    n_categories : C >= 1
    concentration : > 0, a number or (C,); default Jeffreys' prior, 1 is flat
    """
    require_integer("n_categories", n_categories, 1)
    alpha = positive_vector("concentration", concentration, n_categories)
    allowed = f"categories must be whole numbers below n_categories = {n_categories}"

    return ConjugateComponents(
        lambda x, _: Dirichlet(np.tile(alpha, (x.shape[1], 1))),
        lambda x: (np.eye(n_categories)[x.astype(int)],),
        lambda x: np.zeros(len(x)),
        lambda x: require_each("data", x, (x >= 0.0) & (x < n_categories) & (x == np.floor(x)), allowed),
        "probabilities",
        by_column=True,
        nominal=True,
    )
