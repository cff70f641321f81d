"""Diagnostics of a posterior, with advice on what to change.

`check` computes importance weights of a posterior with new evaluations of the log joint itself, and smooths
them (`bqvi.importance`; Yao et al. 2018, "Yes, but did it work?"). `agreement` compares runs from different
seeds, which is a stronger check than any diagnostic of a single run, by distances of their posteriors (Acerbi
2018, "Variational Bayesian Monte Carlo", section 4.1), of which values below .2 and 1/8 count as small:

    mmtv    the total variation between marginals, averaged over the parameters: 0 to 1
    gskl    the Kullback-Leibler divergences of the Gaussians with the same moments, averaged over both
            directions: nats

`advice` checks for the most frequent faults and names the argument to change for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from bqvi.calls import Caller, Evaluations, Function, require_good
from bqvi.calls.coordinates import Coordinates, place_of
from bqvi.calls.faults import CONTRADICTED, Failures, left_out
from bqvi.importance import PARETO, WIDE, WIDER, psis, systematic
from bqvi.posterior import Posterior, WeightedDraws
from gp.arrays import Array, shown
from gp.checks import require_integer
from gp.measures import GaussianMixture, Measure

if TYPE_CHECKING:
    from bqvi.variational_bmc.result import VBMCResult


from scipy.fft import irfft, rfft

from gp.matrices import symmetric_divergence


def gskl(mean_p: np.ndarray, covariance_p: np.ndarray, mean_q: np.ndarray, covariance_q: np.ndarray) -> float:
    """Half the sum of the two Kullback-Leibler divergences between two Gaussians.

    Parameters
    ----------
    mean_p, covariance_p : the mean (D,) and covariance (D, D) of one Gaussian.
    mean_q, covariance_q : the mean and covariance of the other.
    """
    p, q = np.atleast_2d(covariance_p), np.atleast_2d(covariance_q)
    return symmetric_divergence(np.asarray(mean_p, float), p, np.asarray(mean_q, float), q)


def mmtv(p: np.ndarray, q: np.ndarray, cells: int = 4096) -> float:
    """The total variation between the marginals of draws p (n, D) and q (m, D), averaged over D.

    Marginals are Gaussian kernel density estimates on a grid of ``cells``, so that two sets of 20,000 draws
    of the same distribution give about .01.
    """
    pairs = zip(np.asarray(p, float).T, np.asarray(q, float).T, strict=True)
    return float(np.mean([total_variation(a, b, cells) for a, b in pairs]))


def total_variation(p: np.ndarray, q: np.ndarray, cells: int = 4096) -> float:
    """The integral of |p - q| / 2 for density estimates on ``cells`` from draws p (n,) and q (m,)."""
    widths = [_bandwidth(x) for x in (p, q)]
    low = min(p.min(), q.min()) - 5 * max(widths)
    high = max(p.max(), q.max()) + 5 * max(widths)
    densities = [_smoothed(x, low, high, cells, width) for x, width in zip((p, q), widths, strict=True)]
    return 0.5 * float(np.abs(densities[0] - densities[1]).sum()) * (high - low) / cells


def _bandwidth(x: np.ndarray) -> float:
    """The bandwidth by Silverman's rule, with the smaller of the standard deviation and the scaled range."""
    quartiles: Sequence[float] = np.percentile(x, [25, 75]).tolist()
    spread = min(float(x.std()), (quartiles[1] - quartiles[0]) / 1.34) or float(x.std())
    return max(0.9 * spread * len(x) ** -0.2, 1e-12 * (1.0 + abs(float(x.mean()))))


