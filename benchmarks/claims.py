"""``python -m benchmarks claims``: how often "converged" is wrong, and +- 2 sd does not contain the answer.

Each run is a door of the library on a random posterior of `claims_problems`, drawn from (kind, seed). A claim
is the log evidence of `vbmc` and of `integrate`, of `fit` the ELBO of the q that it returns. "Wrong" is more
than .1 nats and 3 standard deviations away; for sampling methods, whose claim is that q is the best one, an
ELBO more than .1 nats below the best q's, which is found here by L-BFGS. Results are appended to a file of
JSON lines, so that runs of several commands can be summarised together.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import norm, qmc
from threadpoolctl import threadpool_limits

import bqvi
import gp
from benchmarks.claims_problems import KINDS, Density, Posed, laplace, problem
from benchmarks.paired import Line, printed
from benchmarks.setting import commit

Record = dict[str, Any]
NATS, SDS = 0.1, 3.0
"""Beyond both, an answer is wrong."""
SAMPLING = ("pathwise", "score", "iwae", "dreg")
WEIGHTED = ("iwae", "dreg")
"""Methods of the importance-weighted bound."""
ROWS = ("pathwise", "sngd", "memoised")
"""Methods that take mini-batches of a regression's rows."""
SMOOTH = ("regression", "gaussian", "skewed")
"""Kinds for sampling methods: one mode, no bounds."""


def budget(posed: Posed) -> int:
    """Evaluations of a run, a modest number."""
    return 50 + 20 * posed.dimension


def _bounds(posed: Posed) -> dict[str, Any]:
    given = {"plausible_lower": posed.box[0], "plausible_upper": posed.box[1]}
    return given | ({} if posed.bounds is None else {"lower": posed.bounds[0], "upper": posed.bounds[1]})


def vbmc(posed: Posed, seed: int, gradients: bool) -> Record:
    """From values, or with the gradients of torch."""
    if gradients:
        log_joint: Any = lambda t: posed.log_joint(t[None])[0]  # noqa: E731
    else:
        log_joint = lambda t: float(posed.numpy(t)[0])  # noqa: E731
    how: Any = {"gradient": "autodiff"} if gradients else {}
    n = budget(posed) // (2 if gradients else 1)
    found = bqvi.vbmc(log_joint, **_bounds(posed), **how, budget=n, seed=seed)
    moments = {"moments": moments_error(posed.moments, found.posterior)}
    return moments | _claim(
        found.log_evidence, found.log_evidence_sd, posed.log_evidence, found.converged, found
    )


def moments_error(moments: np.ndarray | None, posterior: Any) -> float:
    """Root mean square over parameters of errors of means, in sds, and of logarithms of sds; or NaN."""
    if moments is None:
        return math.nan
    known = np.isfinite(moments).all(0)
    mean, sd = moments[:, known]
    stated = np.sqrt(np.diag(posterior.covariance))[known]
    errors = (np.asarray(posterior.mean)[known] - mean) / sd, np.log(stated / sd)
    return float(np.sqrt(np.mean(np.square(errors))))


def fit(posed: Posed, seed: int, gradients: bool) -> Record:
    """By Bayesian quadrature: the claim is the ELBO of the q returned, beside it stands the log evidence."""
    how: Any = {"gradient": "autodiff" if gradients else None}
    model = bqvi.models.LogJoint(
        posed.log_joint if gradients else posed.numpy, posed.dimension, **how, **_bounds(posed)
    )
    n = budget(posed) // (2 if gradients else 1)
    found = bqvi.fit(model, method="bq", budget=n, seed=seed)
    mean, sd = elbo(posed, found)
    record = _claim(
        float(found.elbo), math.hypot(float(found.elbo_sd or 0), sd), mean, found.converged, found
    )
    return record | {"log_evidence_error": _number(found.log_evidence) - posed.log_evidence,
                     "log_evidence_sd": _number(found.log_evidence_sd)}  # fmt: skip


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def elbo(posed: Posed, found: Any, n: int = 4000) -> tuple[float, float]:
    """E_q[ln p - ln q] over draws of the fit's posterior, with its standard error."""
    draws = np.asarray(found.posterior.sample(n, seed=12345))
    terms = posed.numpy(draws) - np.asarray(found.posterior.log_prob(draws))
    return float(terms.mean()), float(terms.std() / math.sqrt(n)) if np.isfinite(terms).all() else 0.0


