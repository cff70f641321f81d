"""Whether a posterior can be relied on, and what to do if not.

*Importance weights.* With draws v_s of q and log weights l_s = log p(v_s) - log q(v_s), the tail of the
weights is fitted by a generalised Pareto distribution; its shape k says how many moments they have (Yao et
al. 2018, "Yes, but did it work?"). Below 1/2 all is well, from .7 on averages are not to be used. Smoothing
replaces the largest weights by the expected order statistics of the fitted tail (Vehtari et al. 2024,
"Pareto smoothed importance sampling"). `psis` does it for any weights, `check` for a posterior, with fresh
evaluations of the log joint itself.

*Several runs.* Runs from different seeds that agree are worth more than any diagnostic of one: `agreement`.

*Advice.* `advice` looks for what goes wrong most often, each in terms of what the user can change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Protocol

import numpy as np
from scipy.special import logsumexp

from bqvi.calls import Caller, Evaluations, Function, require_good
from bqvi.calls.coordinates import Coordinates
from bqvi.calls.gradient_check import said
from bqvi.checks import require_integer
from bqvi.posterior import Posterior, WeightedDraws
from bqvi.quadrature.tails import pareto_fit
from bqvi.variational_bmc.distances import gskl, mmtv
from gp.measures import GaussianMixture

GOOD, UNUSABLE = 0.5, 0.7
_LEAST_TAIL = 5
NEAR_MMTV, NEAR_GSKL, NEAR_SDS = 0.2, 0.125, 3.0
"""Runs agree whose distances stay below the first two and whose evidences below the third, in sds."""
_BESIDE, _MASS = 0.01, 0.05
"""Mass beside a bound, and how much of it is worth a word."""
_DRAWS = 20_000
_WIDE, _WIDENING = 0.25, 1.7


@dataclass(frozen=True, eq=False)
class Smoothed:
    """Importance weights after Pareto smoothing.

    Attributes
    ----------
    log_weights : (n,), normalised: their exponentials sum to one.
    shape : k of the tail, before smoothing; -inf where the tail has no spread, inf where fewer than 21
        weights are too few to tell.
    """

    log_weights: np.ndarray
    shape: float

    @property
    def effective_sample_size(self) -> float:
        """1 / sum of the squared weights."""
        return float(np.exp(-logsumexp(2.0 * self.log_weights)))


def psis(log_weights: np.ndarray) -> Smoothed:
    """Pareto smoothed importance weights.

    Parameters
    ----------
    log_weights : (n,), up to a constant; -inf for draws without density.

    Raises
    ------
    ValueError
        It is no vector, or has NaN or +inf, or every weight is zero.
    """
    given = np.asarray(log_weights, float)
    if given.ndim != 1 or len(given) == 0:
        raise ValueError(f"log_weights has shape {given.shape}; it must be (n,) with n >= 1")
    if np.isnan(given).any() or (given == np.inf).any() or (given == -np.inf).all():
        raise ValueError(
            "log_weights has NaN or inf, or is -inf throughout; at least one weight must be positive"
        )
    logs = given - given.max()
    n = len(logs)
    size = int(min(np.ceil(n / 5), np.ceil(3 * np.sqrt(n))))
    if size < _LEAST_TAIL:
        return Smoothed(logs - logsumexp(logs), math.inf)
    order = np.argsort(logs)
    tail = order[-size:]
    # The smallest positive number keeps a threshold of weight zero finite.
    threshold = max(float(logs[order[-size - 1]]), math.log(np.finfo(float).tiny))
    above = np.exp(logs[tail]) - math.exp(threshold)
    spread = above[above > 1e-12]
    if len(spread) < _LEAST_TAIL:
        return Smoothed(logs - logsumexp(logs), -math.inf)
    shape, scale = pareto_fit(spread)
    levels = (np.arange(size) + 0.5) / size
    expected = np.expm1(-shape * np.log1p(-levels)) * scale / shape if shape else -scale * np.log1p(-levels)
    smooth = logs.copy()
    smooth[tail] = np.minimum(np.log(expected + math.exp(threshold)), 0.0)
    return Smoothed(smooth - logsumexp(smooth), shape)


@dataclass(frozen=True, eq=False)
class Check:
    """A posterior against the log joint itself.

    Attributes
    ----------
    shape : Pareto k of the weights; below .5 good, above .7 the posterior is not to be used as it is.
    total_variation : 1/2 E|p - q|, estimated: the share of mass that q has in the wrong place. It is that of
        the mixture, without the correction by weights that a posterior may have.
    effective_sample_size : of the smoothed weights.
    log_evidence, log_evidence_sd : by importance sampling; valid where the Pareto shape is small.
    evaluations : what was spent.
    posterior : the posterior corrected by the weights.
    """

    shape: float
    total_variation: float
    effective_sample_size: float
    log_evidence: float
    log_evidence_sd: float
    evaluations: Evaluations
    posterior: Posterior

    @property
    def believed(self) -> bool:
        """Whether the weights can be used, and with them `log_evidence` and `posterior`."""
        return self.shape < UNUSABLE

    def __str__(self) -> str:
        told = f"Pareto k = {self.shape:.2f}, {self.effective_sample_size:.0f} effective draws of "
        told += f"{len(self.evaluations)}, {self.total_variation:.0%} of the mass in the wrong place: "
        if self.shape < GOOD and self.total_variation < NEAR_MMTV:
            return told + "the posterior is good."
        if self.believed:
            return told + "use the one corrected by these weights, `posterior`."
        return (
            told + "the posterior misses mass of the target: continue the run, or widen the plausible bounds."
        )


def check(
    log_joint: Callable[[Any], Any] | Caller, posterior: Posterior, n: int = 100, seed: int = 0
) -> Check:
    """Evaluate the log joint at n fresh draws, and weigh them.

    A quarter of the draws is of q with its components 1.7 times as wide, as a mixture that was fitted from
    inside has tails that are too thin to tell what it misses.

    Parameters
    ----------
    log_joint : theta (P,) to a number; or a `Caller` with the posterior's coordinates, for batches.
    posterior : to be checked; its mixture is, whether or not it is corrected by weights.
    n : evaluations.
    seed : of the draws.

    Raises
    ------
    ValueError
        n is below 25: a tail cannot be told from so few.
    EvaluationError
        See `Caller.evaluate`; or the log joint is finite nowhere.
    """
    require_integer("n", n, 25)
    caller = log_joint
    if not isinstance(caller, Caller):
        coordinates = posterior.coordinates
        caller = Caller(Function(caller, names=coordinates.names), coordinates)
    proposal = _with_tails(posterior.q)
    points = proposal.sample(n, np.random.default_rng(seed))
    evaluations = caller.evaluate(points)
    require_good(evaluations)
    log_proposal = proposal.log_density(points)
    logs = evaluations.values - log_proposal
    smoothed = psis(logs)
    shift = float(logs.max())
    ratios = np.exp(logs - shift)
    log_evidence = float(np.log(ratios.mean())) + shift
    spread = float(ratios.std(ddof=1) / ratios.mean() / math.sqrt(n))
    corrected = Posterior(posterior.q, posterior.coordinates, WeightedDraws(points, smoothed.log_weights))
    ours = np.exp(posterior.q.log_density(points) - log_proposal)
    return Check(
        shape=smoothed.shape,
        total_variation=0.5 * float(np.abs(ratios / ratios.mean() - ours).mean()),
        effective_sample_size=smoothed.effective_sample_size,
        log_evidence=log_evidence,
        log_evidence_sd=spread,
        evaluations=evaluations,
        posterior=corrected,
    )


def _with_tails(q: GaussianMixture) -> GaussianMixture:
    return GaussianMixture(
        np.concatenate([(1 - _WIDE) * q.weights, _WIDE * q.weights]),
        np.concatenate([q.means, q.means]),
        np.concatenate([q.covariances, _WIDENING**2 * q.covariances]),
    )


class Run(Protocol):
    """What is compared of a run."""

    @property
    def posterior(self) -> Posterior:
        """In the user's units."""

    @property
    def log_evidence(self) -> float:
        """Estimate."""

    @property
    def log_evidence_sd(self) -> float:
        """Standard deviation of the estimate."""


