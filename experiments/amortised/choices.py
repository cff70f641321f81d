"""What an autoencoder's choices do: the weight beta, a decoder with its own variance, a flow in the encoder.

    beta      digits, -E[ln p(x | z)] (distortion) and KL(q(z | x) || p(z)) (rate) over beta
    variance  a curve x(z) in four dimensions, its noise growing with z: one sd for all, or the decoder's
    flow      x = |z|^2 + noise, whose posterior is a ring: q(z | x) a Gaussian, or couplings after it

A coupling is an affine map of one coordinate of z with a scale and a shift that a network computes from the
other one and x. Its density is that of `torch.distributions.AffineTransform`. ln p(x) of the last is an
integral over |z|^2, which has the density exp(-r / 2) / 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.distributions import AffineTransform

import bqvi
from bqvi.models import VariationalAutoencoder
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement
from experiments.harness.summaries import quartiles
from experiments.problems import images
from gp.arrays import LOG_2PI

__all__ = ["Couplings", "OwnVariance", "experiment", "log_evidence_of_rings"]

_BETAS = (0.25, 0.5, 1.0, 2.0, 4.0)
_COMMON, _OWN = "variance: common", "variance: the decoder's"
_GAUSSIAN, _FLOW = "flow: Gaussian", "flow: four couplings"
_STEPS, _QUICK_STEPS = 1500, 3
_RATE, _SIZE = 3e-3, 100
_NOISE = 0.3
"""Of the rings."""
_LEAST_SD = 0.02


def _cases(quick: bool, _: Resources) -> list[Case]:
    steps = _QUICK_STEPS if quick else _STEPS
    betas = [Case(f"beta = {beta:g}", {"part": "beta", "beta": beta, "steps": steps}) for beta in _BETAS]
    rest = [Case(name, {"part": name.split(":")[0], "beta": 1.0, "steps": steps})
            for name in (_COMMON, _OWN, _GAUSSIAN, _FLOW)]  # fmt: skip
    return [*betas, *rest]


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return the measures of a part: a row."""
    run: Callable[[Case, int], dict[str, float]] = {"beta": _beta, "variance": _variance, "flow": _flow}[
        case.settings["part"]
    ]
    return pd.DataFrame([{"iteration": case.settings["steps"]} | run(case, seed)])


def _trained(model: VariationalAutoencoder, x: np.ndarray, case: Case, seed: int) -> Any:
    return bqvi.fit(
        model, x, "pathwise", minibatch=_SIZE, start_from="random", steps=case.settings["steps"], record=[],
        schedule=bqvi.Adam(_RATE, decay=4.0 / case.settings["steps"]), seed=seed,
    ).q  # fmt: skip


def _beta(case: Case, seed: int) -> dict[str, float]:
    """Distortion, rate, held-out evidence, and the change of a reconstruction with z."""
    train, held = images.split("digits", None)
    model = VariationalAutoencoder(latent=10, dimension=train.shape[1], hidden=64, beta=case.settings["beta"])
    q = _trained(model, train, case, seed)
    local = model.encode(q, held)
    mean, variance = np.asarray(local.mean, float), np.asarray(local.variance, float)
    rng = np.random.default_rng(seed)
    z = mean + np.sqrt(variance) * rng.standard_normal(mean.shape)
    p = np.clip(model.decode(q, z).reshape(len(held), -1), 1e-7, 1.0 - 1e-7)
    near = model.decode(q, z + 0.1 * rng.standard_normal(z.shape)).reshape(p.shape)
    return {
        "distortion": -float((held * np.log(p) + (1 - held) * np.log1p(-p)).sum(1).mean()),
        "rate": 0.5 * float((mean**2 + variance - np.log(variance) - 1.0).sum(1).mean()),
        "held_out": float(model.log_evidence(q, held, 50, 0).mean()),
        "change": float(np.abs(near - p).sum(1).mean()),
    }


def _log_normal(x: Any, mean: Any, sd: Any) -> Any:
    """The log density of each entry, in torch."""
    return -0.5 * ((x - mean) / sd) ** 2 - torch.log(torch.as_tensor(sd)) - 0.5 * LOG_2PI