def best_gaussian(
    log_joint: Density, start: np.ndarray, n: int = 512, draws: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and root of the Gaussian with the highest bound of ``draws`` over ``n`` fixed draws."""
    mean, root = laplace(log_joint, start)
    dimension = len(mean)
    normals = norm.ppf(qmc.Sobol(dimension, seed=1).random(n // 2))
    u = torch.as_tensor(np.concatenate([normals, -normals]))
    m, factor = (torch.tensor(v, requires_grad=True) for v in (mean, np.eye(dimension)))
    base = torch.as_tensor(root)
    search = torch.optim.LBFGS(
        [m, factor], max_iter=200, line_search_fn="strong_wolfe", tolerance_change=1e-10
    )

    def closure() -> Any:
        search.zero_grad()
        loss = -_bound(log_joint(m + u @ (base @ factor).T), u, base @ factor, draws)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    search.step(closure)  # type: ignore[no-untyped-call]
    return m.detach().numpy(), (base @ factor).detach().numpy()


def _bound(values: torch.Tensor, u: torch.Tensor, root: torch.Tensor, draws: int) -> torch.Tensor:
    """The ELBO, or the bound of ``draws``, of a Gaussian from the log joint (n,) at draws m + root u."""
    dimension = u.shape[1]
    constant = dimension / 2 * math.log(2 * math.pi) + torch.linalg.slogdet(root)[1]
    if draws == 1:
        return values.mean() + constant + dimension / 2
    weights = values + 0.5 * (u**2).sum(1)
    together = np.random.default_rng(3).permutation(len(u))[: len(u) // draws * draws]
    return constant - math.log(draws) + torch.logsumexp(weights[together].reshape(-1, draws), 1).mean()


def gaussian_elbo(log_joint: Density, q: Any, n: int = 4096, draws: int = 1) -> float:
    """The ELBO, or the bound of ``draws``, of a Gaussian q by fresh Sobol draws."""
    root = np.linalg.cholesky(np.asarray(q.covariance))
    u = norm.ppf(qmc.Sobol(len(root), seed=2).random(n))
    theta = torch.as_tensor(np.asarray(q.mean) + u @ root.T)
    values = torch.cat([log_joint(part) for part in torch.split(theta, 256)])
    return float(_bound(values, torch.as_tensor(u), torch.as_tensor(root), draws))


def sampled(posed: Posed, seed: int, method: str) -> Record:
    """A sampling method with its defaults, four seconds, and a tolerance: without one none converges."""
    model = bqvi.models.LogJoint(posed.log_joint, posed.dimension, gradient="autodiff")
    found = bqvi.fit(model, method=method, seed=seed, tolerance=NATS, run=bqvi.Run(max_seconds=4))
    draws = found.problem.estimator.samples if method in WEIGHTED else 1
    candidates = [best_gaussian(posed.log_joint, posed.box.mean(0))]
    if draws > 1:  # the best over few groups of draws may be below the best by the ELBO over others
        candidates.append(best_gaussian(posed.log_joint, posed.box.mean(0), 256 * draws, draws))
    best, reached = (
        [gaussian_elbo(posed.log_joint, q, 4096 if draws == 1 else 2**15, draws) for q in qs]
        for qs in ([bqvi.families.Gaussian(mean, root @ root.T) for mean, root in candidates], [found.q])
    )
    record = _claim(reached[0], 0.0, max(best), found.converged, found)
    return record | {"reported": float(found.elbo), "reported_sd": _number(found.elbo_sd)}


def rows(seed: int, method: str) -> Record:
    """A logistic regression of 1e3 to 3e4 rows; those that have a bound in closed form beside 'ngd'."""
    rng = np.random.default_rng([99, seed])
    n, dimension = int(10 ** rng.uniform(3, 4.5)), int(rng.integers(2, 9))
    x = np.c_[np.ones(n), rng.normal(size=(n, dimension - 1))]
    y = (rng.random(n) < 1 / (1 + np.exp(-x @ rng.normal(size=dimension)))).astype(int)
    model = bqvi.models.LogisticRegression(dimension)
    how: Any = {"minibatch": int(rng.choice([50, 100, 400]))} if method != "memoised" else {}
    how |= {"tolerance": NATS} if method == "pathwise" else {}
    found = bqvi.fit(model, (x, y), method=method, seed=seed, run=bqvi.Run(max_seconds=4), **how)
    signed = torch.as_tensor((2 * y - 1)[:, None] * x)

    def log_joint(t: torch.Tensor) -> torch.Tensor:
        prior = -0.5 * (t**2).sum(1) - dimension / 2 * math.log(2 * math.pi)
        return torch.nn.functional.logsigmoid(t @ signed.T).sum(1) + prior

    if method == "pathwise":
        mean, root = laplace(log_joint, np.zeros(dimension))
        best = gaussian_elbo(log_joint, bqvi.families.Gaussian(mean, root @ root.T), 256)
        return _claim(gaussian_elbo(log_joint, found.q, 256), 0.0, best, found.converged, found)
    best = float(bqvi.fit(model, (x, y), method="ngd", tolerance=1e-8, seed=0).elbo)
    return _claim(float(found.elbo), 0.0, best, found.converged, found)


def integrate_log(posed: Posed, seed: int, gradients: bool) -> Record:
    """Over a finite box, or against the Gaussian of the plausible box."""
    del gradients
    n = budget(posed)
    if posed.bounds is not None:
        found = bqvi.integrate(
            posed.numpy, "lebesgue", n, lower=posed.bounds[0], upper=posed.bounds[1], log=True, seed=seed
        )
    else:
        middle, sd = posed.box.mean(0), np.ptp(posed.box, axis=0) / 4

        def quotient(x: np.ndarray) -> np.ndarray:
            return posed.numpy(x) - norm.logpdf(x, middle, sd).sum(1)

        found = bqvi.integrate(quotient, gp.measures.Gaussian(middle, np.diag(sd**2)), n, log=True, seed=seed)
    return _claim(_number(found.log_mean), _number(found.log_sd), posed.log_evidence, found.converged, found)


def integral(seed: int, kind: str) -> Record:
    """Singular ends, an indicator, Runge's function, or a smooth one; the error relative to the integral."""
    rng = np.random.default_rng([98, seed])
    dimension = 1 if kind == "singular" else int(rng.integers(1, 6))
    a = rng.uniform(0.5, 1.5, dimension)
    if kind == "singular":
        a = rng.uniform(0.1, 0.9, 1)
        f: Callable[[np.ndarray], np.ndarray] = lambda x: x[:, 0] ** a[0]  # noqa: E731
        truth = 1 / (1 + a[0])
    elif kind == "indicator":  # the volume below a plane: inclusion and exclusion over corners
        edge = float(a.sum() * rng.uniform(0.3, 0.7))
        f = lambda x: (x @ a < edge).astype(float)  # noqa: E731
        corners = np.array(np.meshgrid(*[[0, 1]] * dimension)).reshape(dimension, -1).T
        terms = (-1.0) ** corners.sum(1) * np.maximum(edge - corners @ a, 0) ** dimension
        truth = float(terms.sum() / (math.factorial(dimension) * np.prod(a)))
    elif kind == "runge":
        f = lambda x: np.prod(1 / (1 + (6 * a * (x - 0.5)) ** 2), axis=1)  # noqa: E731
        truth = float(np.prod(2 * np.arctan(3 * a) / (6 * a)))
    else:
        f = lambda x: np.exp(x @ a)  # noqa: E731
        truth = float(np.prod(np.expm1(a) / a))
    n = int(rng.choice([40, 100, 200]))
    found = bqvi.integrate(f, "lebesgue", n, lower=np.zeros(dimension), upper=np.ones(dimension), seed=seed)
    return _claim(found.mean / truth, found.sd / truth, 1.0, found.converged, found) | {"nats": 1e-3}


def _claim(estimate: Any, sd: Any, truth: float, converged: bool, found: Any) -> Record:
    # of every door alike
    return {"estimate": float(estimate), "sd": float(sd), "truth": truth, "converged": bool(converged),
            "evaluations": int(found.n_evaluations), "reasons": [str(text)[:120] for text in found.reasons],
            "warnings": len(found.warnings)}  # fmt: skip


DOORS: dict[str, tuple[tuple[str, ...], Callable[[str, int], Record]]] = {
    "vbmc": (tuple(KINDS), lambda kind, seed: vbmc(problem(kind, seed), seed, False)),
    "vbmc-gradients": (tuple(KINDS), lambda kind, seed: vbmc(problem(kind, seed), seed, True)),
    "fit": (tuple(KINDS), lambda kind, seed: fit(problem(kind, seed), seed, False)),
    "fit-gradients": (tuple(KINDS), lambda kind, seed: fit(problem(kind, seed), seed, True)),
    "integrate-log": (
        tuple(kind for kind in KINDS if kind != "half_cauchy"),
        lambda kind, seed: integrate_log(problem(kind, seed), seed, False),
    ),
    "integrate": (("singular", "indicator", "runge", "smooth"), lambda kind, seed: integral(seed, kind)),
    **{
        method: (SMOOTH, lambda kind, seed, method=method: sampled(problem(kind, seed), seed, method))  # type: ignore[misc]
        for method in SAMPLING
    },
    **{
        f"{method}-rows": (("rows",), lambda _, seed, method=method: rows(seed, method))  # type: ignore[misc]
        for method in ROWS
    },
}
"""Door -> its kinds, and a run of (kind, seed)."""
ANSWERS = ("vbmc", "vbmc-gradients", "fit", "fit-gradients", "integrate-log", "integrate")
"""Doors that state a standard deviation of what they claim."""


def one(task: tuple[str, str, int]) -> Record:
    """The record of (door, kind, seed); an exception is one too."""
    door, kind, seed = task
    began = time.process_time()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            record = DOORS[door][1](kind, seed)
        except Exception as error:  # what a user would see
            record = {"exception": f"{type(error).__name__}: {str(error)[:200]}", "converged": False}
    return {"door": door, "kind": kind, "seed": seed, **record, "cpu": time.process_time() - began}


def wrong(record: Record) -> bool:
    """More than .1 nats and 3 sds away; a sampling method's q only if below the best one's ELBO."""
    if "exception" in record:
        return False
    error = record["estimate"] - record["truth"]
    size = abs(error) if record["door"] in ANSWERS else -error
    # `not <=`: an estimate that is not a number is wrong
    return not (size <= record.get("nats", NATS) or size <= SDS * record["sd"])


def covered(record: Record) -> bool:
    """Whether the truth lies within 2 sds, or a thousandth of the threshold, which no sd needs to resolve."""
    slack = 1e-3 * record.get("nats", NATS)
    return bool(abs(record["estimate"] - record["truth"]) <= 2 * record["sd"] + slack)


def summary(records: Sequence[Record]) -> Iterable[Line]:
    """Lines of each door and kind, and totals with their bars."""
    for door, kind in sorted({(r["door"], r["kind"]) for r in records}):
        yield _line(f"{door}, {kind}", [r for r in records if (r["door"], r["kind"]) == (door, kind)])
    for door in dict.fromkeys(r["door"] for r in records):
        yield _line(f"{door}, all", [r for r in records if r["door"] == door])
    said = [r for r in records if r["converged"]]
    share = sum(map(wrong, said)) / max(len(said), 1)
    yield Line(
        "converged and wrong, of those converged",
        f"{sum(map(wrong, said))} of {len(said)}",
        "<= 1 %",
        share <= 0.01,
    )
    stated = [r for r in records if r["door"] in ANSWERS and "exception" not in r]
    inside = sum(map(covered, stated)) / max(len(stated), 1)
    yield Line("within 2 sd", f"{inside:.3f} of {len(stated)}", ".92 to .99", 0.92 <= inside <= 0.99)
    right = [r for r in stated if not wrong(r)]
    yield Line("converged, of those right", f"{sum(r['converged'] for r in right)} of {len(right)}", "", True)


def _line(what: str, records: Sequence[Record]) -> Line:
    returned = [r for r in records if "exception" not in r]
    false = sum(r["converged"] and wrong(r) for r in records)
    inside = sum(map(covered, returned)) if records[0]["door"] in ANSWERS else "-"
    measured = (
        f"{len(records)} runs, {sum(r['converged'] for r in records)} converged, {false} of these wrong; "
        f"{inside} within 2 sd, {len(records) - len(returned)} exceptions; "
        f"{np.median([r['evaluations'] for r in returned] or [0]):.0f} evaluations, "
        f"{np.median([r['cpu'] for r in records]):.1f} s"
    )
    return Line(what, measured, "no false claim", false == 0)


def main(arguments: list[str]) -> int:
    """Run, append to the file, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks claims")
    parser.add_argument("--runs", type=int, help="of all doors and kinds together, in turns")
    parser.add_argument("--kinds", nargs="*", help="default: all of a door")
    parser.add_argument("--doors", nargs="*", default=list(DOORS), choices=list(DOORS))
    parser.add_argument("--seeds", default="0:1000", help="first:last + 1")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="file of JSON lines to which results are appended")
    parser.add_argument("--quick", action="store_true", help="about a minute: a run of each door")
    parser.add_argument("--summary", type=Path, nargs="+", help="only the table of these files")
    asked = parser.parse_args(arguments)
    return printed(summary(_read(asked.summary) if asked.summary else _run(asked)))


def _read(files: Iterable[Path]) -> list[Record]:
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def _tasks(asked: argparse.Namespace) -> list[tuple[str, str, int]]:
    first, last = map(int, asked.seeds.split(":"))
    pairs = [
        (door, kind)
        for door in asked.doors
        for kind in DOORS[door][0]
        if not asked.kinds or kind in asked.kinds
    ]
    if asked.quick:
        pairs = [(door, "rows" if "rows" in door else DOORS[door][0][-2]) for door in asked.doors]
    # the order is random, so that any piece of it contains all doors and kinds
    tasks = [(*pair, seed) for seed in range(first, last)
             for pair in (pairs[i] for i in np.random.default_rng(seed).permutation(len(pairs)))]  # fmt: skip
    return tasks[: len(pairs) if asked.quick else asked.runs]


def _run(asked: argparse.Namespace) -> list[Record]:
    tasks, at, records = _tasks(asked), commit(), []
    with ProcessPoolExecutor(asked.jobs) as pool:
        for record in map(one, tasks) if asked.jobs == 1 else pool.map(one, tasks):
            records.append(record | {"commit": at})
            if asked.out:
                with asked.out.open("a") as file:
                    file.write(json.dumps(records[-1]) + "\n")
            if record["converged"] and wrong(record):
                print(f"false: {json.dumps(record)}", file=sys.stderr, flush=True)
    return records
