"""Analysis of variance: sums of functions of few coordinates each (Durrande et al. 2013).

    k(x, y) = variance (prod_d (1 + w e_d) - 1) / ((1 + w)^D - 1),   e_d = exp(-(x_d - y_d)^2 / (2 l_d^2)).

It is a sum over all sets of coordinates of a squared exponential of those coordinates, with the variance w^j
for j of them: as the interaction w vanishes, functions are sums of functions of one coordinate each.

With p = prod_d (1 + w e_d), u_d = w e_d / (1 + w e_d), g_d = u_d (x_d - y_d) / l_d^2 and h for the variance
over its norm,

    dk/dx_d = -h p g_d = -dk/dy_d
    d2k/dx_d dy_e = -h p g_d g_e,    or  h p u_d (1 / l_d^2 - (x_d - y_d)^2 / l_d^4)  where d = e
    dk/dlog l_d = h p u_d (x_d - y_d)^2 / l_d^2,      dp/dlog w = p sum_d u_d.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from math import expm1, log1p

import numpy as np

from gp.arrays import IN_CACHE, Array, as_like, describe, is_torch, namespace, to_numpy
from gp.kernels.base import Derivatives, Homogeneous, of_columns, parameter


@dataclass(frozen=True, eq=False)
class Anova(Homogeneous):
    """The kernel above.

    Attributes
    ----------
    lengthscale : l, (D,), positive, in the unit of the inputs.
    interaction : w, a positive number without a unit.
    variance : the prior variance of f, a positive number in squared output units.
    """

    lengthscale: Array = parameter(MISSING, "lengthscale", input_power=1)
    interaction: Array = parameter(1.0, "shape")
    variance: Array = parameter(1.0, "variance", output_power=2)

    def __post_init__(self) -> None:
        super().__post_init__()
        if getattr(self.lengthscale, "ndim", 0) != 1:
            raise ValueError(f"lengthscale is {describe(self.lengthscale)}: give one for each of D columns")

    @property
    def dimension(self) -> int:
        """The number D of columns."""
        return int(self.lengthscale.shape[0])

    @property
    def height(self) -> Array:
        """The variance over its norm, h = variance / ((1 + w)^D - 1)."""
        w = self.interaction
        if isinstance(w, float | int):
            return self.variance / expm1(self.dimension * log1p(w))
        xp = namespace(w)
        return self.variance / xp.expm1(self.dimension * xp.log1p(w))

    @property
    def norm_slope(self) -> float:
        """The derivative of log((1 + w)^D - 1) in log w. NumPy only."""
        w, dimension = float(self.interaction), self.dimension
        return float(dimension * w / (1.0 + w) / -np.expm1(-dimension * np.log1p(w)))

    def factors(self, x: Array, y: Array) -> Array:
        """Return w e_d between x (n, D) and y (m, D), (D, n, m)."""
        xp = namespace(x, y)
        self._check_dimension(x)
        lengthscale = as_like(self.lengthscale, x)
        scaled = ((x / lengthscale).T)[:, :, None] - ((y / lengthscale).T)[:, None, :]
        return as_like(self.interaction, x) * xp.exp(-0.5 * scaled**2)

    def __call__(self, x: Array, y: Array) -> Array:
        if is_torch(x):
            return as_like(self.height, x) * ((1 + self.factors(x, y)).prod(dim=0) - 1)
        self._check_dimension(x)
        p = np.ones((len(x), len(y)))
        size = max(IN_CACHE // max(len(y), 1), 1)
        for rows in (slice(at, at + size) for at in range(0, len(x), size)):
            block = p[rows]
            for d, lengthscale in enumerate(self.lengthscale):
                factor = (x[rows, d, None] - y[:, d]) / lengthscale
                factor *= factor
                factor *= -0.5
                np.exp(factor, out=factor)
                factor *= self.interaction
                factor += 1.0
                block *= factor
        p -= 1.0
        p *= self.height
        return p

    def derivatives(self, x: Array, y: Array) -> Derivatives:
        xp = namespace(x, y)
        varying, precision = self.factors(x, y), as_like(self.lengthscale, x) ** -2.0
        p, u = xp.prod(1 + varying, axis=0), varying / (1 + varying)
        height = as_like(self.height, x)
        gap = x.T[:, :, None] - y.T[:, None, :]
        g = u * gap * precision[:, None, None]  # (D, n, m)
        own = u * precision[:, None, None] * (1 - gap**2 * precision[:, None, None])
        return of_columns(height * (p - 1), height * p, -g, own)

    def _check_dimension(self, x: Array) -> None:
        if x.ndim != 2 or x.shape[1] != self.dimension:
            raise ValueError(
                f"x is a {describe(x)}, lengthscale has shape {tuple(to_numpy(self.lengthscale).shape)}: "
                "give points of shape (n, D) and D lengthscales"
            )
