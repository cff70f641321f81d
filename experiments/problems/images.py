"""Binary images: scikit-learn's digits, and MNIST of a folder.

A folder has ``mnist_5k.npz``, an .npz whose first array holds images (N, 28, 28) of integers from 0 to 255.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["FILE", "Images", "split"]

Images = NDArray[np.float32]
FILE = "mnist_5k.npz"
_TRAINING = {"digits": 1497, "mnist": 4000}
"""Images to train on; the others are held out."""


@cache
def split(name: str, folder: Path | None) -> tuple[Images, Images]:
    """Training and held-out images (N, pixels) of 0 and 1: a pixel is drawn once, by its grey.

    Parameters
    ----------
    name : "digits" or "mnist"
    folder : the folder of ``mnist_5k.npz``
    """
    rng = np.random.default_rng(0)
    grey = rng.permutation(_digits() if name == "digits" else _mnist(folder))
    binary = np.asarray(rng.random(grey.shape) < grey, np.float32)
    return binary[: _TRAINING[name]], binary[_TRAINING[name] :]


def _digits() -> NDArray[np.float64]:
    from sklearn.datasets import load_digits

    return np.asarray(load_digits().data, float) / 16.0


def _mnist(folder: Path | None) -> NDArray[np.float64]:
    assert folder is not None  # cases are listed only where a folder is given
    with np.load(folder / FILE) as stored:
        images = stored[stored.files[0]]
    return np.asarray(images.reshape(len(images), -1), float) / 255.0
