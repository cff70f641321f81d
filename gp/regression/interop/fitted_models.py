"""Kernels and fitted models of GPyTorch and BoTorch as kernels and posteriors of this package.

GPyTorch's kernels have no variance, which a ``ScaleKernel`` around them adds; its periodic kernel divides
sin^2 by the lengthscale, that of this package by its square (Rasmussen & Williams 2006, Eq. 4.31). A
``ScaleKernel`` takes over the active dimensions of the kernel it scales, which then count once, not twice.

An exact GP consists of a mean, a kernel, a noise and data, on which a process of this package is conditioned.
As the ``forward`` of a model may return something else than the values of its mean and covariance modules, it
is compared with the converted prior at some of the training inputs. BoTorch's transforms are folded in where
they are affine: ``AffineInputTransform`` and its kinds take x to (x - offset) / coefficient, in some columns
or all, and ``Standardize`` takes y to (y - mean) / standard deviation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from operator import add, mul
from typing import Any, NamedTuple

import numpy as np
import torch
from gpytorch import kernels as theirs
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from gpytorch.means import ConstantMean, LinearMean, ZeroMean
from gpytorch.models import ExactGP

from gp import kernels as ours
from gp.arrays import Array, to_numpy
from gp.kernels.base import Kernel, Parameter
from gp.kernels.parameters import scaled
from gp.means import Constant, Linear, Mean, Zero
from gp.regression.posterior import Posterior, condition

_POINTS_COMPARED = 32
"""Training inputs at which the converted prior is compared with the one of ``forward``."""


def posterior_of_gpytorch(model: Any) -> Posterior:
    """See ``gp.regression.interop.from_gpytorch``."""
    _require_one_exact_gp(model)
    for name in ("input_transform", "outcome_transform"):
        if getattr(model, name, None) is not None:
            raise TypeError(f"model has an {name}, as BoTorch's have: use from_botorch(model)")
    return _posterior(model, model.train_inputs[0], None, OutputMap())


def posterior_of_botorch(model: Any) -> Posterior:
    """See ``gp.regression.interop.from_botorch``."""
    import botorch  # noqa: F401  a missing package is named before the model is looked at

    _require_one_exact_gp(model)
    outputs = _output_map(getattr(model, "outcome_transform", None))
    transform = getattr(model, "input_transform", None)
    if transform is None:
        return _posterior(model, model.train_inputs[0], None, outputs)
    with _mode(model, training=True):  # in training mode BoTorch has the inputs as they were given
        x = model.train_inputs[0]
    return _posterior(model, x, _input_map(transform, x.shape[-1]), outputs)


def _posterior(model: Any, x: Any, inputs: InputMap | None, outputs: OutputMap) -> Posterior:
    kernel, mean = converted(model.covar_module), _converted_mean(model.mean_module)
    _require_plain_forward(model, kernel, mean)
    return condition(
        _kernel_in_units(kernel, inputs, outputs),
        _mean_in_units(mean, inputs, outputs),
        x.detach(),
        outputs.shift + outputs.factor * model.train_targets.detach(),
        outputs.factor**2 * _noise(model),
    )


def _require_one_exact_gp(model: Any) -> None:
    if not isinstance(model, ExactGP):
        raise TypeError(
            f"model is a {type(model).__name__}: give an exact GP (gpytorch.models.ExactGP, or "
            "BoTorch's SingleTaskGP); of a list of models, give one at a time"
        )
    if model.train_targets is None or len(model.train_inputs) != 1:
        raise ValueError("model has to have training data, with one tensor of inputs (n, D)")
    shape = tuple(model.train_targets.shape)
    if len(shape) != 1 or model.train_inputs[0].ndim != 2:
        raise ValueError(
            f"model has train_targets of shape {shape}, inputs of shape "
            f"{tuple(model.train_inputs[0].shape)}: give a model of one output, not a batch; of a "
            "BoTorch model with several outputs, take one: model.subset_output([0])"
        )
    for name in ("mean_module", "covar_module"):
        if not hasattr(model, name):
            raise TypeError(
                f"model has no `{name}`: its prior is looked for in `mean_module` and "
                "`covar_module`, the names GPyTorch's documentation gives them"
            )
    # older versions of BoTorch multiply by this kernel in `forward`, newer ones in `covar_module`
    if hasattr(model, "task_covar_module"):
        raise TypeError(
            f"model is a {type(model).__name__}, whose `task_covar_module` has no counterpart here: give a "
            "model of one task"
        )


_MEANS: dict[type, Callable[[Any], Mean]] = {
    ZeroMean: lambda mean: Zero(),
    ConstantMean: lambda mean: Constant(values_of(mean.constant)),
    LinearMean: lambda mean: Linear(
        0.0 if mean.bias is None else values_of(mean.bias), values_of(mean.weights)
    ),
}


def _converted_mean(mean: Any) -> Mean:
    converter = _MEANS.get(type(mean))
    if converter is None:
        raise TypeError(
            f"mean_module is a {type(mean).__name__}, which has no counterpart here; there is one "
            f"for {', '.join(known.__name__ for known in _MEANS)}"
        )
    return converter(mean)


def _noise(model: Any) -> Array:
    """Return the noise variance of the model's outputs, a number or (n,)."""
    likelihood = model.likelihood
    if type(likelihood) not in (GaussianLikelihood, FixedNoiseGaussianLikelihood):
        raise TypeError(
            f"likelihood is a {type(likelihood).__name__}: give a model with a GaussianLikelihood "
            "or a FixedNoiseGaussianLikelihood"
        )
    noise = likelihood.noise.detach().reshape(-1)
    if type(likelihood) is GaussianLikelihood:
        return float(noise)
    return noise.expand(model.train_targets.shape[0])


