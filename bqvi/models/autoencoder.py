"""Variational autoencoder (Kingma and Welling 2014; source 002, 9.6): a network for each direction.

    p(z) = N(0, I),   p(x | z) a `likelihoods.Likelihood` of the decoder's output at z,
    q(z | x) = N(m(x), diag s(x)^2),   the encoder's output is (m, ln s).

`bqvi.gradients.amortised` computes bounds and their gradients. Weights are parameters of q: a
`families.Product` with a factor for each array, named as in the networks ("encoder.0.weight").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bqvi.arrays import like
from bqvi.families import DiagonalGaussian, Point, Product
from bqvi.models.data import Data, as_numbers, n_rows
from bqvi.models.likelihoods import NAMED, Likelihood
from bqvi.models.log_joint import LogJoint
from bqvi.models.networks import WEIGHTS, Network, RandomNetwork, WeightPrior, perceptron
from gp.arrays import LOG_2PI, Array, is_torch, to_numpy
from gp.checks import Seed, generator, require_above, require_integer, require_shape

_BLOCK = 2048
"""The number of data evaluated together where no gradients are computed."""
_DRAWS = 20_000
"""The number of outputs of the decoder computed together."""
_ENCODER, _DECODER, _LIKELIHOOD = "encoder", "decoder", "likelihood"


class VariationalAutoencoder:
    """An `AmortisedModel` of images, counts or other data (N, ...).

    Parameters
    ----------
    encoder : `torch.nn.Module`, rows (S, ...) -> (S, 2 latent): the means of q(z | x), then the logarithms
        of its standard deviations. None: one hidden layer, for data (N, ``dimension``)
    decoder : `torch.nn.Module`, z (S, latent) -> (S, ...), the shape of the data (or as the likelihood says).
        None: one hidden layer
    latent : dimension of z, >= 1
    likelihood : 'bernoulli' (the decoder gives logits), 'gaussian' (means; the noise is learnt), or a
        ``BernoulliLikelihood``, ``GaussianLikelihood(sd)``
    dimension : columns of the data, where a network is left out
    hidden : units of the layers of such networks
    beta : > 0, weight of KL(q(z | x) || p(z)) (Higgins et al. 2017); below 1 the objective is no bound
        on the evidence
    weights : a prior on the decoder's weights; None: the bound is maximised over them
    device : where the networks and each mini-batch are: "cpu", "cuda", ...; data stay where they are
    dtype : torch.float32 or torch.float64

    Modules are copied. A run starts at the weights that they have; with ``start_from="random"`` the weights
    of each layer are drawn anew. Parameters with ``requires_grad=False`` keep their values. Data may be a
    memory map, which is read block by block.

    Raises
    ------
    ValueError, TypeError
        An argument is not as described, ``dimension`` is needed and not given, or the device does not exist.
        Or encoder and decoder share parameters, which their copies cannot.
    """

    def __init__(
        self,
        encoder: nn.Module | None = None,
        decoder: nn.Module | None = None,
        *,
        latent: int,
        likelihood: str | Likelihood = "bernoulli",
        dimension: int | None = None,
        hidden: int = 256,
        beta: float = 1.0,
        weights: WeightPrior | None = None,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.latent = require_integer("latent", latent, 1)
        self.likelihood = _likelihood(likelihood)
        require_above("beta", beta, 0.0)  # without the divergence q(z | x) shrinks to a point
        self.beta = float(beta)
        if weights is not None and not isinstance(weights, WeightPrior):
            raise TypeError(f"weights is {weights!r:.100}; it must be a WeightPrior, or None")
        self.weights = weights
        if dtype not in (torch.float32, torch.float64):
            raise ValueError(f"dtype is {dtype}; it must be torch.float32 or torch.float64")
        self.reference = _empty(device, dtype)
        self._columns: int | None = None
        if encoder is None or decoder is None:
            self._columns = columns = _needed(dimension)
            require_integer("hidden", hidden, 1)
            outputs = int(np.prod(self.likelihood.output_shape((columns,))))
            encoder = perceptron(columns, 2 * self.latent, hidden) if encoder is None else encoder
            decoder = perceptron(self.latent, outputs, hidden) if decoder is None else decoder
        self._encoder = Network(_ENCODER, encoder, self.reference.device, dtype)
        self._decoder = Network(_DECODER, decoder, self.reference.device, dtype)
        _require_apart(encoder, decoder)
        self._random = None if weights is None else RandomNetwork(self._decoder, weights)
        hyper = None if weights is None else weights.network
        self._hyper = None if hyper is None else hyper.posterior(self._decoder, self.reference)

    @property
    def settings(self) -> str:
        """The text that identifies the model of a saved run, besides its class."""
        networks = (
            f"{net.module}" + f", constants {net.constants}" * bool(net.constants)
            for net in (self._encoder, self._decoder)
        )
        text = f"latent={self.latent}, {self.likelihood}, beta={self.beta}, {self.weights}, "
        return text + ", ".join(networks)

    @property
    def one_theta(self) -> bool:
        return self._random is None or not self._random.local

    def check(self, data: Data) -> Data:
        """``data`` (N, ...): numbers in the likelihood's support, and of a shape that fits the networks."""
        x = as_numbers("data", data)
        if len(x.shape) < 2 or 0 in tuple(x.shape):
            raise ValueError(f"data has shape {tuple(x.shape)}; it must be (N, ...) with rows of numbers")
        columns = self._columns
        if columns is not None and tuple(x.shape[1:]) != (columns,):
            message = f"data has shape {tuple(x.shape)}"
            raise ValueError(f"{message}; it must be (N, {columns}), as dimension is {columns}")
        for start in range(0, n_rows(x), _BLOCK):
            self.likelihood.check(to_numpy(x[start : start + _BLOCK]), start)
        with torch.no_grad():
            self._check_networks(self.rows(x[:2]))
        return x

    def _check_networks(self, rows: Tensor) -> None:
        count, shape = len(rows), tuple(rows.shape[1:])
        self._encoder.shaped(
            self._encoder.start(), rows, "rows", (count, 2 * self.latent), "latent means, then log scales"
        )
        outputs = (count, *self.likelihood.output_shape(shape))
        expected = f"what {self.likelihood} needs for data of shape (N, {', '.join(map(str, shape))})"
        z = rows.new_zeros((count, self.latent))
        self._decoder.shaped(self._decoder.start(), z, "z", outputs, expected)

    def initial(self, data: Data, how: str, rng: np.random.Generator) -> Product:
        """The networks' weights as they were given; for ``how`` = 'random' drawn anew by ``rng``."""
        new = rng if how == "random" else None
        decoder, prior = self._decoder.start(new), self.weights
        factors: dict[str, Any] = {name: Point(p) for name, p in self._encoder.start(new).items()}
        if prior is not None and self._hyper is not None:
            factors |= {n: Point(p) for n, p in self._hyper.start(decoder, prior.start_sd, new).items()}
        else:
            factors |= {n: Point(p) if prior is None else prior.start(p) for n, p in decoder.items()}
        own = self.likelihood.start.items()
        return Product(
            factors | {f"{_LIKELIHOOD}.{n}": Point(self.reference.new_tensor([x])) for n, x in own}
        )

    def rows(self, data: Data) -> Tensor:
        values: Tensor = data
        if not is_torch(data):
            rows = np.asarray(data)
            taken = rows.flags.writeable and min(rows.strides, default=0) >= 0
            values = torch.from_numpy(rows if taken else rows.copy())  # torch takes no other arrays
        return values.to(device=self.reference.device, dtype=self.reference.dtype)

    def local_posterior(self, q: Product, rows: Array) -> DiagonalGaussian:
        output = self._encoder(_places(q, _ENCODER), rows)
        return DiagonalGaussian.from_unconstrained(output.chunk(2, 1))

    def conditional_terms(self, q: Product, z: Array, rows: Array, rng: np.random.Generator) -> Array:
        """Values ln p(x_n | z_ln), (L, S), at z (L, S, latent) of tensor ``rows``.

        The decoder's weights are those of ``q``, or drawn from it by numbers of ``rng``.
        """
        output = self._decoded(q, z, rng)
        return self.likelihood.log_prob(output, rows, self._own(q)).flatten(2).sum(-1)

    def global_kl(self, q: Product) -> Array:
        """KL of the decoder's weights in ``q`` to their prior, nats; 0 without one."""
        if self.weights is None:
            return self.reference.new_zeros(())
        parts = [self.weights.kl(part) for part in self.decoder_posterior(q).values()]
        return torch.stack(parts).sum()

    def decoder_posterior(self, q: Product) -> Mapping[str, Any]:
        """q(theta): a factor for each array of the decoder's weights, by name.

        Parameters
        ----------
        q : that of a fit. A factor is a `families.Point` where the bound is maximised over the weights, a
            `families.DiagonalGaussian` where they have a prior.
        """
        found = _factors(q, _DECODER)
        return found if found or self._hyper is None else self._hyper(_places(q, WEIGHTS))

    def encode(self, q: Product, x: Data) -> DiagonalGaussian:
        """q(z | x) of rows ``x`` (N, ...), a batch of N, as arrays; ``q`` is that of a fit.

        ValueError where ``x`` is no data of this model, as of `check`.
        """
        x = self.check(x)
        with torch.no_grad():
            found = [self.local_posterior(q, rows).unconstrained for rows in self._blocks(x)]
        mean, log_scale = (np.concatenate([to_numpy(u[i]) for u in found]) for i in range(2))
        return DiagonalGaussian.from_unconstrained((mean.astype(float), log_scale.astype(float)))

    def decode(self, q: Product, z: Array, seed: Seed = 0) -> np.ndarray:
        """E[x | z] at ``z`` (n, latent), (n, ...); random weights of ``q`` are drawn once, by ``seed``."""
        with torch.no_grad():
            output = self._decoded(q, self._latent("z", z)[None], generator(seed))[0]
            return np.asarray(to_numpy(self.likelihood.mean(output)), float)

    def reconstruct(self, q: Product, x: Data, seed: Seed = 0) -> np.ndarray:
        """E[x | z] at the means of q(z | x) of rows ``x``; ``q`` and ``seed`` as of `decode`."""
        return self.decode(q, self.encode(q, x).mean, seed)

    def sample(self, q: Product, n: int, seed: Seed = 0) -> np.ndarray:
        """``n`` draws of x from the generative model of ``q``, by numbers of ``seed``."""
        rng = generator(seed)
        z = self._latent("z", rng.standard_normal((require_integer("n", n, 1), self.latent)))
        with torch.no_grad():
            return self.likelihood.sample(self._decoded(q, z[None], rng)[0], self._own(q), rng)

    def representation(self, data: Data) -> np.ndarray:
        """The default rows of mini-batch strategies: ``data`` as one table (N, D)."""
        return np.asarray(to_numpy(data), float).reshape(n_rows(data), -1)

    def log_evidence(
        self, q: Product, x: Data, samples: int = 100, seed: Seed = 0, weight_draws: int = 1
    ) -> np.ndarray:
        """Estimates of ln p(x_n) of rows ``x``, (N,), nats: importance sampling from q(z | x).

        Parameters
        ----------
        q : that of a fit.
        x : (N, ...), training data or others.
        samples : the number L of samples of the importance-weighted bound, whose mean tends to ln p(x_n).
        seed : an integer or a generator.
        weight_draws : of random weights: the predictive density p(x_n | data) is the mean over them.
        """
        x = self.check(x)
        draws = require_integer("weight_draws", weight_draws, 1)
        require_integer("samples", samples, 1)
        rng = generator(seed)
        with torch.no_grad():
            each = [self._bounds(q, x, samples, rng) for _ in range(draws)]
        return np.asarray(np.logaddexp.reduce(each, axis=0) - math.log(draws), float)

    def _bounds(self, q: Product, x: Data, samples: int, rng: np.random.Generator) -> np.ndarray:
        if self._random is not None:  # one draw of theta for all rows and all draws of z
            drawn = {**q.factors, **self.decoder_posterior(q)}.items()
            q = Product({name: Point(part.rsample(1, rng)[0]) for name, part in drawn})
        size = max(1, _DRAWS // samples)
        return np.concatenate([self._bound(q, rows, samples, rng) for rows in self._blocks(x, size)])

    def _bound(self, q: Product, rows: Tensor, samples: int, rng: np.random.Generator) -> np.ndarray:
        local = self.local_posterior(q, rows)
        z = local.rsample(samples, rng)
        log_weights = self._joint(q, z, rows) - local.log_prob(z)
        return np.asarray(to_numpy(torch.logsumexp(log_weights, 0) - math.log(samples)), float)

    def log_joint(self, q: Product, row: Array) -> LogJoint:
        """The log joint ln p(x, z) of one datum ``row`` (...) as a function of z, with the decoder of ``q``.

        Random weights are at their means. With `bqvi.fit` (``method="bq"``), `bqvi.vbmc`,
        `bqvi.evidence_bounds` or `bqvi.integrate` it gives the evidence of one datum, and the loss by the
        encoder against the best Gaussian q(z). ValueError where ``row`` is no datum of this model (`check`).
        """
        log_joints = self.log_joints(q, to_numpy(row)[None])
        return LogJoint(lambda z: log_joints(z, torch.zeros(len(z), dtype=torch.long)), self.latent)

    def log_joints(self, q: Product, x: Data) -> Callable[[Array, Array], Array]:
        """The log joints ln p(x_m, z) of rows ``x`` (M, ...) as a function of z (n, latent) and m, (n,).

        It is `log_joint` for many data, for `bqvi.evidence_bounds` with M proposals. Values are arrays or
        tensors, as z is.
        """
        rows = self.rows(self.check(x))

        def log_density(z: Array, which: Array) -> Array:
            points = torch.as_tensor(z)
            found = self._joint(q, points.to(rows)[None], rows[torch.as_tensor(which)])[0].to(points)
            return found if is_torch(z) else to_numpy(found)

        return log_density

    def _joint(self, q: Product, z: Tensor, rows: Tensor) -> Tensor:
        """Values ln p(x_n, z_ln) with random weights at their means, (L, S)."""
        places = {name: part.mean for name, part in self.decoder_posterior(q).items()}
        output = _by_draw(self._decoder(places, z.flatten(0, 1)), z)
        likelihood: Tensor = self.likelihood.log_prob(output, rows, self._own(q)).flatten(2).sum(-1)
        return likelihood - 0.5 * (z.square() + LOG_2PI).sum(-1)

    def _decoded(self, q: Product, z: Tensor, rng: np.random.Generator) -> Tensor:
        """The decoder's output (L, S, ...) at z (L, S, latent)."""
        flat = z.flatten(0, 1)
        theta = self.decoder_posterior(q)
        if self._random is None or all(isinstance(part, Point) for part in theta.values()):
            output = self._decoder({name: part.mean for name, part in theta.items()}, flat)
        else:
            output = self._random(theta, flat, rng)
        return _by_draw(output, z)

    def _own(self, q: Product) -> dict[str, Tensor]:
        """The likelihood's own parameters."""
        return {name.partition(".")[2]: p for name, p in _places(q, _LIKELIHOOD).items()}

    def _blocks(self, x: Data, size: int = _BLOCK) -> Iterator[Tensor]:
        for start in range(0, n_rows(x), size):
            yield self.rows(x[start : start + size])

    def _latent(self, name: str, z: Array) -> Tensor:
        found: Tensor = like(to_numpy(z), self.reference)
        require_shape(name, found, (len(found), self.latent))
        return found


def _by_draw(output: Tensor, z: Tensor) -> Tensor:
    """Output (L S, ...) as (L, S, ...), as z is."""
    return output.reshape(*z.shape[:2], *output.shape[1:])


def _factors(q: Product, network: str) -> dict[str, Any]:
    return {name: part for name, part in q.factors.items() if name.startswith(network)}


def _places(q: Product, network: str) -> Mapping[str, Tensor]:
    """The means of a network's parameters, by name."""
    return {name: part.mean for name, part in _factors(q, network).items()}


def _likelihood(given: str | Likelihood) -> Likelihood:
    if isinstance(given, str) and given in NAMED:
        return NAMED[given]
    if isinstance(given, type) or not isinstance(given, Likelihood):
        raise TypeError(
            f"likelihood is {given!r:.100}; it must be 'bernoulli', 'gaussian', or one of "
            "BernoulliLikelihood(), GaussianLikelihood(sd)"
        )
    return given


def _require_apart(encoder: nn.Module, decoder: nn.Module) -> None:
    """ValueError where the two share a parameter that is trained: each would have a copy of its own."""
    names = {id(p): name for name, p in encoder.named_parameters() if p.requires_grad}
    for name, p in decoder.named_parameters():
        if id(p) in names:
            raise ValueError(
                f"encoder and decoder share a parameter ({names[id(p)]} and {name}); both are copied, so "
                "that it would be two: give each its own"
            )


def _empty(device: str | torch.device, dtype: torch.dtype) -> Tensor:
    """An empty tensor on ``device``; ValueError where this build of torch cannot compute there."""
    try:
        found = torch.empty(0, device=torch.device(device), dtype=dtype)
    except (AssertionError, RuntimeError, TypeError) as error:
        raise ValueError(f"device is {device!r}, which torch cannot use here: {error}") from error
    if found.is_meta:
        raise ValueError(f"device is {device!r}, whose tensors have no numbers; it must be one that computes")
    return found


def _needed(dimension: int | None) -> int:
    if dimension is None:
        raise ValueError(
            "dimension is None, and a network was left out; give the number of columns of the data, or both "
            "an encoder and a decoder"
        )
    return require_integer("dimension", dimension, 1)
