"""The user's function, called so that nothing it returns surprises what comes after.

A call takes points (n, D) and returns values (n, o), with gradients (n, D, o) if there are any.
Whatever goes wrong (an exception, NaN, infinity, a wrong shape) becomes an :class:`IntegrandError`
that names the point and holds the evaluations made until then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gp.arrays import Array, as_like, is_torch, to_numpy
from gp.threads import as_the_user_has_it


class IntegrandError(RuntimeError):
    """The integrand failed at a point.

    Attributes
    ----------
    point : (D,), where it failed; ``None`` if the failure belongs to no single point.
    nodes : (n, D), and values : (n,) or (n, o): the evaluations of the call that succeeded.
    """

    def __init__(self, message: str, point: Any = None, nodes: Any = None, values: Any = None) -> None:
        super().__init__(message)
        self.point = point
        self.nodes = nodes
        self.values = values


@dataclass(frozen=True, eq=False)
class Evaluated:
    """values (n, o) and slopes df/dx (n, D, o) or ``None``, float64 on the host."""

    values: Any
    slopes: Any = None


@dataclass(frozen=True, eq=False)
class Integrand:
    """A function and how it is called.

    Attributes
    ----------
    function : points (n, D) -> (n,) or (n, o); or, if not ``vectorised``, (D,) -> number or (o,).
    like : an array of the kind, dtype and device that points are handed over in.
    vectorised : whether it takes many points at once.
    gradient : ``None``, 'autodiff' (f is a torch function), or a function returning df/dx: (n, D) or
        (n, o, D) for points (n, D); (D,) or (o, D) for a point (D,).
    logarithmic : whether the function returns ln f, where -inf is allowed.
    non_negative : whether a negative value is an error.
    log_weight : points (n, D) -> (n,), the logarithm of a factor by which f is multiplied.
    """

    function: Callable[[Array], Array]
    like: Array
    vectorised: bool = True
    gradient: Callable[[Array], Array] | str | None = None
    logarithmic: bool = False
    non_negative: bool = False
    log_weight: Callable[[Array], Array] | None = None

    @property
    def plain(self) -> bool:
        """Whether values are those that the function returned, and all that it returns."""
        return self.gradient is None and self.log_weight is None

    def __call__(self, x: Any) -> Evaluated:
        """Evaluate at points x (n, D), NumPy.

        Raises
        ------
        IntegrandError
        """
        if self.vectorised:
            try:
                return self._together(x)
            except IntegrandError as failure:
                if failure.nodes is None:
                    failure.nodes, failure.values = x[:0], _stacked([])
                raise
        done: list[Evaluated] = []
        for i in range(len(x)):
            try:
                done.append(self._together(x[i : i + 1]))
            except IntegrandError as failure:
                failure.nodes, failure.values = x[:i], _stacked([e.values for e in done])
                raise
        slopes = None if self.gradient is None else np.concatenate([e.slopes for e in done])
        return Evaluated(np.concatenate([e.values for e in done]), slopes)

    def log_weights(self, x: Any) -> Any:
        """Return the logarithms of the factor at x, (n,)."""
        assert self.log_weight is not None  # asked for only where there is one
        with as_the_user_has_it():
            weights = self.log_weight(self._handed(x))
        return np.asarray(to_numpy(weights), dtype=float).reshape(-1)

    def _handed(self, x: Any) -> Array:
        return as_like(x, self.like) if is_torch(self.like) else x

    def _together(self, x: Any) -> Evaluated:
        values, slopes = self._called(x)
        values = _checked(values, x, self.logarithmic)
        if self.non_negative and not self.logarithmic:
            _refuse_negative(values, x)
        try:
            if slopes is not None:
                slopes = _checked_slopes(slopes, x, values.shape[1])
            weighted = values if self.log_weight is None else self._weighted(values, x)
        except IntegrandError as failure:
            failure.nodes, failure.values = x, values
            raise
        return Evaluated(weighted, slopes)

    def _weighted(self, values: Any, x: Any) -> Any:
        logs = self.log_weights(x)
        if logs.shape != (len(x),) or np.any(np.isnan(logs)) or np.any(logs == np.inf):
            raise IntegrandError(
                f"the log density returned {logs!r:.200} at {len(x)} points: it has to return one number "
                "for each, finite or -inf"
            )
        return values + logs[:, None] if self.logarithmic else values * np.exp(logs)[:, None]

    def _called(self, x: Any) -> tuple[Any, Any]:
        argument = self._handed(x) if self.vectorised else self._handed(x)[0]
        try:
            with as_the_user_has_it():
                if self.gradient == "autodiff":
                    return _with_autodiff(self.function, argument, self.vectorised)
                values = self.function(argument)
                slopes = self.gradient(argument) if callable(self.gradient) else None
        except Exception as failure:
            where = (
                f"x = {x[0].tolist()}" if len(x) == 1 else f"one of {len(x)} points, first {x[0].tolist()}"
            )
            point = x[0] if len(x) == 1 else None
            raise IntegrandError(
                f"the integrand raised {type(failure).__name__} at {where}: {failure}", point
            ) from failure
        if not self.vectorised:
            values = np.asarray(to_numpy(values), dtype=float)[None]
            slopes = None if slopes is None else np.asarray(to_numpy(slopes), dtype=float)[None]
        return values, slopes


def _with_autodiff(function: Callable[[Array], Array], x: Array, vectorised: bool) -> tuple[Any, Any]:
    import torch

    points = torch.as_tensor(x)
    points = (points if vectorised else points[None]).detach().clone().requires_grad_()
    with torch.enable_grad():
        values = function(points if vectorised else points[0])
        values = values if vectorised else values[None]
        columns = values.reshape(len(points), -1)
        slopes = [
            torch.autograd.grad(columns[:, o].sum(), points, retain_graph=True)[0]
            for o in range(columns.shape[1])
        ]
    return values.detach(), torch.stack(slopes, dim=1)


def _checked(values: Any, x: Any, logarithmic: bool) -> Any:
    try:
        array = np.asarray(to_numpy(values))
        if np.iscomplexobj(array):
            raise TypeError("complex numbers")
        array = array.astype(float)
    except (TypeError, ValueError) as failure:
        raise IntegrandError(f"the integrand returned {values!r:.200}: give real numbers") from failure
    if array.ndim not in (1, 2) or array.shape[0] != len(x) or array.size == 0:
        hint = " (if it takes one point at a time, pass vectorised=False)" if len(x) > 1 else ""
        raise IntegrandError(
            f"the integrand returned shape {array.shape} for {len(x)} points, the first of which is "
            f"{x[0].tolist()}: it has to return ({len(x)},) or ({len(x)}, o){hint}",
            x[0],
        )
    array = array.reshape(len(x), -1)
    fine = (np.isfinite(array) | (array == -np.inf)) if logarithmic else np.isfinite(array)
    fine = fine.all(axis=1)
    if not fine.all():
        bad = int(np.flatnonzero(~fine)[0])
        raise IntegrandError(
            f"the integrand is {array[bad].tolist()} at x = {x[bad].tolist()}: it has to be finite"
            + (" or -inf" if logarithmic else ""),
            x[bad],
            x[fine],
            array[fine],
        )
    return array


def _refuse_negative(values: Any, x: Any) -> None:
    fine = (values >= 0).all(axis=1)
    if fine.all():
        return
    bad = int(np.flatnonzero(~fine)[0])
    raise IntegrandError(
        f"the integrand is {float(values[bad].min()):.6g} at x = {x[bad].tolist()}: WSABI models a square, "
        "so it has to be non-negative; use method 'bq'",
        x[bad],
        x[fine],
        values[fine],
    )


def _checked_slopes(slopes: Any, x: Any, outputs: int) -> Any:
    array = np.asarray(to_numpy(slopes), dtype=float)
    n, dimension = x.shape
    if array.shape == (n, dimension) and outputs == 1:
        array = array[:, None, :]
    if array.shape != (n, outputs, dimension):
        raise IntegrandError(
            f"the gradient has shape {array.shape} for {n} points and {outputs} outputs: it has to be "
            f"({n}, {dimension}) or ({n}, {outputs}, {dimension})"
        )
    fine = np.isfinite(array).all(axis=(1, 2))
    if not fine.all():
        bad = int(np.flatnonzero(~fine)[0])
        raise IntegrandError(f"the gradient is not finite at x = {x[bad].tolist()}", x[bad])
    return np.swapaxes(array, 1, 2)


def _stacked(parts: list[Any]) -> Any:
    return np.concatenate(parts) if parts else np.zeros((0, 1))
