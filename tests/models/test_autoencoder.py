"""The autoencoder: bounds and gradients against a linear decoder, whose posterior and evidence are closed.

With x = W z + b + noise of standard deviation s (probabilistic PCA, Tipping and Bishop 1999) and a linear
encoder of constant standard deviations, the ELBO is a closed expression that torch differentiates.
"""

import math
import tracemalloc

import numpy as np
import pytest
import scipy.stats
import torch
from numpy.testing import assert_allclose
from torch import nn

import bqvi
from acquisition.minibatch import Reshuffled
from bqvi.families import DiagonalGaussian, Point, Product
from bqvi.gradients import IWAE, Batch, DReG, Pathwise, Score
from bqvi.gradients.amortised import Local
from bqvi.models import (
    GaussianLikelihood,
    VariationalAutoencoder,
    WeightPrior,
)
from bqvi.models.likelihoods import BernoulliLikelihood
from bqvi.models.networks import Network
from bqvi.runs import RunError
from experiments.amortised.weight_network import WeightNetwork
from gp.arrays import to_numpy


@pytest.fixture(autouse=True)
def torch_generator():
    """Networks made in a test draw from torch's global generator."""
    with torch.random.fork_rng():
        yield


N, D, LATENT = 40, 4, 2
SIGMAS = 5.0
"""A false alarm once in 1.7 million for each number that is compared."""


class Linear(nn.Module):
    """Means A x + c, and the same log standard deviations for each x."""

    def __init__(self):
        super().__init__()
        self.map = nn.Linear(D, LATENT)
        self.log_scale = nn.Parameter(torch.full((LATENT,), -0.5))

    def forward(self, x):
        return torch.cat([self.map(x), self.log_scale.expand(len(x), LATENT)], 1)


def linear_model(**kwargs):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        networks = Linear(), nn.Linear(LATENT, D)
    given = {"latent": LATENT, "likelihood": GaussianLikelihood(), "dtype": torch.float64}
    return VariationalAutoencoder(*networks, **given | kwargs)


MODEL = linear_model()
X = np.random.default_rng(0).standard_normal((N, LATENT)) @ np.random.default_rng(1).standard_normal(
    (LATENT, D)
)
X = X + 0.5 * np.random.default_rng(2).standard_normal((N, D)) + 1.0
Q = MODEL.initial(X, "k-means++", np.random.default_rng(0))


def exact_elbo(q, x):
    """The ELBO of the linear model, from its factors as leaves."""
    a, c, ls = (q[f"encoder.{name}"].place for name in ("map.weight", "map.bias", "log_scale"))
    w, b, log_sd = q["decoder.weight"].place, q["decoder.bias"].place, q["likelihood.log_sd"].place
    x = torch.as_tensor(x)
    m, v = x @ a.T + c, (2.0 * ls).exp()
    squares = (x - m @ w.T - b).square().sum(1) + (w.square() @ v).sum()
    fit = -0.5 * squares / (2.0 * log_sd).exp() - D * (log_sd + 0.5 * math.log(2.0 * math.pi))
    return (fit - 0.5 * (m.square() + v - 1.0 - 2.0 * ls).sum(1)).sum()


def exact_gradient(q, x):
    leaves = tuple(u.clone().requires_grad_() for u in q.unconstrained)
    value = exact_elbo(q.from_unconstrained(leaves), x)
    return float(value.detach()), flat(torch.autograd.grad(value, leaves))


def flat(values):
    return np.concatenate([np.ravel(to_numpy(g)) for g in values])


def mean_gradient(estimator, model=MODEL, q=Q, repeats=150):
    """Mean and standard error over ``repeats`` of the gradient and of the bound."""
    batch, rng = Batch(X, N), np.random.default_rng(3)
    found = [estimator(model, q, batch, rng) for _ in range(repeats)]
    table = np.array([np.append(flat(g.values), g.bound) for g in found])
    return table.mean(0), table.std(0, ddof=1) / np.sqrt(repeats)


