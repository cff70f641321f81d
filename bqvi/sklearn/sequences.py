"""Hidden Markov models with scikit-learn's interface; ``lengths`` cut rows into sequences, as hmmlearn's."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from bqvi.checks import require_one_of
from bqvi.inference.fit import fit
from bqvi.models.emissions import CategoricalEmissions, Emissions, PoissonEmissions, gaussian_emissions
from bqvi.models.hidden_markov_model import HiddenMarkovModel as Model
from bqvi.models.sequences import Sequences
from bqvi.sklearn.shared import SHAPES, generator_of, require_enough, warn_unsettled

_EMISSIONS = ("gaussian", "categorical", "poisson")


class HiddenMarkovModel(BaseEstimator):  # type: ignore[misc]
    """States of sequences, by variational Bayes or Baum and Welch's EM; rows of X (T, D) are times.

    NaN is a missing observation: a whole row of it for Gaussians and Poisson counts.

    Parameters
    ----------
    n_components : K, states
    emissions : 'gaussian', 'categorical' (X of one column, symbols 0, 1, ..) or 'poisson'
    covariance_type : of Gaussian emissions: 'full', 'tied', 'diag' or 'spherical'
    bayesian : True for variational Bayes; False for a point, maximum a posteriori
    max_iter, tol, n_init, init_params, random_state : as of `GaussianMixture`
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        emissions: str = "gaussian",
        covariance_type: str = "full",
        bayesian: bool = True,
        max_iter: int = 500,
        tol: float = 1e-3,
        n_init: int = 1,
        init_params: str = "k-means++",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.emissions = emissions
        self.covariance_type = covariance_type
        self.bayesian = bayesian
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.init_params = init_params
        self.random_state = random_state

    def _sequences(self, X: Any, lengths: Any, reset: bool) -> Sequences:
        X = validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")
        values = X[:, 0] if self.emissions == "categorical" and X.shape[1] == 1 else X
        return Sequences(values, None if lengths is None else np.asarray(lengths))  # type: ignore[arg-type]

    def _emissions(self, rows: Sequences) -> Emissions:
        require_one_of("emissions", self.emissions, _EMISSIONS)
        if self.emissions == "categorical":
            return CategoricalEmissions(max(2, int(np.nanmax(rows.values)) + 1))
        if self.emissions == "poisson":
            return PoissonEmissions()
        require_one_of("covariance_type", self.covariance_type, SHAPES)
        return gaussian_emissions(SHAPES[self.covariance_type])

    def fit(self, X: Any, y: Any = None, lengths: Any = None) -> Self:
        """Fit to X (T, D), whose rows are sequences of ``lengths``, one after the other; y is ignored.

        Parameters
        ----------
        X : (T, D)
        y : ignored
        lengths : (N,), summing to T; default one sequence
        """
        del y
        rows = self._sequences(X, lengths, reset=True)
        require_enough(self.n_components, len(rows.values))
        found = fit(
            Model(self.n_components, self._emissions(rows)),
            rows,
            family="full" if self.bayesian else "point",
            steps=self.max_iter,
            tolerance=self.tol,
            starts=self.n_init,
            start_from=self.init_params,
            seed=generator_of(self.random_state),
        )
        warn_unsettled(found.converged, self.tol, self.max_iter)
        self.model_, self.posterior_ = found.problem.model, found.q
        self.converged_ = found.converged
        self.lower_bound_ = found.elbo
        self.lower_bounds_ = [row.elbo for row in found.trace.rows]
        self.n_iter_ = max(found.state.iteration, 1)
        self.startprob_ = np.asarray(found.q["initial"].mean)
        self.transmat_ = np.asarray(found.q["transitions"].mean)
        return self

    def _checked(self, X: Any, lengths: Any) -> Sequences:
        check_is_fitted(self)
        return self._sequences(X, lengths, reset=False)

    def predict(self, X: Any, lengths: Any = None) -> np.ndarray:
        """The likeliest path (Viterbi), (T,), of X with ``lengths``."""
        rows = self._checked(X, lengths)
        return np.concatenate(self.model_.viterbi(self.posterior_, rows))

    def predict_proba(self, X: Any, lengths: Any = None) -> np.ndarray:
        """q(z_t = k), (T, K), of X with ``lengths``."""
        rows = self._checked(X, lengths)
        return np.concatenate(self.model_.posteriors(self.posterior_, rows))

    def score(self, X: Any, y: Any = None, lengths: Any = None) -> float:
        """sum of ln p(x_n, z) with z summed out and the parameters' logs at their means under q, nats.

        For a point estimate it is the log likelihood. X with ``lengths``; y is ignored.
        """
        del y
        rows = self._checked(X, lengths)
        return float(self.model_.log_evidence_bounds(self.posterior_, rows).sum())
