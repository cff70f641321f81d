"""Cost against n for each operation of a posterior, with its slope: d log seconds / d log n."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.paired import Line, paired
from experiments.gp.cost import (
    OPERATIONS,
    SIZES,
    operations,
    slope,
)


def run() -> Iterator[Line]:
    """One line for each operation, D = 5. Slopes lie below the exponents as far as overheads still count."""
    seconds: dict[str, list[float]] = {name: [] for name in OPERATIONS}
    for n in SIZES:
        times = paired(operations(n), rounds=7, calls=5 if n <= 250 else 1)
        for name in OPERATIONS:
            seconds[name].append(times.median(name))
    for name, limit in OPERATIONS.items():
        found = slope(SIZES, seconds[name])
        costs = ", ".join(f"{s * 1e3:.3g}" for s in seconds[name])
        yield Line(
            f"{name}, n = {', '.join(map(str, SIZES))}",
            f"slope {found:.2f} (ms: {costs})",
            f"at most {limit:g} + 0.2 for the clock",
            found <= limit + 0.2,
        )