@pytest.mark.parametrize(
    "estimator",
    [
        Pathwise(20),
        Pathwise(20, entropy="sampled"),
        Pathwise(20, entropy="sticking-the-landing"),
        Score(40),
        Score(40, baseline=False, entropy="analytic"),
        IWAE(1),
        DReG(1),
    ],
    ids=str,
)
def test_gradients_are_those_of_the_exact_bound(estimator):
    value, gradient = exact_gradient(Q, X)
    mean, error = mean_gradient(estimator)
    assert (np.abs(mean - np.append(gradient, value)) <= SIGMAS * error + 1e-9).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_gradients_on_a_device_are_those_of_the_exact_bound():
    model = linear_model(device="cuda")
    q = model.initial(X, "k-means++", np.random.default_rng(0))
    assert all(parameter.device.type == "cuda" for parameter in q.unconstrained)
    on_host = Q.from_unconstrained(tuple(parameter.cpu() for parameter in q.unconstrained))
    value, gradient = exact_gradient(on_host, X)
    mean, error = mean_gradient(Pathwise(20), model, q, repeats=30)
    assert (np.abs(mean - np.append(gradient, value)) <= SIGMAS * error + 1e-9).all()


def test_weights_begin_as_they_were_given_unless_they_are_to_be_drawn():
    torch.manual_seed(0)
    _, decoder = Linear(), nn.Linear(LATENT, D)  # as in linear_model
    found = {how: MODEL.initial(X, how, np.random.default_rng(0)) for how in ("k-means++", "random")}
    same = [torch.equal(q["decoder.weight"].place, decoder.weight.double()) for q in found.values()]
    assert same == [True, False]


@pytest.mark.parametrize("beta", [1.0, 0.6])
def test_the_two_gradients_of_the_importance_weighted_bound_agree(beta):
    model = linear_model(beta=beta)
    a, b = (mean_gradient(estimator(5), model, repeats=100) for estimator in (IWAE, DReG))
    assert (np.abs(a[0] - b[0]) <= SIGMAS * np.hypot(a[1], b[1]) + 1e-9).all()


def principal_components(x):
    """The maximum-likelihood decoder, its exact posterior, and its evidence in closed form."""
    centre = x.mean(0)
    values, vectors = np.linalg.eigh(np.cov(x.T, bias=True))
    s2 = values[: D - LATENT].mean()
    w = vectors[:, D - LATENT :] * np.sqrt(values[D - LATENT :] - s2)
    m = w.T @ w + s2 * np.eye(LATENT)  # diagonal: the columns of w are orthogonal
    a = np.linalg.solve(m, w.T)
    places = {
        "encoder.map.weight": a,
        "encoder.map.bias": -a @ centre,
        "encoder.log_scale": 0.5 * np.log(s2 / np.diag(m)),
        "decoder.weight": w,
        "decoder.bias": centre,
        "likelihood.log_sd": [0.5 * np.log(s2)],
    }
    q = Product({name: Point(torch.tensor(places[name])) for name in Q.factors})
    return q, scipy.stats.multivariate_normal(centre, w @ w.T + s2 * np.eye(D)).logpdf(x)


def test_at_the_optimum_of_principal_components_the_bound_is_the_evidence():
    q, evidence = principal_components(X)
    rng = np.random.default_rng(0)
    landed = Pathwise(1, entropy="sticking-the-landing")(MODEL, q, Batch(X, N), rng)
    assert_allclose(landed.bound, evidence.sum(), rtol=1e-12)  # each draw's weight is the evidence
    assert np.abs(flat(landed.values[:3])).max() < 1e-9  # the encoder's gradient is zero at every draw
    assert np.abs(exact_gradient(q, X)[1]).max() < 1e-9
    assert_allclose(MODEL.log_evidence(q, X, samples=1), evidence, rtol=1e-10)


