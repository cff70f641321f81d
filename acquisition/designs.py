"""Points chosen before f is evaluated: scrambled Sobol points, and antithetic orthogonal frames."""

from __future__ import annotations

import numpy as np

from gp.arrays import Array, as_like
from gp.checks import require_integer
from gp.low_discrepancy import scrambled_sobol
from gp.measures import Measure, Seed


def sobol(measure: Measure, n: int, seed: Seed) -> Array:
    """Return n scrambled Sobol points, mapped to the measure, (n, D).

    Averages over them are unbiased for any n. Where n is a power of two the points are balanced, and the
    error is near 1/n for smooth integrands (Owen 1995). They are the first n of the next power of two.
    """
    require_integer("n", n, 1)
    cube = scrambled_sobol(measure.dimension, n, seed)
    return measure.from_unit_cube(as_like(cube, measure.mean))


def normal_frames(n: int, dimension: int, rng: np.random.Generator) -> np.ndarray:
    """Return n points, (n, D): random orthogonal frames with random lengths, and their mirror images.

    Each block is r_d q_d and -r_d q_d, d = 1..D, with q a random orthogonal matrix (Haar) and r_d independent
    chi_D lengths, so that each point is N(0, I) alone (Yu et al. 2016, "Orthogonal random features"). Each
    pair integrates odd functions exactly; for an odd n the last point has no mirror image.
    """
    blocks = []
    for _ in range(-(-n // (2 * dimension))):
        frame = random_rotation(dimension, rng)
        lengths = np.sqrt(rng.chisquare(dimension, size=dimension))
        points = lengths[:, None] * frame
        blocks.append(np.stack([points, -points], axis=1).reshape(-1, dimension))
    return np.concatenate(blocks)[:n]


def random_rotation(dimension: int, rng: np.random.Generator) -> np.ndarray:
    """A Haar-distributed orthogonal matrix (D, D): QR of normals, with the signs made unique."""
    q, r = np.linalg.qr(rng.standard_normal((dimension, dimension)))
    return q * np.sign(np.diagonal(r))