@dataclass(frozen=True)
class Agreement:
    """How far apart several runs are.

    Attributes
    ----------
    sds : the largest |difference| of two log evidences, in standard deviations of the difference.
    nats : the largest |difference| of two log evidences.
    mmtv, gskl : the largest distances between two posteriors.
    """

    sds: float
    nats: float
    mmtv: float
    gskl: float

    @property
    def agree(self) -> bool:
        """Whether nothing speaks against the runs telling the same."""
        return self.sds < NEAR_SDS and self.mmtv < NEAR_MMTV and self.gskl < NEAR_GSKL

    def __str__(self) -> str:
        told = (
            f"log evidences within {self.nats:.2g} nats ({self.sds:.1f} sds), posteriors within MMTV "
            f"{self.mmtv:.2g} and gsKL {self.gskl:.2g}: "
        )
        if self.agree:
            return told + "the runs agree."
        if self.mmtv >= NEAR_MMTV or self.gskl >= NEAR_GSKL:
            return told + "the posteriors differ; continue the runs with more evaluations, from other starts."
        return told + "the standard deviations are too small; take the spread of the runs in their place."


def agreement(runs: Sequence[Run], seed: int = 0) -> Agreement:
    """Compare two or more runs on the same log joint; draws of their posteriors are by the seed.

    Raises
    ------
    ValueError
        There are fewer than two, or their parameters have different names.
    TypeError
        They are no sequence of results.
    """
    if not isinstance(runs, Sequence) or not all(hasattr(run, "log_evidence") for run in runs):
        raise TypeError(f"runs is a {type(runs).__name__}; it must be a list of two or more results of vbmc")
    if len(runs) < 2:
        raise ValueError(f"runs has {len(runs)} entries; give at least two")
    names = {run.posterior.names for run in runs}
    if len(names) > 1:
        raise ValueError(f"the runs have different parameters: {sorted(names)}")
    draws = [run.posterior.sample(_DRAWS, seed + i) for i, run in enumerate(runs)]
    free = runs[0].posterior.coordinates.free
    pairs = list(combinations(range(len(runs)), 2))
    gaps = [abs(runs[i].log_evidence - runs[j].log_evidence) for i, j in pairs]
    spreads = [math.hypot(runs[i].log_evidence_sd, runs[j].log_evidence_sd) for i, j in pairs]
    sds = [
        gap / spread if spread > 0 else (math.inf if gap > 0 else 0.0)
        for gap, spread in zip(gaps, spreads, strict=True)
    ]
    moments = [(np.mean(x[:, free], axis=0), np.cov(x[:, free].T)) for x in draws]
    return Agreement(
        sds=max(sds),
        nats=max(gaps),
        mmtv=max(mmtv(draws[i][:, free], draws[j][:, free]) for i, j in pairs),
        gskl=max(gskl(*moments[i], *moments[j]) for i, j in pairs),
    )