def images(n=60, columns=9, seed=0):
    return (np.random.default_rng(seed).random((n, columns)) > 0.5).astype(np.float32)


def small(**kwargs):
    return VariationalAutoencoder(**{"latent": 2, "dimension": 9, "hidden": 5} | kwargs)


@pytest.mark.parametrize("through_a_file", [False, True])
def test_a_run_is_resumed_to_the_same_numbers(tmp_path, through_a_file):
    choices = {"model": small(), "data": images(), "method": "dreg", "minibatch": Reshuffled(16), "seed": 3}
    whole = bqvi.fit(**choices, steps=14)
    half = bqvi.fit(**choices, steps=6)
    half.save(tmp_path / "run.npz")
    rest = bqvi.fit(**choices, steps=14, resume=tmp_path / "run.npz" if through_a_file else half)
    for a, b in zip(whole.q.unconstrained, rest.q.unconstrained, strict=True):
        assert torch.equal(a, b)
    assert whole.elbo == rest.elbo
    with pytest.raises(ValueError, match=r"(?s)settings .*beta=1.0.*this call has .*beta=2.0"):
        bqvi.fit(**choices | {"model": small(beta=2.0)}, steps=14, resume=half)


def test_a_step_leaves_the_state_before_it_as_it_was():
    """Weights are moved within the increment, not within q: a step that is made again comes to the same."""
    run = bqvi.fit.steps(MODEL, X, "pathwise", minibatch=10, steps=9, seed=0)
    before = [next(run) for _ in range(3)][-1]
    kept = before.fork()
    arrays = [to_numpy(u).copy() for u in (*before.q.unconstrained, *before.schedule[0], *before.schedule[1])]
    first, second = run.engine.step(before), run.engine.step(kept)
    now = (*before.q.unconstrained, *before.schedule[0], *before.schedule[1])
    assert all(np.array_equal(a, to_numpy(b)) for a, b in zip(arrays, now, strict=True))
    np.testing.assert_array_equal(flat(first.q.unconstrained), flat(second.q.unconstrained))


def test_a_weight_that_two_layers_share_is_one_parameter():
    """Against the same layers written out, differentiated by torch."""
    first, second = nn.Linear(3, 3, dtype=torch.float64), nn.Linear(3, 3, dtype=torch.float64)
    second.weight = first.weight
    shared = Network("decoder", nn.Sequential(first, nn.Tanh(), second), torch.device("cpu"), torch.float64)
    x = torch.randn((4, 3), dtype=torch.float64)
    own = {name: (2.0 * p).requires_grad_() for name, p in shared.start().items()}
    weight, a, b = (own[f"decoder.{name}"] for name in ("0.weight", "0.bias", "2.bias"))
    assert len(own) == 3
    found, expected = shared(own, x), torch.tanh(x @ weight.T + a) @ weight.T + b
    assert_allclose(found.detach(), expected.detach(), rtol=1e-12)
    slopes = [torch.autograd.grad(y.square().sum(), weight)[0] for y in (found, expected)]
    assert_allclose(slopes[0], slopes[1], rtol=1e-10)
    # the weights are shared again, as before the call
    assert shared.module[2].weight is shared.module[0].weight
    assert not shared.module[0].weight.requires_grad


@pytest.mark.parametrize(
    ("likelihood", "output", "x", "expected"),
    [
        (BernoulliLikelihood(), [0.3, -2.0], [1, 0], -np.log1p(np.exp([-0.3, -2.0]))),
        (GaussianLikelihood(0.7), [0.3, -2.0], [1, 0], scipy.stats.norm.logpdf([1, 0], [0.3, -2.0], 0.7)),
    ],
)  # fmt: skip
def test_likelihoods(likelihood, output, x, expected):
    found = likelihood.log_prob(torch.tensor([[output]]).double(), torch.tensor([x]).double(), {})
    assert_allclose(found[0, 0], expected, rtol=1e-6)
    many = torch.tensor([output] * 4000).double()
    drawn = likelihood.sample(many, {}, np.random.default_rng(0))
    mean = likelihood.mean(torch.tensor(output).double()).numpy()
    assert (np.abs(drawn.mean(0) - mean) < SIGMAS * drawn.std(0) / np.sqrt(4000)).all()


