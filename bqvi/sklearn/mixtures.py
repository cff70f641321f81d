"""Gaussian mixtures as scikit-learn estimators: a model of `bqvi.models`, fitted by coordinate ascent.

``lower_bound_`` is the bound with all its constants, in nats for all the data (for `GaussianMixture` ln p(X,
theta)), so that numbers of components, shapes of covariance and models can be compared by it.

``partial_fit`` adds the statistics of a batch to those before (Broderick et al. 2013). For ``total_samples``,
or a learnt concentration, it takes a natural-gradient step on it: stochastic variational inference, or, for a
point estimate, the online EM of Cappe and Moulines (2009).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import DensityMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bqvi.arguments import AtLeast, checked, one_of
from bqvi.models.component_mixture import Mixture
from bqvi.models.gaussian_mixture import DirichletProcessMixture as ProcessModel
from bqvi.models.gaussian_mixture import GaussianMixture as MixtureModel
from bqvi.models.gaussian_mixture import component_estimates
from bqvi.models.merging import merged
from bqvi.models.predictive import log_predictive
from bqvi.sklearn.shared import (
    SHAPES,
    FittedByBound,
    StreamState,
    gaussian_draws,
    generator_of,
    natural_step,
    summed_step,
)
from gp.checks import require_integer


@dataclass(eq=False, repr=False, kw_only=True)
class _Mixture(DensityMixin, FittedByBound):  # type: ignore[misc]
    """The common part of the three estimators, which differ in ``_model`` and in the family of q."""

    covariance_type: Annotated[str, one_of(SHAPES)] = "full"

    _takes_nan = True

    def _table(self, X: Any, weights: ArrayLike | None, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        X = validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")
        checked(type(self), vars(self))
        return X, _check_sample_weight(weights, X, dtype=np.float64)

    def fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to X (N, D)."""
        data = self._table(X, sample_weight, reset=True)
        found = self._fitted(self._weighted(data[0]), data, method="cavi", family=self._family, record=1)
        first, left = found, self.max_iter - found.state.iteration
        if left > 0 and getattr(self, "merge", False):
            model = found.problem.model
            begin = {"start_from": merged(model.model, found.q, *data), "steps": left, "starts": 1, "seed": 0}
            found = self._fitted(model, data, method="cavi", family=self._family, record=1, **begin)
        return self._conclude(*([first] if found is first else [first, found]), rows=float(data[1].sum()))

    def partial_fit(self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Add the rows X (S, D); or take a natural-gradient step on them as a sample of ``total_samples``."""
        return self._streamed(self._table(X, sample_weight, reset=not hasattr(self, "_seen")))

    def _step(self, seen: StreamState, rows: np.ndarray, weights: np.ndarray) -> StreamState:
        learnt = any(np.any(part) for part in seen.model.local_step(seen.q, rows, 0.0 * weights).statistics)
        step = natural_step if self.total_samples or learnt else summed_step
        return step(seen, rows, weights, self.total_samples)

    def _keep(self, seen: StreamState) -> None:
        super()._keep(seen)
        self.weights_ = self.model_.expected_weights(seen.q)
        self.means_, self.covariances_ = component_estimates(self.model_, seen.q)

    def _checked(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        return np.asarray(self.model_.check(X))

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """The responsibilities, (N, K)."""
        X = self._checked(X)
        return np.asarray(self.model_.responsibilities(self.posterior_, X))

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The component with the largest responsibility for each row, (N,)."""
        return np.asarray(self.predict_proba(X).argmax(1))

    def fit_predict(
        self, X: ArrayLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> np.ndarray:
        """Fit to X and return ``predict(X)``."""
        return self.fit(X, y, sample_weight).predict(X)

    def score_samples(self, X: ArrayLike) -> np.ndarray:
        """The log posterior predictive density, or the log density of a point estimate, (N,)."""
        X = self._checked(X)
        return log_predictive(self.model_, self.posterior_, X)

    def score(self, X: ArrayLike, y: object = None) -> float:
        """The mean of ``score_samples``."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Draws of the mixture of ``weights_``, ``means_`` and ``covariances_``: (n, D), and labels (n,)."""
        check_is_fitted(self)
        require_integer("n_samples", n_samples, 0)
        rng = generator_of(self.random_state)
        labels = rng.choice(len(self.means_), n_samples, p=self.weights_ / self.weights_.sum())
        return gaussian_draws(self.means_, self.covariances_, labels, rng), labels


@dataclass(eq=False, repr=False)
class GaussianMixture(_Mixture):
    """A Gaussian mixture by EM: maximum a posteriori, or maximum likelihood.

    Parameters
    ----------
    n_components : the number K of components
    covariance_type : 'full', 'tied', 'diag' or 'spherical'
    flat : True for maximum likelihood; False for the default priors of `models.GaussianMixture`, under which
        no component can collapse
    max_iter, tol : the largest number of iterations; the change of the bound, in nats, that ends them
    n_init : the number of starts, of which the best is kept
    init_params : 'k-means++' or 'random'
    total_samples : the number of rows that batches of ``partial_fit`` are samples of; default: they are all
    random_state : an integer or a generator; None for different numbers in each call. NumPy's global
        generator is not used
    verbose : whether ``fit`` shows iterations and the bound on a line

    Examples
    --------
    >>> import numpy as np
    >>> from bqvi.sklearn import GaussianMixture
    >>> x = np.random.default_rng(0).standard_normal((200, 1)) + np.repeat([[-4.0], [4.0]], 100, axis=0)
    >>> estimator = GaussianMixture(2, random_state=0).fit(x)
    >>> sorted(estimator.means_[:, 0].round().tolist())
    [-4.0, 4.0]
    """

    _family = "point"

    n_components: Annotated[int, AtLeast(1)] = 1
    _: KW_ONLY
    flat: bool = False

    def _model(self, rows: np.ndarray) -> Mixture:
        return MixtureModel(
            self.n_components, SHAPES[self.covariance_type], concentration=1.0, flat=self.flat
        )


@dataclass(eq=False, repr=False)
class BayesianGaussianMixture(_Mixture):
    """A Gaussian mixture by variational Bayes; priors are those of `models.GaussianMixture`.

    Parameters
    ----------
    concentration : alpha_0 of the weights; default 1 / K, which empties superfluous components
    prior_mean, prior_strength, prior_scale, prior_dof : the prior of the components; None to compute it from
        the data
    merge : whether ``fit``, not ``partial_fit``, merges components that share one cluster, where this raises
        the bound and iterations are left
    n_components, covariance_type, max_iter, tol, n_init, init_params, total_samples, random_state, verbose :
        as for `GaussianMixture`

    Examples
    --------
    Of six components two keep their weight:

    >>> import numpy as np
    >>> from bqvi.sklearn import BayesianGaussianMixture
    >>> x = np.random.default_rng(0).standard_normal((200, 1)) + np.repeat([[-4.0], [4.0]], 100, axis=0)
    >>> estimator = BayesianGaussianMixture(6, random_state=0).fit(x)
    >>> int((estimator.weights_ > 0.05).sum())
    2
    """

    n_components: Annotated[int, AtLeast(1)] = 1
    _: KW_ONLY
    concentration: float | None = None
    prior_mean: Any = None
    prior_strength: float | None = None
    prior_scale: Any = None
    prior_dof: float | None = None
    merge: bool = True

    def _model(self, rows: np.ndarray) -> Mixture:
        return MixtureModel(
            self.n_components,
            SHAPES[self.covariance_type],
            concentration=self.concentration,
            prior_mean=self.prior_mean,
            prior_strength=self.prior_strength,
            prior_scale=self.prior_scale,
            prior_dof=self.prior_dof,
        )


@dataclass(eq=False, repr=False)
class DirichletProcessMixture(_Mixture):
    """A Dirichlet process mixture of Gaussians, with the number of components inferred.

    Parameters
    ----------
    n_components : the truncation, the largest number of components
    concentration : alpha, a number; or the (shape, rate) of a gamma prior, to infer alpha
    covariance_type, merge, max_iter, tol, n_init, init_params, total_samples, random_state, verbose : as for
        `BayesianGaussianMixture`

    Examples
    --------
    >>> import numpy as np
    >>> from bqvi.sklearn import DirichletProcessMixture
    >>> x = np.random.default_rng(0).standard_normal((200, 1)) + np.repeat([[-4.0], [4.0]], 100, axis=0)
    >>> estimator = DirichletProcessMixture(random_state=0).fit(x)
    >>> int((estimator.weights_ > 0.05).sum())
    2
    """

    _needs_rows = False

    n_components: Annotated[int, AtLeast(1)] = 20
    _: KW_ONLY
    concentration: Any = (1.0, 1.0)
    merge: bool = True

    def _model(self, rows: np.ndarray) -> Mixture:
        return ProcessModel(SHAPES[self.covariance_type], self.n_components, concentration=self.concentration)
