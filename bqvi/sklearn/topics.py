"""Latent Dirichlet allocation as a scikit-learn transformer."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bqvi.arguments import Above, AtLeast, checked, one_of
from bqvi.models.latent_dirichlet_allocation import LatentDirichletAllocation as Model
from bqvi.sklearn.shared import FittedByBound, StreamState

_METHODS = {"batch": "cavi", "online": "sngd", "memoised": "memoised"}


@dataclass(eq=False, repr=False)
class LatentDirichletAllocation(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    FittedByBound,
):
    """Topics of documents, by variational Bayes.

    Methods take the counts X (N, V) of words, nonnegative, dense or sparse; y is ignored. A document with
    ``sample_weight`` w counts as w copies.

    Parameters
    ----------
    n_components : the number K of topics
    concentration : alpha of the documents' proportions; default 1 / K
    word_concentration : eta of the topics, a number or (V,)
    learn_concentration : 'symmetric', 'asymmetric', or None to keep alpha
    learn_word_concentration : whether eta is learnt, as one number
    method : 'batch', coordinate ascent; 'online', natural gradients on mini-batches; 'memoised', mini-batches
        with an exact bound
    batch_size : the number of documents in a mini-batch, for 'online' and 'memoised'
    total_samples : the total number of documents, for ``partial_fit``; default those of all calls so far
    max_iter, tol : the largest number of passes; the change of the bound, in nats, that ends them ('batch'
        and 'memoised')
    n_init, init_params, random_state, verbose : as for `GaussianMixture`

    Examples
    --------
    Documents of two sets of words, which no document mixes:

    >>> import numpy as np
    >>> from bqvi.sklearn import LatentDirichletAllocation
    >>> x = np.kron(np.eye(2, dtype=int), np.full((20, 3), 5))
    >>> proportions = LatentDirichletAllocation(2, random_state=0).fit_transform(x)
    >>> bool((proportions[:20].argmax(axis=1) != proportions[20:].argmax(axis=1)).all())
    True
    """

    _needs_rows = False

    n_components: Annotated[int, AtLeast(1)] = 10
    _: KW_ONLY
    concentration: Any = None
    word_concentration: Any = 0.1
    learn_concentration: str | None = None
    learn_word_concentration: bool = False
    method: Annotated[str, one_of(_METHODS)] = "batch"
    batch_size: Annotated[int, AtLeast(1)] = 128
    max_iter: Annotated[int, AtLeast(1)] = 100
    tol: Annotated[float, Above(0.0)] = 1e-2

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags

    def _counts(self, X: Any, reset: bool) -> Any:
        checked(type(self), vars(self))
        return validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=np.float64, ensure_non_negative=True
        )

    def _model(self, rows: Any) -> Model:
        return Model(
            self.n_components,
            self.n_features_in_,
            concentration=self.concentration,
            word_concentration=self.word_concentration,
            learn_concentration=self.learn_concentration,
            learn_word_concentration=self.learn_word_concentration,
            fractional=True,
        )

    def fit(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to documents."""
        X = self._counts(X, reset=True)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
        n = X.shape[0]
        size = min(self.batch_size, n)
        batch = self.method == "batch"
        online = self.method == "online"
        found = self._fitted(
            self._weighted(X),
            (X, weights),
            method=_METHODS[self.method],
            minibatch=None if batch else size,
            steps=self.max_iter * (1 if batch else -(-n // size)),
            tolerance=None if online else self.tol,
        )
        return self._conclude(found, rows=float(weights.sum()), settles=not online)

    def partial_fit(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Take a natural-gradient step on the documents X (S, V), a sample of ``total_samples`` documents."""
        X = self._counts(X, reset=not hasattr(self, "_seen"))
        data = X, _check_sample_weight(sample_weight, X, dtype=np.float64)
        return self._streamed(data)

    def _keep(self, seen: StreamState) -> None:
        super()._keep(seen)
        self.n_batch_iter_ = seen.steps
        self.components_ = np.asarray(seen.q["topics"].concentration)
        self._n_features_out = self.n_components

    def transform(self, X: Any) -> np.ndarray:
        """The expected proportions E[pi_d] of each document given the topics, (N, K)."""
        check_is_fitted(self)
        return np.asarray(self.model_.transform(self.posterior_, self._counts(X, reset=False)))

    def score(self, X: Any, y: object = None) -> float:
        """A lower bound on ln p(X | E[topics]), nats; y is ignored."""
        check_is_fitted(self)
        X = self._counts(X, reset=False)
        return float(self.model_.log_likelihood(X, {"topics": self.posterior_["topics"].mean}))

    def perplexity(self, X: Any) -> float:
        """exp(-b / n): b is the bound of ``score`` on the words in their order, n the number of words."""
        check_is_fitted(self)
        X = self._counts(X, reset=False)
        counts = self.model_.check(X)
        if not counts.sum():
            raise ValueError("X has no word: all counts are 0")
        bound = self.score(X) - self.model_.log_base_measure(counts)
        return float(np.exp(-bound / counts.sum()))
