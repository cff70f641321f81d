"""Gaussian mixtures as scikit-learn estimators: a model of `bqvi.models`, and coordinate ascent.

``lower_bound_`` is the bound with all its constants, in nats for all the data (for `GaussianMixture` ln p(X,
theta)): it can be compared over numbers of components, shapes of covariance and models.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bqvi.checks import require_one_of
from bqvi.inference.fit import fit
from bqvi.inference.result import Fit
from bqvi.models.component_mixture import Mixture
from bqvi.models.dirichlet_process import DirichletProcessMixture as ProcessModel
from bqvi.models.gaussian_mixture import GaussianMixture as MixtureModel
from bqvi.models.gaussian_mixture import component_estimates
from bqvi.models.merging import merged
from bqvi.models.predictive import log_predictive
from bqvi.models.weighted import Weighted
from bqvi.sklearn.shared import SHAPES, generator_of, require_enough, warn_unsettled


class _Mixture(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """What the three share: they differ in the model, and in whether q is a point."""

    _family = "full"
    n_components: int
    covariance_type: str
    max_iter: int
    tol: float
    n_init: int
    init_params: str
    random_state: Any

    def _model(self, n: int) -> Mixture:
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to X (N, D).

        Parameters
        ----------
        X : (N, D), finite
        y : ignored
        sample_weight : (N,) nonnegative, what each row counts; default 1
        """
        del y
        X = validate_data(self, X, dtype=np.float64)
        require_one_of("covariance_type", self.covariance_type, SHAPES)
        model: Any = self._model(len(X))
        data: Any = X
        if sample_weight is not None:
            data = (X, _check_sample_weight(sample_weight, X, dtype=np.float64))
            model = Weighted(model)
        found = self._fitted(model, data)
        self.converged_ = found.converged
        warn_unsettled(found.converged, self.tol, self.max_iter)
        self._keep(found)
        return self

    def _fitted(self, model: Any, data: Any) -> Fit:
        return self._run(model, data, starts=self.n_init, seed=generator_of(self.random_state))

    def _run(self, model: Any, data: Any, **start: Any) -> Fit:
        start = {"start_from": self.init_params, **start}
        return fit(
            model,
            data,
            "cavi",
            family=self._family,
            steps=self.max_iter,
            tolerance=self.tol,
            record=1,
            **start,
        )

    def _keep(self, found: Fit) -> None:
        model = found.problem.model
        self.model_ = model.mixture if isinstance(model, Weighted) else model
        self.posterior_ = found.q
        self.lower_bound_ = found.elbo
        self.lower_bounds_ = [row.elbo for row in found.trace.rows]
        self.n_iter_ = max(found.state.iteration, 1)
        self.weights_ = self.model_.expected_weights(found.q)
        self.means_, self.covariances_ = component_estimates(self.model_, found.q)

    def _checked(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, reset=False, dtype=np.float64))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Responsibilities, (N, K)."""
        X = self._checked(X)
        return self.model_.responsibilities(self.posterior_, X)

    def predict(self, X: Any) -> np.ndarray:
        """The component most responsible, (N,)."""
        return np.asarray(self.predict_proba(X).argmax(1))

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """``predict`` of the X that was fitted to."""
        return self.fit(X, y, sample_weight).predict(X)

    def score_samples(self, X: Any) -> np.ndarray:
        """ln of the posterior predictive density (of the density, for a point estimate), (N,)."""
        X = self._checked(X)
        return log_predictive(self.model_, self.posterior_, X)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of ``score_samples``."""
        del y
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Draws of the mixture of ``weights_``, ``means_`` and ``covariances_``: (n, D), and labels (n,)."""
        check_is_fitted(self)
        rng = generator_of(self.random_state)
        labels = rng.choice(len(self.means_), n_samples, p=self.weights_ / self.weights_.sum())
        roots = np.linalg.cholesky(self.covariances_)
        noise = rng.standard_normal((n_samples, self.means_.shape[1]))
        return self.means_[labels] + np.einsum("nij,nj->ni", roots[labels], noise), labels


class GaussianMixture(_Mixture):
    """A Gaussian mixture by EM: maximum a posteriori, or maximum likelihood.

    Parameters
    ----------
    n_components : K
    covariance_type : 'full', 'tied', 'diag' or 'spherical'
    flat : True for maximum likelihood; False for the default priors of `models.GaussianMixture`, under which
    no
        component can collapse
    max_iter, tol : most iterations; change of the bound that ends them, nats
    n_init : starts, of which the best is kept
    init_params : 'k-means++' or 'random'
    random_state : an integer or a generator; None for other numbers each time, without NumPy's global
    generator
    """

    _family = "point"

    def __init__(
        self,
        n_components: int = 1,
        *,
        covariance_type: str = "full",
        flat: bool = False,
        max_iter: int = 500,
        tol: float = 1e-3,
        n_init: int = 1,
        init_params: str = "k-means++",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.flat = flat
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.init_params = init_params
        self.random_state = random_state

    def _model(self, n: int) -> Mixture:
        require_enough(self.n_components, n)
        return MixtureModel(
            self.n_components, SHAPES[self.covariance_type], concentration=1.0, flat=self.flat
        )


class BayesianGaussianMixture(_Mixture):
    """A Gaussian mixture by variational Bayes; priors are those of `models.GaussianMixture`.

    Parameters
    ----------
    n_components : K
    covariance_type : 'full', 'tied', 'diag' or 'spherical'
    concentration : alpha_0 of the weights; default 1 / K, which empties superfluous components
    prior_mean, prior_strength, prior_scale, prior_dof : of the components; what is None is taken from the
    data
    max_iter, tol, n_init, init_params, random_state : as of `GaussianMixture`
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        covariance_type: str = "full",
        concentration: float | None = None,
        prior_mean: Any = None,
        prior_strength: float | None = None,
        prior_scale: Any = None,
        prior_dof: float | None = None,
        max_iter: int = 500,
        tol: float = 1e-3,
        n_init: int = 1,
        init_params: str = "k-means++",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.concentration = concentration
        self.prior_mean = prior_mean
        self.prior_strength = prior_strength
        self.prior_scale = prior_scale
        self.prior_dof = prior_dof
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.init_params = init_params
        self.random_state = random_state

    def _model(self, n: int) -> Mixture:
        require_enough(self.n_components, n)
        return MixtureModel(
            self.n_components,
            SHAPES[self.covariance_type],
            concentration=self.concentration,
            prior_mean=self.prior_mean,
            prior_strength=self.prior_strength,
            prior_scale=self.prior_scale,
            prior_dof=self.prior_dof,
        )