class OwnVariance:
    """A `bqvi.models.likelihoods.Likelihood`: the decoder gives means and log standard deviations."""

    @property
    def start(self) -> Mapping[str, float]:
        """No parameters of its own."""
        return {}

    def check(self, x: np.ndarray, row: int) -> None:
        """Any numbers will do."""

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Twice as many columns."""
        return (2 * shape[0],)

    def log_prob(self, output: Tensor, x: Tensor, own: Mapping[str, Tensor]) -> Tensor:
        """ln p(x | z) of each column; standard deviations are at least `_LEAST_SD`."""
        mean, raw = output.chunk(2, -1)
        return _log_normal(x, mean, _LEAST_SD + nn.functional.softplus(raw))

    def mean(self, output: Tensor) -> Tensor:
        """The means."""
        return output.chunk(2, -1)[0]

    def sample(self, output: Tensor, own: Mapping[str, Tensor], rng: np.random.Generator) -> np.ndarray:
        """Draws of x."""
        mean, raw = output.detach().chunk(2, -1)
        sd = (_LEAST_SD + nn.functional.softplus(raw)).numpy()
        return np.asarray(mean.numpy() + sd * rng.standard_normal(sd.shape))


def _variance(case: Case, seed: int) -> dict[str, float]:
    """Held-out ln p(x) of curves whose noise depends on z."""
    z = np.random.default_rng([seed, 1]).standard_normal((3000, 1))
    sd = 0.05 + 0.5 / (1.0 + np.exp(-8.0 * z))
    noise = sd * np.random.default_rng([seed, 2]).standard_normal((3000, 4))
    x = np.concatenate([z, np.sin(2.0 * z), np.cos(2.0 * z), 0.5 * z**2], 1) + noise
    likelihood: Any = OwnVariance() if case.name == _OWN else "gaussian"
    model = VariationalAutoencoder(latent=1, dimension=4, hidden=64, likelihood=likelihood)
    q = _trained(model, x[:2000], case, seed)
    return {"held_out": float(model.log_evidence(q, x[2000:], 200, 0).mean())}


class Couplings(nn.Module):
    """q(z | x) for z in the plane: a Gaussian of a network's output, then ``number`` affine couplings.

    Parameters
    ----------
    number : of couplings; the coordinate that is mapped alternates.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.base = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 4))
        self.maps = nn.ModuleList(
            nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
            for _ in range(number)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Draws of z and ln q(z | x), for x (S, 1)."""
        mean, log_sd = self.base(x).chunk(2, -1)
        z = mean + log_sd.exp() * torch.randn_like(mean)
        log_q = _log_normal(z, mean, log_sd.exp()).sum(1)
        for i, network in enumerate(self.maps):
            moved, kept = z[:, i % 2], z[:, (i + 1) % 2]
            shift, log_scale = network(torch.stack([kept, x[:, 0]], 1)).unbind(1)
            transform: Any = AffineTransform(shift, torch.tanh(log_scale).mul(2.0).exp())
            new = transform(moved)
            log_q = log_q - transform.log_abs_det_jacobian(moved, new)
            z = torch.stack([new, kept] if i % 2 == 0 else [kept, new], 1)
        return z, log_q


def log_evidence_of_rings(x: Tensor) -> Tensor:
    """ln p(x) of x (S, 1), by the trapezoidal rule over |z|^2; (S,)."""
    r = torch.linspace(0.0, 60.0, 4_001)
    value = _log_normal(x, r, _NOISE) - 0.5 * r - np.log(2.0)
    value[:, 0] -= np.log(2.0)
    return torch.logsumexp(value, 1) + torch.log(r[1] - r[0])


def _flow(case: Case, seed: int) -> dict[str, float]:
    """KL(q(z | x) || p(z | x)), the mean over fresh x."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        encoder = Couplings(4 if case.name == _FLOW else 0)
        optimiser = torch.optim.Adam(encoder.parameters(), _RATE)

        def bound(size: int) -> tuple[Tensor, Tensor]:
            x = torch.randn(size, 2).square().sum(1, keepdim=True) + _NOISE * torch.randn(size, 1)
            z, log_q = encoder(x)
            log_p = _log_normal(x, z.square().sum(1, keepdim=True), _NOISE)[:, 0]
            return log_p + _log_normal(z, 0.0, 1.0).sum(1) - log_q, x

        for _ in range(case.settings["steps"]):
            optimiser.zero_grad()
            loss: Any = -bound(2 * _SIZE)[0].mean()
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            gap = [
                float((log_evidence_of_rings(x) - value).mean())
                for value, x in (bound(500) for _ in range(8))
            ]
    return {"divergence": float(np.mean(gap))}


def _draw(results: pd.DataFrame) -> list[Drawing]:
    made, axes = drawing.figure(1, 4, size=(2.5, 2.8))
    betas = results[results["part"] == "beta"]
    drawing.curves(axes[0, 0], betas.melt(["beta", "seed"], ["distortion", "rate"], "case", "nats"), "beta",
                   "nats", x_scale="log", steps=False, y_label="nats an image")  # fmt: skip
    axes[0, 0].legend()
    drawing.curves(axes[0, 1], betas.assign(case="held out"), "beta", "held_out", x_scale="log", steps=False,
                   y_label="held-out ln p(x) (nats)")  # fmt: skip
    shown = (
        (_COMMON, _OWN, "held_out", "held-out ln p(x) (nats)"),
        (_GAUSSIAN, _FLOW, "divergence", "KL (nats)"),
    )
    for ax, (first, second, column, label) in zip(axes.flat[2:], shown, strict=True):
        for place, name in enumerate((first, second)):
            values = results[results["case"] == name][column]
            ax.plot(np.full(len(values), place), values, "o", alpha=0.6, color=drawing.COLOURS[place])
        ax.set_xticks((0, 1), [name.split(": ")[1] for name in (first, second)])
        ax.set_xlim(-0.6, 1.6)
        ax.set_ylabel(label)
        ax.set_title(first.split(":")[0])
    caption = (
        "From the left: distortion and rate of held-out digits, ten latent dimensions, and their "
        "evidence. Then a "
        "dot for each run: the held-out evidence of a curve with noise that depends on z, and KL(q(z | "
        "x) || p(z | x)) "
        f"where the posterior is a ring. {drawing.band_caption(betas)}"
    )
    return [Drawing("choices", made, caption)]


def _tables(results: pd.DataFrame) -> list[Table]:
    columns = {"distortion": "-E[ln p(x | z)]", "rate": "KL to p(z)", "held_out": "held-out ln p(x)",
               "change": "change of pixels for .1 in z"}  # fmt: skip
    rest = {"held_out": "held-out ln p(x)", "divergence": "KL to p(z | x)"}
    beta = results["part"] == "beta"
    caption = "Nats a datum. Median [quartiles] over seeds."
    return [Table("beta", quartiles(results[beta], columns), caption),
            Table("rest", quartiles(results[~beta], rest), caption)]  # fmt: skip


_PAIRS = (("beta = 4", "beta = 1"), ("beta = 1", "beta = 0.25"))
"""A higher beta, and a lower one."""
_CLAIMS = (
    *(
        Statement("002, 9.6.4", "A higher beta regularises more, and reconstructs worse.",
                  "beta of 4 against 1, and 1 against .25: a lower rate, a higher distortion", column,
                  {better: [worse]}, setting=f"{column}, {better}")
        for more, less in _PAIRS
        for column, better, worse in (("rate", more, less), ("distortion", less, more))
    ),
    Statement("002, 9.6.4", "A higher beta gives a smoother latent space.",
              "pixels change less for a step of .1 in z",
              "change", {more: [less] for more, less in _PAIRS}),
    Statement("002, 9.27", "A decoder with its own variance describes noise that depends on z.",
              "its held-out ln p(x) is higher than with one noise",
              "held_out", {_OWN: [_COMMON]}, higher=True, setting="curves", shown="ln p(x)"),
    Statement("002, 9.6", "Flows make the encoder's family richer.",
              "the divergence from a ring is less than half of a Gaussian's",
              "divergence", {_FLOW: [_GAUSSIAN]}, factor=0.5, setting="rings"),
)  # fmt: skip


experiment = Experiment(
    name="amortised-choices",
    title="Beta, the decoder's variance, and a flow in the encoder",
    summary="""What do three choices of an autoencoder do? The weight beta of the divergence from the prior,
    a variance that the decoder computes, and couplings after the encoder's Gaussian, each on data that show
    it.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS),
)
