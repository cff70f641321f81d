"""`from_torch`: a torch module whose parameters are those of the model, and whose call is the log joint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bqvi.calls.function import VectorLayout
from bqvi.calls.target_model import TargetModel

if TYPE_CHECKING:
    import torch


def from_torch(
    module: torch.nn.Module,
    *args: Any,
    start: Any = None,
    plausible_lower: Any = None,
    plausible_upper: Any = None,
    **kwargs: Any,
) -> TargetModel:
    """The log joint that a torch module computes, as a function of the module's parameters.

    Parameters
    ----------
    module : ``module(*args, **kwargs)`` returns the log joint, a tensor of one number, at its parameters,
        which are float64 and unconstrained. Those with ``requires_grad=False`` stay as they are; the module
        itself is not changed.
    args, kwargs : the arguments of the call, such as the data.
    start : the point (D,) where a run begins; by default the values of the parameters.
    plausible_lower, plausible_upper : the ends of the plausible box, (D,) or a number; by default 2 to either
        side of ``start``.

    Returns
    -------
    TargetModel
        The model, with torch's names and order of the parameters.

    Raises
    ------
    TypeError, ValueError
        ``module`` is no module, has no free parameters, or is not in float64.

    Examples
    --------
    >>> import bqvi
    >>> import torch
    >>> class Normal(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.theta = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))
    ...
    ...     def forward(self, centre):
    ...         return -0.5 * ((self.theta - centre) ** 2).sum()
    >>> fit = bqvi.fit(bqvi.adapters.from_torch(Normal(), 1.0), method="bq", budget=20, seed=0)
    >>> print(fit.posterior.mean.round(2))
    [1. 1.]
    """
    import torch

    if not isinstance(module, torch.nn.Module):
        raise TypeError(
            f"module is {module!r:.100}; it must be a torch.nn.Module. A torch function of theta (L, D) is a "
            "bqvi.models.LogJoint"
        )
    free = {name: x for name, x in module.named_parameters() if x.requires_grad}
    if not free:
        raise ValueError("module has no parameters with requires_grad; the model has nothing to infer")
    other = [name for name, x in free.items() if x.dtype != torch.float64]
    if other:
        raise ValueError(f"{other[0]} is {free[other[0]].dtype}; give the module in float64: module.double()")
    layout = VectorLayout({name: tuple(x.shape) for name, x in free.items()})
    called = _Module(module, layout, args, kwargs)
    values = np.concatenate([x.detach().cpu().numpy().reshape(-1) for x in free.values()])
    return TargetModel(
        log_joint=called.value,
        names=layout.names,
        log_joint_and_gradient=called.value_and_gradient,
        start=values if start is None else start,
        plausible_lower=plausible_lower,
        plausible_upper=plausible_upper,
        to_named=layout.parted,
        from_named=layout.joined,
        package=f"torch {torch.__version__}",
    )


class _Module:
    """A module as a function of its free parameters in one vector (D,)."""

    def __init__(self, module: torch.nn.Module, layout: VectorLayout, args: Any, kwargs: Any) -> None:
        self.module, self.layout, self.args, self.kwargs = module, layout, args, kwargs
        self.like = next(module.parameters()).detach()

    def value(self, theta: np.ndarray) -> float:
        """The log joint at theta (D,)."""
        import torch

        with torch.no_grad():
            return float(self._log_joint(self.like.new_tensor(theta)))

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The log joint and its gradient (D,) at theta (D,)."""
        from bqvi.calls.autodiff import differentiated

        found = differentiated(self._log_joint, theta[None], self.like, vectorised=False)
        return float(found.returned), found.gradients[0, 0]

    def _log_joint(self, theta: torch.Tensor) -> torch.Tensor:
        import torch

        value: torch.Tensor = torch.func.functional_call(
            self.module, self.layout.parted(theta), self.args, self.kwargs
        )
        if value.numel() != 1:
            raise TypeError(
                f"the module returned a tensor of shape {tuple(value.shape)}; it must return the log joint, "
                "one number"
            )
        return value.reshape(())
