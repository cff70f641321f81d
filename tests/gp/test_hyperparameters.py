"""Fits: exact gradients, peers, units, collapse, what data do not determine, marginalisation."""

import itertools
import pickle
import warnings
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from differences import central
from negative_quadratic import NegativeQuadratic
from scipy import integrate
from scipy.optimize import approx_fprime
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

import gp
from gp.kernels import (
    Columns,
    Constant,
    Linear,
    Matern52,
    Periodic,
    RationalQuadratic,
    SquaredExponential,
    White,
)
from gp.priors import JointPrior, LogCauchy, Plateau, Priors
from gp.regression.hyperparameters import posterior_at
from gp.regression.problem import DataUnits, EvidenceProblem, SearchCoordinates
from gp.regression.screening import InUnits, _starts


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    y = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] ** 2 + 0.1 * rng.normal(size=60)
    return x, y


@pytest.fixture(scope="module")
def fitted(data):
    return gp.fit(*data)


KERNELS = {
    "se": SquaredExponential(np.array([0.7, 1.1, 2.0]), 1.3),
    "matern": Matern52(0.8, 1.3),
    "composite": (
        RationalQuadratic(np.ones(3), alpha=0.7) * Columns(Periodic(1.0, 1.7), (0,))
        + Linear(0.3, 0.1)
        + White(0.2)
        + Constant(0.4)
    ),
}
MEANS = {
    "zero": gp.means.Zero(),
    "constant": gp.means.Constant(),
    "linear": gp.means.Linear(),
    "quadratic": NegativeQuadratic(0.0, np.array([0.1, -0.2, 0.3]), np.ones(3)),
}


@pytest.mark.parametrize("noise", [None, 0.1, "per point"])
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_evidence_gradient_is_exact(kernel, mean, noise, data):
    x, y = data[0][:15], data[1][:15]
    known = np.linspace(0.05, 0.2, 15) if noise == "per point" else noise
    problem = EvidenceProblem(x, y, KERNELS[kernel], MEANS[mean], known, profiled=noise is None)
    vector = problem.pack()
    gradient = problem.objective.expanded(vector).gradient
    np.testing.assert_allclose(gradient, central(problem.objective.value, vector), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["se", "matern"])
def test_evidence_gradient_agrees_with_autodiff(name, data):
    """Torch parameters carry gradients through a posterior's evidence."""
    x, y = data[0][:15], data[1][:15]
    kernel = KERNELS[name]
    values = [
        torch.tensor(np.asarray(p.value), dtype=torch.float64, requires_grad=True)
        for p in kernel.parameters()
    ]
    process = gp.GaussianProcess(kernel.with_parameters(values), noise=0.1)
    process.condition(torch.from_numpy(x), torch.from_numpy(y)).log_marginal_likelihood.backward()
    autodiff = np.concatenate([np.ravel((v.grad * v).detach().numpy()) for v in values])
    problem = EvidenceProblem(x, y, kernel, gp.means.Zero(), 0.1, profiled=False)
    gradient = problem.objective.expanded(problem.pack()).gradient
    np.testing.assert_allclose(gradient, autodiff, rtol=1e-9)


