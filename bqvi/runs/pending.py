"""Pending points, which were chosen and have no values yet, matched with evaluated points."""

from __future__ import annotations

import numpy as np


def matched(pending: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each of the points (n, D) its row in ``pending`` (m, D), and which rows remain, (m,).

    Points are compared to the last digit; of equal rows each is matched once. A point that is not pending
    has the row -1.
    """
    waiting: dict[bytes, list[int]] = {}
    for i, row in enumerate(pending):
        waiting.setdefault(row.tobytes(), []).append(i)
    rows = np.array([_next(waiting, point) for point in points], dtype=int)
    left = np.ones(len(pending), dtype=bool)
    left[rows[rows >= 0]] = False
    return rows, left


def _next(waiting: dict[bytes, list[int]], point: np.ndarray) -> int:
    found = waiting.get(point.tobytes())
    return found.pop(0) if found else -1