def advice(
    posterior: Posterior,
    evaluations: Evaluations,
    shape: float | None = None,
    exact: bool = True,
    located: bool = True,
) -> tuple[str, ...]:
    """What speaks against this posterior, each with what to do; empty if nothing does.

    Parameters
    ----------
    posterior : what a run ended with.
    evaluations : what it spent.
    shape : Pareto k of the weights between the surrogate and q, where known.
    exact : whether values are without noise, so that gradients can be compared with their differences.
    located : whether the posterior has been found. Where it has not, nothing is said of where its bounds and
        plausible intervals should be.
    """
    return (
        *_about_weights(shape),
        *_about_failures(evaluations),
        *_about_gradients(evaluations, exact),
        *(_about_bounds(posterior) if located else ()),
        *(_about_box(posterior) if located else ()),
    )


def _about_weights(shape: float | None) -> list[str]:
    if shape is None or shape < UNUSABLE:
        return []
    return [
        f"The mixture does not cover the surrogate's mass (Pareto k = {shape:.2f}, above {UNUSABLE}): "
        "continue the run with a larger budget."
    ]


def _about_failures(evaluations: Evaluations) -> list[str]:
    failed, n = int(evaluations.failed.sum()), len(evaluations)
    if failed == 0 or failed < 0.2 * n:
        return []
    reasons = [fault for fault in evaluations.reasons if fault]
    most = max(reasons, key=reasons.count) if reasons else "-inf"
    return [
        f"{failed} of {n} evaluations failed (most often: {most}): move the plausible bounds to where the "
        "density is positive, or state the constraint as a bound."
    ]


