"""An acquisition as a BoTorch ``AcquisitionFunction``, which ``optimize_acqf`` maximises.

With a torch posterior, autograd differentiates the formulas; with a NumPy posterior the closed-form gradient
is passed to autograd (and cannot be differentiated again). The function's value is the score, the logarithm
where the criterion is positive, as for BoTorch's ``Log...`` functions.

Points are evaluated one at a time (q = 1). For batches, ``optimize_acqf(..., q=q, sequential=True)`` sets
pending points, on which the acquisition conditions with its own mean as values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from botorch.acquisition.acquisition import AcquisitionFunction

from acquisition.pointwise.acquisition import Acquisition, MarginalAcquisition
from gp.arrays import as_like, is_torch
from gp.interop import as_botorch_model

__all__ = ["PointwiseAcquisitionFunction"]


class PointwiseAcquisitionFunction(AcquisitionFunction):
    """The score of an :class:`Acquisition` at points X (..., 1, D), shape (...)."""

    def __init__(self, acquisition: Acquisition | MarginalAcquisition) -> None:
        super().__init__(model=as_botorch_model(acquisition.posterior))
        self.acquisition = acquisition
        self._given_all = acquisition
        super().set_X_pending(None)
        self._log = acquisition.criterion.logarithmic

    def set_X_pending(self, X_pending: torch.Tensor | None = None) -> None:
        """Condition on points (m, D) whose values are pending; ``None`` removes them."""
        super().set_X_pending(X_pending)
        if X_pending is None or X_pending.shape[0] == 0:
            self._given_all = self.acquisition
            return
        points = as_like(X_pending.detach(), self.acquisition.posterior.x)
        self._given_all = self.acquisition.given(points)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return the score at X (..., 1, D), (...); raises ValueError for q > 1 points together."""
        if X.shape[-2] != 1:
            raise ValueError(
                f"X has shape {tuple(X.shape)}, q = {X.shape[-2]} points together: give "
                "(..., 1, D), or sequential=True to optimize_acqf"
            )
        points = X.reshape(-1, X.shape[-1])
        score: torch.Tensor = self._score(points, self._given_all)
        return score.reshape(X.shape[:-2])

    @property
    def _score(self) -> Callable[[torch.Tensor, Any], torch.Tensor]:
        if is_torch(self.acquisition.posterior.x):
            return lambda points, acquisition: acquisition.score(points)
        closed_form: Any = _ClosedForm
        return closed_form.apply


class _ClosedForm(torch.autograd.Function):
    """A NumPy score with its closed-form gradient, as one node of a torch graph."""

    @staticmethod
    def forward(
        ctx: Any, points: torch.Tensor, acquisition: Acquisition | MarginalAcquisition
    ) -> torch.Tensor:
        x = as_like(points.detach(), acquisition.posterior.x)
        if ctx.needs_input_grad[0]:
            score, gradient = acquisition.score_and_gradient(x)
            ctx.save_for_backward(as_like(gradient, points))
        else:
            score = acquisition.score(x)
        value: torch.Tensor = as_like(score, points)
        return value.detach()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *upstream: Any) -> tuple[torch.Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return upstream[0][:, None] * gradient, None
