"""A mixture with z summed out, as a model of a user's own: a `LogJointModel` of a structured theta."""

import numpy as np
import torch

from bqvi.arrays import like
from gp.arrays import to_numpy


def component_log_joint(mixture, theta, rows):
    """ln p(x_n, z_n = k | theta) - ln h(x_n), (L, S, K), of L draws of theta, with ln pi, and S rows."""
    of_components = theta[mixture.components.name]
    log_weights = like(mixture.mixing.log_weights_at(theta.get(mixture.mixing.name)), of_components)
    expected = mixture.components.expectations_at(of_components, mixture.n_components)
    return mixture.components.affine(expected, log_weights).rho(like(rows, of_components))


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
        return component_log_joint(self.mixture, theta, rows).logsumexp(-1)

    def log_base_measure(self, data):
        return self.mixture.log_base_measure(to_numpy(data))
