"""Hidden Markov models with scikit-learn's interface; ``lengths`` divide rows into sequences."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, validate_data

from bqvi.arguments import AtLeast, checked, one_of
from bqvi.models.components import Components
from bqvi.models.conjugate_components import categorical, poisson
from bqvi.models.emissions import finite_or_missing
from bqvi.models.gaussian_mixture import gaussian_components
from bqvi.models.hidden_markov_model import HiddenMarkovModel as Model
from bqvi.models.sequences import Sequences
from bqvi.sklearn.shared import (
    SHAPES,
    FittedByBound,
    StreamState,
    gaussian_draws,
    generator_of,
)
from gp.checks import require_integer

_MOST_SYMBOLS = 10_000_000
"""All symbols must be below this; a larger one is probably an error, as symbols are numbered from 0."""


@dataclass(eq=False, repr=False)
class HiddenMarkovModel(FittedByBound):
    """A hidden Markov model, by variational Bayes or Baum and Welch's EM; a row of X (T, D) is a time.

    Methods take X (T, D), in which NaN is a missing observation, in a row or in some of its columns, that is
    integrated out; the ``lengths`` (N,) of its consecutive sequences, with sum T, by default one sequence;
    and nonnegative weights ``sequence_weight`` (N,), by which a sequence counts as that number of copies. y
    is ignored.

    Rows of one sequence depend on each other: ``predict`` and ``predict_proba`` of a row use the other rows
    of its sequence, ``score_samples`` those before it. scikit-learn's `check_estimator` passes: two of its
    checks take rows in another order and in parts, but with one state, for which rows are independent.

    Parameters
    ----------
    n_components : the number K of states
    emissions : 'gaussian', 'categorical' (X of one column, symbols 0, 1, ..) or 'poisson'
    n_symbols : the number V of symbols, for categorical emissions; default those up to the largest in X
    covariance_type : for Gaussian emissions: 'full', 'tied', 'diag' or 'spherical'
    bayesian : True for variational Bayes; False for the maximum a posteriori
    max_iter, tol, n_init, init_params, random_state, verbose : as for `GaussianMixture`
    total_samples : the total number of sequences, for ``partial_fit``; default those of all calls so far

    Attributes
    ----------
    startprob_, transmat_ : the probabilities of first states (K,) and of transitions (K, K), at q's mean
    means_, covariances_ : (K, D) and (K, D, D) of Gaussian emissions, at q's mean
    model_, posterior_ : the model of `bqvi.models`, and q

    Examples
    --------
    >>> import numpy as np
    >>> from bqvi.sklearn import HiddenMarkovModel
    >>> x = np.random.default_rng(0).standard_normal((100, 1)) + np.repeat([[-4.0], [4.0]], 50, axis=0)
    >>> states = HiddenMarkovModel(2, random_state=0).fit(x).predict(x)
    >>> int((states == states[0]).sum())
    50
    """

    n_components: Annotated[int, AtLeast(1)] = 2
    _: KW_ONLY
    emissions: Annotated[str, one_of(("gaussian", "categorical", "poisson"))] = "gaussian"
    n_symbols: Annotated[int | None, AtLeast(1)] = None
    covariance_type: Annotated[str, one_of(SHAPES)] = "full"
    bayesian: bool = True

    _takes_nan = True
    _unit = "sequence_weight"

    def _sequences(
        self, X: Any, lengths: Any, weights: ArrayLike | None = None, y: Any = None, reset: bool = False
    ) -> tuple[Sequences, Any]:
        """The sequences and their weights; y is not used, but lengths of hmmlearn may be in its place."""
        if isinstance(X, list | tuple) and any(getattr(part, "ndim", 0) > 1 for part in X):
            raise ValueError(
                f"X is a {type(X).__name__} of arrays; it must be one array (T, D): np.concatenate(X), with "
                "lengths=[len(x) for x in X]"
            )
        X = validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")
        if self.emissions == "categorical" and X.shape[1] > 1:
            raise ValueError(f"X has {X.shape[1]} columns; symbols must be one column (T, 1)")
        rows = Sequences(X, None if lengths is None else np.asarray(lengths))
        checked(type(self), vars(self))
        if y is not None and np.size(y) != len(X):
            raise ValueError(f"y has {np.size(y)} entries for {len(X)} rows: give lengths by name, lengths=")
        return rows, np.ones(len(rows)) if weights is None else weights

    def _emissions(self, rows: Sequences) -> Components:
        if self.emissions == "categorical":
            if self.n_symbols is not None:
                return categorical(self.n_symbols, 1.0)
            largest = np.nanmax(finite_or_missing(rows.values))
            if largest >= _MOST_SYMBOLS:
                raise ValueError(f"X has the symbol {largest:g}; symbols must be below {_MOST_SYMBOLS:g}")
            return categorical(max(2, int(largest) + 1), 1.0)
        if self.emissions == "poisson":
            return poisson()
        return gaussian_components(SHAPES[self.covariance_type])

    def fit(
        self,
        X: ArrayLike,
        y: object = None,
        lengths: ArrayLike | None = None,
        sequence_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit to the sequences in X."""
        rows, weights = data = self._sequences(X, lengths, sequence_weight, y, reset=True)
        found = self._fitted(self._weighted(rows), data, family=self._family)
        return self._conclude(found, rows=float(np.sum(weights)))

    def partial_fit(
        self,
        X: ArrayLike,
        y: object = None,
        lengths: ArrayLike | None = None,
        sequence_weight: ArrayLike | None = None,
    ) -> Self:
        """Take a natural-gradient step on the sequences in X, a sample of ``total_samples`` sequences.

        The prior, if it is computed from data, the number of symbols and the start are those of the first
        calls, of ten rows a state together.
        """
        return self._streamed(
            self._sequences(X, lengths, sequence_weight, y, reset=not hasattr(self, "_seen"))
        )

    def _model(self, rows: Sequences) -> Model:
        return Model(self.n_components, self._emissions(rows))

    @property
    def _family(self) -> str:  # type: ignore[override]
        return "full" if self.bayesian else "point"

    def _keep(self, seen: StreamState) -> None:
        super()._keep(seen)
        self.startprob_ = np.asarray(seen.q["initial"].mean)
        self.transmat_ = np.asarray(seen.q["transitions"].mean)
        if self.emissions == "gaussian":
            self.means_, self.covariances_ = seen.model.emissions.each(seen.q["components"])

    def _checked(self, X: Any, lengths: ArrayLike | None, y: Any = None) -> Sequences:
        check_is_fitted(self)
        return self._sequences(X, lengths, y=y)[0]

    def predict(self, X: ArrayLike, lengths: ArrayLike | None = None) -> np.ndarray:
        """The most probable path (Viterbi), (T,), of X with ``lengths``."""
        rows = self._checked(X, lengths)
        return np.concatenate(self.model_.viterbi(self.posterior_, rows))

    def predict_proba(self, X: ArrayLike, lengths: ArrayLike | None = None) -> np.ndarray:
        """The probabilities q(z_t = k), (T, K), of X with ``lengths``."""
        rows = self._checked(X, lengths)
        return np.concatenate(self.model_.posteriors(self.posterior_, rows))

    def score(self, X: ArrayLike, y: object = None, lengths: ArrayLike | None = None) -> float:
        """The sum of ``score_sequences`` (X, lengths), nats; y is ignored."""
        rows = self._checked(X, lengths, y)
        return float(self.model_.log_evidence_bounds(self.posterior_, rows).sum())

    def score_samples(self, X: ArrayLike, lengths: ArrayLike | None = None) -> np.ndarray:
        """The log predictive density of each row given the rows of its sequence before it, (T,), in nats.

        ln p(x_t | x_1..t-1), whose sum over a sequence is its ``score_sequences``. The function of this name
        in hmmlearn returns a pair, which here is ``score`` (X, lengths=lengths) and ``predict_proba`` (X,
        lengths).
        """
        rows = self._checked(X, lengths)
        return np.concatenate(self.model_.log_predictives(self.posterior_, rows))

    def score_sequences(self, X: ArrayLike, lengths: ArrayLike | None = None) -> np.ndarray:
        """The log likelihood of each sequence, (N,), in nats.

        For a point estimate this is ln p(x_n | theta), summed over paths; for a Bayesian fit ln sum_z exp
        E_q[ln p(x_n, z | theta)], which is at most ln E_q[p(x_n | theta)].
        """
        rows = self._checked(X, lengths)
        return np.asarray(self.model_.log_evidence_bounds(self.posterior_, rows))

    def sample(self, n_samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """A sequence of T = ``n_samples`` at the parameters' means under q: X (T, D), and its states (T,)."""
        check_is_fitted(self)
        steps, rng = require_integer("n_samples", n_samples, 1), generator_of(self.random_state)
        states = np.empty(steps, int)
        probabilities = self.startprob_
        for t in range(steps):
            states[t] = rng.choice(self.n_components, p=probabilities / probabilities.sum())
            probabilities = self.transmat_[states[t]]
        return self._drawn(states, rng), states

    def _drawn(self, states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A draw of an observation (D,) from each of the states."""
        if self.emissions == "categorical":
            ends = self.posterior_["probabilities"].mean[:, 0].cumsum(axis=1)[states]
            symbols: np.ndarray = (rng.random((len(states), 1)) * ends[:, -1:] > ends).sum(axis=1)
            return symbols[:, None].astype(np.float64)
        if self.emissions == "poisson":
            return rng.poisson(self.posterior_["rates"].mean[states]).astype(np.float64)
        return gaussian_draws(self.means_, self.covariances_, states, rng)