def _require_plain_forward(model: Any, kernel: Kernel, mean: Mean) -> None:
    """Raise TypeError unless ``forward`` is the prior that was converted."""
    with _mode(model, training=False), torch.no_grad():
        x = model.train_inputs[0][:_POINTS_COMPARED]
        prior = model.forward(x)
        of_forward = to_numpy(prior.covariance_matrix), to_numpy(prior.mean)
    converted_prior = to_numpy(kernel(x, x)), to_numpy(mean(x))
    # GPyTorch computes distances from |x|^2 + |y|^2 - 2 x.y, which loses half of the digits or more where
    # points are many lengthscales apart; a different prior differs by much more than this tolerance
    tolerance = torch.finfo(x.dtype).eps ** (1 / 3)
    for name, a, b in zip(("covariance", "mean"), of_forward, converted_prior, strict=True):
        scale = max(float(np.max(np.abs(b), initial=0.0)), np.finfo(float).tiny)
        if not float(np.max(np.abs(a - b), initial=0.0)) <= tolerance * scale:
            raise TypeError(
                f"model.forward(x) has another {name} than `covar_module` and `mean_module` have "
                "at x: a model that changes its inputs or adds terms in `forward` cannot be taken"
            )


@contextmanager
def _mode(model: Any, training: bool) -> Iterator[None]:
    """Put the model in training or evaluation mode for a while."""
    before = model.training
    if before == training:
        yield
        return
    model.train(training)
    try:
        yield
    finally:
        model.train(before)


class InputMap(NamedTuple):
    """x' = (x - offset) / scale; both (D,) in NumPy, scale not zero. ``None`` is no change."""

    offset: Any
    scale: Any


class OutputMap(NamedTuple):
    """y' = (y - shift) / factor."""

    shift: float = 0.0
    factor: float = 1.0


def _kernel_in_units(kernel: Kernel, inputs: InputMap | None, outputs: OutputMap) -> Kernel:
    """k(x, x2) = factor^2 k'(x', x2'): each parameter times the scale to the power of its input unit."""
    if inputs is not None:
        kernel = kernel.with_parameters([_mapped(p, inputs) for p in kernel.parameters()])
    return kernel if outputs.factor == 1.0 else scaled(kernel, outputs.factor**2)


def _mean_in_units(mean: Mean, inputs: InputMap | None, outputs: OutputMap) -> Mean:
    """m(x) = shift + factor m'(x'), m' a zero, constant or linear mean."""
    shift, factor = outputs
    if isinstance(mean, Linear):
        slope, intercept = factor * mean.slope, shift + factor * mean.intercept
        if inputs is not None:
            slope = slope / inputs.scale
            intercept = intercept - float(np.sum(slope * inputs.offset))
        return Linear(intercept, slope)
    value = mean.value if isinstance(mean, Constant) else 0.0
    if isinstance(mean, Zero) and shift == 0.0:
        return mean
    return Constant(shift + factor * value)


def _mapped(parameter: Parameter, inputs: InputMap) -> Array:
    """Return the parameter's value for x from that for x'."""
    if parameter.input_power == 0:
        return parameter.value
    seen = slice(None) if parameter.columns is None else list(parameter.columns)
    scale, offset = inputs.scale[seen], inputs.offset[seen]
    if parameter.kind == "location":
        return offset + scale * parameter.value
    return np.abs(scale) ** parameter.input_power * parameter.value


