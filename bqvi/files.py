"""Files of arrays with a JSON header, without pickles: the format of every saved run and posterior."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def unwritable(folder: Path) -> str:
    """Why no file can be made in the ``folder``; "" where one can, which is tried."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def write_arrays(
    path: str | Path,
    header: Mapping[str, Any],
    arrays: Mapping[str, Any],
    compressed: bool = True,
) -> None:
    """Write an .npz atomically: an interrupted write leaves the previous file as it was.

    Parameters
    ----------
    header : what JSON can hold; stored as the array "header".
    arrays : name -> array without objects; none is called "header" or "allow_pickle".
    compressed : whether the arrays are packed, which takes less space and more time.
    """
    text = json.dumps(header)
    target = Path(path)
    temporary = target.with_name(target.name + ".part")
    write = np.savez_compressed if compressed else np.savez
    with temporary.open("wb") as file:
        write(file, allow_pickle=False, header=np.array(text), **arrays)
    os.replace(temporary, target)
