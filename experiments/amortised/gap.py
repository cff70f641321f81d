"""The amortisation gap of an encoder for single images, by Bayesian quadrature.

With the decoder held fixed, each held-out image has an evidence ln p(x) and a best Gaussian q*(z), and

    ln p(x) - ELBO(q(z | x)) = [ln p(x) - ELBO(q*)] + [ELBO(q*) - ELBO(q(z | x))]
                                approximation gap      amortisation gap

(Cremer, Li and Duvenaud 2018). q* is found from 100 calls of the decoder by ``fit(method="bq")``, among
diagonal Gaussians as the encoder gives them, and among all. Three things are checked by other means:

    ELBO(q*)     L-BFGS continues from there, on the average over 512 scrambled Sobol points: thousands of
                 calls
    ELBOs        of every q by the same 4,096 scrambled Sobol points, not by the process that found it
    ln p(x)      importance sampling with 20,000 draws from the best Gaussian of all
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import scipy.optimize
import torch

import bqvi
from bqvi.families import DiagonalGaussian, Gaussian
from experiments.amortised.normal import log_mean_weight, normal_points, values_of
from experiments.amortised.trained import latent_cases, posed
from experiments.harness import drawing
from experiments.harness.claims import Check, Claim
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table

__all__ = ["experiment"]

_IMAGES, _QUICK_IMAGES = 20, 2
_STEPS, _QUICK_STEPS = 1500, 20
_BUDGET, _QUICK_BUDGET = 100, 24
_FITTED, _TESTED, _DRAWS = 512, 4096, 20_000
_QUICK_POINTS = 256
_FAMILIES = {"diagonal": "mean-field", "full": "full"}
_CLOSE = 0.05
"""The accuracy of a mean gap, in nats for each image, that suffices to compare encoders."""


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each latent dimension."""
    return latent_cases(
        quick,
        images=(_IMAGES, _QUICK_IMAGES),
        steps=(_STEPS, _QUICK_STEPS),
        budget=(_BUDGET, _QUICK_BUDGET),
        fitted=(_FITTED, _QUICK_POINTS),
        tested=(_TESTED, _QUICK_POINTS),
        draws=(_DRAWS, _QUICK_POINTS),
    )


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return a row for each image: bounds in nats, and calls."""
    rows = [_image(log_joint, encoder, case.settings, seed) for log_joint, encoder in posed(case, seed)]
    return pd.DataFrame(rows).assign(iteration=range(len(rows)))


def _image(log_joint: Any, encoder: DiagonalGaussian, chosen: Any, seed: int) -> dict[str, float]:
    """Bounds of one image by each way."""
    tested = normal_points(chosen["latent"], chosen["tested"], [seed, 2])
    full = Gaussian(encoder.mean, encoder.covariance)
    starts: dict[str, DiagonalGaussian | Gaussian] = {"diagonal": encoder, "full": full}
    found: dict[str, float] = {"encoder": _elbo(log_joint, encoder, tested)}
    for name, family in _FAMILIES.items():
        fit = bqvi.fit(
            log_joint,
            method="bq",
            family=family,
            start_from=starts[name],
            budget=chosen["budget"],
            tolerance=None,
            seed=seed,
        )
        found |= {
            name: _elbo(log_joint, fit.q, tested),
            f"{name}, stated": fit.elbo,
            f"{name}, sd": float(fit.trace["elbo_sd"][-1]),
            f"{name}, calls": fit.n_evaluations,
        }
        long, calls = _optimised(
            log_joint, fit.q, normal_points(chosen["latent"], chosen["fitted"], [seed, 3])
        )
        found |= {f"{name}, long": _elbo(log_joint, long, tested), f"{name}, long calls": calls}
    found["evidence"], found["evidence, se"] = _evidence(log_joint, long, chosen["draws"], seed)
    return found


def _factor(q: Any) -> np.ndarray:
    """Lower triangular."""
    return np.asarray(np.linalg.cholesky(q.covariance))


def _elbo(log_joint: Any, q: Any, normal: np.ndarray) -> float:
    """E_q of the log joint at ``normal`` points (n, D) moved to q, and q's entropy."""
    return float(values_of(log_joint, q.mean + normal @ _factor(q).T).mean() + q.entropy)


