"""Reference posteriors in a folder: DIR/NAME/{data.json, reference.json, draws.npz}.

    data.json        the data, under the names that the model's docstring gives
    reference.json   {"log_evidence": {"logz", "se"}, "unconstrained": {"mean", "covariance", "test_points":
                     [{"u", "log_density_with_jacobian"}]}, ...}
    draws.npz        draws of the posterior, as stated by the model

A user's own folder may have this layout; posteriors of posteriordb can be converted to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.problems.reference.eight_schools import eight_schools
from experiments.problems.reference.garch import garch
from experiments.problems.reference.gp_regression import gp_regression
from experiments.problems.reference.hidden_markov import hidden_markov
from experiments.problems.reference.predator_prey import predator_prey
from experiments.problems.reference.regression import (
    autoregression,
    children_scores,
    independent_coefficients,
    mesquite,
)
from experiments.problems.reference.target import Target
from experiments.problems.reference.two_normals import two_normals
from gp.checks import require_one_of

__all__ = ["MODELS", "Reference", "load_reference"]

MODELS: dict[str, Callable[[Mapping[str, Any]], Target]] = {
    "arK": autoregression,
    "eight_schools_noncentered": eight_schools,
    "garch11": garch,
    "gp_regr": gp_regression,
    "hmm_example": hidden_markov,
    "kidscore_interaction": children_scores,
    "logmesquite_logvas": mesquite,
    "lotka_volterra": predator_prey,
    "low_dim_gauss_mix": two_normals,
    "sblri_blr": independent_coefficients,
}


@dataclass(frozen=True)
class Reference:
    """A target with what is known of it."""

    target: Target
    log_evidence: float
    """Nats."""
    log_evidence_se: float
    """Standard error of the log evidence, nats."""
    mean: np.ndarray
    """(D,), unconstrained."""
    covariance: np.ndarray
    """(D, D), unconstrained."""
    test_points: tuple[tuple[np.ndarray, float], ...]
    """Points u and the log density there."""
    draws: np.ndarray
    """(n, P), as the model states its parameters."""


def load_reference(folder: str | Path, name: str) -> Reference:
    """The reference posterior ``name`` of ``folder``; see the module's docstring for the layout.

    Raises
    ------
    ValueError
        No model of that name; the message has similar ones.
    FileNotFoundError
        The folder lacks one of its files.
    """
    require_one_of("name", name, MODELS)
    place = Path(folder) / name
    data = json.loads((place / "data.json").read_text())
    known = json.loads((place / "reference.json").read_text())
    free = known["unconstrained"]
    with np.load(place / "draws.npz", allow_pickle=False) as stored:
        draws = np.asarray(stored["draws"], float)
    return Reference(
        target=MODELS[name](data),
        log_evidence=known["log_evidence"]["logz"],
        log_evidence_se=known["log_evidence"]["se"],
        mean=np.asarray(free["mean"]),
        covariance=np.asarray(free["covariance"]),
        test_points=tuple((np.asarray(p["u"]), p["log_density_with_jacobian"]) for p in free["test_points"]),
        draws=draws,
    )
