"""An autoencoder trained by each gradient of the package: held-out evidence over steps, and draws.

All methods have the same networks, seeds, mini-batches and step sizes, and run in the same loop. Held-out
ln p(x) is estimated by importance sampling with 50 draws, the same for all. The last case has a latent space
of two dimensions, which is drawn as a map.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import scipy.special

import bqvi
from acquisition.minibatch import Reshuffled
from bqvi.gradients import IWAE, DReG, Estimator, Pathwise, Score
from bqvi.models import VariationalAutoencoder
from experiments import fitting
from experiments.harness import drawing, evidence
from experiments.harness.claims import Claim
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.summaries import Column, summary
from experiments.problems import images

__all__ = ["experiment"]

_IWAE_NAME, _DREG = "IWAE, L = 50", "DReG, L = 50"
_METHODS: dict[str, Any] = {
    "pathwise": lambda: Pathwise(),
    "sticking the landing": lambda: Pathwise(entropy="sticking-the-landing"),
    "score, L = 10": lambda: Score(10),
    _IWAE_NAME: lambda: IWAE(50),
    _DREG: lambda: DReG(50),
}
_STEPS = {"digits": 2000, "mnist": 5000}
_RECORDS = 10
_QUICK_STEPS, _QUICK_METHODS = 5, ("pathwise", _IWAE_NAME, _DREG)
_HIDDEN = {"digits": 128, "mnist": 256}
_LATENT = {"digits": 10, "mnist": 32}
_SIZE, _RATE, _TEST_DRAWS, _QUICK_DRAWS = 100, 1e-3, 50, 2
_MARGIN = 0.05
"""Nats an image: a model that is lower by less on average is no worse. Held-out log p is about -23 on digits,
with a standard deviation of .03 over seeds."""
_SHOWN, _ACROSS = 8, 12
"""Images in a row; points of a latent map along each axis."""
_MARGINS = {"digits": 1, "mnist": 2}
"""White pixels on each side of an image of a picture."""


def _cases(quick: bool, resources: Resources) -> list[Case]:
    """Return every method, and the map; on MNIST too where its folder is given."""
    found = []
    for name in _STEPS:
        if name == "mnist" and (quick or resources.data is None):
            continue
        steps = _QUICK_STEPS if quick else _STEPS[name]
        given = {"data": name, "steps": steps, "record": steps if quick else steps // _RECORDS}
        given["draws"] = _QUICK_DRAWS if quick else _TEST_DRAWS
        for method in _QUICK_METHODS if quick else _METHODS:
            settings = given | {"method": method, "latent": _LATENT[name]}
            found.append(Case(f"{name}: {method}", settings, resources.data))
        settings = given | {"method": "pathwise", "latent": 2}
        found.append(Case(f"{name}: two latent dimensions", settings, resources.data))
    return found


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Train, with the held-out evidence at each record; the last row has pictures."""
    chosen = case.settings
    train, held = images.split(chosen["data"], case.folder)
    model = VariationalAutoencoder(
        latent=chosen["latent"], dimension=train.shape[1], hidden=_HIDDEN[chosen["data"]]
    )
    estimator: Estimator = _METHODS[chosen["method"]]()
    fit = bqvi.fit(
        model,
        train,
        estimator,
        minibatch=Reshuffled(_SIZE),
        schedule=bqvi.Adam(_RATE),
        start_from="random",
        steps=chosen["steps"],
        record=bqvi.Record(
            chosen["record"],
            metrics={"held_out": lambda q: model.log_evidence(q, held, chosen["draws"], 0).mean()},
            elbo_samples=2,
        ),
        seed=seed,
    )
    kept = fitting.columns_of(fit.trace, ("iteration", "seconds", "evaluations", "held_out"))
    found = pd.DataFrame(kept | {"elbo": np.asarray(fit.trace["elbo"]) / len(train)})
    found["pictures"] = ""
    if seed == 0 and chosen["method"] == "pathwise":
        found.loc[found.index[-1], "pictures"] = _text(_pictures(model, fit.q, held, chosen["latent"]))
    return found


def _pictures(model: VariationalAutoencoder, q: Any, held: images.Images, latent: int) -> np.ndarray:
    """Rows of pixels: held-out images, their reconstructions, draws; or the map of a plane of z."""
    if latent == 2:
        u = scipy.special.ndtri((np.arange(_ACROSS) + 0.5) / _ACROSS)
        z = np.stack(np.meshgrid(u, u), -1).reshape(-1, 2)
        return model.decode(q, z)
    z = np.random.default_rng(0).standard_normal((2 * _SHOWN, latent))
    return np.concatenate([held[:_SHOWN], model.reconstruct(q, held[:_SHOWN]), model.decode(q, z)])


