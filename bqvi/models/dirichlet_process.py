"""Dirichlet process mixtures over any components (Blei and Jordan 2006; "Raise your ELBO").

    v_t ~ Beta(1, alpha),   pi_t = v_t prod_{s < t} (1 - v_s),   theta_t ~ its prior,   x_n | z_n = t ~ p(x |
    theta_t)

`mixing.Sticks` has the two truncations, the concentration that is learnt, and Pitman and Yor's sticks.
"""

from __future__ import annotations

import numpy as np

from bqvi.families import Gamma, Product
from bqvi.models.component_mixture import Mixture
from bqvi.models.components import Components
from bqvi.models.gaussian_mixture import gaussian_components
from bqvi.models.mixing import Sticks


class DirichletProcessMixture(Mixture):
    """A mixture of which the number of occupied components is inferred.

    Parameters
    ----------
    components : any components; or a known covariance (D, D), or the name of an unknown one's shape, for
        Gaussians with the default priors of `GaussianMixture`
    truncation : T, the largest number of components in q
    concentration : alpha, a number; or the (shape, rate) of a gamma prior, to learn it
    discount : d in [0, 1), for Pitman and Yor's process; above 0 only with a fixed concentration
    tail : 'truncated' (the last component has all remaining weight) or 'tied' (beyond T, q is the prior)
    """

    def __init__(
        self,
        components: Components | str | np.ndarray,
        truncation: int = 20,
        *,
        concentration: float | tuple[float, float] = (1.0, 1.0),
        discount: float = 0.0,
        tail: str = "truncated",
    ) -> None:
        if isinstance(components, str | np.ndarray):
            components = gaussian_components(components)
        super().__init__(Sticks(truncation, concentration, discount, tail), components)

    def concentration(self, q: Product) -> Gamma:
        """The posterior of alpha, where it is learnt."""
        mixing = self.mixing
        if not isinstance(mixing, Sticks):
            raise TypeError(f"the weights are {type(mixing).__name__}, not Sticks")
        return mixing.concentration_given(q["sticks"])
