"""The experiments on bounds run and draw in their quick form, and their bounds lie on either side of ln Z."""

import numpy as np
import pytest
from quick_runs import looked_at, table

from experiments.bounds import closing


def test_closing_in_its_quick_form():
    found = table(closing.experiment)
    rows = looked_at(closing.experiment, found)["bounds"]
    assert len(rows) == len(found)
    best = found[found["method"] == "smc"].groupby(["problem", "count"])[["lower", "upper"]].mean()
    for _, one in best.groupby("problem"):
        assert one["lower"].iloc[-1] > one["lower"].iloc[0]
        assert one["upper"].iloc[-1] < one["upper"].iloc[0]


@pytest.mark.parametrize("make", [closing.regression, closing.decoder])
def test_evidences_of_the_problems_agree_with_importance_sampling(make):
    """40,000 draws, five standard errors."""
    import torch

    problem, rng = make(np.random.default_rng(0)), np.random.default_rng(1)
    if np.ndim(problem.truth):
        z = torch.as_tensor(rng.standard_normal((40_000, 2)))
        logs = problem.log_joint(z, torch.zeros(len(z), dtype=torch.long)).numpy()
        truth, prior = problem.truth[0], problem.proposal[0]
    else:
        precise = problem.draws.mean(
            axis=0
        )  # the prior's draws are too far: draws around the posterior's mean
        from gp.measures import Gaussian

        prior = Gaussian(precise, np.full(closing.COEFFICIENTS, 0.1))
        z = torch.as_tensor(prior.sample(40_000, rng))
        logs, truth = problem.log_joint(z).numpy(), problem.truth
    ratios = np.exp(logs - prior.log_density(z.numpy()) - truth)
    assert abs(ratios.mean() - 1.0) < 5.0 * ratios.std() / np.sqrt(len(ratios))
