"""An improper prior of density 1, for maximum likelihood; only a point mass has a finite divergence from it.

Its natural parameters are those at which a family's density is constant: 1 for a Dirichlet's concentrations
and a gamma's shape (densities are in pi and in the rate), 0 for all others. With it, `cavi` on point masses
is the EM algorithm and the ELBO the log likelihood.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bqvi.arrays import Values
from bqvi.families.dirichlet import Dirichlet
from bqvi.families.gamma import Gamma
from gp.arrays import Array


class Flat:
    """Density 1 on the points of ``family``.

    Parameters
    ----------
    family : a distribution (or batch) with points of the same structure; its parameters are not used
    """

    def __init__(self, family: Any) -> None:
        self.family = family

    @property
    def leaf_names(self) -> tuple[str, ...]:
        """Name of the factor that owns each array of ``natural``, as of the family."""
        return tuple(self.family.leaf_names)

    @property
    def natural(self) -> Values:
        """Natural parameters of the flat density."""
        zeros = tuple(np.zeros_like(eta) for eta in self.family.natural)
        if isinstance(self.family, Dirichlet | Gamma):
            return (np.where(self.family.natural[0] == 0.0, 0.0, 1.0), *zeros[1:])
        return zeros

    def from_natural(self, natural: Values) -> Any:
        """The distribution of the family at ``natural``, such as the posterior under the flat prior."""
        return self.family.from_natural(natural)

    def log_prob(self, theta: Array) -> Array:
        """0 at the points (L, ...), batch-shaped."""
        return np.zeros(len(theta))