def _about_gradients(evaluations: Evaluations, exact: bool) -> list[str]:
    """Gradients that fail, or that are those of another function."""
    good = evaluations[~evaluations.failed]
    if good.gradients is None or len(good) == 0:
        return []
    there = np.isfinite(good.gradients).all(axis=1)
    missing = int((~there).sum())
    if missing >= 0.2 * len(good):
        faults = [good.reasons[i] for i in np.flatnonzero(~there) if good.reasons[i]]
        most = max(faults, key=faults.count) if faults else "not given"
        return [
            f"{missing} of {len(good)} gradients are missing (most often: {most}): values alone were used."
        ]
    if not exact or good.noise_variance is not None:
        return []
    return said(good.points[there], good.values[there], good.gradients[there])


def _about_bounds(posterior: Posterior) -> list[str]:
    """Mass beside a bound, or at the place where a periodic parameter was cut open."""
    coordinates, said = posterior.coordinates, []
    draws = posterior.coordinates.unwrapped(_plain_draws(posterior))
    for position, (kind, low, high) in enumerate(coordinates.charts()):
        if kind != "between":
            continue
        i = coordinates.free[position]
        place = (draws[:, i] - low) / (high - low)
        below, above = float(np.mean(place < _BESIDE)), float(np.mean(place > 1 - _BESIDE))
        name = coordinates.names[i]
        if coordinates.periodic[i] and below + above > _BESIDE:
            said.append(
                f"The posterior of {name} reaches {_wrapped(coordinates, int(i), high):.4g}, "
                "where its period was cut open: move the middle of its plausible interval to the mode."
            )
        elif not coordinates.periodic[i] and max(below, above) > _MASS:
            side, bound = ("lower", low) if below > above else ("upper", high)
            said.append(
                f"{max(below, above):.0%} of the posterior of {name} lies within 1 % of its {side} bound "
                f"{bound:.4g}: widen the bound if it is not part of the model."
            )
    return said


def _wrapped(coordinates: Coordinates, i: int, value: float) -> float:
    theta = coordinates.lower[None].copy()
    theta[0, i] = value
    return float(coordinates.wrapped(theta)[0, i])


def _plain_draws(posterior: Posterior) -> np.ndarray:
    if posterior.draws is None:
        out: np.ndarray = posterior.q.sample(4096, 0)
        return out
    weights = posterior.draws.weights
    edges = np.cumsum(weights) / weights.sum()
    index = np.searchsorted(edges, (np.arange(4096) + 0.5) / 4096)
    return posterior.draws.points[np.minimum(index, len(edges) - 1)]


def _about_box(posterior: Posterior) -> list[str]:
    """Parameters whose plausible interval is far from where the posterior turned out to be."""
    coordinates = posterior.coordinates
    affine = coordinates.affine
    q = GaussianMixture(
        posterior.q.weights,
        affine.forward(posterior.q.means),
        affine.matrix @ posterior.q.covariances @ affine.matrix.T,
    )
    centre, sd = q.mean, np.sqrt(np.diag(q.covariance))
    said = []
    for position, name in enumerate(coordinates.free_names):
        off, wide = abs(centre[position]) > 2.0 + sd[position], sd[position] > 3.0
        narrow = sd[position] < 0.02
        if off or wide or narrow:
            i = coordinates.free[position]
            ends = posterior.quantiles([0.05, 0.95])[:, i]
            what = "outside of" if off else ("much wider than" if wide else "much narrower than")
            said.append(
                f"The posterior of {name} is {what} its plausible interval: another run with "
                f"[{ends[0]:.4g}, {ends[1]:.4g}] would start nearer."
            )
    return said