def test_evidence_is_no_worse_than_scikit_learn(data):
    x, y = data
    kernel = sk.ConstantKernel() * sk.RBF(np.ones(3), (1e-2, 1e4)) + sk.WhiteKernel(0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        peer = GaussianProcessRegressor(kernel, n_restarts_optimizer=2, random_state=0).fit(x, y)
    ours = gp.fit(x, y, mean=gp.means.Zero(), method="evidence")
    assert ours.log_marginal_likelihood > peer.log_marginal_likelihood_value_ - 0.01


@pytest.mark.parametrize("scale_x", [1e-8, 1e8])
@pytest.mark.parametrize("scale_y", [1e-8, 1e8])
def test_units_do_not_matter(scale_x, scale_y, fitted, data):
    x, y = data
    at = x[:5] + 0.1
    scaled = gp.fit(x * scale_x, y * scale_y)
    np.testing.assert_allclose(
        scaled.mean(at * scale_x) / scale_y, fitted.mean(at), rtol=0, atol=1e-3
    )  # searches end within their tolerance of one optimum, not at one point
    shift = len(y) * np.log(scale_y)
    np.testing.assert_allclose(
        scaled.log_marginal_likelihood + shift, fitted.log_marginal_likelihood, atol=1e-3
    )


def test_what_the_data_do_not_determine_is_said(data):
    x, y = data
    found = gp.fit(x, y).hyperparameters
    assert "lengthscale[2]" in found.reasons  # y does not depend on column 2
    assert "lengthscale[0]" not in found.reasons
    assert "noise" not in found.reasons
    assert "not determined by the data" in str(found)
    noise = dict(zip(found.names, found.values, strict=True))["noise"]
    assert 0.005 < noise < 0.02  # the truth is 0.01, known to about 20 %


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_points(n, data):
    x, y = data[0][:n], data[1][:n]
    alone = pytest.warns(RuntimeWarning, match="all 1 values are .* give more") if n == 1 else nullcontext()
    with alone:  # its standard deviation a thousand lengthscales away is a hundredth of its size
        posterior = gp.fit(x, y)
    assert np.all(np.isfinite(posterior.mean(data[0])))
    assert np.all(posterior.variance(data[0]) >= 0)
    assert len(posterior.hyperparameters.reasons) > 0


def test_few_equal_values_of_a_function_that_varies_are_named():
    x = np.array([[-2.0], [2.0], [2.0 + 2 * np.pi]])
    with pytest.warns(RuntimeWarning, match="all 3 values are -0.416147"):
        gp.fit(x, np.full(3, np.cos(2.0)))
    rounded = np.cos(x[:, 0])
    assert np.ptp(rounded) > 0.0  # the last two are equal up to rounding
    with pytest.warns(RuntimeWarning, match="all 3 values are -0.416147"):
        gp.fit(x, rounded)
    gp.fit(x, np.cos(x[:, 0] + 0.1))  # warnings are errors


def test_equal_values_beside_gradients_are_named_too():
    """A cosine, which is 1 at 0, where the fit had its value at 2 in either direction, to .001."""
    x = np.array([[-2.0], [2.0]])
    blocks, slopes = [gp.Values(x), gp.Gradients(x)], -np.sin(x)
    with pytest.warns(RuntimeWarning, match="all 2 values are -0.416147"):
        gp.fit(blocks, [np.cos(x[:, 0]), slopes])
    gp.fit([gp.Values(x[:1]), gp.Gradients(x)], [np.cos(x[:1, 0]), slopes])  # warnings are errors


@pytest.mark.parametrize("kind", ["noise-free", "pure noise", "a step", "linear"])
def test_fits_do_not_collapse(kind):
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, size=(25, 2))
    y = {
        "noise-free": np.exp(x[:, 0]) * np.cos(x[:, 1]),
        "pure noise": rng.normal(size=25),
        "a step": np.sign(x[:, 0]),
        "linear": 3 * x[:, 0] - x[:, 1],
    }[kind]
    posterior = gp.fit(x, y)
    lengthscale = posterior.kernel.lengthscale / x.std(axis=0)
    assert np.all((lengthscale > 1e-3) & (lengthscale < 1e4))
    at = rng.uniform(-0.7, 0.7, size=(50, 2))
    assert np.all(np.abs(posterior.mean(at)) < 3 * np.abs(y).max())
    if kind == "noise-free":
        np.testing.assert_allclose(posterior.mean(at), np.exp(at[:, 0]) * np.cos(at[:, 1]), atol=1e-2)


def test_known_noise_and_composite_kernels(data):
    x, y = data
    kernel = SquaredExponential(np.ones(3)) + Columns(Linear(), (0,)) + Constant()
    known = gp.fit(x, y, kernel, noise=np.full(60, 0.01))
    assert isinstance(known.noise, np.ndarray)
    assert known.hyperparameters.scale == 1
    shared = gp.fit(x, y, Matern52(1.0), noise=0.01)
    assert np.ndim(shared.kernel.lengthscale) == 0
    known, learnt = (gp.fit(x, y, kernel, noise=noise, method="evidence") for noise in (known.noise, "learn"))
    assert learnt.log_marginal_likelihood > known.log_marginal_likelihood - 0.01


