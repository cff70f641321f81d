"""EM and its relatives on one data set: soft k-means, k-means as its limit, elliptical k-means, MAP.

    soft k-means         EM with the covariance s^2 I known, equal weights
    k-means              its limit for s -> 0, from the same start
    elliptical k-means   hard assignments, by the density of each cluster's mean and full covariance
    EM                   unknown covariances, spherical or full, maximum likelihood
    MAP, variational     the same with the default priors, as a point and as a distribution

All of them are coordinate ascent on one ELBO: they differ in the components and in q's family. Of hard
assignments q(z) is a point, as in classification EM (Celeux and Govaert 1992).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.cluster.vq import kmeans2
from sklearn.metrics import adjusted_rand_score

import bqvi
from bqvi.families import Gaussian, Product
from bqvi.models import GaussianMixture, Mixture, UniformWeights, component_estimates
from bqvi.models.components import starting_centres
from bqvi.models.known_covariance import KnownCovariance
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement, only
from experiments.harness.summaries import quartiles
from experiments.models import pictures

__all__ = ["clusters", "elliptical_kmeans", "experiment"]

_SCALES = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01)
_UNKNOWN: dict[str, dict[str, Any]] = {
    "EM, spherical": {"covariance": "spherical", "family": "point", "flat": True},
    "EM, full": {"covariance": "full", "family": "point", "flat": True},
    "MAP, full": {"covariance": "full", "family": "point", "flat": False},
    "variational, full": {"covariance": "full", "family": "full", "flat": False},
}
_N, _QUICK_N = 600, 150
_MEANS = np.array([[0.0, 0.0], [0.0, 2.5], [5.0, 1.25]])
_COVARIANCES = np.array([[[4.0, 0.0], [0.0, 0.15]], [[4.0, 0.0], [0.0, 0.15]], [[0.2, 0.0], [0.0, 4.0]]])
_K = len(_MEANS)
_STEPS = 2000
_SHOWN_SEED = 0


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return k-means, its soft version at each scale, and the mixtures with unknown covariances."""
    n = _QUICK_N if quick else _N
    soft = [Case(f"soft k-means, s = {s:g}", {"kind": "soft", "scale": s, "n": n}) for s in _SCALES]
    unknown = [Case(name, {"kind": "unknown", **chosen, "n": n}) for name, chosen in _UNKNOWN.items()]
    hard = [Case(name, {"kind": name, "n": n}) for name in ("k-means", "elliptical k-means")]
    return [*hard, *soft, *unknown]


