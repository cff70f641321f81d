"""The posterior of a run in the user's units, the same class for every door.

`Posterior` is a mixture of Gaussians over unbounded coordinates with the map from these to the parameters
(`bqvi.calls.coordinates`). It has draws, density, moments, quantiles, marginals and exports. The module
`plots` draws it (the extra ``plot``).
"""

from bqvi.posterior.posterior import Posterior
from bqvi.posterior.weighted_draws import WeightedDraws

__all__ = ["Posterior", "WeightedDraws"]
