"""The posterior of a run in the user's units, the same class for every door.

`Posterior` is a mixture of Gaussians over unbounded coordinates together with what these mean
(`bqvi.calls.coordinates`): draws, density, moments, quantiles, marginals, exports. The module `plots` draws
it (the extra ``plot``).
"""

from bqvi.posterior.posterior import Posterior
from bqvi.posterior.weighted_draws import WeightedDraws

__all__ = ["Posterior", "WeightedDraws"]