def _input_map(transform: Any, dimension: int) -> InputMap | None:
    """Return an input transform (or ``None``) as a map of points with D = ``dimension`` columns.

    Raises TypeError for a transform that is not affine, ValueError for a batch of transforms or one
    that is switched off at training or at prediction.
    """
    from botorch.models.transforms import input as transforms

    affine = (transforms.Normalize, transforms.InputStandardize, transforms.AffineInputTransform)
    if transform is None:
        return None
    if type(transform) is transforms.ChainedInputTransform:
        offset, scale = np.zeros(dimension), np.ones(dimension)
        for step in (_input_map(part, dimension) for part in transform.values()):
            if step is not None:
                offset, scale = offset + scale * step.offset, scale * step.scale
        return InputMap(offset, scale)
    if type(transform) not in affine:
        raise TypeError(
            f"input_transform is a {type(transform).__name__}: only affine ones can be folded into "
            f"a kernel: {', '.join(kind.__name__ for kind in affine)}, and a "
            "ChainedInputTransform of these"
        )
    if not (transform.transform_on_train and transform.transform_on_eval):
        raise ValueError(
            f"input_transform is a {type(transform).__name__} that is switched off in training or "
            "in evaluation: the model then compares points in different units"
        )
    return _affine(transform, dimension)


def _output_map(transform: Any) -> OutputMap:
    """Return an outcome transform (or ``None``) of one output as a map.

    Raises TypeError for any but ``Standardize``.
    """
    from botorch.models.transforms.outcome import Standardize

    if transform is None:
        return OutputMap()
    if type(transform) is not Standardize:
        raise TypeError(
            f"outcome_transform is a {type(transform).__name__}: only Standardize can be folded "
            "in; after another one the outcome is not Gaussian in the units it was given in"
        )
    return OutputMap(_single(transform.means), _single(transform.stdvs))


def _affine(transform: Any, dimension: int) -> InputMap:
    coefficient, start = to_numpy(transform.coefficient), to_numpy(transform.offset)
    if coefficient.size != coefficient.shape[-1]:
        raise ValueError(
            f"input_transform has batch shape {tuple(coefficient.shape[:-2])}: give a model with "
            "one transform for all points"
        )
    offset, scale = np.zeros(dimension), np.ones(dimension)
    indices = getattr(transform, "indices", None)
    columns = slice(None) if indices is None else to_numpy(indices)
    offset[columns], scale[columns] = start.reshape(-1), coefficient.reshape(-1)
    return InputMap(-offset / scale, 1 / scale) if transform.reverse else InputMap(offset, scale)


def _single(values: Any) -> float:
    host = to_numpy(values)
    if host.size != 1:
        raise ValueError(f"outcome_transform has {host.size} outputs: give a model with one")
    return float(host.reshape(-1)[0])


_MATERN: dict[float, Callable[[Array], Kernel]] = {0.5: ours.Matern12, 1.5: ours.Matern32, 2.5: ours.Matern52}
"""Kernels by the order nu of GPyTorch's ``MaternKernel``."""


def converted(kernel: Any) -> Kernel:
    """Return a GPyTorch kernel as one of this package; see ``gp.regression.interop.from_gpytorch_kernel``."""
    found = _on_all_columns(kernel)
    if kernel.active_dims is None:
        return found
    return ours.Columns(found, tuple(kernel.active_dims.tolist()))


def values_of(tensor: Any) -> Array:
    """Return a parameter as a number, or (D,) in NumPy: a copy that serves any kind of points."""
    host = to_numpy(tensor).astype(float).reshape(-1)
    return float(host[0]) if host.size == 1 else host


def _on_all_columns(kernel: Any) -> Kernel:
    converter = _CONVERTERS.get(type(kernel))
    if converter is None:
        raise TypeError(
            f"kernel is a {type(kernel).__name__}, which has no counterpart here. There is one for "
            f"{', '.join(known.__name__ for known in _CONVERTERS)}; their subclasses may compute "
            "something else and are not taken"
        )
    if kernel.batch_shape:
        raise ValueError(
            f"kernel is a batch of {type(kernel).__name__}s, batch_shape = "
            f"{tuple(kernel.batch_shape)}: give one kernel at a time, such as kernel[0]"
        )
    return converter(kernel)


_CONVERTERS: dict[type, Callable[[Any], Kernel]] = {
    theirs.RBFKernel: lambda k: ours.SquaredExponential(values_of(k.lengthscale)),
    theirs.MaternKernel: lambda k: _MATERN[k.nu](values_of(k.lengthscale)),
    theirs.RQKernel: lambda k: ours.RationalQuadratic(values_of(k.lengthscale), alpha=values_of(k.alpha)),
    theirs.PeriodicKernel: lambda k: ours.Periodic(
        np.sqrt(values_of(k.lengthscale)), values_of(k.period_length)
    ),
    theirs.LinearKernel: lambda k: ours.Linear(values_of(k.variance)),
    theirs.ConstantKernel: lambda k: ours.Constant(values_of(k.constant)),
    theirs.ScaleKernel: lambda k: scaled(_on_all_columns(k.base_kernel), values_of(k.outputscale)),
    theirs.AdditiveKernel: lambda k: reduce(add, map(converted, k.kernels)),
    theirs.ProductKernel: lambda k: reduce(mul, map(converted, k.kernels)),
}
