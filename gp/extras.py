"""Packages that only some functions need; where one is missing, the error says what to install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_EXTRAS = {
    "arviz": ("h5netcdf", "h5py", "xarray"),
    "botorch": ("botorch", "gpytorch", "linear_operator"),
    "numpyro": ("jax", "numpyro"),
    "plot": ("matplotlib",),
    "pymc": ("pymc",),
    "ray": ("ray",),
    "sklearn": ("sklearn",),
    "stan": ("bridgestan", "httpstan"),
    "torch": ("torch",),
}


@contextmanager
def needing() -> Iterator[None]:
    """A context for imports of packages that belong to an extra, as in ``pip install "bqvi[plot]"``.

    Raises
    ------
    ImportError
        Where such a package is not installed; the message names the package and the extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        for extra, packages in _EXTRAS.items():
            if package in packages:
                raise ImportError(
                    f'this needs {package}, which is not installed: pip install "bqvi[{extra}]"', name=package
                ) from None
        raise
