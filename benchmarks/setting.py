"""The setting of a figure: the code's commit, the processor, versions and threads, in general terms."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

DEFAULT_THREADS = "--default-threads"
_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_PACKAGES = ("numpy", "scipy", "torch", "scikit-learn")
_PEERS = (
    "gpytorch", "botorch", "pyvbmc", "gpry", "dynesty", "emukit", "GPy", "gensim", "hmmlearn", "numba",
)  # fmt: skip
_LIBRARIES = ("gp", "acquisition", "bqvi")
_ROOT = Path(__file__).parents[1]


def one_thread() -> bool:
    """Whether one thread is measured; otherwise the machine's defaults, which a user has."""
    return os.environ.get(_VARIABLES[0]) == "1"


def limit_threads() -> None:
    """One thread for the libraries of linear algebra, before anything loads them."""
    for variable in _VARIABLES:
        os.environ.setdefault(variable, "1")


def limit_torch() -> None:
    """One thread for torch, where one is measured."""
    import torch

    if one_thread():
        torch.set_num_threads(1)


def clock() -> float:
    """Seconds of the processor where one thread is measured, of the wall otherwise."""
    return time.process_time() if one_thread() else time.perf_counter()


def processor() -> str:
    """The processor's name where the system reports one, its architecture otherwise."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def machine() -> dict[str, Any]:
    """Processor, cores, versions and threads."""
    packages = {name: version(name) for name in _PACKAGES}
    threads = {name: os.environ.get(name, "unset") for name in _VARIABLES}
    return {"processor": processor(), "cores": os.cpu_count(), "python": platform.python_version(),
            **packages, "threads": threads}  # fmt: skip


def commit() -> str:
    """Commit of the code, "+" where the libraries have changed since; "unknown" outside a repository."""
    try:
        name = _git("rev-parse", "--short", "HEAD")
        return name + ("+" if _git("status", "--porcelain", "--", *_LIBRARIES) else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def heading(names: list[str]) -> str:
    """The sentence above a table: the command, commit, day, processor, and versions of the packages."""
    installed = {name: found for name in (*_PACKAGES, *_PEERS) if (found := _version(name))}
    versions = ", ".join(f"{name} {found}" for name, found in installed.items())
    command = " ".join(["python -m benchmarks", *([] if one_thread() else [DEFAULT_THREADS]), *names])
    threads = "one thread" if one_thread() else f"default threads on {os.cpu_count()} cores"
    return (
        f"`{command}` at {commit()}, {datetime.now(UTC).date()}, {threads} of {processor()}, "
        f"Python {platform.python_version()}; {versions}."
    )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(_ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
