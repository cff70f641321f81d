"""What a user does first: predict, plot, leave one out, compare kernels, keep the result, average over it."""

import os
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from differences import central
from scipy import stats

import acquisition
import gp
from gp.checks import require_memory
from gp.files import write_arrays
from gp.kernels import RBF, Columns, Linear, Matern52, Periodic, RationalQuadratic, SquaredExponential, White


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(12)
    x = rng.normal(size=(30, 2))
    return x, np.cos(1.5 * x[:, 0]) + 0.2 * rng.normal(size=30)


@pytest.fixture(scope="module")
def posterior(data):
    return gp.fit(*data)


@pytest.fixture(scope="module")
def marginal(posterior):
    return gp.marginalise(posterior, 16)


AT = np.random.default_rng(3).normal(size=(7, 2))


def saved_posteriors(data):
    x, y = data
    tensors = [torch.from_numpy(part) for part in data]
    kernel = RationalQuadratic() * Columns(Periodic(1.0, 2.0), (1,)) + Linear(0.5) + White(0.1)
    fitted = gp.fit(x, y, kernel, gp.means.Linear(), n_starts=1)
    slopes = gp.GaussianProcess(SquaredExponential(1.3), noise=0.1)
    return {
        "composite": fitted,
        "marginal": gp.marginalise(gp.fit(x, y, n_starts=1), 4),
        "torch": gp.fit(*tensors, n_starts=1),
        "gradients": slopes.condition([gp.Values(x), gp.Gradients(x[:4])], [y, np.ones((4, 2))]),
        "extended": fitted.extend(AT[:2], np.zeros(2)),
        "noise for each": gp.GaussianProcess(Matern52()).condition(x, y, np.linspace(0.1, 0.2, 30)),
    }


def test_every_posterior_is_saved_and_loaded_with_equal_digits(data, tmp_path):
    for name, each in saved_posteriors(data).items():
        each.save(tmp_path / f"{name}.npz")
        loaded = gp.load(tmp_path / f"{name}.npz")
        at = torch.from_numpy(AT) if name == "torch" else AT
        for again in (loaded, pickle.loads(pickle.dumps(each))):
            assert type(again) is type(each)
            for ours, theirs in zip(again.mean_and_variance(at), each.mean_and_variance(at), strict=True):
                np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(loaded.sample(AT, 2, 0), each.sample(AT, 2, 0))
    fitted = gp.load(tmp_path / "composite.npz").hyperparameters
    assert str(fitted) == str(saved_posteriors(data)["composite"].hyperparameters)


def test_files_hold_no_code(posterior, tmp_path):
    class Own(SquaredExponential):
        """A kernel of the user's own."""

    with pytest.raises(TypeError, match=r"Own cannot be saved.*pickle"):
        gp.GaussianProcess(Own()).condition(posterior.x[:2], posterior.y[:2]).save(tmp_path / "own.npz")
    (tmp_path / "text.npz").write_text("text")
    with pytest.raises(ValueError, match="no saved posterior"):
        gp.load(tmp_path / "text.npz")
    header = {"gp": 1, "posterior": {"object": ["os:system", {}]}}
    write_arrays(tmp_path / "code.npz", header, {})
    with pytest.raises(ValueError, match="no part of a posterior"):
        gp.load(tmp_path / "code.npz")


@pytest.mark.parametrize("kind", ["posterior", "marginal"])
def test_predictions_with_their_sd(kind, request):
    each = request.getfixturevalue(kind)
    mean, variance = each.mean_and_variance(AT)
    np.testing.assert_array_equal(each.predict(AT), mean)
    np.testing.assert_allclose(each.predict(AT, return_std=True)[1], np.sqrt(variance))
    noisy = each.predict(AT, return_std=True, include_noise=True)[1]
    np.testing.assert_allclose(noisy**2 - variance, each.noise)
    axes = each.plot(column=1)
    assert len(axes.lines) == 2
    np.testing.assert_array_equal(axes.lines[1].get_xdata(), each.x[:, 1])


@pytest.mark.parametrize("noise", [0.05, np.linspace(0.05, 0.3, 12)])
def test_leave_one_out_is_a_refit_without_the_row(noise, data):
    x, y = data[0][:12], data[1][:12]
    process = gp.GaussianProcess(Matern52(1.2), gp.means.Constant(0.4))
    mean, sd = process.condition(x, y, noise).leave_one_out()
    for i in range(12):
        others = np.arange(12) != i
        own = noise if np.ndim(noise) == 0 else noise[i]
        refit = process.condition(x[others], y[others], noise if np.ndim(noise) == 0 else noise[others])
        np.testing.assert_allclose(mean[i], refit.mean(x[i : i + 1])[0], rtol=1e-9)
        np.testing.assert_allclose(sd[i] ** 2, refit.variance(x[i : i + 1])[0] + own, rtol=1e-9)


