"""``python -m benchmarks golden``: 40 short runs of the doors as users call them, before and after a change.

``--out FILE`` writes the runs, one row each: the evaluations, the estimate and its sd, why the run ended and
what it says of itself, and digests of all points at which the user's function was called and of the answer.
``--against FILE`` makes them again and names the rows that differ from the file in any digit, as none may
where code was only moved. With ``--statistics``, for a change of numerics, rows differ whose estimates are
`SDS` standard deviations (of both runs together) and `NATS` apart, whose sds differ by that factor, or of
which one converged; and so do the runs together if they took more than `MORE` times the evaluations. Digits
are those of one machine, on which the file has to be written and read.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import bqvi
import gp
from benchmarks.setting import commit
from bqvi.models import GaussianMixture, LogJoint
from experiments.problems import gradient_targets as targets
from experiments.problems import hard_posteriors as hard
from experiments.problems import known_posteriors as easy
from experiments.problems.data import simulate
from experiments.problems.integrands import Integrand, integrands
from experiments.problems.unseen_integrands import first, second

Row = dict[str, Any]
NATS = 0.01
"""Estimates that differ by less are not told apart by statistics."""
SDS, MORE = 3.0, 1.05


class Points:
    """A user's function that digests the points at which it is called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function, self._digest = function, hashlib.sha256()

    def __call__(self, x: Any) -> Any:
        """Its value."""
        self._digest.update(np.ascontiguousarray(x.detach() if torch.is_tensor(x) else x).tobytes())
        return self._function(x)

    @property
    def digest(self) -> str:
        """Of all points so far, in their order."""
        return self._digest.hexdigest()[:16]


def _digest(*arrays: Any) -> str:
    return hashlib.sha256(b"".join(np.asarray(a, float).tobytes() for a in arrays)).hexdigest()[:16]


def _row(run: Any, points: str, estimate: Any, sd: Any, converged: bool, answer: str) -> Row:
    return {
        "evaluations": int(run.n_evaluations),
        "estimate": np.asarray(estimate, float).tolist(),
        "sd": np.asarray(sd, float).tolist(),
        "converged": bool(converged),
        "stopped": run.stopped,
        "reasons": [*run.reasons, *run.warnings],
        "points": points,
        "answer": answer,
    }


def _vbmc(
    problem: Callable[[], easy.Problem], budget: int, gradients: bool = False, noise: float = 0.0, **how: Any
) -> Row:
    """``noise``: its sd; declared where ``how`` has noise_sd."""
    posed = problem()
    function = Points(posed.noisy(noise, 1) if noise else posed.log_joint)
    slope = posed.gradient if gradients else None
    run = bqvi.vbmc(function, **{**posed.bounds(), **how}, gradient=slope, budget=budget, seed=1)
    answer = _digest(run.posterior.mean, run.posterior.covariance, run.elbo, run.elbo_sd)
    return _row(run, function.digest, run.log_evidence, run.log_evidence_sd, run.converged, answer)


def _integrate(posed: Integrand, budget: int, log: bool = False, copies: int = 1, **how: Any) -> Row:
    """``copies``: of the function, times 1, 2, ..., as outputs."""

    def values(x: np.ndarray) -> Any:
        value = posed.function(x)
        return (
            np.log(value) if log else value if copies == 1 else np.multiply.outer(value, range(1, 1 + copies))
        )

    function = Points(values)
    run = bqvi.integrate(function, posed.measure, budget=budget, log=log, seed=1, **how)
    estimate, sd = (run.log_mean, run.log_sd) if log else (run.mean, run.sd)
    answer = _digest(*([estimate] if run.covariance is None else [run.covariance]))
    return _row(run, function.digest, estimate, sd, run.converged, answer)


def _bq(
    target: Callable[[], targets.GradientTarget],
    budget: int,
    values: bool = False,
    start: bool = True,
    **how: Any,
) -> Row:
    """``values``: without gradients. ``start``: from the target's."""
    posed = target()
    function = Points(_of_arrays(posed.log_density) if values else posed.log_density)
    kind: dict[str, Any] = {"gradient": None} if values else {}
    box = {name: how.pop(name) for name in ("plausible_lower", "plausible_upper") if name in how}
    model = LogJoint(function, posed.dimension, **kind, **box)
    origin: dict[str, Any] = {"start_from": posed.start()} if start else {}
    run = bqvi.fit(model, method="bq", **origin, **how, budget=budget, seed=1)
    answer = _digest(run.q.mean, run.q.covariance, run.log_evidence, run.log_evidence_sd)
    return _row(run, function.digest, run.elbo, run.elbo_sd, run.converged, answer)