def _optimised(log_joint: Any, start: Any, normal: np.ndarray) -> tuple[Any, int]:
    """The Gaussian of ``start``'s family with the best average over ``normal`` points, and its calls."""
    points, dimension = torch.as_tensor(normal), normal.shape[1]
    diagonal = isinstance(start, DiagonalGaussian)
    below = np.tril_indices(dimension, -1)
    factor = _factor(start)
    first = [start.mean, np.log(np.diag(factor)), [] if diagonal else factor[below]]
    calls = 0

    def factor_of(u: torch.Tensor) -> torch.Tensor:
        made = torch.diag(u[dimension : 2 * dimension].exp())
        return made if diagonal else made.index_put(tuple(map(torch.as_tensor, below)), u[2 * dimension :])

    def loss(place: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal calls
        calls += len(points)
        u = torch.tensor(place, requires_grad=True)
        z = u[:dimension] + points @ factor_of(u).T
        value = -log_joint.log_prior(z).mean() - u[dimension : 2 * dimension].sum()
        (slope,) = torch.autograd.grad(value, u)
        return float(value.detach()), slope.numpy()

    best = scipy.optimize.minimize(loss, np.concatenate(first), jac=True, method="L-BFGS-B").x
    lower = factor_of(torch.as_tensor(best)).numpy()
    mean, covariance = best[:dimension], lower @ lower.T
    return DiagonalGaussian(mean, np.diag(covariance)) if diagonal else Gaussian(mean, covariance), calls


def _evidence(log_joint: Any, q: Gaussian, n: int, seed: int) -> tuple[float, float]:
    """The logarithm of the mean importance weight, and its standard error."""
    z = q.sample(n, np.random.default_rng([seed, 4]))
    return log_mean_weight(values_of(log_joint, z) - q.log_prob(z))


def _parts(results: pd.DataFrame) -> pd.DataFrame:
    """Gaps of each image."""
    parts = results[["case", "seed"]].copy()
    for name in _FAMILIES:
        parts[f"{name}: optimum less encoder"] = results[name] - results["encoder"]
        parts[f"{name}: the same by the long run"] = results[f"{name}, long"] - results["encoder"]
        parts[f"{name}: evidence less optimum"] = results["evidence"] - results[f"{name}, long"]
        parts[f"{name}: long run less optimum"] = results[f"{name}, long"] - results[name]
        parts[f"{name}: stated less optimum"] = results[f"{name}, stated"] - results[name]
    return parts


def _mean(values: pd.Series, seeds: pd.Series) -> tuple[float, float]:
    """Mean over images and its standard error, of independent seeds where there are several."""
    units = values.groupby(seeds).mean() if seeds.nunique() > 1 else values
    return float(values.mean()), float(units.std(ddof=1) / np.sqrt(len(units)))


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the gap by quadrature against that of the long run, image by image."""
    parts = _parts(results)
    made, axes = drawing.figure(1, 2, sharey=True)
    marks = drawing.line_styles(results["case"])
    for ax, name in zip(axes.flat, _FAMILIES, strict=True):
        for case, rows in parts.groupby("case", sort=False):
            ax.plot(
                rows[f"{name}: the same by the long run"], rows[f"{name}: optimum less encoder"], "o", ms=3,
                alpha=0.6, color=marks[case].colour, label=str(case),
            )  # fmt: skip
        ends = [0.0, max(parts[f"{n}: the same by the long run"].max() for n in _FAMILIES)]
        ax.plot(ends, ends, color="black", lw=0.8)
        ax.set_xlabel("by 512 points and L-BFGS (nats)")
        ax.set_title(f"{name} covariance")
    axes[0, 0].set_ylabel("gap by quadrature (nats)")
    drawing.legend_below(made, axes)
    calls = int(results["diagonal, calls"].max())
    caption = (
        f"ELBO of the best Gaussian less that of the encoder's, an image a point: found from {calls} calls "
        "of the decoder, and by a long run. On the line both are the same."
    )
    return [Drawing("gaps", made, caption)]


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return means over images with their standard errors."""
    parts = _parts(results)
    lines = []
    for case, rows in parts.groupby("case", sort=False):
        for name in _FAMILIES:
            line = {"latent": case, "q": name}
            for column in [c for c in map(str, parts) if c.startswith(f"{name}: ")]:
                mean, error = _mean(rows[column], rows["seed"])
                line[column.partition(": ")[2]] = f"{mean:.3f} ± {error:.3f}"
            own = results[results["case"] == case]
            z = (own[f"{name}, stated"] - own[name]) / own[f"{name}, sd"]
            line["stated within 2 sd"] = f"{(z.abs() <= 2.0).mean():.0%}"
            line["calls"] = f"{own[f'{name}, calls'].median():.0f}"
            line["calls, long"] = f"{own[f'{name}, long calls'].median():.0f}"
            lines.append(line)
    caption = (
        f"Nats an image: mean over {results['seed'].nunique()} networks and the images of each, with its "
        "standard error over networks. The first gap is the amortisation gap where q is diagonal; for a "
        "full covariance it contains the difference between the two families. 'Stated' is the ELBO that "
        "the fit itself "
        "reports. The standard error of each ln p(x) by importance sampling is "
        f"{results['evidence, se'].median():.3f} in the median, {results['evidence, se'].max():.3f} at most."
    )
    return [Table("gaps", pd.DataFrame(lines), caption)]


def _claims(results: pd.DataFrame) -> list[Claim]:
    """Check that there is a gap, and that few calls measure it."""
    parts = _parts(results)
    there, known = [], []
    for case, rows in parts.groupby("case", sort=False):
        mean, error = _mean(rows["diagonal: optimum less encoder"], rows["seed"])
        there.append(Check(str(case), mean > 2.0 * error, f"{mean:.3f} ± {error:.3f} nats"))
        off, error = _mean(rows["diagonal: long run less optimum"], rows["seed"])
        near = abs(off) + 2.0 * error < _CLOSE
        known.append(Check(str(case), near, f"long run higher by {off:.4f} ± {error:.4f} nats"))
    return [
        Claim(
            "002",
            "An encoder that all images share loses against the best diagonal Gaussian of each.",
            "the mean amortisation gap is above two of its standard errors",
            there,
        ),
        Claim(
            "7.12",
            "Bayesian quadrature measures the amortisation gap from 100 calls of the decoder an image.",
            f"the mean gap agrees with that of a long run to {_CLOSE} nats, two standard errors included",
            known,
        ),
    ]


experiment = Experiment(
    name="amortised-gap",
    title="The amortisation gap of an encoder on single images",
    summary="""How much lower is the ELBO of a trained encoder on single held-out digits than that of the best
        Gaussian q(z)? The latter is found by Bayesian quadrature from 100 calls of the decoder, and compared
        with a long run and with the evidence.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=_claims,
    seeds=5,
    quick_seeds=1,
)