def test_leave_one_out_of_a_mixture_weighs_by_the_others(marginal):
    """For row 4: each posterior of the set without it, with the weights that the others give."""
    mean, sd = marginal.leave_one_out()
    others = np.arange(30) != 4
    logs, moments = [], []
    for weight, each in zip(marginal.weights, marginal.posteriors, strict=True):
        process = gp.GaussianProcess(each.kernel, each.mean_function, each.noise)
        without = process.condition(marginal.x[others], marginal.y[others])
        m, v = (part[0] for part in without.mean_and_variance(marginal.x[4:5]))
        moments.append((m, v + each.noise))
        logs.append(np.log(weight) - stats.norm(m, np.sqrt(v + each.noise)).logpdf(marginal.y[4]))
    weights = np.exp(np.array(logs) - max(logs))
    m, v = np.array(moments).T
    middle = weights @ m / weights.sum()
    np.testing.assert_allclose(mean[4], middle)
    np.testing.assert_allclose(sd[4] ** 2, weights @ (v + (m - middle) ** 2) / weights.sum())


def test_kernels_without_a_lengthscale_are_compared_with_one_for_each_column(data, posterior):
    assert RBF is SquaredExponential
    x, y = data
    for kernel in (Matern52(), RationalQuadratic(), SquaredExponential() + White(0.1)):
        names = gp.fit(x, y, kernel, n_starts=1).hyperparameters.names
        assert sum("lengthscale[" in name for name in names) == 2
    both = gp.compare({"rbf": posterior, "matern": gp.fit(x, y, Matern52())})  # warnings are errors
    assert both.notes == ()
    assert list(both.n_parameters) == [4, 4]
    assert both.log_evidence[0] >= both.log_evidence[1]
    shared = gp.fit(x, y, Matern52(1.0))
    with pytest.warns(UserWarning, match="b: one lengthscale for all 2 columns, a: one for each"):
        found = gp.compare({"a": posterior, "b": shared})
    assert found.names == ("a", "b")
    assert found.notes[0] in str(found)
    with pytest.warns(UserWarning, match="b: one lengthscale for all 2 columns, a: one for each"):
        gp.compare({"a": posterior, "b": gp.GaussianProcess(Periodic(1.0, 2.0), noise=0.1).condition(x, y)})
    with pytest.raises(ValueError, match="different observations"):
        gp.compare({"a": posterior, "b": gp.fit(x, 2 * y, n_starts=1)})
    with pytest.raises(ValueError, match="two or more"):
        gp.compare({"a": posterior})


ASKED = {
    "predict": lambda p, x: p.predict(x, return_std=True)[1],
    "mean": lambda p, x: p.mean(x),
    "variance": lambda p, x: p.variance(x),
    "covariance": lambda p, x: p.covariance(AT, x),
    "sample": lambda p, x: p.sample(x, 2),
    "gradient": lambda p, x: p.gradient(x).mean,
    "path": lambda p, x: p.sample_path(0, 64)(x),
    "slope of a path": lambda p, x: p.sample_path(0, 64).gradient(x),
    "extend": lambda p, x: p.extend(x, np.zeros(7)).mean(AT),
}


@pytest.mark.parametrize("call", ASKED)
@pytest.mark.parametrize("kind", ["fitted", "marginal", "loaded", "gradients"])
def test_columns_of_data_frames_are_those_of_the_observations(kind, call, data, tmp_path):
    """Named 'x' and 'variance', as attributes of functionals are; arrays have no names, and are taken."""
    names = ["x", "variance"]
    frame, at = (pd.DataFrame(x, columns=names) for x in (data[0], AT))
    if kind == "gradients":
        prior = gp.GaussianProcess(SquaredExponential(), noise=0.1)
        slopes = frame[:3] * 0
        posterior = prior.condition([gp.Values(frame), gp.Gradients(frame[:3])], [data[1], slopes])
        unnamed = prior.condition([gp.Values(data[0]), gp.Gradients(data[0][:3])], [data[1], slopes])
    else:
        fit = (
            (lambda x: gp.marginalise(gp.fit(x, data[1], n_starts=1), 4))
            if kind == "marginal"
            else (lambda x: gp.fit(x, data[1], n_starts=1))
        )
        posterior, unnamed = fit(frame), fit(data[0])
    if kind == "loaded":
        posterior.save(tmp_path / "named.npz")
        posterior = gp.load(tmp_path / "named.npz")
    ask = ASKED[call]
    for x in (at, AT):
        np.testing.assert_allclose(ask(posterior, x), ask(unnamed, AT), rtol=1e-9, atol=1e-9)
    order = r"x has the columns \['variance', 'x'\], the observations' x \['x', 'variance'\]: give"
    with pytest.raises(ValueError, match=order):
        ask(posterior, at[names[::-1]])
    with pytest.raises(ValueError, match=r"so that \['variance'\] are missing"):
        ask(posterior, at.rename(columns={"variance": "z"}))
    with pytest.raises(ValueError, match=r"so that \['x'\] are missing"):
        ask(posterior, at[["variance"]])


