"""The peak memory of this process alone.

`getrusage` does not measure it on Linux: a process starts with the peak of the process that started it (the
counter survives exec), so that the peak of a large parent is reported for its child.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")
_FIELD = "VmHWM:"


def peak() -> float:
    """Return the largest resident set since the program was loaded, in MiB."""
    if _STATUS.exists():
        lines = _STATUS.read_text().splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith(_FIELD))) / 2**10
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
