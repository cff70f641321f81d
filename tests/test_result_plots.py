"""`plot` of what the three doors return, and of a posterior: what is drawn, and what is loaded when."""

import matplotlib
import numpy as np
import pytest

import bqvi

matplotlib.use("Agg")


def log_joint(theta):
    return -0.5 * (theta**2).sum(1)


@pytest.fixture(scope="module")
def fit():
    model = bqvi.models.LogJoint(log_joint, dimension=2)
    return bqvi.fit(model, method="bq", steps=4, record=1, seed=0)


def drawn(line):
    return np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)


def test_a_fit_draws_its_elbo(fit):
    ax = fit.plot_trace(truth=np.log(2 * np.pi))
    n, elbo = drawn(ax.lines[0])
    np.testing.assert_array_equal(n, fit.trace["step_evaluations"])
    np.testing.assert_array_equal(elbo, fit.trace["elbo"])
    assert ax.lines[1].get_ydata()[0] == np.log(2 * np.pi)
    assert f"{fit.trace['elbo'][-1]:.6g}" in ax.get_title()
    assert fit.plot_trace(ax) is ax


def test_exact_records_are_drawn_against_evaluations():
    data = np.random.default_rng(0).standard_normal((40, 2))
    found = bqvi.fit(bqvi.models.GaussianMixture(2, "full"), data, method="cavi", steps=5, record=1)
    np.testing.assert_array_equal(drawn(found.plot_trace().lines[0])[1], found.trace["elbo"])


def test_vbmc_draws_its_log_evidence():
    found = bqvi.vbmc(
        lambda t: -0.5 * float(t @ t), plausible_lower=[-1.0, -1.0], plausible_upper=[1.0, 1.0], budget=16
    )
    ax = found.plot_trace()
    np.testing.assert_array_equal(drawn(ax.lines[0])[1], found.trace["log_evidence"])
    assert f"{found.log_evidence:.5g}" in ax.get_title()
    assert found.plot_trace(ax) is ax
    assert len(found.posterior.plot(n=200).axes) == 4


def test_a_posterior_draws_its_marginals_with_their_quantiles(fit):
    figure = fit.posterior.plot(truth=[0.0, 0.0], n=4000)
    axes = np.reshape(figure.axes, (2, 2))
    draws = fit.posterior.sample(4000, 0)
    for i in range(2):
        marked = [drawn(line)[0][0] for line in axes[i, i].lines if line.get_linestyle() == "--"]
        np.testing.assert_allclose(marked, np.quantile(draws[:, i], [0.05, 0.5, 0.95]))
        assert axes[i, i].get_title().startswith(fit.posterior.names[i])
    one = fit.posterior.plot(parameters=fit.posterior.names[1])
    assert len(one.axes) == 1