def test_networks_of_ones_own_and_other_shapes():
    x = images(30, 16).reshape(30, 1, 4, 4)
    encoder = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 4))
    decoder = nn.Sequential(nn.Linear(2, 16), nn.Unflatten(1, (1, 4, 4)))
    model = VariationalAutoencoder(encoder, decoder, latent=2)
    fit = bqvi.fit(model, x, "iwae", steps=5, start_from="random", run=bqvi.Run(progress=False))
    assert model.sample(fit.q, 3).shape == (3, *x.shape[1:])
    assert model.reconstruct(fit.q, x)[:, ..., 0].shape[0] == 30
    assert model.encode(fit.q, x).mean.shape == (30, 2)


class Recurrent(nn.Module):
    """Rows of nine as three steps of three."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.cell = nn.LSTM(3, 5, num_layers=2, batch_first=True, dropout=dropout)
        self.map = nn.Linear(5, 4)

    def forward(self, x):
        return self.map(self.cell(x.unflatten(1, (3, 3)))[0][:, -1])


def test_a_recurrent_network_is_the_function_that_torch_says_it_is():
    """A recurrent layer keeps its weights in a list of its own: against torch's call with other weights."""
    module = Recurrent().double()
    network = Network("encoder", module, torch.device("cpu"), torch.float64)
    own = {name: (p + 0.3).requires_grad_() for name, p in network.start().items()}
    x = torch.tensor(images(3)).double()
    values = {name.partition(".")[2]: p for name, p in own.items()}
    found, known = network(own, x), torch.func.functional_call(module, values, (x,))
    assert_allclose(found.detach(), known.detach(), rtol=1e-12)
    slopes = [torch.autograd.grad(y.square().sum(), list(own.values())) for y in (found, known)]
    for a, b in zip(*slopes, strict=True):
        assert_allclose(a, b, rtol=1e-10)


@pytest.mark.parametrize("weights", [None, WeightPrior(), WeightPrior(reparameterisation="global")])
def test_frozen_parameters_keep_their_values(weights):
    encoder = nn.Sequential(nn.Linear(9, 6).requires_grad_(False), nn.Tanh(), nn.Linear(6, 4))
    decoder = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 9).requires_grad_(False))
    model = VariationalAutoencoder(encoder, decoder, latent=2, weights=weights)
    fit = bqvi.fit(model, images(), "pathwise", steps=3, start_from="random")
    trained = {"encoder.2.weight", "encoder.2.bias", "decoder.0.weight", "decoder.0.bias"}
    assert set(fit.q.factors) == trained
    z = torch.tensor([[0.3, -0.7]])
    first = nn.functional.linear(z, *(fit.q[f"decoder.0.{name}"].mean for name in ("weight", "bias")))
    last = torch.tanh(first) @ decoder[2].weight.T + decoder[2].bias
    if weights is None:
        assert_allclose(model.decode(fit.q, z), torch.sigmoid(last).detach(), rtol=1e-5)
    means = {name: fit.q[f"decoder.{name}"].mean for name in ("0.weight", "0.bias")}
    output = model._decoder({f"decoder.{name}": p for name, p in means.items()}, z)
    assert_allclose(output, last.detach(), rtol=1e-5)


