"""`from_jax`: a log joint written in JAX; and the compilation of such functions for batches of points.

Value and gradient are one compiled call. A batch is padded to a power of two, so that few sizes have to be
compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bqvi.adapters.variables import Compiled
from bqvi.calls.function import VectorLayout, by_name, in_order, names_of
from bqvi.calls.target_model import TargetModel
from gp.arrays import shown
from gp.names import needing


def from_jax(
    log_joint: Callable[..., Any],
    start: Any = None,
    *,
    plausible_lower: Any = None,
    plausible_upper: Any = None,
) -> TargetModel:
    """A log joint written in JAX, over unconstrained parameters, with its gradient by JAX.

    Parameters
    ----------
    log_joint : a function of theta (P,), or of the parameters by name, that JAX can trace, and which returns
        one number. JAX has to be in float64.
    start : the point (P,) where a run begins, by default the middle of the plausible box; or a dict of
        numbers and arrays, which gives the parameters their names.
    plausible_lower, plausible_upper : the ends of the plausible box, (P,), a number or a dict; by default 2
        to either side of ``start``.

    Returns
    -------
    TargetModel
        The model, whose variables are the entries of the dict.

    Raises
    ------
    ImportError
        JAX is not installed: the extra ``jax``.
    TypeError, ValueError
        ``log_joint`` is no function that JAX can trace and differentiate, does not return one number in
        float64, or takes other names; JAX is in float32, or nothing says how many parameters there are.
    """
    with needing():
        import jax
    require_double()
    given = {"plausible_lower": plausible_lower, "plausible_upper": plausible_upper, "start": start}
    titles, found = in_order(given)
    sizes = [np.size(x) for x in found.values() if np.ndim(x)]
    if not sizes:
        raise ValueError(f"start is {start}: give it, or an end of the plausible box, as a vector or a dict")
    titles = titles or names_of(None, sizes[0])
    layout, model = VectorLayout.of(titles), Jitted(by_name(log_joint, titles))
    try:
        point = jax.ShapeDtypeStruct((len(titles),), np.float64)
        value, _ = jax.eval_shape(jax.value_and_grad(model.log_joint), point)
        if value.dtype != np.float64:
            raise TypeError(f"it returns {value.dtype}")
    except Exception as error:
        raise TypeError(
            f"log_joint is {shown(log_joint)}; it must be a function of {', '.join(layout.shapes)}, or of an "
            f"array, in JAX throughout, that returns a number in float64: {str(error).splitlines()[0]}"
        ) from error
    return TargetModel(
        log_joint=model.value,
        names=titles,
        log_joint_and_gradient=model.value_and_gradient,
        vectorised=True,
        to_named=layout.parted,
        from_named=layout.joined,
        package=f"JAX {jax.__version__}",
        **found,
    )


def require_double() -> None:
    """Raise ValueError unless JAX computes in double precision."""
    import jax

    if not jax.config.jax_enable_x64:
        raise ValueError(
            "JAX computes in float32, in which a log density has errors of .001 to 1; set "
            'jax.config.update("jax_enable_x64", True), or numpyro.enable_x64(), or the environment variable '
            "JAX_ENABLE_X64=1, before JAX is first used"
        )


@dataclass(frozen=True, eq=False)
class Jitted(Compiled):
    """A ``log_joint`` of theta (P,) in JAX as functions of theta (n, P), compiled when first called."""

    log_joint: Callable[..., Any]

    def value(self, theta: np.ndarray) -> np.ndarray:
        """The log joint at theta (n, P), (n,)."""
        return np.asarray(self._value(padded(theta)))[: len(theta)]

    def value_and_gradient(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The log joint (n,) and its gradients (n, P) at theta (n, P)."""
        values, gradients = self._both(padded(theta))
        return np.asarray(values)[: len(theta)], np.asarray(gradients)[: len(theta)]

    @cached_property
    def _value(self) -> Any:
        return batched(self.log_joint)

    @cached_property
    def _both(self) -> Any:
        import jax

        return batched(jax.value_and_grad(self.log_joint))


def batched(function: Callable[..., Any]) -> Any:
    """A function of one point as a compiled one of many; ValueError where JAX computes in float32."""
    import jax

    require_double()
    return jax.jit(jax.vmap(function))


def padded(theta: np.ndarray) -> np.ndarray:
    """The parameters theta (n, P), with the first row repeated until the number of rows is a power of two."""
    theta = np.where(theta == 0.0, 1e-200 * np.sqrt(2.0 + np.arange(theta.shape[1])), theta)
    more = (1 << (len(theta) - 1).bit_length()) - len(theta)
    return np.concatenate([theta, np.repeat(theta[:1], more, axis=0)]) if more else theta
