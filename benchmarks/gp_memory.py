"""A fit at n = 2000, D = 5: the peak of a process that does nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.paired import Line, alone
from benchmarks.peak import peak as peak_now

LIMIT = 600.0


def run() -> Iterator[Line]:
    """Measure the peak of a process of its own, read off at its end."""
    imported, peak, seconds = alone(_measure)
    yield Line(
        "gp.fit at n = 2000, D = 5: peak memory of the process",
        f"{peak:.0f} MiB, of which {peak - imported:.0f} above the imports' peak ({seconds:.0f} s)",
        f"under {LIMIT:.0f} MiB",
        peak < LIMIT,
    )


def _measure() -> tuple[float, float, float]:
    import time

    import gp
    from experiments.problems.simulated_regression import simulated

    x, y = simulated(2000, 5)
    imported, began = peak_now(), time.perf_counter()
    gp.fit(x, y)
    return imported, peak_now(), time.perf_counter() - began
