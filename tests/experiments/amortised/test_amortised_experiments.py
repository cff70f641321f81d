"""The experiments on autoencoders run, draw and tabulate."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch

from acquisition.minibatch import Reshuffled
from bqvi.families import DiagonalGaussian, Gaussian
from bqvi.gradients.amortised import elbo_draws
from bqvi.models import LogJoint
from experiments.amortised import (
    few_data,
    gap,
    gaussian_example,
    held_out_bounds,
    minibatches,
    normal,
    signal,
)
from experiments.problems import images

pytest.importorskip("sklearn.datasets")


def test_the_long_run_and_the_evidence_of_a_gaussian_are_closed():
    covariance = np.array([[0.5, 0.3], [0.3, 0.4]])
    exact, precision = Gaussian(np.array([1.0, -1.0]), covariance), np.linalg.inv(covariance)

    def log_density(z):
        away = z - torch.as_tensor(exact.mean)
        constant = np.log(2.0 * np.pi) + 0.5 * np.linalg.slogdet(covariance)[1]
        return -0.5 * (away @ torch.as_tensor(precision) * away).sum(-1) - constant + 2.0

    target = LogJoint(log_density, 2)
    points = gap.normal_points(2, 512, [0])
    start = DiagonalGaussian(np.zeros(2), np.ones(2))
    full, _ = gap._optimised(target, Gaussian(start.mean, np.eye(2)), points)
    np.testing.assert_allclose(full.covariance, covariance, atol=0.01)
    assert abs(gap._elbo(target, full, points) - 2.0) < 0.01  # the ELBO of the posterior is ln Z
    np.testing.assert_allclose(gap._evidence(target, exact, 100, 0), (2.0, 0.0), atol=1e-12)
    diagonal, _ = gap._optimised(target, start, points)
    np.testing.assert_allclose(diagonal.variance, 1.0 / np.diag(precision), rtol=0.02)


def test_plain_draws_for_an_error_follow_its_rate():
    plain = pd.DataFrame({"calls": [16, 64, 256], "rms": [0.25, 0.125, 0.0625]})
    for calls in (4, 32, 1024):
        assert held_out_bounds._draws_for(calls**-0.5, plain) == pytest.approx(calls)


def test_a_strategy_is_renewed_after_its_draws():
    made = []
    renewed = minibatches.Renewed(3, lambda: made.append(0) or Reshuffled(3), 2, 12)
    rng = np.random.default_rng(0)
    state = renewed.start(12, rng)
    for _ in range(5):
        selection, state = renewed.draw(state, rng)
        assert len(selection.indices) == 3
    assert len(made) == 3


def test_images_of_a_folder_are_binary_and_split(tmp_path):
    grey = np.random.default_rng(0).integers(0, 256, (4100, 28, 28)).astype(np.uint8)
    np.savez(tmp_path / images.FILE, images=grey)
    train, held = images.split("mnist", tmp_path)
    assert train.shape == (4000, 784)
    assert held.shape == (100, 784)
    assert set(np.unique(train)) == {0.0, 1.0}
    assert abs(train.mean() - grey.mean() / 255.0) < 0.001


def test_the_logarithm_of_a_mean_weight_has_its_standard_error():
    """Weights 1 and 3 have the mean 2 and the standard deviation 1."""
    logs = 800.0 + np.log(np.repeat([1.0, 3.0], 50))
    np.testing.assert_allclose(normal.log_mean_weight(logs), (800.0 + np.log(2.0), 0.05))


def test_the_validation_set_determines_where_the_plain_decoder_is_stopped():
    rows = {"iteration": [0, 1, 2], "validation": [-3.0, -1.0, -2.0], "held_out": [-5.0, -4.0, -6.0]}
    results = pd.DataFrame(rows).assign(case=few_data.PLAIN, seed=0, seconds=1.0)
    found = few_data.ends(results).set_index("case")["held_out"]
    assert found[few_data.PLAIN] == -6.0
    assert found[few_data.STOPPED] == -4.0


def test_the_bound_of_the_gaussian_example_at_its_optimum_is_closed(monkeypatch):
    """Evidence N(x; mu, 2 I) less 20 times KL(N(m, 2/3) || N(m, 1/2)); five standard errors of 4000 draws."""
    monkeypatch.setattr(gaussian_example, "_AWAY", 0.0)
    model, q, x = gaussian_example.gaussian_example(3, 0)
    mu = q["decoder.mu"].place.numpy()
    evidence = scipy.stats.norm(mu, 2.0**0.5).logpdf(x).sum()
    ratio = gaussian_example.VARIANCE / 0.5
    divergence = 0.5 * x.size * (ratio - 1.0 - np.log(ratio))
    draws = elbo_draws(model, q, x, 4000, 0)
    assert abs(draws.mean() - (evidence - divergence)) < 5.0 * draws.std() / 4000**0.5


def test_a_signal_that_falls_holds_or_is_undecided_is_distinguished():
    """Verdicts on synthetic ratios, which fall from L = 1, rise from L = 2, and are undecided for IWAE."""
    rng = np.random.default_rng(0)
    rows = []
    for kind in signal.KINDS:
        for seed in range(8):
            noise = 0.01 * rng.standard_normal(4)
            ratios = np.array([3.0, 1.0, 1.0, 2.0]) if kind.startswith("DReG") else np.ones(4)
            numbers = zip((1, 2, 25, 100), ratios * np.exp(noise - noise[0]), strict=True)
            rows += [{"case": kind, "seed": seed, "samples": n, "encoder": r} for n, r in numbers]
    tight, own, from_two, from_one, rate = signal.claims(pd.DataFrame(rows))
    assert tight.verdict == "undecided"
    assert [check.answer for check in own.checks] == ["no"] * 3
    assert from_two.verdict == from_one.verdict == "holds"
    assert rate.verdict == "holds"  # from 25 to 100 draws they double


def test_a_ratio_may_lie_a_little_lower_and_has_not_fallen():
    """Half an interval of four made-up changes is 3.182 (4/3)^1/2 / 2 = 1.84 times their spread."""
    kind = "DReG, trained by as many"
    for mean, spread, answer in (
        (-0.05, 0.01, "yes"),
        (-0.2, 0.01, "no"),
        (-0.05, 0.1, "undecided (from -0.23 to 0.13)"),
    ):
        changes = mean + spread * np.array([-1.0, -1.0, 1.0, 1.0])
        rows = [
            {"case": kind, "seed": seed, "samples": n, "encoder": r}
            for seed, change in enumerate(changes)
            for n, r in ((1, 1.0), (50, np.exp(change)))
        ]
        assert signal._change(pd.DataFrame(rows), kind, 0).answer == answer


def test_a_rate_that_seeds_do_not_decide_is_open():
    kind = "DReG, Gaussian example"
    rows = [
        {"case": kind, "seed": seed, "samples": n, "encoder": r}
        for seed, power in enumerate((0.3, 0.8, 0.4, 0.7))
        for n, r in ((100, 1.0), (400, 4.0**power))
    ]
    assert signal._rate(pd.DataFrame(rows), kind).answer == "undecided (the interval holds an end)"
    steep = pd.DataFrame(rows).assign(encoder=lambda found: found["samples"] / 100.0)
    assert signal._rate(steep, kind).answer == "no"


def test_each_number_of_draws_trains_networks_of_its_own():
    few = {"steps": 2, "seed": 0}
    one = signal._networks("DReG, trained by as many", 1, **few)[1]["encoder.0.weight"].place
    two = signal._networks("DReG, trained by as many", 2, **few)[1]["encoder.0.weight"].place
    same = signal._networks("DReG, trained by as many", 1, **few)[1]["encoder.0.weight"].place
    assert not torch.equal(one, two)
    assert torch.equal(one, same)
