"""Nodes at which the moments of the gradient have the least variance under the prior process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import numpy as np
import scipy.optimize

from bqvi.arguments import Above, AtLeast, Checked
from bqvi.gradients.designs import Informed, normal_frames, random_rotation
from bqvi.gradients.gradient_process import GradientProcess, SeparableKernel
from bqvi.gradients.settings import DESIGN, SEARCH


@dataclass(frozen=True)
class Optimised(Checked):
    """A minimum-variance design of n nodes for the prior process, rotated at random and blurred at each use.

    The functionals' variance does not depend on the observations, nor on rotations, so the design is found
    once for each n and D. For n = 2 D it is D orthogonal pairs u, -u of equal lengths, on which *every* odd
    function is linear. Neither the evidence nor leave-one-out residuals detect this, and where y is odd (a
    logistic regression at theta = 0) standard errors are a hundred times too small. Random numbers are
    therefore added to the nodes.

    Parameters
    ----------
    lengthscale : lengthscale of the kernel, in units of sqrt(D); by default the centre of its prior
    blur : >= 0, standard deviation of the random numbers that are added to each node; with 0 errors are
        smallest, and for n = 2 D standard errors may be too small
    """

    lengthscale: Annotated[float, Above(0.0)] = SEARCH.length
    blur: Annotated[float, AtLeast(0.0)] = DESIGN.blur

    def nodes(
        self, n: int, dimension: int, rng: np.random.Generator, process: Informed | None = None
    ) -> np.ndarray:
        """Nodes (n, D), D being ``dimension``, rotated and moved by ``rng``; the ``process`` is not used."""
        fixed = _minimum_variance(n, dimension, self.lengthscale * np.sqrt(dimension))
        nodes: np.ndarray = fixed @ random_rotation(dimension, rng)
        return nodes + self.blur * rng.standard_normal((n, dimension))


@lru_cache(maxsize=64)
def _minimum_variance(n: int, dimension: int, lengthscale: float) -> np.ndarray:
    """Nodes at a local minimum of the functionals' variance under the prior process, (n, D)."""
    kernel = SeparableKernel(lengthscale, SEARCH.part, SEARCH.part)
    first = normal_frames(n, dimension, np.random.default_rng(n * 1000 + dimension))

    def objective(flat: np.ndarray) -> float:
        known = GradientProcess.of(flat.reshape(n, dimension), np.ones((n, 1)), kernel).whitened
        return -float(np.square(known).sum() + (dimension - 1.0) * np.square(known[:, 0]).sum())

    found = scipy.optimize.minimize(objective, first.ravel(), method="L-BFGS-B", options={"maxiter": 60})
    nodes: np.ndarray = found.x.reshape(n, dimension)
    nodes.flags.writeable = False
    return nodes
