"""BoTorch's transforms of inputs and outcomes that are affine, as maps, and chains of them.

``AffineInputTransform`` and its kinds take x to (x - offset) / coefficient, in some columns or all;
``Standardize`` takes y to (y - mean) / standard deviation. Others cannot be folded into a kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from botorch.models.transforms.input import (
    AffineInputTransform,
    ChainedInputTransform,
    InputStandardize,
    Normalize,
)
from botorch.models.transforms.outcome import Standardize

from gp.arrays import to_numpy
from gp.interop.fitted_models import InputMap, OutputMap

_AFFINE = (Normalize, InputStandardize, AffineInputTransform)


def input_map(transform: Any, dimension: int) -> InputMap | None:
    """Return an input transform (or ``None``) as a map of points with D = ``dimension`` columns.

    Raises TypeError for a transform that is not affine, ValueError for a batch of transforms or one
    that is switched off at training or at prediction.
    """
    if transform is None:
        return None
    if type(transform) is ChainedInputTransform:
        offset, scale = np.zeros(dimension), np.ones(dimension)
        for step in (input_map(part, dimension) for part in transform.values()):
            if step is not None:
                offset, scale = offset + scale * step.offset, scale * step.scale
        return InputMap(offset, scale)
    if type(transform) not in _AFFINE:
        raise TypeError(
            f"input_transform is a {type(transform).__name__}: only affine ones can be folded into "
            f"a kernel: {', '.join(kind.__name__ for kind in _AFFINE)}, and a "
            "ChainedInputTransform of these"
        )
    if not (transform.transform_on_train and transform.transform_on_eval):
        raise ValueError(
            f"input_transform is a {type(transform).__name__} that is switched off in training or "
            "in evaluation: the model then compares points in different units"
        )
    return _affine(transform, dimension)


def output_map(transform: Any) -> OutputMap:
    """Return an outcome transform (or ``None``) of one output as a map.

    Raises TypeError for any but ``Standardize``.
    """
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
