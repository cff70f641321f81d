"""Conversion from and to other packages: GPyTorch kernels, fitted GPyTorch and BoTorch models.

    in    from_gpytorch_kernel    a GPyTorch kernel as one of this package
          from_gpytorch           a fitted ``gpytorch.models.ExactGP`` as a posterior
          from_botorch            a fitted BoTorch model, its transforms folded in, as a posterior
    out   as_botorch_model        a posterior as a model that BoTorch's acquisition functions take

Torch, GPyTorch and BoTorch are imported when one of these functions is called, not before; the last two come
with the extra ``botorch``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from gp import kernels
from gp.arrays import shown
from gp.kernels.base import Kernel
from gp.names import did_you_mean, needing

if TYPE_CHECKING:
    from gp.regression.interop.botorch_model import PosteriorModel
    from gp.regression.marginal import MarginalPosterior
    from gp.regression.posterior import Posterior

__all__ = ["as_botorch_model", "as_kernel", "from_botorch", "from_gpytorch", "from_gpytorch_kernel"]


def from_gpytorch_kernel(kernel: Any) -> Kernel:
    """Return a kernel of this package with the present values of a GPyTorch kernel.

    Parameters
    ----------
    kernel : RBFKernel, MaternKernel, RQKernel, PeriodicKernel, LinearKernel, ConstantKernel,
        ScaleKernel, or sums and products of these, with one lengthscale or several and with or
        without ``active_dims``. Its parameters are copied: training it later changes nothing here.

    Raises
    ------
    TypeError
        For any other kernel, subclasses included (they may compute something else); the message
        lists the kernels that can be converted.
    ValueError
        For a batch of kernels.
    """
    with needing():
        from gp.regression.interop.fitted_models import converted

    return converted(kernel)


def from_gpytorch(model: Any) -> Posterior:
    """Return a fitted GPyTorch model as a posterior with the same mean and covariance.

    Parameters
    ----------
    model : ``gpytorch.models.ExactGP`` with its training data, a ``mean_module`` (zero, constant or
        linear), a ``covar_module`` that :func:`from_gpytorch_kernel` converts and a Gaussian
        likelihood with one noise variance or one for each observation.

    Returns
    -------
    gp.Posterior
        In torch, of the dtype and on the device of the training data. Noise is left out of its
        predictions, as from ``model(x)``; ``.noise`` holds the variance.

    Raises
    ------
    TypeError, ValueError
        For a model that is not of this kind, in particular where ``forward`` does not return the
        mean and covariance modules' values at the inputs it is given; for several outputs or a
        batch of models.
    """
    with needing():
        from gp.regression.interop.fitted_models import posterior_of_gpytorch

    return posterior_of_gpytorch(model)


def from_botorch(model: Any) -> Posterior:
    """Return a fitted BoTorch model as a posterior with the same mean and covariance.

    ``gp.from_botorch(model).integral(measure)`` is the integral under the model's posterior.

    Parameters
    ----------
    model : ``SingleTaskGP``, or another exact model of a single output as in :func:`from_gpytorch`.
        Input transforms that are affine (``Normalize``, ``InputStandardize``, chains of them) and
        the outcome transform ``Standardize`` are folded into kernel, mean and noise.

    Returns
    -------
    gp.Posterior
        In the units the data were given in; the rest as in :func:`from_gpytorch`.

    Raises
    ------
    TypeError, ValueError
        As :func:`from_gpytorch`; for any other transform.
    """
    with needing():
        from gp.regression.interop.fitted_models import posterior_of_botorch

        return posterior_of_botorch(model)


def as_botorch_model(posterior: Posterior | MarginalPosterior) -> PosteriorModel:
    """Return a posterior as a BoTorch model, for its acquisition functions and optimisers.

    Parameters
    ----------
    posterior : of values, derivatives or integrals. One in NumPy is taken to torch on the CPU; one
        in torch keeps its dtype and device, which the points given to the model have to share. A marginalised
        one predicts by the Gaussian with the mean and covariance of its mixture.

    Returns
    -------
    botorch.models.model.Model
        With one output. ``posterior(X)`` takes points (batch x q x D); gradients flow through X.
        Data and hyperparameters are constants.
    """
    with needing():
        from gp.regression.interop.botorch_model import PosteriorModel, as_tensors

    return PosteriorModel(as_tensors(posterior))


def as_kernel(kernel: Any) -> Kernel:
    """Return ``kernel`` if it is a kernel of this package, and convert it if it is GPyTorch's.

    Raises TypeError for anything else.
    """
    if isinstance(kernel, Kernel) and not isinstance(kernel, type):
        return kernel
    # a kernel of GPyTorch can only be given where the package has been imported
    gpytorch = sys.modules.get("gpytorch")
    if gpytorch is not None and isinstance(kernel, gpytorch.kernels.Kernel):
        return from_gpytorch_kernel(kernel)
    if isinstance(kernel, type):
        raise TypeError(f"kernel = {shown(kernel)}: give one of its kernels, {kernel.__name__}(...)")
    near = did_you_mean(kernel if isinstance(kernel, str) else type(kernel).__name__, kernels.__all__)
    raise TypeError(
        f"kernel = {shown(kernel)}: give a kernel, such as those of gp.kernels, or GPyTorch's{near}"
    )
