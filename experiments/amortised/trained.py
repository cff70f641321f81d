"""Autoencoders of digits for several studies, trained once for each choice and seed."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import bqvi
from bqvi.families import DiagonalGaussian
from bqvi.models import VariationalAutoencoder
from experiments.harness.experiment import Case
from experiments.problems import images
from experiments.problems.images import Images

__all__ = ["digits", "encoded", "latent_cases", "some"]

_HIDDEN, _RATE = 64, 2e-3
_LATENTS, _QUICK_LATENTS = (2, 5, 10), (2,)


def latent_cases(quick: bool, **sizes: tuple[Any, Any]) -> list[Case]:
    """A case for each latent dimension; the second of each pair is for the ``quick`` form."""
    settings = {name: pair[quick] for name, pair in sizes.items()}
    latents = _QUICK_LATENTS if quick else _LATENTS
    return [Case(f"{latent} dimensions", settings | {"latent": latent}) for latent in latents]


@cache
def digits(latent: int, steps: int, seed: int) -> tuple[VariationalAutoencoder, Any, Images]:
    """The model, q after so many pathwise steps from random weights, and the held-out images."""
    train, held = images.split("digits", None)
    model = VariationalAutoencoder(latent=latent, dimension=train.shape[1], hidden=_HIDDEN)
    schedule = bqvi.Adam(_RATE)
    fit = bqvi.fit(
        model, train, "pathwise", schedule=schedule, start_from="random", steps=steps, record=[], seed=seed
    )
    return model, fit.q, held


def encoded(model: VariationalAutoencoder, q: Any, image: np.ndarray) -> DiagonalGaussian:
    """q(z | x) of one ``image`` (D,), by the encoder in ``q``."""
    found = model.encode(q, image[None])
    return DiagonalGaussian(found.mean[0], found.variance[0])


def some(held: Images, number: int, seed: int) -> Images:
    """``number`` of the held-out images, chosen by the seed."""
    return held[np.random.default_rng([seed, 1]).choice(len(held), number, replace=False)]
