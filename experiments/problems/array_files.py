"""Files of arrays in a folder that a user names (--data DIR): the search for those with given arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path

import numpy as np

__all__ = ["DataFolderError", "checksum", "stored_names", "with_arrays"]


class DataFolderError(ValueError):
    """A folder or a file that is not in the required layout."""


def with_arrays(folder: Path, names: Collection[str]) -> list[Path]:
    """Return files with the arrays `names`, in the folder or one level below, sorted by name."""
    found = sorted([*folder.glob("*.npz"), *folder.glob("*/*.npz")], key=lambda path: path.stem)
    return [path for path in found if set(names) <= stored_names(path)]


def stored_names(path: Path) -> set[str]:
    """Return the names of the arrays in an .npz file.

    Raises
    ------
    DataFolderError
        If it cannot be read.
    """
    try:
        with np.load(path) as arrays:
            return set(arrays.files)
    except (OSError, ValueError, AttributeError) as error:
        raise DataFolderError(f"{path} is not a readable .npz file: {error}") from None


def checksum(path: Path) -> str:
    """Return the beginning of the file's SHA-256, which identifies the data."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
