"""The posterior in the user's units: densities by integration, moments by draws, other packages."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import torch

import bqvi
from bqvi import families
from bqvi.calls.coordinates import make_coordinates
from bqvi.importance import effective_size
from bqvi.posterior import Posterior, WeightedDraws
from bqvi.records import flattened
from gp.measures import Empirical, Gaussian, GaussianMixture, Uniform

INF = math.inf
SEED = 0


def mixture(dimension, count=3, scale=0.3):
    rng = np.random.default_rng(7)
    means = 0.5 * rng.standard_normal((count, dimension))
    factors = scale * (0.5 * rng.standard_normal((count, dimension, dimension)) + np.eye(dimension))
    weights = np.arange(1.0, count + 1)
    covariances = factors @ np.swapaxes(factors, 1, 2)
    return GaussianMixture(weights / weights.sum(), means, covariances)


def every_kind(draws=None):
    """Unbounded, bounded below, bounded above, bounded, periodic and fixed parameters."""
    coordinates = make_coordinates(
        [-INF, 2.0, -INF, -1.0, 0.0, 3.0],
        [INF, INF, 5.0, 4.0, 2 * math.pi, 3.0],
        [-10.0, 2.5, -3.0, 0.0, 5.5, np.nan],
        [30.0, 6.0, 4.0, 3.5, 7.5, np.nan],
        periodic=[4],
        names=["line", "above", "below", "between", "angle", "fixed"],
    )
    return Posterior(mixture(5), coordinates, draws)


def plane():
    """A bounded and a half-bounded parameter."""
    coordinates = make_coordinates([0.0, 0.0], [2.0, INF], [0.3, 0.5], [1.5, 3.0])
    return Posterior(mixture(2), coordinates)


def test_the_mixture_of_weighted_draws_has_the_density_they_have():
    """10,000 draws of a wide Gaussian with weights to a mixture in the plane, from the nearest means.

    A fit of 17 parameters to n effective draws has an expected divergence of 17 / (2 n): .003 for 2,600.
    """
    q, wide = mixture(2), Gaussian(np.zeros(2), 1.5 * np.eye(2))
    points = wide.sample(10_000, SEED)
    draws = WeightedDraws(points, q.log_density(points) - wide.log_density(points))
    groups = np.square(points[:, None] - q.means).sum(2).argmin(1)
    fitted = draws.mixture(groups)
    x = q.sample(10_000, 1)
    assert len(fitted.weights) == 3
    assert abs(np.mean(q.log_density(x) - fitted.log_density(x))) < 0.01
    # a group of a single draw is no component
    groups[7] = 3
    assert len(draws.mixture(groups).weights) == 3


def test_moments_and_quantiles_are_those_of_draws():
    """Five standard errors each: about one false alarm in 1e5 runs."""
    posterior = every_kind()
    points = posterior.q.sample(200_000, SEED)
    theta = posterior.coordinates.unwrapped(points)
    error = theta.std(axis=0) / np.sqrt(len(theta))
    middle, covariance = posterior._moments()
    assert (np.abs(theta.mean(axis=0) - middle) <= 5 * error + 1e-12).all()
    products = (theta - middle)[:, :, None] * (theta - middle)[:, None, :]
    error = products.std(axis=0) / np.sqrt(len(theta))
    assert (np.abs(products.mean(axis=0) - covariance) <= 5 * error).all()
    levels = [0.05, 0.5, 0.9]
    found = posterior.quantiles(levels)
    reached = (theta[:, :5, None] <= found.T[:5][None]).mean(axis=0)
    assert (np.abs(reached - levels) < 5 * 0.5 / np.sqrt(len(theta))).all()
    np.testing.assert_allclose(found[:, 5], 3.0)


@pytest.mark.parametrize("at", [2.0, np.pi, 3.3, 6.0])
def test_moments_of_a_periodic_parameter_are_those_around_its_mean_direction(at):
    """Of a von Mises density, wherever the period was cut: here at 0, opposite the plausible interval."""
    box = make_coordinates([0.0], [2 * np.pi], [3.0], [3.3], periodic=[0])
    v = box.from_user(np.linspace(0.0, 2 * np.pi, 4001)[1:-1, None])
    logs = 30.0 * np.cos(box.to_user(v)[:, 0] - at)  # on a grid of equal cells
    q = GaussianMixture(np.ones(1), np.zeros((1, 1)), np.eye(1))
    posterior = Posterior(q, box, WeightedDraws(v, logs))
    half = np.linspace(-np.pi, np.pi, 4001)
    density = np.exp(30.0 * (np.cos(half) - 1.0))
    sd = np.sqrt(density @ half**2 / density.sum())
    assert posterior.mean[0] == pytest.approx(at, abs=1e-3)
    assert posterior.sd[0] == pytest.approx(sd, rel=1e-3)
    assert np.diff(posterior.quantiles([0.1587, 0.8413])[:, 0])[0] == pytest.approx(2 * sd, rel=0.02)


def test_outside_has_no_density():
    posterior = every_kind()
    inside = posterior.mean
    rows = np.tile(inside, (4, 1))
    rows[1, 1], rows[2, 3], rows[3, 5] = 1.0, 4.0, 2.0
    values = posterior.log_prob(rows)
    assert np.isfinite(values[0])
    assert (values[1:] == -np.inf).all()
    assert posterior.log_prob(inside) == values[0]


@pytest.mark.parametrize("name", ["line", "above", "below", "between", "angle"])
def test_marginals_are_those_of_draws(name):
    posterior = every_kind()
    draws = posterior.sample(100_000, SEED)[:, posterior.names.index(name)]
    edges = np.linspace(*np.quantile(draws, [0.001, 0.999]), 41)
    counts, _ = np.histogram(draws, edges)
    inner = np.linspace(edges[:-1], edges[1:], 21)
    density = posterior.marginal_density(name, inner.ravel()).reshape(inner.shape)
    expected = len(draws) * scipy.integrate.simpson(density, x=inner, axis=0)
    assert (np.abs(counts - expected) < 5.5 * np.sqrt(expected + 1)).all()


def test_mode_is_the_highest_draw():
    for posterior in (plane(), every_kind()):
        mode = posterior.mode()
        height = posterior.log_prob(mode)
        assert height >= posterior.log_prob(posterior.sample(5000, SEED)).max()
        if posterior.coordinates.dimension == 2:
            near = mode + 1e-3 * np.random.default_rng(0).standard_normal((50, 2))
            assert (posterior.log_prob(near) <= height + 1e-9).all()


def test_torch_distribution_agrees():
    posterior = every_kind()
    distribution = posterior.to_torch()
    theta = posterior.coordinates.unwrapped(posterior.q.sample(50, SEED))
    found = distribution.log_prob(torch.as_tensor(theta[:, :5]))
    np.testing.assert_allclose(found.numpy(), posterior.log_prob(theta), rtol=1e-8)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        draws = distribution.sample((20_000,)).numpy()
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - posterior._moments()[0][:5]) < 5 * error).all()
    unbounded = Posterior(mixture(2), make_coordinates(plausible_lower=[-3, 0], plausible_upper=[1, 2]))
    x = unbounded.sample(10, SEED)
    np.testing.assert_allclose(unbounded.to_torch().log_prob(torch.as_tensor(x)), unbounded.log_prob(x))


def test_arviz_opens_the_draws(tmp_path):
    pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    arviz = pytest.importorskip("arviz_base")
    posterior = every_kind()
    posterior.to_netcdf(tmp_path / "run.nc", n=400, seed=1, log_evidence=-3.5)
    back = arviz.convert_to_datatree(str(tmp_path / "run.nc"))
    draws = posterior.sample(400, 1)
    for i, name in enumerate(posterior.names):
        assert back["posterior"][name].dims == ("chain", "draw")
        np.testing.assert_array_equal(back["posterior"][name].values.ravel(), draws[:, i])
    np.testing.assert_allclose(back["sample_stats"]["lp"].values.ravel(), posterior.log_prob(draws))
    assert back["posterior"].attrs["log_evidence"] == -3.5
    assert arviz.extract(back)["above"].sizes == {"sample": 400}


def tilted():
    """Q weighted by exp(a v): a mixture again, in closed form."""
    posterior = every_kind()
    points = posterior.q.sample(40_000, 3)
    a = np.array([0.5, -0.3, 0.0, 0.4, 0.2])
    q = posterior.q
    weights = q.weights * np.exp(q.means @ a + 0.5 * np.einsum("i,kij,j->k", a, q.covariances, a))
    exact = GaussianMixture(weights / weights.sum(), q.means + q.covariances @ a, q.covariances)
    weighted = Posterior(q, posterior.coordinates, WeightedDraws(points, points @ a + 7.0))
    return weighted, Posterior(exact, posterior.coordinates)


def test_weights_correct_what_is_drawn():
    weighted, exact = tilted()
    n = float(effective_size(weighted.draws.weights))
    sd = np.sqrt(np.diag(exact.covariance))
    assert (np.abs(weighted._moments()[0] - exact._moments()[0]) <= 5 * sd / np.sqrt(n) + 1e-12).all()
    np.testing.assert_allclose(weighted.covariance, exact.covariance, atol=0.05 * sd.max() ** 2)
    draws = weighted.sample(20_000, SEED)
    assert (np.abs(draws[:, :4].mean(axis=0) - exact.mean[:4]) < 8 * sd[:4] / np.sqrt(20_000)).all()
    np.testing.assert_allclose(
        weighted.quantiles([0.2, 0.8])[:, :4], exact.quantiles([0.2, 0.8])[:, :4], atol=0.05 * sd.max()
    )
    theta = draws[:5]
    np.testing.assert_array_equal(weighted.log_prob(theta), replace(weighted, draws=None).log_prob(theta))


@pytest.mark.parametrize("weighted", [False, True])
def test_file_holds_everything(weighted, tmp_path):
    posterior = tilted()[0] if weighted else every_kind()
    posterior.save(tmp_path / "p.npz")
    again = bqvi.load(tmp_path / "p.npz")
    np.testing.assert_array_equal(again.sample(50, 2), posterior.sample(50, 2))
    np.testing.assert_array_equal(again.mean, posterior.mean)
    assert again.names == posterior.names


@pytest.mark.parametrize(
    "q", [Uniform([0.0, 1.0], [2.0, 4.0]), Empirical([[0.0, 1.0], [2.0, 0.0], [1.0, 1.0]])]
)
def test_a_measure_that_is_no_gaussian_is_not_taken_for_one(q):
    with pytest.raises(TypeError, match=f"is a {type(q).__name__}; it must be a Gaussian or a mixture"):
        Posterior.of(q)
    with pytest.raises(TypeError, match=f"proposal is a {type(q).__name__}"):
        bqvi.evidence_bounds(lambda t: -t.sum(1), q, budget=100)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "text").write_text("nothing")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    np.save(tmp_path / "one.npy", np.zeros(3))
    for name in ("text", "other.npz", "one.npy"):
        with pytest.raises(ValueError, match="is no saved run"):
            bqvi.load(tmp_path / name)


def test_files_that_were_cut_off_or_changed_are_refused_or_hold_the_same(tmp_path):
    path, rng = tmp_path / "p.npz", np.random.default_rng(5)
    posterior = tilted()[1]  # without draws: a small file, of which each byte matters
    posterior.save(path)
    content, right = path.read_bytes(), held(posterior)
    for i in range(400):
        at = int(rng.integers(len(content)))
        changed = bytearray(content if i % 2 else content[:at])
        if i % 2:
            changed[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(changed))
        found, message = attempt(path)
        assert found == right or message.startswith(str(path))


def held(posterior):
    """The contents of a saved posterior: names and structure, and arrays as bytes."""
    arrays = []
    return flattened(posterior, arrays), [array.tobytes() for array in arrays]


def attempt(path):
    """The parts of the posterior in a file, or None and the message."""
    try:
        return held(bqvi.load(path)), ""
    except ValueError as error:
        return None, str(error)


def test_table_of_parameters():
    lines = str(every_kind()).splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(every_kind().names)
    assert float(lines[2].split()[1]) == pytest.approx(every_kind().mean[1], rel=1e-4)


def test_bad_arguments():
    posterior = every_kind()
    with pytest.raises(ValueError, match=r"theta has shape \(2,\)"):
        posterior.log_prob([1.0, 2.0])
    with pytest.raises(ValueError, match="n is 0"):
        posterior.sample(0, 1)
    with pytest.raises(TypeError, match="seed is None"):
        posterior.sample(3, None)
    with pytest.raises(ValueError, match="is fixed"):
        posterior.marginal_density("fixed", np.zeros(1))
    with pytest.raises(ValueError, match="parameter is 'nobody'"):
        posterior.marginal_density("nobody", np.zeros(1))
    with pytest.raises(ValueError, match="levels is"):
        posterior.quantiles([0.0])
    with pytest.raises(ValueError, match="q has dimension 2"):
        Posterior(mixture(2), posterior.coordinates)


@pytest.mark.parametrize("kind", ["full", "diagonal", "mixture"])
def test_a_fitted_q_is_a_posterior_in_its_own_coordinates(kind):
    rng = np.random.default_rng(3)
    mean, factor = rng.standard_normal(3), rng.standard_normal((3, 3)) + 2 * np.eye(3)
    covariance = factor @ factor.T
    if kind == "mixture":
        q = families.GaussianMixture(
            np.array([0.3, 0.7]), np.stack([mean, -mean]), np.stack([covariance] * 2)
        )
        known = (
            scipy.stats.multivariate_normal(mean, covariance),
            scipy.stats.multivariate_normal(-mean, covariance),
        )
        x = rng.standard_normal((5, 3))
        expected = np.log(0.3 * known[0].pdf(x) + 0.7 * known[1].pdf(x))
    else:
        q = families.Gaussian(mean, covariance)
        if kind == "diagonal":
            covariance = np.diag(np.diag(covariance))
            q = families.DiagonalGaussian(mean, np.diag(covariance))
        x = rng.standard_normal((5, 3))
        expected = scipy.stats.multivariate_normal(mean, covariance).logpdf(x)
    found = Posterior.of(q, names=["a", "b", "c"])
    np.testing.assert_allclose(found.log_prob(x), expected, rtol=1e-10)
    np.testing.assert_allclose(found.mean, np.asarray(q.mean), atol=1e-10)
    np.testing.assert_allclose(found.covariance, np.asarray(q.covariance), rtol=1e-9, atol=1e-9)
    assert found.names == ("a", "b", "c")
    with pytest.raises(TypeError, match="q is a list"):
        Posterior.of([1.0])


def test_the_repr_of_a_posterior_and_of_a_trace_is_a_line():
    box = {"plausible_lower": [-2.0] * 6, "plausible_upper": [2.0] * 6}
    found = bqvi.vbmc(lambda x: -0.5 * float(x @ x), **box, budget=20, seed=0)
    for shown, start in ((repr(found.posterior), "Posterior(6 parameters: x0, x1, x2, x3, ...; "),
                         (repr(found.trace), f"Trace({len(found.trace)} rows: n_evaluations, ")):  # fmt: skip
        assert shown.startswith(start)
        assert len(shown) < 300
        assert "\n" not in shown


def test_notebooks_show_a_posterior_and_a_trace_as_tables():
    box = {"plausible_lower": [-2.0] * 2, "plausible_upper": [2.0] * 2}
    found = bqvi.vbmc(lambda x: -0.5 * float(x @ x), **box, budget=20, seed=0)
    sds = np.sqrt(np.diag(found.posterior.covariance))
    page = found.posterior._repr_html_()
    assert page.count("<tr>") == 2
    assert f"{found.posterior.mean[1]:.4g} ± {sds[1]:.2g}" in page
    assert f"{found.trace.rows[-1].log_evidence:.4g}" in found.trace._repr_html_()
    assert type(found.trace)(())._repr_html_().count("<tr>") == 1
