"""Derivatives by central differences, whose error is step^2 and the rounding of values over the step."""

import numpy as np


def central(function, x, step=1e-5):
    """The derivatives in the coordinates of x (..., D): an axis D after those of the function's values."""
    moves = step * np.eye(np.shape(x)[-1])
    return np.stack([(function(x + e) - function(x - e)) / (2.0 * step) for e in moves], axis=-1)
