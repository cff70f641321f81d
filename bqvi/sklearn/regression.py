"""Gaussian process regression as a scikit-learn estimator: `gp.fit`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

import gp
from bqvi.sklearn.shared import RandomState, generator_of


@dataclass(eq=False, repr=False, kw_only=True)
class GaussianProcessRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regression by a Gaussian process whose hyperparameters and noise are fitted.

    The data need no scaling: priors and searches are in units of the data.

    Attributes
    ----------
    kernel : a kernel of :mod:`gp.kernels`; by default a squared exponential with one lengthscale per column.
    noise : ``"learn"``, ``None`` for none, or a variance, or one for each row; as of :func:`gp.fit`.
    n_starts : the number of starting points of the search; ``None`` for the default of :func:`gp.fit`.
    random_state : the source of random starting points.
    posterior_ : the fitted :class:`gp.Posterior`, after `fit`.
    log_marginal_likelihood_value_ : its log evidence in nats.

    Examples
    --------
    The exponential function between its values:

    >>> import numpy as np
    >>> from bqvi.sklearn import GaussianProcessRegressor
    >>> x = np.linspace(0.0, 1.0, 8)[:, None]
    >>> model = GaussianProcessRegressor().fit(x, np.exp(x[:, 0]))
    >>> print(model.predict(np.array([[0.3]])).round(2), round(np.exp(0.3), 2))
    [1.35] 1.35
    """

    kernel: Any = None
    noise: Any = "learn"
    n_starts: int | None = None
    random_state: RandomState = 0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to inputs X (N, D) and targets y (N,)."""
        points, values = validate_data(self, X, y, y_numeric=True, dtype=[np.float64, np.float32])
        self.posterior_ = gp.fit(
            points,
            values,
            self.kernel,
            noise=self.noise,
            n_starts=self.n_starts,
            seed=generator_of(self.random_state),
        )
        self.log_marginal_likelihood_value_ = float(self.posterior_.log_marginal_likelihood)
        return self

    def predict(
        self, X: ArrayLike, return_std: bool = False, return_cov: bool = False, include_noise: bool = True
    ) -> Any:
        """Return the mean at X (M, D), (M,); if asked for, with the sd (M,) or covariance (M, M).

        Parameters
        ----------
        X : inputs (M, D).
        return_std, return_cov : what is returned beside the mean; one of them at most.
        include_noise : whether these are of new targets instead of f; scikit-learn's regressor includes the
            noise where its kernel has a ``WhiteKernel``.
        """
        points = self._points(X)
        if return_std and return_cov:
            raise ValueError("return_std and return_cov are both True: ask for one of them")
        if not return_cov:
            return self.posterior_.predict(points, return_std, include_noise)
        noise = np.mean(self.posterior_.noise) if include_noise else 0.0
        return self.posterior_.mean(points), self.posterior_.covariance(points) + noise * np.eye(len(points))

    def sample_y(self, X: ArrayLike, n_samples: int = 1, random_state: RandomState = 0) -> np.ndarray:
        """Return draws of f at X (M, D), (M, n_samples), as scikit-learn's regressor."""
        draws = self.posterior_.sample(self._points(X), n_samples, generator_of(random_state))
        return np.asarray(draws).T

    def _points(self, X: ArrayLike) -> np.ndarray:
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, reset=False, dtype=self.posterior_.x.dtype))
