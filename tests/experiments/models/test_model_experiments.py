"""The experiments on models run, draw and tabulate; what they compare with is right."""

import numpy as np
import pytest
import scipy.stats
from scipy import integrate

from bqvi.models import gaussian_components
from experiments.harness.experiment import Case
from experiments.models import em_relatives, kl_directions, sequences, topics


@pytest.mark.parametrize("separation", [1.0, 8.0])
def test_the_divergences_are_the_integrals(separation):
    mean, sd = 0.3, 2.0

    def log_q(x):
        return -0.5 * ((x - mean) / sd) ** 2 - np.log(sd * np.sqrt(2 * np.pi))

    def log_p(x):
        return float(kl_directions._log_density(np.array([x]), separation)[0])

    forward = integrate.quad(lambda x: np.exp(log_p(x)) * (log_p(x) - log_q(x)), -30, 30, limit=200)[0]
    reverse = integrate.quad(lambda x: np.exp(log_q(x)) * (log_q(x) - log_p(x)), -30, 30, limit=200)[0]
    found = kl_directions._divergences(mean, sd, separation)
    assert found == pytest.approx((forward, reverse), abs=1e-5)


def test_the_forward_minimum_is_at_the_moments():
    row = kl_directions.run(next(c for c in kl_directions.cases(True, None) if "forward, 4" in c.name), 0)
    mean, sd = float(row["mean"].iloc[0]), float(row["sd"].iloc[0])
    least = row["forward"].iloc[0]
    for other in ((mean + 0.1, sd), (mean - 0.1, sd), (mean, 1.05 * sd), (mean, 0.95 * sd)):
        assert kl_directions._divergences(*other, 4.0)[0] > least


def test_a_fixed_point_of_k_means_is_not_moved():
    x, _, start = em_relatives.clusters(100, 0)
    means, _ = em_relatives._kmeans(x, start)
    assert em_relatives._moved(x, means) == pytest.approx(0.0, abs=1e-12)
    assert em_relatives._moved(x, means + 1.0) > 0.1


def test_elliptical_k_means_ends_where_no_point_is_denser_under_another_cluster():
    x, _, start = em_relatives.clusters(300, 11)
    means, covariances, labels = em_relatives.elliptical_kmeans(x, em_relatives._kmeans(x, start)[1])
    densities = [
        scipy.stats.multivariate_normal(*part).logpdf(x) for part in zip(means, covariances, strict=True)
    ]
    np.testing.assert_array_equal(np.argmax(densities, 0), labels)
    for k, (mean, covariance) in enumerate(zip(means, covariances, strict=True)):
        np.testing.assert_allclose(mean, x[labels == k].mean(0))
        np.testing.assert_allclose(covariance, np.cov(x[labels == k].T, bias=True))


def test_the_series_are_what_they_are_called():
    pytest.importorskip("statsmodels")
    times, flow = sequences.series("Nile")
    assert (times[0], times[-1], flow[0]) == (1871, 1970, 1120)
    _, letters = sequences.series("letters")
    assert len(letters) == sequences.LETTERS
    assert set(letters) <= set(range(len(sequences.ALPHABET)))
    assert topics.true_topics().sum(axis=1) == pytest.approx(np.ones(topics.TOPICS))


def test_values_of_a_series_are_predicted_from_those_before_them():
    """By the forward recursion, one step after the other."""
    case = Case("Nile, K = 2", {"data": "Nile", "states": 2, "starts": 1, "steps": 30})
    values = sequences.series("Nile")[1]
    found = sequences.held_out(case, gaussian_components("diagonal"), values, 0)
    fit = sequences.fitted(case, gaussian_components("diagonal"), values[:80], 0)
    means, covariances = fit.problem.model.emissions.each(fit.q["components"])
    density = scipy.stats.norm(means[:, 0], np.sqrt(covariances[:, 0, 0])).pdf
    state, scores = fit.q["initial"].mean, []
    for value in values:
        joint = state * density(value)
        scores.append(np.log(joint.sum()))
        state = joint / joint.sum() @ fit.q["transitions"].mean
    assert found == pytest.approx(np.mean(scores[80:]), rel=1e-8)