def test_marginal_moments_against_quadrature():
    """One lengthscale, known noise: the marginal moments are integrals over two parameters."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, size=(12, 1))
    y = np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=12)
    at = np.array([[0.3], [2.1]])
    posterior = gp.fit(x, y, SquaredExponential(1.0), gp.means.Zero(), noise=0.01)
    found = posterior.hyperparameters
    lengthscales = np.linspace(-2.0, 2.0, 17) + found.psi[0]
    variances = np.linspace(-3.5, 6.0, 21) + found.psi[1]
    log_weights, means, variance = [], [], []
    for lengthscale in lengthscales:
        for scale in variances:
            psi = np.array([lengthscale, scale])
            value = found.problem.objective.value(found.coordinates.vector(psi))
            log_weights.append(value + found.coordinates.prior.log_density(psi)[0])
            moments = posterior_at(found, psi, x, y).mean_and_variance(at)
            means.append(moments[0])
            variance.append(moments[1])
    weights = np.exp(np.array(log_weights) - max(log_weights))
    weights = (weights / weights.sum())[:, None]
    exact = np.sum(weights * means, axis=0)
    exact_variance = np.sum(weights * (np.array(variance) + (means - exact) ** 2), axis=0)
    ours = gp.marginalise(posterior, n_points=1024)
    # effective size n: the mean is off by sd / sqrt(n), the variance by sqrt(2 / n); 3 of each
    size = ours.effective_size
    assert size > 200
    assert np.all(np.abs(ours.mean(at) - exact) < 3 * np.sqrt(exact_variance / size))
    np.testing.assert_allclose(ours.variance(at), exact_variance, rtol=3 * np.sqrt(2 / size))


def test_a_mixture_given_few_rows_has_the_moments_of_a_grid():
    """Of six rows several explanations are about as likely; those of one had half of this sd.

    The lengthscale and the noise over the variance are on a grid, the variance s has the flat prior on log s,
    by which it is inverse gamma: E s = n / (n - 2) times its mode. The mean is at its most likely value.
    """
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (6, 1))
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=6)
    at = np.array([[0.0], [2.5], [4.0]])
    fitted = gp.fit(x, y)
    found = fitted.hyperparameters
    prior, logs, means, variances = found.coordinates.prior, [], [], []
    for psi in itertools.product(*np.linspace(*prior.bounds, 48).T):
        length, variance, noise = np.exp(found.coordinates.vector(np.array(psi)))
        gram = np.exp(-0.5 * ((x - x.T) / length) ** 2)
        root = np.linalg.cholesky(gram + (noise / variance + 1e-13) * np.eye(6))
        ones, targets, cross = (
            np.linalg.solve(root, part) for part in (np.ones(6), y, np.exp(-0.5 * ((x - at.T) / length) ** 2))
        )
        level = ones @ targets / (ones @ ones)
        rest = targets - level * ones
        logs.append(
            prior.log_density(np.array(psi))[0] - 3 * np.log(rest @ rest) - np.log(np.diag(root)).sum()
        )
        means.append(level + rest @ cross)
        variances.append(rest @ rest / 4 * (1 - (cross**2).sum(0)))
    weights = softmax(logs)
    mean = weights @ means
    sd = np.sqrt(weights @ (variances + (means - mean) ** 2))
    ours = gp.marginalise(fitted, 128).predict(at, return_std=True)
    np.testing.assert_allclose(ours[0], mean, atol=0.1)
    np.testing.assert_allclose(ours[1], sd, rtol=0.3)


def test_marginal_variance_includes_the_hyperparameters(fitted, data):
    x, _ = data
    at = 1.5 * x[:20]
    marginal = gp.marginalise(fitted)
    assert abs(marginal.weights.sum() - 1) < 1e-12
    assert 1 < marginal.effective_size <= 32
    mean, variance = marginal.mean_and_variance(at)
    assert variance.mean() > fitted.variance(at).mean()
    covariance = marginal.covariance(at)
    np.testing.assert_allclose(np.diag(covariance), variance, atol=1e-10)
    draws = marginal.sample(at, 4000, seed=0)
    error = np.abs(draws.mean(axis=0) - mean) / np.sqrt(variance / 4000)
    assert error.max() < 5  # 20 means, each beyond 5 standard errors once in 1.7e6
    given = gp.GaussianProcess(fitted.kernel, noise=0.1).condition(*data)
    with pytest.raises(ValueError, match="no hyperparameters that were fitted"):
        gp.marginalise(given)
    with pytest.raises(ValueError, match="fit it to all"):
        gp.marginalise(fitted.extend(at[:1], np.zeros(1)))


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_fits_are_pickled_with_equal_digits(data, kernel):
    x, y = data
    posterior = gp.fit(x[:25], y[:25], kernel, n_starts=1)
    again = pickle.loads(pickle.dumps(posterior))
    np.testing.assert_array_equal(again.mean_and_variance(x), posterior.mean_and_variance(x))
    np.testing.assert_array_equal(again.hyperparameters.sd, posterior.hyperparameters.sd)


def test_a_mixture_over_many_hyperparameters_is_of_a_chain(data):
    """Of 17 lengthscales 16 are of no effect: half of the plateau and more is as likely for each of them."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(40, 17))
    flat = Priors(lengthscale=Plateau(1e-2, 1e3))
    posterior = gp.fit(x, np.tanh(2 * x[:, 3]) + 0.05 * rng.normal(size=40), priors=flat)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        of_many = gp.marginalise(posterior)
        of_few = gp.marginalise(gp.fit(x[:, 3:6], posterior.y))
    assert of_many.effective_size == pytest.approx(32.0)
    at = rng.normal(size=(200, 17))
    covered = [
        np.mean(np.abs(each.mean(at) - np.tanh(2 * at[:, 3])) < 1.96 * np.sqrt(each.variance(at)))
        for each in (posterior, of_many)
    ]
    assert covered[1] > max(covered[0] + 0.05, 0.85)
    # without the coordinates in which the prior is normal 3 of 32 sets carried the weight on such data
    assert of_few.effective_size > 4
    assert np.isfinite(of_few.mean(x[:5, 3:6])).all()


