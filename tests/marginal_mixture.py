"""A mixture with z summed out, as a model of a user's own: a `LogJointModel` of a structured theta."""

import numpy as np
import torch

from gp.arrays import to_numpy


class Marginal:
    """The bound is tighter than the mixture's, as q(z | theta) is exact; draws of theta cost per datum."""

    def __init__(self, mixture):
        self.mixture = mixture

    def check(self, data):
        data = self.mixture.check(data)
        return data if isinstance(data, torch.Tensor) else torch.tensor(np.asarray(data, float))

    def initial(self, data, how, rng):
        return self.mixture.initial(to_numpy(data), how, rng)

    def log_prior(self, theta):
        like, prior = next(iter(theta.values())), self.mixture.prior
        return prior.from_natural(tuple(like.new_tensor(eta) for eta in prior.natural)).log_prob(theta)

    def log_likelihood_terms(self, theta, rows):
        return self.mixture.component_log_joint(theta, rows).logsumexp(-1)

    def log_base_measure(self, data):
        return self.mixture.log_base_measure(to_numpy(data))
