"""The study of mixtures as q: its targets, its measure of a gap and its table, against closed forms."""

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets  # noqa: F401  # what it imports seeds the global generator, once
import torch

from bqvi.families import GaussianMixture
from experiments.gradients import mixture_q as study


@pytest.mark.parametrize("name", ["two modes", "three modes"])
def test_a_posterior_that_q_can_be_has_no_gap(name):
    """The density is that of q, whose integral is one: ln Z = 0, and any change of q lowers the ELBO."""
    posed = study.problem(name)
    posterior = posed.target.log_density.__self__
    q = posterior.from_unconstrained(tuple(u.numpy() for u in posterior.unconstrained))
    assert posed.elbo(q) == pytest.approx(0.0, abs=1e-13)
    assert study.best(name) == 0.0
    moved = q.from_unconstrained((q.logits, q.means + 0.1, q.unconstrained[2]))
    assert posed.elbo(moved) < -1e-3


def test_the_elbo_is_that_of_moments():
    """Equal components make the mixture a Gaussian; f is a polynomial and the entropy has a closed form. f
    varies by 2 nats under this q: 4096 independent draws would err by .03.
    """
    mean, sd = np.array([0.4, 0.3]), np.array([0.7, 0.9])
    q = GaussianMixture(np.full(4, 0.25), np.tile(mean, (4, 1)), np.tile(sd**2, (4, 1)))
    v = sd**2
    square = mean[0] ** 2 + v[0]
    fourth = mean[0] ** 4 + 6.0 * mean[0] ** 2 * v[0] + 3.0 * v[0] ** 2
    bend = mean[1] ** 2 + v[1] - 2.0 * mean[1] * square + fourth
    expected = -0.5 * square - bend / 0.98 + np.log(2.0 * np.pi * np.e * sd.prod())
    assert study.problem("banana").elbo(q) == pytest.approx(expected, abs=1e-2)


@pytest.mark.parametrize("name", list(study.PROBLEMS))
def test_starts_are_of_the_seed(name):
    posed = study.problem(name)
    one, again, other = (posed.start(seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.means, again.means)
    assert not np.allclose(one.means, other.means)
    assert one.n_components == posed.components
    assert torch.isfinite(posed.target.log_density(torch.as_tensor(one.means))).all()
    assert np.isfinite(study.best(name))


@pytest.mark.parametrize("method", study.METHODS)
def test_a_run_keeps_to_its_budget(method):
    found = study.followed("two modes", method, 60, 0.05, 3)
    assert found["evaluations"].is_monotonic_increasing
    assert 40 <= found["evaluations"].iloc[-1] <= 60
    assert np.isfinite(found["elbo_gap"]).all()


def test_costs_are_reported():
    rows = [(10, 0.5, 1.0), (20, 0.05, 2.0), (40, 0.02, 4.0)]
    results = pd.DataFrame(
        [
            {
                "case": "c", "seed": seed, "target": "two modes", "method": "STL", "iteration": n,
                "evaluations": n, "elbo_gap": gap * (1 + seed), "seconds": seconds,
            }
            for seed in (0, 1)
            for n, gap, seconds in rows
        ]
    )  # fmt: skip
    (frame,) = (made.frame for made in study.tables(results))
    line = frame.iloc[0]
    assert line["evaluations to 0.1 nats"].split()[0] == "20"
    assert line["evaluations to 0.01 nats"] == "∞"
    assert line["ms an evaluation"].split()[0] == "100"
    assert line["worst gap"] == "0.04"