class DirichletProcessMixture(_Mixture):
    """A Dirichlet process mixture of Gaussians: the number of components is found.

    Parameters
    ----------
    n_components : the truncation, most components that are told apart
    covariance_type : 'full', 'diag' or 'spherical'; 'tied' without merges
    concentration : alpha, a number; or the (shape, rate) of a gamma prior, to learn it
    merge : whether components that share one cluster are joined, where that raises the bound
    max_iter, tol, n_init, init_params, random_state : as of `GaussianMixture`
    """

    def __init__(
        self,
        n_components: int = 20,
        *,
        covariance_type: str = "full",
        concentration: Any = (1.0, 1.0),
        merge: bool = True,
        max_iter: int = 500,
        tol: float = 1e-3,
        n_init: int = 1,
        init_params: str = "k-means++",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.concentration = concentration
        self.merge = merge
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.init_params = init_params
        self.random_state = random_state

    def _model(self, n: int) -> Mixture:
        del n
        return ProcessModel(SHAPES[self.covariance_type], self.n_components, concentration=self.concentration)

    def _fitted(self, model: Any, data: Any) -> Fit:
        first = super()._fitted(model, data)
        settled = first.problem.model
        if not self.merge or self.covariance_type == "tied" or isinstance(settled, Weighted):
            return first
        return self._run(settled, data, start_from=merged(settled, first.q, data))
