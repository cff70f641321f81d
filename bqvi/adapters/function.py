"""`from_function`: a log joint over R^D, given by NumPy functions, with names, bounds and transforms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bqvi.calls.target_model import TargetModel
from bqvi.checks import require_integer
from gp.arrays import shown


def from_function(
    log_joint: Callable[[Any], Any],
    dimension: int,
    *,
    gradient: Callable[[Any], Any] | None = None,
    log_joint_and_gradient: Callable[[Any], Any] | None = None,
    vectorised: bool = False,
    names: Sequence[str] | None = None,
    start: Any = None,
    plausible_lower: Any = None,
    plausible_upper: Any = None,
    constrain: Callable[[np.ndarray], Mapping[str, np.ndarray]] | None = None,
    unconstrain: Callable[[Mapping[str, Any]], np.ndarray] | None = None,
    coords: Mapping[str, Sequence[Any]] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    observed: Mapping[str, Any] | None = None,
) -> TargetModel:
    """A model of any other package, given by NumPy functions of its unconstrained parameters.

    Parameters
    ----------
    log_joint : the log joint, a function of theta (D,) -> a number; if ``vectorised``, (n, D) -> (n,). It has
        to contain the Jacobians of the transforms and all constants.
    dimension : the number D of parameters.
    gradient : the gradient of the log joint, (D,) -> (D,); if ``vectorised``, (n, D) -> (n, D).
    log_joint_and_gradient : both in one call, instead of ``gradient``: (D,) -> (a number, (D,)); if
        ``vectorised``, (n, D) -> ((n,), (n, D)).
    vectorised : whether the functions take many points at once.
    names : D different names; x0, x1, ... by default.
    start : the point (D,) where a run begins; by default the middle of the plausible box.
    plausible_lower, plausible_upper : the ends of a box, (D,) or a number, that is likely to contain most of
        the posterior; by default 2 to either side of ``start``.
    constrain : a function (n, D) -> name -> array (n, ...), the variables of the model.
    unconstrain : a function of name -> array (...) that returns theta (D,).
    coords : dimension -> labels. dims : variable -> names of its dimensions.
    observed : name -> array of data, for files.

    Examples
    --------
    >>> import bqvi
    >>> def log_joint(theta):  # (2,) -> a number
    ...     return -0.5 * theta @ theta
    >>> model = bqvi.adapters.from_function(log_joint, 2, gradient=lambda theta: -theta)
    >>> fit = bqvi.fit(model, method="bq", budget=20, seed=0)
    >>> print(f"{fit.log_evidence:.2f}")  # exactly ln 2 pi = 1.84
    1.84
    """
    count = require_integer("dimension", dimension, 1)
    if gradient is not None and log_joint_and_gradient is not None:
        raise ValueError("gradient and log_joint_and_gradient are given; give one of the two")
    both = log_joint_and_gradient
    if gradient is not None:
        if not callable(gradient):
            raise TypeError(
                f"gradient is {shown(gradient)}; it must be a function of theta (of torch, see from_torch)"
            )
        both = _Both(log_joint, gradient)
    titles = tuple(f"x{i}" for i in range(count)) if names is None else tuple(names)
    if len(titles) != count:
        raise ValueError(f"names has {len(titles)} entries; it must have {count}, one for each parameter")
    return TargetModel(
        log_joint=log_joint,
        names=titles,
        log_joint_and_gradient=both,
        vectorised=vectorised,
        start=start,
        plausible_lower=plausible_lower,
        plausible_upper=plausible_upper,
        to_named=constrain,
        from_named=unconstrain,
        coords=dict(coords or {}),
        dims=dict(dims or {}),
        observed={name: np.asarray(x) for name, x in (observed or {}).items()},
    )


class _Both:
    """The value and the gradient as one function; picklable where both are."""

    def __init__(self, value: Callable[[Any], Any], gradient: Callable[[Any], Any]) -> None:
        self.value, self.gradient = value, gradient

    def __call__(self, theta: Any) -> tuple[Any, Any]:
        return self.value(theta.copy()), self.gradient(theta)