def test_few_rows_of_many_columns_leave_the_predictions_calibrated():
    """Of 40 rows and 25 columns; the coverage of 95 % intervals was .46 to .77 with flat priors."""
    covered, flat = [], []
    for seed in (31, 32, 33):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(240, 25))
        y = x @ rng.normal(size=25) / 5 + np.tanh(x[:, 0]) + 0.5 * rng.normal(size=240)
        for coverages, priors in (
            (covered, None),
            (flat, Priors(Plateau(1e-2, 1e3), noise=Plateau(1e-10, 1e2))),
        ):
            posterior = gp.fit(x[:40], y[:40], priors=priors)
            mean, variance = posterior.mean_and_variance(x[40:])
            coverages.append(np.mean(np.abs(mean - y[40:]) < 1.96 * np.sqrt(variance + posterior.noise)))
    assert min(covered) > 0.85
    assert np.mean(covered) > np.mean(flat) + 0.1


@pytest.mark.parametrize("kernel", [SquaredExponential(np.ones(3)), Periodic()])
def test_more_starts_contain_fewer(kernel, data):
    problem = EvidenceProblem(*data, kernel, gp.means.Zero(), None, True)
    coordinates = SearchCoordinates.of(problem, DataUnits.of(*data), Priors())
    few, many = (_starts(InUnits(problem, coordinates, True), n, np.random.default_rng(3)) for n in (4, 13))
    assert (len(few), len(many)) == (4, 13)
    np.testing.assert_array_equal(few, many[:4])


