"""The posterior of a run in the user's units, the same class for every door.

`Posterior` is a mixture of Gaussians over unbounded coordinates with the map from these to the parameters
(`bqvi.calls.coordinates`). It has draws, density, moments, quantiles, marginals and exports. `ModelPosterior`
is that of the variables of another package's model. The module `plots` draws both (the extra ``plot``).
"""

from bqvi.posterior.model_posterior import ModelPosterior, of_model
from bqvi.posterior.posterior import Posterior, WeightedDraws

__all__ = ["ModelPosterior", "Posterior", "WeightedDraws", "of_model"]
