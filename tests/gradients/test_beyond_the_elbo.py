"""The importance-weighted bound from a process: against draws where the process is exact."""

import numpy as np
import pytest
import torch

from bqvi.families import Gaussian
from bqvi.gradients import BayesianQuadrature, DReG
from bqvi.gradients.gradient import Batch
from bqvi.gradients.whitened import WhitenedFrame
from bqvi.models import LogJoint
from experiments.gradients.importance_quadrature import ImportanceQuadrature

D = 2
PRECISION = np.array([[1.5, 0.4], [0.4, 0.9]])
CENTRE = np.array([0.5, -0.3])
BATCH = Batch(None, 0)
START = Gaussian(np.array([0.2, 0.1]), np.array([[0.9, 0.2], [0.2, 0.7]]))


def log_joint(theta):
    gap = theta - torch.tensor(CENTRE)
    return -0.5 * ((gap @ torch.tensor(PRECISION)) * gap).sum(1)


def test_importance_quadrature_agrees_with_dreg_where_the_process_is_exact():
    """On a quadratic both have one mean: z-scores of five coordinates below 4.5, false alarm 4e-5."""
    model, rng = LogJoint(log_joint, D), np.random.default_rng(0)
    plugged = ImportanceQuadrature(samples=4, groups=4000)(model, START, BATCH, rng)
    assert plugged.n_evaluations == 20
    assert plugged.surrogate is None

    def whitened(natural):
        moments = WhitenedFrame.of(START).moments(natural)
        return np.r_[moments.mean, moments.jacobian[np.tril_indices(D)]]

    sampled = np.array(
        [whitened(START.gradient_to_natural(DReG(4)(model, START, BATCH, rng).values)) for _ in range(500)]
    )
    repeated = np.array(
        [whitened(ImportanceQuadrature(4, groups=50)(model, START, BATCH, rng).values) for _ in range(40)]
    )
    gap = sampled.mean(0) - repeated.mean(0)
    error = np.sqrt(sampled.var(0, ddof=1) / 500 + repeated.var(0, ddof=1) / 40)
    assert np.abs(gap / error).max() < 4.5
    # 4000 groups are 80 times 50: the spread of the one estimate
    assert np.abs((whitened(plugged.values) - repeated.mean(0)) / repeated.std(0)).max() < 1.5


def test_a_separable_process_is_refused():
    with pytest.raises(TypeError, match="separable"):
        ImportanceQuadrature(4, BayesianQuadrature(10, process="separable"))(
            LogJoint(log_joint, D), START, BATCH, np.random.default_rng(0)
        )
