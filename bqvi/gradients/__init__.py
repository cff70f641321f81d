"""Estimators of the ELBO's gradient, one a file; `gradient` has their contract.

The sampling estimators need torch, which takes seconds to import. They are loaded on first use, so
that exact methods do not import it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bqvi.gradients.conjugate import Conjugate, RefinedConjugate
from bqvi.gradients.gradient import Batch, Estimator, Gradient, RememberingEstimator
from bqvi.gradients.memoised import Memoised
from bqvi.gradients.memoised_moves import Moves

if TYPE_CHECKING:
    from bqvi.gradients.bayesian_quadrature import BayesianQuadrature
    from bqvi.gradients.importance_quadrature import ImportanceQuadrature
    from bqvi.gradients.importance_weighted import IWAE, DReG
    from bqvi.gradients.pathwise import Pathwise
    from bqvi.gradients.score import Score

__all__ = [
    "IWAE",
    "Batch",
    "BayesianQuadrature",
    "Conjugate",
    "DReG",
    "Estimator",
    "Gradient",
    "ImportanceQuadrature",
    "Memoised",
    "Moves",
    "Pathwise",
    "RefinedConjugate",
    "RememberingEstimator",
    "Score",
]

_ON_TORCH = {
    "BayesianQuadrature": "bayesian_quadrature",
    "DReG": "importance_weighted",
    "ImportanceQuadrature": "importance_quadrature",
    "IWAE": "importance_weighted",
    "Pathwise": "pathwise",
    "Score": "score",
}


_MODULES = ("designs", "surrogates")
"""Modules with names for settings of the estimators."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _ON_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_ON_TORCH[name]}"), name)