def test_a_run_is_resumed_with_the_frozen_parameters_and_buffers_that_it_had():
    def half_frozen(first, scale):
        layers = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 9))
        layers[0].requires_grad_(False).weight.fill_(first)
        layers[0].bias.zero_()
        layers.register_buffer("scale", torch.tensor(scale))
        return VariationalAutoencoder(nn.Linear(9, 4), layers, latent=2)

    before = bqvi.fit(half_frozen(1.0, 2.0), images(), "pathwise", steps=2)
    bqvi.fit(half_frozen(1.0, 2.0), images(), "pathwise", steps=3, resume=before)
    for other in ((1.5, 2.0), (1.0, 3.0)):
        with pytest.raises(ValueError, match="constants"):
            bqvi.fit(half_frozen(*other), images(), "pathwise", steps=3, resume=before)


@pytest.mark.parametrize("way", ["local", "global"])
def test_random_weights_have_the_expectations_of_their_gaussian(way):
    """A linear decoder: the mean and the spread of the output, from which the Gaussian term follows."""
    prior = WeightPrior(2.0, way, start_sd=0.3)
    model = VariationalAutoencoder(
        Linear(), nn.Sequential(nn.Linear(LATENT, D)), latent=LATENT, likelihood=GaussianLikelihood(0.8),
        weights=prior, dtype=torch.float64,
    )  # fmt: skip
    q = model.initial(X, "k-means++", np.random.default_rng(0))
    kl = sum(
        torch.distributions.kl_divergence(
            torch.distributions.Normal(q[name].mean, q[name].variance.sqrt()),
            torch.distributions.Normal(0.0, 2.0),
        ).sum()
        for name in ("decoder.0.weight", "decoder.0.bias")
    )
    assert_allclose(float(model.global_kl(q)), float(kl), rtol=1e-6)
    z, rng = torch.tensor([[[0.5, -1.0]]]).double(), np.random.default_rng(1)
    rows = model.rows(X[:1])
    drawn = np.array([float(model.conditional_terms(q, z, rows, rng)) for _ in range(600)])
    w, b = q["decoder.0.weight"].mean.numpy(), q["decoder.0.bias"].mean.numpy()
    mean, spread = w @ [0.5, -1.0] + b, 0.09 * (1.0 + 0.25 + 1.0)
    exact = scipy.stats.norm.logpdf(X[0], mean, 0.8).sum() - 0.5 * D * spread / 0.64
    assert abs(drawn.mean() - exact) < SIGMAS * drawn.std() / np.sqrt(len(drawn))


def test_random_weights_are_fitted_and_importance_weighting_needs_common_draws():
    x = images()
    model = small(weights=WeightPrior())
    fit = bqvi.fit(model, x, "pathwise", steps=5)
    assert isinstance(fit.q["decoder.0.weight"], DiagonalGaussian)
    assert model.log_evidence(fit.q, x, samples=3, weight_draws=2).shape == (60,)
    with pytest.raises(ValueError, match="reparameterisation='global'"):
        bqvi.fit(model, x, "iwae")
    bqvi.fit(small(weights=WeightPrior(reparameterisation="global")), x, "iwae", steps=2)


def test_a_posterior_of_weights_by_a_network_is_fitted_and_resumed():
    x = images()
    model = small(weights=WeightPrior(network=WeightNetwork(x.mean(0))))
    whole = bqvi.fit(model, x, "pathwise", steps=6, seed=1)
    half = bqvi.fit(model, x, "pathwise", steps=3, seed=1)
    resumed = bqvi.fit(model, x, "pathwise", steps=6, seed=1, resume=half)
    assert all(torch.equal(a, b) for a, b in zip(whole.q.unconstrained, resumed.q.unconstrained, strict=True))
    assert np.abs(whole.q["weights.2.weight"].mean.numpy()).max() > 0.0
    assert model.log_evidence(whole.q, x, samples=3, weight_draws=2).shape == (60,)
    assert model.sample(whole.q, 2).shape == (2, 9)