def _smoothed(x: np.ndarray, low: float, high: float, cells: int, width: float) -> np.ndarray:
    """A kernel density estimate on the cells of [low, high], by the discrete Fourier transform."""
    counts, _ = np.histogram(x, bins=cells, range=(low, high))
    frequency = 2 * math.pi * np.arange(cells // 2 + 1) / (high - low)
    smooth: np.ndarray = irfft(rfft(counts.astype(float)) * np.exp(-0.5 * (frequency * width) ** 2), n=cells)
    return smooth * cells / (len(x) * (high - low))


@dataclass(frozen=True, eq=False)
class PosteriorCheck:
    """A comparison of a posterior with the log joint itself.

    Attributes
    ----------
    pareto_k : the Pareto shape k of the weights; below .5 it is good, above .7 the posterior should not be
        used without correction.
    total_variation : the estimated total variation 1/2 integral |p - q| between the posterior and the mixture
        q, without the correction by weights that a `Posterior` may have.
    effective_sample_size : the effective sample size of the smoothed weights.
    log_evidence, log_evidence_sd : the estimate by importance sampling, valid where ``pareto_k`` is small.
    evaluations : the evaluations that were made.
    posterior : the posterior corrected by the weights.
    """

    pareto_k: float
    total_variation: float
    effective_sample_size: float
    log_evidence: float
    log_evidence_sd: float
    evaluations: Evaluations
    posterior: Posterior

    @property
    def usable(self) -> bool:
        """Whether the weights can be used, and with them `log_evidence` and `posterior`."""
        return self.pareto_k < PARETO.unusable

    def __str__(self) -> str:
        message = f"Pareto k = {self.pareto_k:.2f}, {self.effective_sample_size:.0f} effective draws of "
        message += f"{len(self.evaluations)}, total variation {self.total_variation:.2f}: "
        evidence = f"By the weights, `log_evidence` is {self.log_evidence:.4g} +- {self.log_evidence_sd:.2g}."
        if self.pareto_k < PARETO.good and self.total_variation < 0.2:
            return message + f"the posterior is good. {evidence}"
        if self.usable:
            return message + "use the one corrected by these weights, `posterior` of this check. " + evidence
        return (
            message
            + "the posterior misses mass of the target: continue the run, or widen the plausible bounds."
        )


def check(
    log_joint: Callable[[Array], Array] | Caller, posterior: Posterior, n: int = 100, seed: int = 0
) -> PosteriorCheck:
    """Evaluate the log joint at n new draws, and compute their importance weights.

    A quarter of the draws is from q with components 1.7 times as wide, as the tails of a mixture of highest
    ELBO are too thin to show the mass that it misses.

    Parameters
    ----------
    log_joint : a function of theta (P,) -> a number; or a `Caller` with the posterior's coordinates.
    posterior : the posterior, of which the mixture is checked, whether or not it is corrected by weights.
    n : the number of evaluations.
    seed : the seed of the draws.

    Raises
    ------
    TypeError
        ``posterior`` is no Posterior.
    ValueError
        n is below 25, too few for the fit of a tail.
    EvaluationError
        See `Caller.evaluate`; or the log joint is finite nowhere.
    """
    require_integer("n", n, 25)
    if not isinstance(posterior, Posterior):
        raise TypeError(f"posterior is {shown(posterior)}; it must be a Posterior, such as result.posterior")
    caller = log_joint
    if not isinstance(caller, Caller):
        caller = Caller(Function(caller, names=posterior.coordinates.names), posterior.coordinates)
    q = posterior.q
    proposal = GaussianMixture(
        np.concatenate([(1 - WIDE) * q.weights, WIDE * q.weights]),
        np.concatenate([q.means, q.means]),
        np.concatenate([q.covariances, WIDER**2 * q.covariances]),
    )
    points = proposal.sample(n, np.random.default_rng(seed))
    evaluations = caller.evaluate(points)
    require_good(evaluations)
    log_proposal = proposal.log_density(points)
    logs = evaluations.values - log_proposal
    smoothed, shift = psis(logs), float(logs.max())
    ratios = np.exp(logs - shift)
    corrected = replace(posterior, draws=WeightedDraws(points, smoothed.log_weights))
    of_q = np.exp(q.log_density(points) - log_proposal)
    return PosteriorCheck(
        pareto_k=smoothed.shape,
        total_variation=0.5 * float(np.abs(ratios / ratios.mean() - of_q).mean()),
        effective_sample_size=smoothed.effective_sample_size,
        log_evidence=float(np.log(ratios.mean())) + shift,
        log_evidence_sd=float(ratios.std(ddof=1) / ratios.mean() / math.sqrt(n)),
        evaluations=evaluations,
        posterior=corrected,
    )


@dataclass(frozen=True)
class Agreement:
    """The distances between the results of several runs.

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
        """Whether the results of the runs are compatible."""
        return self.sds < 3.0 and self.mmtv < 0.2 and self.gskl < 0.125

    def __str__(self) -> str:
        message = (
            f"log evidences within {self.nats:.2g} nats ({self.sds:.1f} sds), posteriors within MMTV "
            f"{self.mmtv:.2g} and gsKL {self.gskl:.2g}: "
        )
        if self.agree:
            return message + "the runs agree."
        if self.mmtv >= 0.2 or self.gskl >= 0.125:
            return (
                message + "the posteriors differ; continue the runs with more evaluations, from other starts."
            )
        return message + "the standard deviations are too small; take the spread of the runs in their place."


def agreement(runs: Sequence[VBMCResult], seed: int = 0) -> Agreement:
    """Compare two or more ``runs`` on the same log joint; ``seed`` is that of draws of their posteriors."""
    if not hasattr(runs, "__len__") or not all(hasattr(run, "log_evidence") for run in runs):
        raise TypeError(f"runs is a {type(runs).__name__}; it must be a list of two or more results of vbmc")
    if len(runs) < 2:
        raise ValueError(f"runs has {len(runs)} entries; give at least two")
    names = {run.posterior.names for run in runs}
    if len(names) > 1:
        raise ValueError(f"the runs have different parameters: {sorted(names)}")
    draws = [run.posterior.unconstrained.sample(20_000, seed + i) for i, run in enumerate(runs)]
    free = runs[0].posterior.coordinates.free
    pairs = list(combinations(range(len(runs)), 2))
    gaps = [abs(runs[i].log_evidence - runs[j].log_evidence) for i, j in pairs]
    spreads = [math.hypot(runs[i].log_evidence_sd, runs[j].log_evidence_sd) for i, j in pairs]
    with np.errstate(divide="ignore", invalid="ignore"):  # equal exact values differ by no sd
        sds = np.nan_to_num(np.divide(gaps, spreads), nan=0.0, posinf=np.inf)
    moments = [(np.mean(x[:, free], axis=0), np.cov(x[:, free].T)) for x in draws]
    return Agreement(
        sds=max(sds),
        nats=max(gaps),
        mmtv=max(mmtv(draws[i][:, free], draws[j][:, free]) for i, j in pairs),
        gskl=max(gskl(*moments[i], *moments[j]) for i, j in pairs),
    )


def advice(
    posterior: Posterior, evaluations: Evaluations, shape: float | None = None, located: bool = True
) -> tuple[str, ...]:
    """Reasons not to use this posterior, each with advice; empty if there are none.

    Parameters
    ----------
    posterior, evaluations : the final posterior of a run, and its evaluations.
    shape : the Pareto shape k of the weights between the surrogate and q; None if it is not known.
    located : whether the posterior has been found; otherwise there is no advice on bounds and intervals.
    """
    raised = Failures().after(evaluations[evaluations.failed])
    uncovered = [] if shape is None or shape < PARETO.unusable else [
        f"The mixture does not cover the surrogate's mass (Pareto k = {shape:.2f}, above {PARETO.unusable}): "
        "continue the run with a larger budget."
    ]  # fmt: skip
    return (
        *uncovered,
        *_about_failures(evaluations),
        *raised.warnings(len(evaluations), partial(place_of, posterior.coordinates)),
        *_about_gradients(evaluations, posterior.coordinates),
        *(_about_bounds(posterior) if located else ()),
        *(_about_box(posterior) if located else ()),
    )


def about_width(q: Measure, coordinates: Coordinates, moving: bool = False) -> tuple[str, ...]:
    """A warning where a posterior without bounds is far wider than its plausible box; () otherwise.

    Parameters
    ----------
    q : the posterior in the coordinates, in which the plausible box is [-1, 1]^D.
    coordinates : the coordinates of the parameters.
    moving : whether q has not been found, so that one far from the box may be on its way to infinity.
    """
    sizes = np.sqrt(np.diag(np.asarray(q.covariance))) + moving * np.abs(np.asarray(q.mean))
    if not np.isfinite(sizes).all() or sizes.max(initial=0.0) > 100.0:
        name = coordinates.free_names[int(np.argmax(np.nan_to_num(sizes, nan=np.inf)))]
        return (
            f"The posterior is unbounded along {name}: it is 100 times as wide as the plausible interval, or "
            "as far from it. It is improper, as where the log joint has the other sign, or that interval is "
            "far too narrow: look at the prior of this parameter.",
        )
    return ()


def _drawn(posterior: Posterior) -> np.ndarray:
    """Draws (4096, D) of the posterior, in the coordinates."""
    made = posterior.draws
    return posterior.q.sample(4096, 0) if made is None else made.points[systematic(made.weights, 4096, 0.5)]


def about_rounding(posterior: Posterior) -> tuple[str, ...]:
    """A reason where numbers in double precision do not resolve the posterior near a bound; () otherwise."""
    coordinates, draws = posterior.coordinates, _drawn(posterior)
    back = coordinates.from_user(coordinates.to_user(draws))
    shares = np.mean(np.abs(back - draws) > 1e-3, axis=0)
    return () if shares.max() < 0.01 else (
        f"{shares.max():.0%} of the posterior of {coordinates.free_names[int(np.argmax(shares))]} lies as "
        "close to a bound as numbers in double precision are to each other: give its distance from that "
        "bound, or the logarithm of that, as the parameter",
    )  # fmt: skip


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


def _about_gradients(evaluations: Evaluations, coordinates: Coordinates) -> list[str]:
    """Warnings of gradients that fail, and of those that all other evaluations contradict."""
    good = evaluations[~evaluations.failed]
    if good.gradients is None or len(good) == 0:
        return []
    there, found = np.isfinite(good.gradients).all(axis=1), []
    faults = [good.reasons[i] or "not given" for i in np.flatnonzero(~there)]
    if CONTRADICTED in faults:
        at = place_of(coordinates, good.points[good.reasons.index(CONTRADICTED)])
        found.append(left_out(faults.count(CONTRADICTED), len(good), at))
    if len(faults) >= 0.2 * len(good):
        most = f"of {len(good)} gradients are missing (most often: {max(faults, key=faults.count)})"
        found.append(f"{len(faults)} {most}: values alone were used.")
    return found


def _about_bounds(posterior: Posterior) -> list[str]:
    """Warnings of mass beside a bound."""
    coordinates, warnings = posterior.coordinates, []
    draws = coordinates.unwrapped(_drawn(posterior))
    for i, (kind, low, high) in zip(coordinates.free, coordinates.charts(), strict=True):
        if kind != "between" or coordinates.periodic[i]:
            continue
        place = (draws[:, i] - low) / (high - low)
        near = min(0.01, 0.25 * float(place.std()))
        below, above = float(np.mean(place < near)), float(np.mean(place > 1 - near))
        if max(below, above) > 0.05:
            side, bound = ("lower", low) if below > above else ("upper", high)
            warnings.append(
                f"{max(below, above):.0%} of the posterior of {coordinates.names[i]} lies within 1 % of its "
                f"{side} bound {bound:.4g}: widen the bound if it is not part of the model."
            )
    return warnings


def _about_box(posterior: Posterior) -> list[str]:
    """Warnings of parameters whose posterior is far from their plausible interval."""
    coordinates = posterior.coordinates
    centre, sd = posterior.q.mean, np.sqrt(np.diag(posterior.q.covariance))
    warnings = []
    for position, name in enumerate(coordinates.free_names):
        off = abs(centre[position]) > 2.0 + sd[position]
        if off or sd[position] > 3.0:
            i = coordinates.free[position]
            ends = posterior.unconstrained.quantiles([0.05, 0.95])[:, i]
            what = "outside of" if off else "much wider than"
            warnings.append(
                f"The posterior of {name} is {what} its plausible interval: another run with "
                f"[{ends[0]:.4g}, {ends[1]:.4g}] would start nearer."
            )
    return warnings