@pytest.mark.parametrize(("period", "n", "seed"), [(0.45, 45, 0), (1.9, 70, 1), (3.3, 110, 2)])
def test_periods_are_scanned(period, n, seed):
    """The evidence is as high as from a start at the true period, with the fewest starts."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 12, (n, 1))
    y = np.cos(2 * np.pi * x[:, 0] / period) + 0.4 * np.sin(4 * np.pi * x[:, 0] / period)
    y += 0.25 * rng.normal(size=n)
    informed = gp.fit(x, y, Periodic(1.0, period), n_starts=1)
    posterior = gp.fit(x, y, Periodic(), n_starts=2)
    assert posterior.log_marginal_likelihood > informed.log_marginal_likelihood - 0.1
    assert posterior.kernel.period == pytest.approx(period, rel=0.02)


@pytest.mark.parametrize(("periods", "n", "seed"), [((1.3, 3.3), 69, 3), ((2.2, 2.6), 49, 11)])
def test_two_periods_are_scanned_beside_each_other(periods, n, seed):
    """As high as from the true periods: 8 and 13 nats were lost to periods of both waves together."""
    rng = np.random.default_rng(seed)
    rng.random(3)
    x = rng.uniform(0, 11, (n, 1))
    y = sum(np.sin(2 * np.pi * x[:, 0] / period) for period in periods) + 0.2 * rng.normal(size=n)
    informed = gp.fit(x, y, Periodic(1.0, periods[0]) + Periodic(1.0, periods[1]), n_starts=1)
    posterior = gp.fit(x, y, Periodic() + Periodic(), n_starts=3)
    found = sorted(term.period for term in posterior.kernel.terms)
    assert posterior.log_marginal_likelihood > informed.log_marginal_likelihood - 0.5
    np.testing.assert_allclose(found, sorted(periods), rtol=0.02)


@pytest.mark.parametrize(("period", "n", "span", "seed"), [(3.1, 100, 28, 7), (2.2, 90, 24, 11)])
def test_periods_of_waves_that_grow_are_scanned(period, n, span, seed):
    """A periodic kernel times another: as high as from a start at the period; 21 to 77 nats were lost."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, span, (n, 1)), axis=0)
    y = np.sin(2 * np.pi * x[:, 0] / period) * (1 + 0.06 * x[:, 0]) + 0.12 * x[:, 0]
    y += 0.1 * rng.normal(size=n)
    informed = gp.fit(x, y, Periodic(1.0, period) * SquaredExponential(float(span)))
    posterior = gp.fit(x, y, Periodic() * SquaredExponential())
    assert posterior.log_marginal_likelihood > informed.log_marginal_likelihood - 0.1


def test_priors_end_what_the_evidence_would_not(data):
    x, y = data
    narrow = Priors(lengthscale=Plateau(0.5, 2.0, falloff=0.1))
    lengthscale = gp.fit(x, y, priors=narrow).kernel.lengthscale / x.std(axis=0)
    assert np.all(lengthscale < 2.0 * np.exp(0.4) + 1e-9)
    with pytest.raises(ValueError, match="lower < centre"):
        LogCauchy(centre=1e4)
    heavy = JointPrior.of([LogCauchy()])
    for t in (-3.0, 1.0, 4.0):
        slope = approx_fprime([t], lambda v: heavy.log_density(v)[0], 1e-6)
        np.testing.assert_allclose(heavy.log_density(np.array([t]))[1], slope, atol=1e-4)
    grid = np.linspace(*heavy.bounds, 200_001)[:, 0]
    weights = 1 / (1 + ((grid - np.sqrt(2)) / 0.35) ** 2)
    mean = np.average(grid, weights=weights)
    expected = np.sqrt(np.average((grid - mean) ** 2, weights=weights))
    np.testing.assert_allclose(heavy.sd, expected, rtol=1e-4)
    prior = Plateau(0.5, 2.0, 0.3)
    low, high = np.log([prior.lower, prior.upper])
    joint = JointPrior.of([prior])
    mass = integrate.quad(lambda t: np.exp(joint.log_density(np.array([t]))[0]), -3, 3)[0]
    np.testing.assert_allclose(mass, high - low + 0.3 * np.sqrt(2 * np.pi), rtol=1e-6)
    for t in (-1.3, 0.0, 1.1):
        slope = approx_fprime([t], lambda v: joint.log_density(v)[0], 1e-6)
        np.testing.assert_allclose(joint.log_density(np.array([t]))[1], slope, atol=1e-4)