def test_the_log_joint_of_one_datum_integrates_to_its_evidence():
    model = small(latent=1)
    x = images()
    fit = bqvi.fit(model, x, "pathwise", steps=3)
    z = np.linspace(-8.0, 8.0, 2001)
    log_joint = model.log_joint(fit.q, x[0]).log_prior(torch.tensor(z)[:, None]).numpy()
    evidence = np.log(np.exp(log_joint).sum() * (z[1] - z[0]))
    assert_allclose(model.log_evidence(fit.q, x[:1], 20_000)[0], evidence, atol=0.01)


def test_memory_does_not_grow_with_a_memory_map(tmp_path):
    peaks = []
    for n in (5_000, 40_000):
        path = tmp_path / f"{n}.npy"
        x = np.lib.format.open_memmap(path, "w+", np.uint8, (n, 100))
        x[::2] = 1
        del x
        model, x = small(dimension=100), np.load(path, mmap_mode="r")
        tracemalloc.start()
        bqvi.fit(model, x, "pathwise", minibatch=16, steps=3)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 35_000 * 8 * 4, peaks  # an epoch's order is N integers; the data are 3.5 MB


def test_a_loss_that_is_not_finite_is_said_with_its_step_and_the_state_is_kept():
    before = torch.random.get_rng_state()
    with pytest.raises(
        RunError, match=r"iteration 1: .* bound of the VariationalAutoencoder is nan, .* 60 of 60 data.*scale"
    ) as caught:
        bqvi.fit(small(), images(), "pathwise", schedule=bqvi.Adam(1e30), start_from="random")
    assert caught.value.checkpoint.state.iteration == 1
    assert torch.equal(before, torch.random.get_rng_state())


def trained(model, x, method="pathwise", **kwargs):
    return bqvi.fit(model, x, method, **kwargs)


class Noisy(nn.Module):
    """A network that draws random numbers outside of its layers."""

    def __init__(self):
        super().__init__()
        self.map = nn.Linear(9, 4)

    def forward(self, x):
        return nn.functional.dropout(self.map(x))


def tied():
    encoder = nn.Sequential(nn.Linear(9, 2), nn.Linear(2, 4))
    second = nn.Linear(2, 4)
    second.weight = encoder[1].weight
    return encoder, nn.Sequential(second, nn.Linear(4, 9))


def with_a_graph():
    layer = nn.Linear(9, 4)
    layer.doubled = 2.0 * layer.weight
    return layer


def partly_frozen():
    layers = nn.Sequential(nn.Linear(2, 9))
    layers[0].bias.requires_grad_(False)
    return layers


