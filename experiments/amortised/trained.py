"""Autoencoders of digits for several studies, trained once for each choice and seed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

import bqvi
from bqvi.families import DiagonalGaussian
from bqvi.models import VariationalAutoencoder
from experiments.harness.experiment import Case
from experiments.problems import images
from experiments.problems.images import Images

__all__ = ["digits", "latent_cases", "posed"]

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


def posed(case: Case, seed: int) -> Iterator[tuple[Any, DiagonalGaussian]]:
    """Yield ln p(x, z) and q(z | x) of each of the ``case``'s held-out images, chosen by the ``seed``."""
    chosen = case.settings
    model, q, held = digits(chosen["latent"], chosen["steps"], seed)
    rng = np.random.default_rng([seed, 1])
    for image in held[rng.choice(len(held), chosen["images"], replace=False)]:
        found = model.encode(q, image[None])
        yield model.log_joint(q, image), DiagonalGaussian(found.mean[0], found.variance[0])
