"""Files of arrays with a JSON header, without pickles: the format of every saved run and posterior."""

from __future__ import annotations

import errno
import json
import os
import tempfile
import threading
import zipfile
from collections.abc import Mapping
from contextlib import suppress
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

    Raises
    ------
    OSError
        The file cannot be written, as on a full disk; nothing is left of it, and the error names the path.
    """
    text = json.dumps(header)
    target = Path(path)
    # of its own for each thread and process, so that two runs with one path do not write into each other's
    temporary = target.with_name(f"{target.name}.{os.getpid()}-{threading.get_ident()}.part")
    write = np.savez_compressed if compressed else np.savez
    try:
        with temporary.open("wb") as file:
            write(file, allow_pickle=False, header=np.array(text), **arrays)
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise


def read_arrays(path: str | Path, what: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of a file that `write_arrays` wrote, each checked against its check sum.

    Parameters
    ----------
    what : what the file should hold, for messages: "run", "posterior".

    Raises
    ------
    ValueError
        The file is none of these, or damaged; the message says which.
    OSError
        The file cannot be opened.
    """
    arrays = _arrays(Path(path), what)
    try:
        header = json.loads(str(arrays.pop("header")))
    except (KeyError, ValueError):
        header = None
    if not isinstance(header, dict):
        raise ValueError(f"{path} is no saved {what}: it is an .npz file without a {what}'s header")
    return header, arrays


def _arrays(path: Path, what: str) -> dict[str, np.ndarray]:
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    if path.is_dir():
        raise ValueError(f"{path} is a folder, and no saved {what}")
    with path.open("rb") as file:
        first = file.read(4)
    if first[:2] != b"PK":
        raise ValueError(f"{path} is no saved {what}: it {'is no .npz file' if first else 'is empty'}")
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        if damaged is not None:
            raise ValueError(f"the check sum of {damaged} is wrong")
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    # zipfile and zlib raise many kinds of errors for bytes that were cut off or changed
    except Exception as error:
        # bz2 raises an OSError without errno; EINVAL, a seek outside of the file, means a damaged file
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        if isinstance(error, ValueError) and "allow_pickle" in str(error):
            raise ValueError(f"{path} is no saved {what}: it holds objects, not arrays only") from None
        raise ValueError(f"{path} is damaged, cut off or changed after it was written: {error}") from None