def test_a_plot_and_blocks_have_the_names_of_columns(data):
    frame = pd.DataFrame(data[0], columns=["dose", "age"])
    posterior = gp.GaussianProcess(RBF(), noise=0.1).condition(frame, data[1])
    assert posterior.plot(column=1).get_xlabel() == "age"
    with pytest.raises(ValueError, match="x of one block has the columns"):
        gp.GaussianProcess(RBF()).condition(
            [gp.Values(frame), gp.Gradients(frame[["age", "dose"]])], np.ones(90)
        )


def test_too_many_rows_for_the_memory_are_named(monkeypatch):
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2_000_000}.get)
    require_memory(18_000)
    x = np.zeros((50_000, 1))
    for call in (lambda: gp.fit(x, x[:, 0]), lambda: gp.GaussianProcess(RBF()).condition(x, x[:, 0])):
        with pytest.raises(MemoryError, match="50000 observations: 3 covariance matrices of 20 GB"):
            call()


def test_a_marginalised_posterior_is_extended_by_bayes(marginal):
    """Its weights after two observations are the old ones times the densities of these."""
    y = np.array([0.3, -0.4])
    extended = marginal.extend(AT[:2], y)
    weights = [
        w * stats.multivariate_normal(p.mean(AT[:2]), p.covariance(AT[:2]) + p.noise * np.eye(2)).pdf(y)
        for w, p in zip(marginal.weights, marginal.posteriors, strict=True)
    ]
    np.testing.assert_allclose(extended.weights, weights / np.sum(weights), rtol=1e-6)
    measure = gp.measures.Gaussian(np.zeros(2), np.eye(2))
    parts = [p.integral(measure) for p in marginal.posteriors]
    mean = sum(w * each.mean for w, each in zip(marginal.weights, parts, strict=True))
    second = sum(w * (e.variance + e.mean**2) for w, e in zip(marginal.weights, parts, strict=True))
    found = marginal.integral(measure)
    np.testing.assert_allclose([found.mean, found.variance], [mean, second - mean**2])


def test_a_marginalised_posterior_has_the_moments_of_its_draws(marginal):
    """10,000 draws: their mean within 5 sd / 100, their covariance within 5 times its standard error."""
    draws = marginal.sample(AT[:4], 10_000, 1)
    covariance = marginal.covariance(AT[:4])
    sd = np.sqrt(covariance.diagonal())
    assert np.all(np.abs(draws.mean(axis=0) - marginal.mean(AT[:4])) < 0.05 * sd)
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.12 * np.outer(sd, sd).max())
    np.testing.assert_allclose(
        marginal.covariance(AT[:4], AT[2:]), marginal.covariance(AT)[:4, 2:], atol=1e-12
    )
    paths = np.array([marginal.sample_path(seed, 256)(AT[:4]) for seed in range(200)])
    assert np.all(np.abs(paths.mean(axis=0) - marginal.mean(AT[:4])) < 5 * sd / np.sqrt(200))
    slopes = marginal.gradient(AT)
    np.testing.assert_allclose(slopes.mean, central(marginal.mean, AT), atol=1e-6)
    assert np.linalg.eigvalsh(slopes.covariance).min() > 0


@pytest.mark.parametrize("name", ["IntegralVarianceReduction", "UncertaintySampling"])
def test_an_acquisition_of_a_marginalised_posterior_is_the_mean(name, marginal):
    measure = gp.measures.Gaussian(np.zeros(2), np.eye(2))
    criterion = getattr(acquisition, name)()
    bound = acquisition.bind(criterion, marginal, measure)
    values = [acquisition.bind(criterion, each, measure).value(AT) for each in marginal.posteriors]
    np.testing.assert_allclose(bound.value(AT), marginal.weights @ np.array(values), rtol=1e-10)
    _, gradient = bound.score_and_gradient(AT)
    np.testing.assert_allclose(gradient, central(bound.score, AT), rtol=1e-5, atol=1e-6)
    assert acquisition.ContinuousSearch().maximise(bound, seed=0).x.shape == (1, 2)


def test_a_marginalised_posterior_is_a_botorch_model(marginal):
    pytest.importorskip("botorch")
    model, at = gp.as_botorch_model(marginal), torch.from_numpy(AT)
    found = model.posterior(at)
    np.testing.assert_allclose(found.mean[:, 0], marginal.mean(AT), atol=1e-10)
    np.testing.assert_allclose(found.distribution.covariance_matrix, marginal.covariance(AT), atol=1e-8)
