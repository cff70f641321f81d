"""pLSA and LSA of the same documents: two embeddings, side by side.

Latent semantic analysis is the truncated singular value decomposition of the counts; its probabilistic
version a mixture with topics p(w | k) and proportions p(k | d), by EM. Both give every document a point of
few coordinates; those of pLSA are probabilities. Documents are simulated in three groups, in each of which a
topic is more frequent.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.metrics import adjusted_rand_score, silhouette_score

import bqvi
from bqvi.models import LatentDirichletAllocation
from bqvi.models.components import starting_centres
from experiments.harness import drawing, statements
from experiments.harness.experiment import Case, Drawing, Experiment, Resources, Table
from experiments.harness.statements import Statement, only
from experiments.harness.summaries import quartiles
from experiments.models.semantic_analysis import ProbabilisticLatentSemanticAnalysis, latent_semantic_analysis

__all__ = ["experiment"]

_GROUPS, _WORDS = 3, 40
_N, _QUICK_N = 150, 45
_SHORTEST, _LONGEST = 20, 300
_METHODS = ("LSA", "LSA, rows scaled", "pLSA 1", "pLSA 2", "pLSA 2, tempered", "LDA")
_POWER = 0.8
_STEPS, _QUICK_STEPS = 500, 20
_SHOWN_SEED = 0
_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])


def _cases(quick: bool, _: Resources) -> list[Case]:
    """Return each method."""
    n, steps = (_QUICK_N, _QUICK_STEPS) if quick else (_N, _STEPS)
    return [Case(name, {"method": name, "n": n, "steps": steps}) for name in _METHODS]


def _documents(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts (n, 40) of documents of 20 to 300 words, and their groups (n,)."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(_WORDS, 0.3), _GROUPS)
    labels = np.arange(n) % _GROUPS
    shares = rng.dirichlet(np.full(_GROUPS, 0.5), n) * 0.5 + 0.5 * np.eye(_GROUPS)[labels]
    lengths = rng.integers(_SHORTEST, _LONGEST, n)
    return np.stack([rng.multinomial(m, p) for m, p in zip(lengths, shares @ topics, strict=True)]), labels


def _run(case: Case, seed: int) -> pd.DataFrame:
    """Return a row for each document: its point, and columns of all of them."""
    name, n = case.settings["method"], case.settings["n"]
    counts, labels = _documents(n, seed)
    points, elbo = _embedded(name, counts, case.settings["steps"], seed)
    rng = np.random.default_rng(seed)
    nearest = starting_centres(points, _GROUPS, "k-means++", rng)
    for _ in range(20):  # Lloyd's steps, from the means of the groups in the embedding
        found = ((points[:, None] - nearest) ** 2).sum(-1).argmin(1)
        nearest = np.stack(
            [points[found == k].mean(0) if (found == k).any() else nearest[k] for k in range(_GROUPS)]
        )
    return pd.DataFrame(
        {
            "iteration": 0, "document": np.arange(n), "group": labels, "length": counts.sum(1),
            **{f"x_{i}": points[:, i] for i in range(_GROUPS)}, "elbo": elbo,
            "rand": adjusted_rand_score(labels, found), "silhouette": silhouette_score(points, labels),
        }
    )  # fmt: skip


def _embedded(name: str, counts: np.ndarray, steps: int, seed: int) -> tuple[np.ndarray, float]:
    """Points (n, 3), and the bound where there is one, else 0."""
    if name.startswith("LSA"):
        table = counts / counts.sum(1, keepdims=True) if "scaled" in name else counts
        return latent_semantic_analysis(table, _GROUPS)[0], 0.0
    if name == "LDA":
        lda = LatentDirichletAllocation(_GROUPS, _WORDS)
        fit = bqvi.fit(lda, counts, steps=steps, tolerance=1e-4, seed=seed, starts=3)
        return lda.transform(fit.q, counts), fit.elbo
    power = _POWER if "tempered" in name else 1.0
    model = ProbabilisticLatentSemanticAnalysis(
        _GROUPS, _WORDS, kind=1 if name == "pLSA 1" else 2, power=power
    )
    fit = bqvi.fit(model, counts, family="point", steps=steps, tolerance=1e-4, seed=seed, starts=3)
    theta = fit.q.mean
    if name != "pLSA 1":
        return np.asarray(theta["proportions"]), fit.elbo
    joint = theta["weights"] * theta["documents"].T
    return np.asarray(joint / joint.sum(1, keepdims=True)), fit.elbo


def _draw(results: pd.DataFrame) -> list[Drawing]:
    """Draw the embeddings of one seed."""
    caption = (
        f"Seed {_SHOWN_SEED}. Each point is a document, its size is the document's length, its colour the "
        "group. LSA: the first three coordinates, two of them drawn; they grow with the length unless rows "
        "are "
        "scaled. pLSA and LDA: the proportions of three topics in the triangle of probabilities."
    )
    return [Drawing("embeddings", _points(results[results["seed"] == _SHOWN_SEED]), caption)]


def _points(rows: pd.DataFrame) -> Figure:
    made, axes = drawing.figure(2, 3, size=(2.7, 2.5))
    for ax, (name, found) in zip(axes.flat, rows.groupby("case", sort=False), strict=True):
        points = found[["x_0", "x_1", "x_2"]].to_numpy(float)
        flat = points[:, 1:] if str(name).startswith("LSA") else points @ _CORNERS
        colours = [drawing.COLOURS[k] for k in found["group"]]
        ax.scatter(flat[:, 0], flat[:, 1], s=4 + found["length"] / 8, c=colours, alpha=0.5, linewidths=0)
        if not str(name).startswith("LSA"):
            outline = _CORNERS[[0, 1, 2, 0]]
            ax.plot(outline[:, 0], outline[:, 1], color="0.6", lw=0.8)
            ax.set(xticks=[], yticks=[], aspect="equal")
        ax.set_title(f"{name}\nadjusted Rand index {found['rand'].iloc[0]:.2f}")
    return made


def _tables(results: pd.DataFrame) -> list[Table]:
    """Return how well groups show."""
    rows = results[results["document"] == 0]
    columns = {"rand": "adjusted Rand index", "silhouette": "silhouette of the groups"}
    caption = "k-means in the embedding against the groups. Median [lower quartile, upper quartile]."
    return [Table("groups", quartiles(rows, columns), caption)]


_CLAIMS = (
    Statement("004", "pLSA is the probabilistic version of LSA: both embed documents.",
              "the median adjusted Rand index of pLSA 2 is at least that of LSA", "rand",
              {"pLSA 2": ["LSA"]}, higher=True, statistic="median", rows=only("document", 0)),
)  # fmt: skip


experiment = Experiment(
    name="models-embeddings",
    title="pLSA against LSA",
    summary="How do LSA, the two formulations of pLSA, tempered EM and LDA embed the same documents?",
    cases=_cases,
    run=_run,
    draw=_draw,
    tables=_tables,
    claims=statements.of(_CLAIMS),
)
