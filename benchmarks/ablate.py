"""``python -m benchmarks ablate NAME``: what a mechanism does for the answer, by runs without it.

Each problem and seed is run twice, as the library is and without the mechanism, whose function another takes
the place of for the run. The problems are random posteriors of `claims_problems`, from values and with
gradients, and those of `experiments.vbmc.hard`; for the mechanisms of `integrate` (``--door integrate``) they
are the integrals of `claims` and of `experiments.problems`; for those of `fit(method="bq")` (``--door fit``)
the errors are of the ELBO, and in the place of moments stands its distance from the log evidence, nats.
A mechanism has no effect if

- the geometric mean of |error| without it over |error| with it has an upper end (95 %) below 1.10
- so has that of the errors of the posterior's means and standard deviations, where these are known
- the share of runs within 3 sd falls by less than two points
- evaluations grow by less than 5 %

A run as the library is says which mechanisms acted: those whose functions returned something else than what
takes their place would have. Only such runs are made again without the mechanism, as the others have equal
digits. Runs as the library is are kept in the file for mechanisms that are asked about later.
``"first + second"`` removes both. What was measured stands in ``experiments/studies/ablation.csv``.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from benchmarks import claims
from benchmarks.claims_problems import KINDS, problem
from benchmarks.paired import Line, printed
from benchmarks.setting import commit

Record = dict[str, Any]
Task = tuple[str, str, int]
"""Door, kind of problem, seed."""
LEAST = 1e-4
"""Errors below this count as this, nats."""
LEAST_OF_MOMENTS = 0.02
"""The same of moments, in posterior sds: that of some thousands of draws."""
BARS = {"ratio": 1.10, "within": 0.02, "evaluations": 1.05}


def mechanisms() -> Mapping[str, Sequence[tuple[Any, str, Any]]]:
    """Name -> (module or class, attribute, what takes its place), a few each."""
    return {**_of_vbmc(), **_of_integrate(), **_of_fit()}


def _of_fit() -> Mapping[str, Sequence[tuple[Any, str, Any]]]:
    from bqvi.gradients import remembered
    from bqvi.gradients.designs import LogisticFeasibility
    from bqvi.inference import convergence, result, steps

    return {
        "steps that adapt": [(steps, "_adapted", lambda rate, ratio: rate)],
        "feasibility of nodes": [
            (LogisticFeasibility, "__call__", lambda self, points: np.ones(len(points)))
        ],
        "contradicted gradients": [(remembered, "contradicted", lambda *_: None)],
        "values outside of q": [
            (convergence, "outside", lambda *_: None),
            (result, "outside", lambda *_: None),
        ],
        "curvature at q": [(result, "settling_warnings", lambda *_: [])],
    }


def _of_integrate() -> Mapping[str, Sequence[tuple[Any, str, Any]]]:
    from bqvi.quadrature import bayesian, credibility, ensemble, sampling
    from bqvi.quadrature.settings import SEARCH

    def _own(mean: Any, covariance: Any, judgement: Any, values: Any, _: Any) -> tuple[Any, Any]:
        sizes = sampling.of_constants(np.where(values == 0, 1.0, values)) * judgement.constant
        excess = np.maximum(judgement.excess - (judgement.inflation**2 - 1.0) * np.diag(covariance), 0.0)
        return mean, judgement.inflation**2 * covariance + np.diag(sizes**2 + excess)

    return {
        "Sobol average": [(bayesian, "combined", _own)],
        "tail of the further node": [(credibility, "pareto_shape", lambda *_: 0.0)],
        "growth slows": [(credibility, "slows", lambda *_: False)],
        "sparse": [(ensemble, "SEARCH", replace(SEARCH, many=99))],
    }


def _of_vbmc() -> Mapping[str, Sequence[tuple[Any, str, Any]]]:
    from bqvi import unseen
    from bqvi.runs.settings import ENGINES
    from bqvi.variational_bmc import (
        correction,
        exploration,
        frame,
        frame_selection,
        learning,
        next_points,
        scaling,
        stopping,
        surrogate,
        vbmc_run,
    )
    from bqvi.variational_bmc.settings import EXPLORATION, WEIGHTS

    whole, run = frame_selection._alternatives_due, vbmc_run.VBMCRun
    explores = run.explores

    def _of_claims(*arguments: Any) -> int:
        most = explores(*arguments)
        return 0 if most == EXPLORATION.late else most

    def _of_frames(*arguments: Any) -> list[Any]:
        return [other for other in whole(*arguments) if other[1] == arguments[2].threshold]

    def _of_thresholds(*arguments: Any) -> list[Any]:
        return [other for other in whole(*arguments) if other[0] is arguments[2].frame]

    nobody = np.zeros(0, int)
    return {
        "covering": [(correction, "covering", lambda first, *_: first)],
        "thorough proposal": [(learning, "polished", lambda *given: correction.correct(*given[:5]))],
        "ascent doubted": [(learning, "ENGINES", replace(ENGINES, counts=math.inf))],
        "annealed": [(learning, "annealed", lambda surrogate, mean, covariance, *_: (mean, covariance))],
        "restart": [(learning, "_starts_again", lambda *_: False)],
        "restart at the mode": [(learning, "_at_mode", lambda *_: None)],
        "hyperparameters in the sd": [(learning, "spread", lambda *_: 0.0)],
        "components at missed evaluations": [
            (correction, "_missed", lambda surrogate, *_: surrogate.data.points[nobody])
        ],
        "frames and thresholds": [(frame_selection, "_alternatives_due", lambda *_: [])],
        "thresholds": [(frame_selection, "_alternatives_due", _of_frames)],
        "frames": [(frame_selection, "_alternatives_due", _of_thresholds)],
        "isolated evaluations": [
            (frame, "_isolated", lambda good, bad, distances: np.zeros(len(bad), bool))
        ],
        "map of scales from gradients": [(frame_selection, "scaling_from_gradients", lambda *_: None)],
        "map of scales from values": [(frame_selection, "_most_likely", lambda *_: None)],
        "user's units": [(scaling.UserUnits, "of", lambda *_: None)],
        "map before convergence": [
            (run, "with_scales", lambda self, before, reached, estimate: (reached, estimate))
        ],
        "climbs from spikes": [(vbmc_run, "_surprising", lambda *_: ())],
        "late exploration": [(run, "explores", _of_claims)],
        "search for hidden modes": [(unseen.Evaluated, "search", lambda *_: (1.0, [], []))],
        "modes by their components": [(exploration, "_divergence", lambda *_: 0.0)],
        "start by the best evaluations": [
            (learning, "_wide", lambda state, estimate, _: (state, estimate))
        ],
        "pool of q alone": [(correction.PooledDraws, "of_q", lambda self: self)],
        "edge of the feasible region": [(next_points, "_edge", lambda *_: None)],
        "mode among the next points": [(next_points, "_mode", lambda *_: None)],
        "blended moments": [(correction, "WEIGHTS", replace(WEIGHTS, blended=1e-9))],
        "second term of the kernel": [(frame_selection, "settled", lambda *_: False)],
        "fit from a trend": [(surrogate, "_with_trend", lambda psi, _: psi)],
        "values left out after a map": [
            (frame_selection, "_informative", lambda points, _: np.ones(len(points), bool))
        ],
        "directions without a step": [(next_points, "_in_a_new_direction", lambda *_: None)],
        "sd: posterior not found": [(stopping, "_unsettled", lambda *_: 0.0)],
        "sd: mass beyond the draws": [(correction.PooledDraws, "possible_rise", lambda *_: 0.0)],
        "climbs along gradients": [(exploration.Modes, "alignment", lambda _, at, slopes: np.ones(len(at)))],
        "shape of the tail": [(correction, "pareto_shape", lambda *_: 0.0)],
        "test of noise": [(run, "test_of_noise", lambda self, state, _: state.pending[:0])],
    }  # fmt: skip


def _removals(names: str) -> list[tuple[Any, str, Any]]:
    """What takes the place of the mechanisms ``names``, "first + second"; nothing for ""."""
    every = mechanisms()
    return [one for name in names.split(" + ") if name for one in every[name]]


def _watched(acted: set[str]) -> Iterator[tuple[Any, str, Any]]:
    """Functions that do as the library does, and add to ``acted`` the mechanisms that do something."""
    others: dict[tuple[Any, str], list[tuple[str, Any]]] = {}
    for name, places in mechanisms().items():
        for where, attribute, other in places:
            if callable(other):
                others.setdefault((where, attribute), []).append((name, other))
            else:
                acted.add(name)  # a setting: whether it matters is not seen from outside
    for (where, attribute), removals in others.items():
        yield where, attribute, _watching(getattr(where, attribute), removals, acted)


def _watching(whole: Any, removals: Sequence[tuple[str, Any]], acted: set[str]) -> Any:
    def watching(*arguments: Any, **named: Any) -> Any:
        result = whole(*arguments, **named)
        acted.update(
            name
            for name, other in removals
            if name not in acted and not _same(result, other(*arguments, **named))
        )
        return result

    return watching


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return np.array_equal(first, second)
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(_same, first, second))
    return first is second or (isinstance(first, bool | float) and first == second)


def tasks(door: str, seeds: Sequence[int], hard: Sequence[int]) -> list[Task]:
    """Kinds of random posteriors for ``seeds``, and for ``vbmc`` hard problems for the seeds ``hard``."""
    from experiments.vbmc.hard import HARD

    found = [(one, kind, seed) for seed in seeds for kind in KINDS for one in (door, f"{door}-gradients")]
    if door == "fit":
        return found
    return found + [("hard", name, seed) for seed in hard for name in HARD]


def integrals(seeds: Sequence[int]) -> list[Task]:
    """Those of `claims`, from values and from logarithms, and the integrands of `experiments.problems`."""
    kinds = [(door, kind) for door in ("integrate", "integrate-log") for kind in claims.DOORS[door][0]]
    kinds += [("integrand", name) for name in _integrands()]
    return [(door, kind, seed) for seed in seeds for door, kind in kinds]


def _integrands() -> dict[str, Any]:
    from experiments.problems.integrands import integrands
    from experiments.problems.unseen_integrands import first, second

    return {one.name: one for one in (*integrands(), *first(), *second())}


def _of_integrand(name: str, seed: int) -> Record:
    """40 to 160 nodes; estimates are in standard deviations of the integrand."""
    import bqvi
    from gp.low_discrepancy import scrambled_sobol

    posed = _integrands()[name]
    n = int(np.random.default_rng([97, seed]).choice([40, 80, 160]))
    found = bqvi.integrate(posed.function, posed.measure, n, seed=seed)
    points = posed.measure.from_unit_cube(scrambled_sobol(posed.measure.dimension, 256, seed))
    unit = float(np.std(posed.function(points))) or 1.0
    return {"estimate": found.mean / unit, "sd": found.sd / unit, "truth": posed.truth / unit, "nats": 1e-3,
            "converged": found.converged, "evaluations": found.n_evaluations}  # fmt: skip


def _of_q(kind: str, seed: int, gradients: bool) -> Record:
    """A run of fit; its moments are the nats by which the ELBO of q is below the log evidence."""
    posed = problem(kind, seed)
    record = claims.fit(posed, seed, gradients)
    return record | {"moments": float(np.clip(posed.log_evidence - record["truth"], 0.0, 1e3))}


def one(task: Task) -> Record:
    """The record of a run."""
    door, kind, seed = task
    if door == "integrand":
        return _of_integrand(kind, seed)
    if door.startswith("integrate"):
        return claims.DOORS[door][1](kind, seed)
    if door.startswith("fit"):
        return _of_q(kind, seed, door == "fit-gradients")
    if door != "hard":
        return claims.vbmc(problem(kind, seed), seed, door == "vbmc-gradients")
    import bqvi
    from experiments.vbmc.hard import HARD
    from experiments.vbmc.runs import GRADIENTS

    asked = HARD[kind]
    posed = asked.problem(seed)
    found = bqvi.vbmc(
        posed.log_joint if asked.noise_sd is None else posed.noisy(asked.noise_sd, seed), **posed.bounds(),
        gradient=posed.gradient if asked.method == GRADIENTS else None, noise_sd=asked.noise_sd,
        budget=min(asked.budget, 200), seed=seed,
    )  # fmt: skip
    known = np.stack([posed.mean, np.sqrt(np.diag(posed.covariance))])
    return {"moments": claims.moments_error(known, found.posterior),
            "estimate": found.log_evidence, "sd": found.log_evidence_sd, "truth": posed.log_evidence,
            "converged": found.converged, "evaluations": found.n_evaluations}  # fmt: skip


def recorded(task: Task, without: str) -> Record:
    """The record of a run without a mechanism; of the library as it is where ``without`` is empty."""
    began, acted = time.process_time(), set[str]()
    with ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for where, name, other in _removals(without) if without else list(_watched(acted)):
            stack.enter_context(mock.patch.object(where, name, other))
        try:
            record = one(task)
        except Exception as error:  # a mechanism may be what keeps a run from failing
            record = {"exception": f"{type(error).__name__}: {error}"[:200]}
    door, kind, seed = task
    about = {"without": without, "door": door, "kind": kind, "seed": seed, "commit": commit()}
    return (
        about | record | {"cpu": time.process_time() - began} | ({} if without else {"acted": sorted(acted)})
    )


def removed(task: Task, name: str, whole: Record) -> Record:
    """The record of a run without ``name``, which is that of the ``whole`` library where it did not act."""
    if any(one in whole["acted"] for one in name.split(" + ")):
        return recorded(task, name)
    return {**whole, "without": name}


def figures(name: str, records: Sequence[Record]) -> Record | None:
    """What records with a mechanism and without it say; None without any pair of them.

    These are the columns of ``experiments/studies/ablation.csv`` but ``lines``, those of the mechanism in the
    library, and ``verdict``. "With" and "without" are about the mechanism.
    """
    runs: dict[str, dict[Task, Record]] = {"": {}, name: {}}
    for r in records:
        if r["without"] in runs:
            runs[r["without"]][r["door"], r["kind"], r["seed"]] = r
    keys = [key for key in runs[name] if key in runs[""]]
    failed = [sum("exception" in runs[which][key] for key in keys) for which in ("", name)]
    keys = [key for key in keys if not any("exception" in found[key] for found in runs.values())]
    if not keys:
        return None
    pairs = [(runs[""][key], runs[name][key]) for key in keys]
    ratio, low, high = _ratio([(_size(kept), _size(gone)) for kept, gone in pairs])
    of_moments = [tuple(max(r.get("moments", math.nan), LEAST_OF_MOMENTS) for r in pair) for pair in pairs]
    moments = _ratio([pair for pair in of_moments if not math.isnan(sum(pair))])
    acted = [any(kept[w] != gone[w] for w in ("estimate", "evaluations")) for kept, gone in pairs]
    both = list(zip(keys, acted, strict=True))
    within, converged, false, cpu = (
        [of([pair[k] for pair in pairs]) for k in (0, 1)]
        for of in (
            lambda found: float(np.mean([_z(r) <= 3.0 for r in found])),
            lambda found: sum(r["converged"] for r in found),
            lambda found: sum(map(_is_false, found)),
            lambda found: sum(r["cpu"] for r in found),
        )
    )
    grown = math.exp(np.mean([math.log(gone["evaluations"] / kept["evaluations"]) for kept, gone in pairs]))
    return {
        "mechanism": name, "commit": pairs[0][1].get("commit", ""), "runs": len(pairs), "acted": sum(acted),
        "kinds": "; ".join(sorted({key[1].replace(",", " with") for key, did in both if did})),
        "ratio": ratio, "low": low, "high": high,
        "moments": moments[0], "moments_low": moments[1], "moments_high": moments[2],
        "within_with": within[0], "within_without": within[1], "evaluations_ratio": grown,
        "converged_with": converged[0], "converged_without": converged[1],
        "false_with": false[0], "false_without": false[1],
        "exceptions_with": failed[0], "exceptions_without": failed[1], "cpu_ratio": cpu[1] / cpu[0],
    }  # fmt: skip


def _ratio(sizes: Sequence[tuple[float, ...]]) -> tuple[float, float, float]:
    """The geometric mean of the second over the first of each pair, and the ends of its interval (95 %)."""
    if not sizes:
        return math.nan, math.nan, math.nan
    logs = np.diff(np.log(sizes))[:, 0]
    means = logs[np.random.default_rng(0).integers(len(logs), size=(4000, len(logs)))].mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return math.exp(logs.mean()), math.exp(low), math.exp(high)


def summary(name: str, records: Sequence[Record]) -> Iterator[Line]:
    """The lines of a mechanism, from records with it and without it."""
    f = figures(name, records)
    if f is None:
        return
    for what, column, before in (("errors", "ratio", ""), ("moments", "moments", "moments_")):
        low, high = f[f"{before}low"], f[f"{before}high"]
        measured = f"{f[column]:.3f} [{low:.3f}, {high:.3f}] of {f['runs']} runs"
        # `not >=`: moments that are known of no run
        held = not high >= BARS["ratio"]
        yield Line(f"without {name}: {what}", measured, f"upper end < {BARS['ratio']}", held)
    before, after = f["within_with"], f["within_without"]
    measured = f"{after:.3f} from {before:.3f}"
    yield Line(f"without {name}: within 3 sd", measured, "falls by < .02", after > before - BARS["within"])
    grown, bar = f["evaluations_ratio"], f"< {BARS['evaluations']}"
    yield Line(f"without {name}: evaluations", f"{grown:.3f}", bar, grown < BARS["evaluations"])
    yield Line(
        f"without {name}: other",
        f"acted in {f['acted']} ({f['kinds']}); converged {f['converged_without']} from "
        f"{f['converged_with']}, false {f['false_without']} from {f['false_with']}; exceptions "
        f"{f['exceptions_without']} from {f['exceptions_with']}; CPU {f['cpu_ratio']:.2f}",
        "no further false claim or exception",
        f["false_without"] <= f["false_with"] and f["exceptions_without"] <= f["exceptions_with"],
    )


def _row(f: Record) -> str:
    """The line of a table of comma-separated values."""
    return ",".join(f"{value:.4g}" if isinstance(value, float) else str(value) for value in f.values())


def _is_false(record: Record) -> bool:
    return bool(record["converged"]) and claims.wrong(record | {"door": "vbmc"})


def _size(record: Record) -> float:
    error, least = abs(record["estimate"] - record["truth"]), LEAST * _unit(record)
    return max(error, least) if math.isfinite(error) else 1e3


def _z(record: Record) -> float:
    slack = LEAST * _unit(record)
    return max(abs(record["estimate"] - record["truth"]) - slack, 0.0) / max(record["sd"], 1e-300)


def _unit(record: Record) -> float:
    """The size of errors that matter over that of a log evidence: a hundredth for an integral."""
    return float(record.get("nats", claims.NATS)) / claims.NATS


def main(arguments: list[str]) -> int:
    """Run without each mechanism, append to the file, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks ablate")
    parser.add_argument("names", nargs="+", help='"all", or of: ' + ", ".join(mechanisms()))
    parser.add_argument("--seeds", default="0:12", help="first:last + 1, of random posteriors")
    parser.add_argument("--door", choices=("vbmc", "integrate", "fit"), default="vbmc")
    parser.add_argument("--hard", default="0:1", help="first:last + 1, of the hard problems")
    parser.add_argument("--out", type=Path, required=True, help="file of JSON lines, read and appended to")
    parser.add_argument("--summary", action="store_true", help="only the table of the file")
    parser.add_argument("--csv", action="store_true", help="lines of experiments/studies/ablation.csv")
    asked = parser.parse_args(arguments)
    of_door = {"vbmc": _of_vbmc, "integrate": _of_integrate, "fit": _of_fit}[asked.door]
    names = list(of_door()) if "all" in asked.names else asked.names
    if unlike := {one for name in names for one in name.split(" + ")} - set(mechanisms()):
        parser.error(f"no mechanism {', '.join(sorted(unlike))}; there are {', '.join(mechanisms())}")
    torch.set_num_threads(1)
    seeds, hard = (range(*map(int, text.split(":"))) for text in (asked.seeds, asked.hard))
    wanted = integrals(seeds) if asked.door == "integrate" else tasks(asked.door, seeds, hard)
    records = [json.loads(line) for line in asked.out.read_text().splitlines()] if asked.out.exists() else []
    done = {(r["without"], r["door"], r["kind"], r["seed"]): r for r in records}
    for task in () if asked.summary else wanted:
        for name in ("", *names):
            if (name, *task) not in done:
                record = removed(task, name, done["", *task]) if name else recorded(task, "")
                done[name, *task] = record
                records.append(record)
                with asked.out.open("a") as file:
                    file.write(json.dumps(record) + "\n")
    if asked.csv:
        found = [f for f in (figures(name, records) for name in names) if f is not None]
        print("\n".join([",".join(found[0]), *map(_row, found)] if found else []))
        return 0
    return printed(line for name in names for line in summary(name, records))