def test_no_convergence_is_said(data):
    with pytest.warns(RuntimeWarning, match="max_iterations"):
        posterior = gp.fit(*data, max_iterations=1)
    assert not posterior.hyperparameters.converged


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"method": "ml"}, ValueError, "method"),
        ({"n_starts": 0}, ValueError, "n_starts"),
        ({"noise": "unknown"}, ValueError, "noise"),
        ({"noise": -1.0}, ValueError, "noise"),
        ({"kernel": SquaredExponential(np.ones(2))}, ValueError, "columns"),
        ({"kernel": Columns(SquaredExponential(), (5,))}, ValueError, "reads column 5, x has 3, from 0 on"),
        ({"copies": "drop"}, ValueError, "copies is 'drop'; it must be one of count, merge"),
        ({"y": lambda y: 1e-200 * y}, ValueError, "y has a spread of"),
        ({"y": lambda y: 1e200 * y}, ValueError, "y has a spread of"),
        ({"y": lambda y: np.where(np.arange(60) == 3, np.nan, y)}, ValueError, "y is nan in row 3"),
        ({"x": lambda x: x[:0], "y": lambda y: y[:0]}, ValueError, "x has no points"),
        ({"mean": 3.0}, TypeError, "mean = "),
        ({"priors": 3}, TypeError, "priors = "),
        ({"kernel": "rbf"}, TypeError, "kernel = "),
    ],
)
def test_bad_arguments_are_named(changed, error, message, data):
    given = dict(zip("xy", data, strict=True))
    with pytest.raises(error, match=message):
        gp.fit(**given | {k: v(given[k]) if k in given else v for k, v in changed.items()})


def test_two_values_at_one_point_need_noise(data):
    """Without the check the kernel's variance grows until its jitter explains the difference."""
    x, y = data
    twice, values = np.concatenate([x, x[3:4]]), np.append(y, y[3] + 0.5)
    of_points = Matern52(1.0) + White(0.1)  # independent values of points, not of observations
    for kernel, noise in ((None, None), (None, 0.0), (None, np.zeros(61)), (of_points, None)):
        with pytest.raises(ValueError, match=r"x\[3\] and x\[60\] are the same point"):
            gp.fit(twice, values, kernel=kernel, noise=noise)
    for arguments in ({}, {"noise": 0.1}):
        mean = gp.fit(twice, values, **arguments).mean(x[3:4])
        assert y[3] - 0.2 < mean < y[3] + 0.5  # between the two values, or on the side of its neighbours


def test_copies_of_rows_that_make_the_noise_vanish_are_named(data):
    """Targets are rounded, as ratings are, and every third row occurs twice, so that the fitted noise
    vanishes.
    """
    rng = np.random.default_rng(7)
    x = rng.normal(size=(60, 3))
    y = np.round(x[:, 0] + rng.normal(size=60))
    with pytest.warns(RuntimeWarning, match="20 of 80 rows repeat another"):
        collapsed = gp.fit(np.concatenate([x, x[::3]]), np.concatenate([y, y[::3]])).hyperparameters
    assert "repeat another" in collapsed.reasons["noise"]
    assert "repeat another" in str(collapsed)
    distinct = gp.fit(x, y)  # warnings are errors
    assert distinct.hyperparameters.n_repeated == 0
    assert "noise" not in distinct.hyperparameters.reasons
    assert 0.5 < distinct.noise < 2.0  # 1 + 1 / 12 by rounding, known to sqrt(2 / 60) = 18 %
    smooth = gp.fit(np.concatenate([data[0], data[0][:1]]), np.append(data[1], data[1][0]))
    assert smooth.hyperparameters.n_repeated == 0  # one copy among values that are noisy does no harm


