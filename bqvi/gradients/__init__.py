"""Estimators of the ELBO's gradient, one a file; `gradient` has their contract."""

from typing import TYPE_CHECKING

from gp.names import attach

if TYPE_CHECKING:
    from bqvi.gradients.bayesian_quadrature import BayesianQuadrature
    from bqvi.gradients.conjugate import Conjugate, RefinedConjugate
    from bqvi.gradients.gradient import Batch, Estimator, Gradient, RememberingEstimator
    from bqvi.gradients.importance_weighted import IWAE, DReG
    from bqvi.gradients.memoised import Memoised
    from bqvi.gradients.pathwise import Pathwise
    from bqvi.gradients.score import Score
else:
    __getattr__, __dir__ = attach(__name__)

__all__ = [
    "IWAE", "Batch", "BayesianQuadrature", "Conjugate", "DReG", "Estimator", "Gradient",
    "Memoised", "Pathwise", "RefinedConjugate", "RememberingEstimator", "Score",
]  # fmt: skip