def _of_arrays(log_density: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda theta: log_density(torch.from_numpy(theta)).numpy()


def _pathwise(two: bool = False) -> Row:
    """``two``: with q a mixture of two Gaussians."""
    posed = targets.banana()
    function = Points(posed.log_density)
    model = LogJoint(function, posed.dimension)
    start: Any = posed.start()
    if two:
        means = posed.mean + np.outer([-1.0, 1.0], posed.scale)
        start = bqvi.families.GaussianMixture(np.full(2, 0.5), means, np.stack([np.diag(posed.scale**2)] * 2))
    run = bqvi.fit(model, method="pathwise", start_from=start, steps=100, seed=1)
    answer = _digest(*run.q.unconstrained)
    return _row(run, function.digest, run.elbo, run.elbo_sd, run.converged, answer)


def _clusters(method: str = "cavi", **how: Any) -> Row:
    rng = np.random.default_rng(1)
    centres = np.array([[-2.0, 0.0], [1.5, 1.5], [1.0, -2.0]])
    x, _ = simulate(500, np.array([0.5, 0.3, 0.2]), centres, np.eye(2), rng)
    run = bqvi.fit(GaussianMixture(3, np.eye(2)), x, method=method, seed=1, **how)
    answer = _digest(run.q["means"].mean, run.q["means"].covariance, run.q["weights"].mean)
    return _row(run, _digest(run.trace["elbo"]), run.elbo, run.elbo_sd, run.converged, answer)


def _bounds() -> Row:
    posed = easy.rosenbrock(2)
    function = Points(posed.log_density)
    proposal = gp.measures.Gaussian(posed.mean, 4 * posed.covariance)
    draws = posed.sample(20, 1)
    run = bqvi.evidence_bounds(function, proposal, budget=20_000, posterior=draws, seed=1)
    answer = _digest(run.lower, run.upper, run.interval, run.draws)
    return _row(run, function.digest, run.log_evidence, run.log_evidence_sd, run.converged, answer)


def runs() -> dict[str, Callable[[], Row]]:
    """All of them, by name."""
    known, viqr = (
        {posed.name: posed for posed in (*integrands(), *first(), *second())},
        bqvi.Design(acquisition="viqr"),
    )
    return {
        "vbmc: Gaussian 6": partial(_vbmc, partial(hard.gaussian, 6), 120),
        "vbmc: lumpy 2": partial(_vbmc, partial(easy.lumpy, 2), 120),
        "vbmc: Rosenbrock 2": partial(_vbmc, partial(easy.rosenbrock, 2), 120),
        "vbmc: Rosenbrock 2, viqr": partial(_vbmc, partial(easy.rosenbrock, 2), 40, design=viqr),
        "vbmc: cigar 4": partial(_vbmc, partial(easy.cigar, 4), 60),
        "vbmc: bounded banana": partial(_vbmc, easy.bounded_banana, 80),
        "vbmc: logistic 5": partial(_vbmc, easy.logistic, 120),
        "vbmc: three modes": partial(_vbmc, partial(hard.three_gaussians, 2, 1), 120),
        "vbmc: clusters": partial(_vbmc, partial(hard.clusters, 1), 150),
        "vbmc: ring": partial(_vbmc, hard.ring, 150),
        "vbmc: funnel 3": partial(_vbmc, partial(hard.funnel, 3), 120),
        "vbmc: half plane": partial(_vbmc, hard.half_plane, 120),
        "vbmc: gradients, cigar 4": partial(_vbmc, partial(easy.cigar, 4), 60, True),
        "vbmc: gradients, logistic 5": partial(_vbmc, easy.logistic, 60, True),
        "vbmc: gradients, funnel 5": partial(_vbmc, partial(hard.funnel, 5), 80, True),
        "vbmc: gradients, schools": partial(_vbmc, partial(hard.schools, False), 80, True),
        "vbmc: noise .5": partial(_vbmc, partial(easy.rosenbrock, 2), 100, noise=0.5, noise_sd=0.5),
        "vbmc: noise unknown": partial(_vbmc, partial(hard.gaussian, 2), 80, noise=0.5, noise_sd="unknown"),
        "vbmc: noise undeclared": partial(_vbmc, partial(hard.gaussian, 2), 80, noise=0.2),
        "integrate: probit 5": partial(_integrate, known["probit 5"], 60),
        "integrate: turned banana 2": partial(_integrate, known["turned banana 2"], 60),
        "integrate: box corner 3": partial(_integrate, known["box corner 3"], 60),
        "integrate: mixture measure 3": partial(_integrate, known["bump, mixture measure 3"], 60),
        "integrate: two outputs": partial(_integrate, known["payoff 2"], 40, copies=2),
        "integrate: log": partial(_integrate, known["narrow likelihood 3"], 60, log=True),
        "integrate: wsabi-l": partial(_integrate, known["bimodal 2"], 50, method="wsabi-l"),
        "integrate: qmc": partial(_integrate, known["probit 5"], 512, method="qmc"),
        "bq: banana": partial(_bq, targets.banana, 60),
        "bq: mixture": partial(_bq, targets.mixture, 60),
        "bq: schools, centred": partial(_bq, partial(targets.schools, True), 60),
        "bq: schools, non-centred": partial(_bq, partial(targets.schools, False), 60),
        "bq: default start": partial(_bq, lambda: targets.targets()["logistic"], 80, start=False),
        "bq: values": partial(_bq, lambda: targets.targets()["logistic"], 100, values=True),
        "bq: a box, values": partial(
            _bq, targets.banana, 60, True, False, plausible_lower=[-3, -2], plausible_upper=[3, 6]
        ),
        "fit: mixture q": partial(_pathwise, two=True),
        "fit: pathwise": _pathwise,
        "fit: cavi": _clusters,
        "fit: sngd": partial(_clusters, method="sngd", minibatch="balanced", steps=60),
        "fit: memoised": partial(_clusters, method="memoised", steps=40),
        "bounds": _bounds,
    }  # fmt: skip


def differs(row: Row, other: Row, statistics: bool) -> list[str]:
    """The fields of two rows that differ, () if none; by ``statistics``, of the doors' claims alone."""
    if not statistics:
        return [field for field in row if json.dumps(row[field]) != json.dumps(other.get(field))]
    a, b = (np.atleast_1d(which["estimate"]) for which in (row, other))
    s, t = (np.atleast_1d(which["sd"]) for which in (row, other))
    apart = np.abs(a - b) > np.maximum(NATS, SDS * np.hypot(s, t))
    scaled = np.maximum(np.maximum(s, t), NATS / SDS) > SDS * np.maximum(np.minimum(s, t), NATS / SDS)
    lost = np.isfinite(a) != np.isfinite(b)
    found = {"estimate": (apart | lost).any(), "sd": scaled.any(),
             "converged": row["converged"] != other["converged"]}  # fmt: skip
    return [field for field, differ in found.items() if differ]


def compared(rows: dict[str, Row], others: dict[str, Row], statistics: bool) -> Iterator[str]:
    """A line for each row of ``rows`` that differs from that of ``others``, and for too many evaluations."""
    for name, row in rows.items():
        other = others.get(name)
        fields = ["absent"] if other is None else differs(row, other, statistics)
        if fields:
            yield f"{name}: {', '.join(fields)}\n  was {other}\n  is  {row}"
    both = rows.keys() & others.keys()
    now, before = (sum(which[name]["evaluations"] for name in both) for which in (rows, others))
    if statistics and now > MORE * before:
        yield f"evaluations: {now}, {now / max(before, 1):.3f} times {before}"


def main(arguments: Sequence[str]) -> int:
    """Make the runs; return 1 if a row differs from the file's."""
    parser = argparse.ArgumentParser("python -m benchmarks golden", description=__doc__)
    parser.add_argument("--out", type=Path, help="write the rows as JSON")
    parser.add_argument("--against", type=Path, help="compare with the rows of this file")
    parser.add_argument("--statistics", action="store_true", help="within tolerances, not in every digit")
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="rows whose name begins so")
    chosen = parser.parse_args(arguments)
    rows = {}
    for name, run in runs().items():
        if name.startswith(tuple(chosen.only)):
            began = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                row = rows[name] = run()
            print(f"{name:32} n {row['evaluations']:6} {_shown(row)} {row['stopped']:10} {row['points']} "
                  f"{time.process_time() - began:6.1f} s", file=sys.stderr, flush=True)  # fmt: skip
    if chosen.out:
        chosen.out.write_text(json.dumps({"commit": commit(), "rows": rows}, indent=1))
    if not chosen.against:
        return 0
    lines = list(compared(rows, json.loads(chosen.against.read_text())["rows"], chosen.statistics))
    print(*lines, f"{len(rows)} runs, {len(lines)} differ", sep="\n")
    return 1 if lines else 0


def _shown(row: Row) -> str:
    pairs = zip(np.atleast_1d(row["estimate"]), np.atleast_1d(row["sd"]), strict=True)
    return ", ".join(f"{mean:.5g} +- {sd:.2g}" if math.isfinite(mean) else "none" for mean, sd in pairs)