def test_copies_can_be_merged():
    """The same as a fit without them; rows that differ in their target or their noise are no copies."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((40, 2))
    y = np.sin(2 * x[:, 0]) + 0.3 * rng.standard_normal(40)
    again = np.concatenate([x, x[:15]]), np.concatenate([y, y[:10], y[10:15] + 1.0])
    merged = gp.fit(*again, copies="merge", n_starts=1)
    assert len(merged.y) == 45
    apart = np.r_[0:40, 50:55]
    alone = gp.fit(again[0][apart], again[1][apart], n_starts=1)
    np.testing.assert_array_equal(merged.x, alone.x)
    np.testing.assert_array_equal(merged.hyperparameters.psi, alone.hyperparameters.psi)
    noise = [0.1] * 45 + [0.2] * 10
    assert len(gp.fit(*again, noise=noise, copies="merge", n_starts=1).noise) == 50
    tensors = gp.fit(*(torch.from_numpy(part) for part in again), copies="merge", n_starts=1)
    assert tensors.y.shape == (45,)
    slopes = [gp.Values(again[0]), gp.Gradients(x[:4])]
    with_slopes = gp.fit(slopes, [again[1], np.zeros((4, 2))], copies="merge", n_starts=1)
    assert len(with_slopes.y) == 45 + 8


def test_the_present_values_are_a_start_whatever_they_are():
    """Season and trend differ much in size: only a start at the user's own values leads to the period."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 30, (120, 1)), axis=0)
    y = 40 * np.sin(x[:, 0] / 12) + np.sin(2 * np.pi * x[:, 0]) + 0.1 * rng.standard_normal(120)
    kernel = SquaredExponential(20.0, 60.0**2) + Periodic(1.0, 1.0)
    posterior = gp.fit(x, y, kernel, n_starts=1)
    # the frequency's error is about 0.1 sqrt(6 / 120) / (30 pi) < 3e-4 of a cycle: 1e-2 is 30 of it
    np.testing.assert_allclose(posterior.kernel.terms[1].period, 1.0, atol=1e-2)
    as_given = SearchCoordinates.of(posterior.hyperparameters.problem, DataUnits.of(x, y), Priors())
    kept = as_given.vector(as_given.psi(posterior.hyperparameters.problem.pack()))
    variances = np.exp(kept[[1, 4]])
    assert variances[0] / variances[1] == pytest.approx(3600, rel=1e-12)


@pytest.mark.parametrize("noise", ["learn", 1e-4])
def test_values_are_those_of_the_posterior_in_any_unit(noise):
    """Names, values and model agree; in other units each value is multiplied by its unit."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(60, 2))
    y = 3 - 0.5 * np.sum(((x - 0.4) / [0.8, 1.6]) ** 2, axis=1) + 0.01 * rng.normal(size=60)
    a, b = 1e3, 1e-4
    known = (noise, noise if noise == "learn" else noise * b**2)
    plain = gp.fit(x, y, SquaredExponential(np.ones(2)), noise=known[0])
    other = gp.fit(a * x, b * y, SquaredExponential(a * np.ones(2), b**2), noise=known[1])
    for posterior in (plain, other):
        values = dict(zip(posterior.hyperparameters.names, posterior.hyperparameters.values, strict=True))
        for d in range(2):
            np.testing.assert_allclose(
                values[f"lengthscale[{d}]"], posterior.kernel.lengthscale[d], rtol=1e-10
            )
        if noise == "learn":
            np.testing.assert_allclose(values["noise"], posterior.noise, rtol=1e-10)
        else:
            np.testing.assert_allclose(values["variance"], posterior.kernel.variance, rtol=1e-10)
    np.testing.assert_allclose(other.kernel.lengthscale, a * plain.kernel.lengthscale, rtol=1e-2)
    shift = len(y) * np.log(b)
    np.testing.assert_allclose(
        other.log_marginal_likelihood + shift, plain.log_marginal_likelihood, atol=1e-3
    )