def clusters(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three elongated clusters: data (N, 2) and labels (N,), and the start of all methods (K, 2)."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(_K, size=n)
    roots = np.linalg.cholesky(_COVARIANCES)
    x = _MEANS[labels] + np.einsum("nij,nj->ni", roots[labels], rng.standard_normal((n, 2)))
    return x, labels, starting_centres(x, _K, "random", rng)


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return a row for each component, with columns of the whole run."""
    chosen = case.settings
    x, labels, start = clusters(chosen["n"], seed)
    if chosen["kind"].endswith("k-means"):
        centres, found = _kmeans(x, start)
        shapes, away = np.zeros((_K, 2, 2)), 0.0
        if chosen["kind"] == "elliptical k-means":
            centres, shapes, found = elliptical_kmeans(x, found)
            away = _moved(x, centres)
        spread = float(((x - centres[found]) ** 2).sum())
        weights = np.bincount(found, minlength=_K) / len(x)
        return _rows(centres, shapes, weights, labels, found, 0.0, spread, away)
    model, q = _soft(x, start, chosen["scale"]) if chosen["kind"] == "soft" else _unknown(x, seed, chosen)
    means, covariances = component_estimates(model, q)
    r = model.responsibilities(q, x)
    weights = model.expected_weights(q)
    error = float(((x - means[r.argmax(1)]) ** 2).sum())
    away = _moved(x, means) if chosen["kind"] == "soft" else float("nan")
    return _rows(means, covariances, weights, labels, r.argmax(1), bqvi.models.elbo(model, q, x), error, away)


def _moved(x: np.ndarray, means: np.ndarray) -> float:
    """The largest move of a mean by k-means from it: 0 at a fixed point."""
    return float(np.abs(means - _kmeans(x, means)[0]).max())


def _kmeans(x: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means (K, 2) and labels (N,); an empty cluster keeps its mean."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        means, labels = kmeans2(x, start, iter=_STEPS, minit="matrix")
    return np.asarray(means), np.asarray(labels)


def elliptical_kmeans(x: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means (K, D), covariances (K, D, D) and labels (N,) at a fixed point, from ``labels`` (N,) of x (N, D).

    A cluster has the mean and the covariance of its points. A point goes to the cluster of the highest normal
    density there. A cluster with D points or fewer, whose covariance is singular, keeps what it had before.
    """
    clusters, dimension = labels.max() + 1, x.shape[1]
    means = np.zeros((clusters, dimension))
    covariances = np.tile(np.cov(x.T, bias=True), (clusters, 1, 1))
    for _ in range(_STEPS):
        for k in range(clusters):
            own = x[labels == k]
            if len(own) > dimension:
                means[k], covariances[k] = own.mean(0), np.cov(own.T, bias=True)
        gaps = x - means[:, None]
        distances = np.einsum("kni,kij,knj->kn", gaps, np.linalg.inv(covariances), gaps)
        before, labels = labels, (distances + np.linalg.slogdet(covariances)[1][:, None]).argmin(0)
        if np.array_equal(before, labels):
            break
    return means, covariances, labels


def _soft(x: np.ndarray, start: np.ndarray, scale: float) -> tuple[Mixture, Product]:
    """EM with covariance s^2 I from centres ``start``, under a prior so wide that it has no effect."""
    known = scale**2 * np.eye(2)
    model = Mixture(UniformWeights(_K), KnownCovariance(known, prior_covariance=1e8 * np.eye(2)))
    begin = Product({"means": Gaussian(start, np.tile(1e-12 * np.eye(2), (_K, 1, 1)))})
    fit = bqvi.fit(model, x, family="point", start_from=begin, steps=_STEPS)
    return fit.problem.model, fit.q


def _unknown(x: np.ndarray, seed: int, chosen: Any) -> tuple[GaussianMixture, Product]:
    model = GaussianMixture(_K, chosen["covariance"], concentration=1.0, flat=chosen["flat"])
    fit = bqvi.fit(model, x, family=chosen["family"], starts=5, steps=_STEPS, tolerance=1e-4, seed=seed)
    return fit.problem.model, fit.q


def _rows(
    means: np.ndarray, covariances: np.ndarray, weights: np.ndarray, labels: np.ndarray, found: np.ndarray,
    elbo: float, spread: float, away: float,
) -> pd.DataFrame:  # fmt: skip
    return pd.DataFrame(
        {
            "iteration": 0, "component": np.arange(_K), "weight": weights,
            **pictures.columns_of_gaussians(means, covariances), "elbo": elbo, "within": spread, "away": away,
            "rand": adjusted_rand_score(labels, found),
        }
    )  # fmt: skip


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the components of one seed, and the approach to k-means."""
    caption = (
        f"Seed {_SHOWN_SEED}. Crosses: the means found; ellipses: one and two standard deviations. Round "
        "components of one size cannot describe elongated clusters, whether the assignment is hard or soft."
    )
    limit = (
        "The distance by which k-means moves the means of soft k-means: at 0 they are a fixed point. "
        f"{drawing.band_caption(results)} Values below 1e-12 are shown there."
    )
    return [
        Drawing("components", _components(results), caption),
        Drawing("limit", _limit(results), limit),
    ]


def _components(results: pd.DataFrame) -> Figure:
    shown = [
        "k-means",
        "soft k-means, s = 1",
        "elliptical k-means",
        "EM, full",
        "MAP, full",
        "variational, full",
    ]
    made, axes = drawing.figure(2, 3, size=(2.9, 2.5), sharex=True, sharey=True)
    rows = results[results["seed"] == _SHOWN_SEED]
    x, labels, _ = clusters(int(rows["n"].iloc[0]), _SHOWN_SEED)
    colours = np.array(["#555555", "#999999", "#bbbbbb"])
    for ax, name in zip(axes.flat, shown, strict=True):
        found = rows[rows["case"] == name]
        ax.scatter(x[:, 0], x[:, 1], s=3, c=colours[labels], linewidths=0)
        means, covariances = pictures.gaussians_of(found)
        ax.plot(means[:, 0], means[:, 1], "x", color="black", zorder=3)
        if covariances.any():
            pictures.ellipses(ax, means, covariances)
        ax.set_title(f"{name}\nadjusted Rand index {found['rand'].iloc[0]:.2f}")
    return made


def _limit(results: pd.DataFrame) -> Figure:
    made, axes = drawing.figure()
    rows = results[(results["kind"] == "soft") & (results["component"] == 0)]
    rows = rows.assign(case="soft k-means", away=rows["away"].clip(lower=1e-12))
    drawing.curves(
        axes[0, 0], rows, "scale", "away", x_scale="log", y_scale="log", x_label="standard deviation s",
        y_label="distance to k-means", steps=False,
    )  # fmt: skip
    return made


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return the agreement of each with the clusters, and its bound."""
    rows = results[results["component"] == 0]
    columns = {
        "rand": "adjusted Rand index",
        "within": "sum of squares within clusters",
        "elbo": "ELBO (nats)",
        "away": "distance to k-means",
    }
    caption = (
        "Median [lower quartile, upper quartile]. With a flat prior and q a point the ELBO is the log "
        "likelihood; with hard assignments it is not computed (0). nan: not computed."
    )
    return [Table("relatives", quartiles(rows, columns), caption)]


_CLAIMS = (
    Statement("004", "k-means is the limit of EM with covariances epsilon I.",
              f"the means at s = {min(_SCALES):g} are within 0.001 of a fixed point of k-means",
              "away", [f"soft k-means, s = {min(_SCALES):g}"], level=1e-3,
              shown="distance to k-means", rows=only("component", 0)),
    Statement("004", "Unrestricted covariances give an elliptical version of k-means.",
              "the median adjusted Rand indices of EM with full covariances and of k-means with elliptical "
              "clusters are above that of k-means by 0.2",
              "rand", dict.fromkeys(("EM, full", "elliptical k-means"), ("k-means",)), higher=True,
              margin=0.2, statistic="median", rows=only("component", 0)),
)  # fmt: skip


experiment = Experiment(
    name="models-em-relatives",
    title="EM and its relatives",
    summary="""How do soft k-means, its limit k-means, elliptical k-means, and EM with spherical and full
        covariances differ on three elongated clusters? All are coordinate ascent on one ELBO.""",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS),
)