def _text(pixels: np.ndarray) -> str:
    return np.rint(255 * pixels).astype(np.uint8).tobytes().hex()


def _array(text: str, side: int) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(text), np.uint8).reshape(-1, side, side)


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the curves, and the pictures of the first seed."""
    found = []
    for name, rows in results.groupby("data", sort=False):
        compared = rows[rows["latent"] != 2]
        made, axes = drawing.figure(1, 2)
        lines = drawing.line_styles(_METHODS)
        for ax, y, label in zip(
            axes.flat, ("elbo", "held_out"), ("training ELBO", "held-out log p"), strict=True
        ):
            later = compared[compared["iteration"] > 0]
            drawing.curves(
                ax, later, "iteration", y, by="method", lines=lines, steps=False, x_label="step",
                y_label=f"{label} (nats)",
            )  # fmt: skip
        drawing.legend_below(made, axes, columns=3)
        caption = (
            f"{name}: networks with one hidden layer, Adam {_RATE:g}, S = {_SIZE}. Held out: importance "
            f"sampling with {_TEST_DRAWS} draws. {drawing.band_caption(compared)}"
        )
        found.append(Drawing(f"curves-{name}", made, caption))
        found += _shown(str(name), rows)
    return found


def _shown(name: str, rows: pd.DataFrame) -> list[Drawing]:
    found = []
    for latent, of_one in rows[rows["pictures"] != ""].groupby("latent"):
        text = of_one["pictures"].iloc[-1]
        around, side = _MARGINS[name], {"digits": 8, "mnist": 28}[name]
        pixels = np.pad(_array(text, side), ((0, 0), (around, around), (around, around)))
        side += 2 * around
        across = _ACROSS if latent == 2 else _SHOWN
        made, axes = drawing.figure(size=(0.5 * across, 0.5 * len(pixels) // across))
        table = pixels.reshape(-1, across, side, side).swapaxes(1, 2).reshape(-1, across * side)
        axes[0, 0].imshow(table, cmap="gray_r", vmin=0, vmax=255, interpolation="nearest")
        axes[0, 0].set_axis_off()
        caption = (
            "Means of the decoder over a plane of z, at quantiles of N(0, 1)."
            if latent == 2
            else "First row: held-out images; second: their reconstructions; others: means of draws of z."
        )
        found.append(Drawing(f"{'map' if latent == 2 else 'pictures'}-{name}", made, f"{name}. {caption}"))
    return found


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return where each method ends."""
    last = results.sort_values("iteration").groupby(["case", "seed"], sort=False).tail(1)
    columns: dict[str, Column] = {
        "seeds": ("seed", "count", ".0f"), "training ELBO": ("elbo", "median", ".2f"),
        "held-out log p": ("held_out", "median", ".2f"), "sd over seeds": ("held_out", "std", ".2f"),
        "seconds": ("seconds", "median", ".1f"),
    }  # fmt: skip
    caption = "Medians over seeds at the last step, nats an image."
    return [Table("ends", summary(last, {"case": "case"}, columns), caption)]


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Check that held-out evidence with the doubly reparameterised gradient is not lower than with IWAE's."""
    last = (
        results[results["latent"] != 2].sort_values("iteration").groupby(["data", "method", "seed"]).tail(1)
    )
    checks = [
        evidence.not_lower(
            rows.assign(case=rows["method"]), _DREG, _IWAE_NAME, "held_out", str(name), margin=_MARGIN
        )
        for name, rows in last.groupby("data", sort=False)
    ]
    criterion = (
        "the 95 % interval over seeds of the mean difference in held-out log p, DReG less IWAE, L = 50, lies "
        f"above -{_MARGIN:g} nats; no where it lies below, undecided where it holds that number"
    )
    return [
        Claim("002", "Doubly reparameterised gradients train no worse models than IWAE's.", criterion, checks)
    ]


experiment = Experiment(
    name="amortised-training",
    title="An autoencoder by each gradient",
    summary="""Which ELBO and held-out evidence does a variational autoencoder of binary images reach by
    pathwise gradients, sticking the landing, the score function, IWAE and DReG? All have the same
    networks, mini-batches and steps. Reconstructions, draws and a map of a latent plane are shown. With a
    data folder on
    5,000 images of MNIST as well.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=_claims,
)