def two(**kwargs):
    return VariationalAutoencoder(
        **{"encoder": nn.Linear(9, 4), "decoder": nn.Linear(2, 9), "latent": 2} | kwargs
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: small(latent=0), "latent is 0"),
        (lambda: VariationalAutoencoder(latent=2), "dimension is None"),
        (lambda: small(likelihood="poisson"), "likelihood is 'poisson'"),
        (lambda: small(likelihood="categorical"), r"is 'categorical'.*GaussianLikelihood\(sd"),
        (lambda: small(device="abacus"), "device is 'abacus'"),
        (lambda: small(device="cuda:99"), "device is 'cuda:99'"),
        (lambda: trained(small(), np.zeros((5, 8))), r"data has shape \(5, 8\).*dimension is 9"),
        (lambda: small(beta=0.0), "beta is 0"),
        (lambda: small(dtype=torch.float16), "dtype is torch.float16"),
        (lambda: two(encoder="mlp"), "encoder is 'mlp'"),
        (
            lambda: trained(two(encoder=nn.Sequential(nn.Linear(9, 4), nn.BatchNorm1d(4))), images()),
            "encoder does not do the same.*batch",
        ),
        (
            lambda: trained(two(decoder=nn.Sequential(nn.Linear(2, 9), nn.Dropout())), images()),
            "decoder does not do the same.*dropout",
        ),
        (lambda: trained(two(encoder=Noisy()), images()), "encoder does not do the same.*dropout"),
        (lambda: trained(two(encoder=Recurrent(0.5)), images()), "encoder does not do the same"),
        (
            lambda: trained(two(encoder=nn.utils.parametrizations.spectral_norm(nn.Linear(9, 4))), images()),
            "writes to a buffer",
        ),
        (lambda: two(encoder=nn.LazyLinear(4)), "encoder has the parameter weight.*call it on a batch"),
        (lambda: two(encoder=with_a_graph()), "encoder cannot be copied.*deepcopy"),
        (lambda: VariationalAutoencoder(*tied(), latent=2), r"share a parameter \(1.weight and 0.weight\)"),
        (lambda: small(device="meta"), "device is 'meta'"),
        (lambda: small(beta=np.inf), "beta is inf.*above 0"),
        (
            lambda: two(decoder=partly_frozen(), weights=WeightPrior()),
            r"of layers of which others are frozen \(0.weight\).*'global'",
        ),
        (
            lambda: two(decoder=nn.Sequential(nn.Linear(2, 9), nn.LayerNorm(9)), weights=WeightPrior()),
            "parameters outside of Linear layers",
        ),
        (lambda: WeightNetwork(np.ones((2, 3))), r"summary has shape \(2, 3\).*\(C,\)"),
        (lambda: WeightNetwork(np.array([np.nan])), "summary"),
        (lambda: WeightNetwork(np.ones(3), 0), "hidden is 0"),
        (lambda: WeightPrior(network=nn.Linear(1, 1)), "network is Linear.*posterior"),
        (lambda: trained(two(encoder=nn.Linear(9, 3)), images()), r"encoder gives shape \(2, 3\).*\(2, 4\)"),
        (lambda: trained(two(encoder=nn.Linear(8, 4)), images()), r"encoder fails for rows.*\(2, 9\)"),
        (lambda: trained(two(decoder=nn.Linear(2, 8)), images()), r"decoder gives shape \(2, 8\).*\(2, 9\)"),
        (lambda: trained(small(), 255 * images()), r"data is 255 in row 0, column \d.*\[0, 1\]"),
        (lambda: trained(small(), np.full((5, 9), np.nan)), "data is nan in row 0, column 0"),
        (lambda: trained(small(), images()[0]), r"data has shape \(9,\)"),
        (lambda: bqvi.fit(small(), images(), "cavi"), "method is 'cavi'"),
        (lambda: bqvi.fit(small(), images(), "bq"), "method is 'bq'.*'pathwise'"),
        (lambda: bqvi.fit(small(), images(), Score(3, "optimal")), "baseline is 'optimal'"),
        (lambda: bqvi.fit(small(), images(), Pathwise(3, errors=True)), "errors = True"),
        (lambda: bqvi.fit(small(), images(), "pathwise", family="point"), "family is 'point'"),
    ],
)  # fmt: skip
def test_bad_input_is_said_before_any_work(make, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        make()
    assert not isinstance(caught.value, RunError)


@pytest.mark.parametrize("method", ["encode", "reconstruct", "log_evidence", "log_joint", "log_joints"])
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (images(4, 8), r"data has shape \(\d, 8\).*dimension is 9"),
        (255 * images(4), r"data is 255 in row 0.*\[0, 1\]"),
        (np.full((4, 9), np.nan), "data is nan in row 0"),
    ],
)
def test_data_that_do_not_fit_a_trained_model_are_named(method, x, message):
    model = small()
    q = model.initial(images(), "k-means++", np.random.default_rng(0))
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(q, x[0] if method == "log_joint" else x)


def test_the_closed_divergence_is_the_mean_of_its_draws():
    local = Local(linear_model(beta=0.3), Q, MODEL.rows(X[:5]), 20_000, np.random.default_rng(0))
    z = local.draw()
    terms = -local.log_ratio(z, local.q)
    error = terms.std(0) / math.sqrt(len(terms))
    assert ((terms.mean(0) - local.divergence).abs() < SIGMAS * error).all()
