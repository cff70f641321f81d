"""The result of `bqvi.evidence_bounds`: an interval for the log evidence, and whether it has converged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from bqvi import notebook
from bqvi.arguments import Above
from bqvi.arrays import logsumexp
from bqvi.calls import Caller
from bqvi.importance import PARETO, normalised, pareto_shape
from bqvi.runs import Checkpoint
from bqvi.runs.door_result import CheckedResult
from bqvi.runs.settings import ENGINES
from bqvi.sampled_bounds.particles import BoundsState, Proposals
from bqvi.sampled_bounds.passes import covariance_factors, estimates
from gp.arrays import Array
from gp.checks import Seed, generator, require_integer
from gp.matrices import lower_solve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bqvi.sampled_bounds.bounds_run import Choices

_CONFIDENCE = 0.99
"""The probability for the interval of a result."""
_BETWEEN = Above(0.0, 1.0)
_BELOW, _ABOVE = "#1f77b4", "#d95f02"
"""The colours of the two bounds in figures."""


@dataclass(frozen=True, eq=False, repr=False)
class EvidenceBounds(CheckedResult):
    """Bounds on ln Z, each an expectation with its standard error. ``print`` it.

    Numbers are floats for one problem, and arrays (M,) for M of them; R are the replicates, L the particles.

    Attributes
    ----------
    lower : mean of the log estimates, nats: its expectation is at most ln Z.
    upper : mean of the log estimates that contain a draw of the posterior each: its expectation is at least
        ln Z. None without draws.
    lower_sd, upper_sd : standard deviations of the two, of means over replicates, nats; infinite for one.
    interval : (2,) or (M, 2): ``lower`` less, and ``upper`` plus, a multiple of their standard errors. If the
        means are Student-t distributed, ln Z lies between the ends with a probability of at least .99. Log
        estimates are skewed: of 150 intervals for .95, each from ten lower and ten upper estimates on
        posteriors whose evidence is known, 138 contained it. `interval_at` has one for another probability.
        The upper end is infinite without ``upper``.
    log_evidence : ln of the mean of the estimates of all replicates, which is unbiased for Z itself.
    log_evidence_sd : its standard deviation to first order, nats.
    log_estimates : (R,) or (M, R), of which ``lower`` is the mean. upper_log_estimates : likewise, or None.
    temperatures : (T + 1,), from 0 to 1.
    effective_sample_sizes : (T,), at temperatures 1, 2, ..., before resampling: mean over replicates.
    acceptance : (T - 1,), mean rate of the moves at the temperatures between.
    n_evaluations : of the log joint, the pilot run's among them.
    n_failed : how many of them failed: NaN, or a numerical exception. The density counts as zero there, so
        that the bounds are those of the evidence of the rest.
    method : "smc", "ais" or "importance".
    stopped : "complete", as the particles have reached temperature 1.
    converged : whether all checks passed.
    checks : the outcome of the checks, sentences. reasons : why it has not converged, sentences of these.
    warnings : how many evaluations raised an exception and count as zero, with the first of these.
    draws : (R L, P) or (M, R L, P), particles at temperature 1, in the user's parameters.
    log_weights : (R L,) or (M, R L), log weights of the draws; the weights sum to 1.
    checkpoint : the state of the run; ``resume`` takes the whole result.
    """

    lower: Array
    upper: Array
    lower_sd: Array
    upper_sd: Array
    log_evidence: Array
    log_evidence_sd: Array
    log_estimates: np.ndarray
    upper_log_estimates: np.ndarray | None
    temperatures: np.ndarray
    effective_sample_sizes: np.ndarray
    acceptance: np.ndarray
    n_evaluations: int
    n_failed: int
    method: str
    stopped: str
    converged: bool
    checks: tuple[str, ...]
    warnings: tuple[str, ...]
    draws: np.ndarray
    log_weights: np.ndarray
    checkpoint: Checkpoint

    @property
    def interval(self) -> np.ndarray:
        """The interval (2,) or (M, 2) that contains ln Z with probability .99."""
        return self.interval_at(_CONFIDENCE)

    def interval_at(self, confidence: float) -> np.ndarray:
        """As ``interval``, with the probability ``confidence``, between 0 and 1."""
        _BETWEEN("confidence", confidence)
        above: Any = np.empty(0) if self.upper is None else self.upper_log_estimates
        free, conditional = (x.reshape(np.size(self.lower), -1) for x in (self.log_estimates, above))
        found = _interval(free, conditional, confidence)
        return found if np.ndim(self.lower) else found[0]

    def sample(self, n: int, seed: Seed = 0) -> np.ndarray:
        """Draws (n, P) or (M, n, P) of the posterior: particles at temperature 1, resampled by their weights.

        Parameters
        ----------
        n : how many, with replacement. seed : an integer or a generator.
        """
        require_integer("n", n, 1)
        rng = generator(seed)
        draws = self.draws.reshape(-1, *self.draws.shape[-2:])
        weights = normalised(self.log_weights).reshape(len(draws), -1)
        drawn = [rows[rng.choice(len(rows), n, p=p)] for rows, p in zip(draws, weights, strict=True)]
        return np.reshape(drawn, (*self.draws.shape[:-2], n, -1))

    def _draw(self, ax: Axes, truth: Array) -> Axes:
        (_problems if np.ndim(self.lower) else _replicates)(self, ax, truth)
        ax.set_title(f"{self.method}: {_in_words(self)} after {self.n_evaluations} evaluations", fontsize=10)
        ax.legend(frameon=False, fontsize=9)
        return ax

    def __repr__(self) -> str:
        temperatures = len(self.effective_sample_sizes)
        return (
            f"EvidenceBounds({_in_words(self)}, {self.method}, {temperatures} temperatures, "
            f"{self._counted}{self._remark})"
        )

    def __str__(self) -> str:
        return "\n".join([repr(self), *self.checks, *self.warnings])

    def _rows(self) -> dict[str, str]:
        return {
            "bounds": _in_words(self),
            "method": self.method,
            "temperatures": str(len(self.effective_sample_sizes)),
            "converged": notebook.yes_or_no(self.converged, " ".join(self.checks)),
        }


def _in_words(found: EvidenceBounds) -> str:
    if np.ndim(found.lower):
        below = f"mean lower {np.mean(found.lower):.4f}"
        above = "" if found.upper is None else f", mean upper {np.mean(found.upper):.4f}"
        return f"{len(found.lower)} problems: {below}{above}"
    below = f"{found.lower:.4f} +- {found.lower_sd:.2g} <= ln Z"
    return below if found.upper is None else f"{below} <= {found.upper:.4f} +- {found.upper_sd:.2g}"


def bounds_of(
    choices: Choices,
    state: BoundsState,
    caller: Caller,
    proposals: Proposals,
    checkpoint: Checkpoint,
    stopped: str,
) -> EvidenceBounds:
    """The bounds of particles at temperature 1; ``stopped`` says why the run ended.

    Parameters
    ----------
    choices : those of the run. state : its last state. caller : with the coordinates of draws.
    proposals : of the problems. checkpoint : of the last state. stopped : why the run ended.
    """
    systems, forwards, plan = choices.systems, state.forwards, state.plan
    assert forwards is not None
    assert plan is not None
    logs = estimates(forwards).reshape(systems.problems, systems.each)
    free, conditional = logs[:, : systems.free], logs[:, systems.free :]
    (lower, lower_se, _), (upper, upper_se, _) = (
        _mean_and_margin(x, _CONFIDENCE) for x in (free, conditional)
    )
    pooled, pooled_sd = _pooled(free)
    rows = np.arange(systems.problems * systems.each).reshape(systems.problems, -1)[:, : systems.free]
    each = normalised(forwards.log_weights[rows.reshape(-1)])
    shares = each.reshape(len(rows), -1)
    weights = (each.reshape(*rows.shape, -1) * normalised(free)[..., None]).reshape(shares.shape)
    points = forwards.particles.points[rows.reshape(-1)].reshape(*shares.shape, -1)
    draws = caller.to_user(points.reshape(-1, points.shape[-1])).reshape(*shares.shape, -1)
    at = forwards.particles
    tails = zip(at.log_ratio[rows], at.log_proposal[rows], weights, strict=True)
    wide = np.linalg.norm(lower_solve(proposals.factors, covariance_factors(points, weights)), 2, axis=(1, 2))
    wider = max(float(wide.max()) ** 2, *(_variance_of_tails(*one) for one in tails))
    converged, verdict = _verdict(choices, free, _interval(free, conditional, _CONFIDENCE), shares, wider)
    shaped: Callable[[Any], Any] = _first if systems.problems == 1 else lambda values: values
    return EvidenceBounds(
        lower=shaped(lower),
        upper=shaped(upper) if systems.conditional else None,
        lower_sd=shaped(lower_se),
        upper_sd=shaped(upper_se) if systems.conditional else None,
        log_evidence=shaped(pooled),
        log_evidence_sd=shaped(pooled_sd),
        log_estimates=shaped(free),
        upper_log_estimates=shaped(conditional) if systems.conditional else None,
        temperatures=plan.temperatures,
        effective_sample_sizes=forwards.effective_sample_sizes[rows.reshape(-1)].mean(axis=0),
        acceptance=np.array(state.acceptance),
        n_evaluations=checkpoint.n_evaluations,
        n_failed=state.failures.n_failed,
        method=choices.method,
        converged=converged,
        stopped=stopped,
        checks=(verdict, *_about_failures(state)),
        warnings=state.failures.warnings(state.n_evaluations, caller.place),
        draws=shaped(draws),
        log_weights=shaped(np.log(weights, out=np.full(weights.shape, -np.inf), where=weights > 0.0)),
        checkpoint=checkpoint,
    )


def _first(values: Any) -> Any:
    """The entry of the only problem: from (1,) a number."""
    return None if values is None else float(values[0]) if values.ndim == 1 else values[0]


def _interval(free: np.ndarray, conditional: np.ndarray, confidence: float) -> np.ndarray:
    """The intervals (M, 2) of log estimates (M, R) each; the upper end is infinite where there are none."""
    (lower, _, below), (upper, _, above) = (_mean_and_margin(x, confidence) for x in (free, conditional))
    return np.stack([lower - below, upper + above], axis=-1)


def _mean_and_margin(logs: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean (M,) of log estimates (M, R), its standard error, and the margin of its interval."""
    count = logs.shape[1]
    if count == 0:
        nothing = np.full(len(logs), np.inf)
        return nothing, nothing, nothing
    with np.errstate(invalid="ignore"):
        errors = logs.std(axis=1, ddof=1) / np.sqrt(count) if count > 1 else np.full(len(logs), np.inf)
    se = np.where(np.isnan(errors), np.inf, errors)
    return logs.mean(axis=1), se, float(stdtrit(max(count - 1, 1), 0.5 + 0.5 * confidence)) * se


def _about_failures(state: BoundsState) -> tuple[str, ...]:
    """A sentence on evaluations that failed; () where none did."""
    return () if not state.failures.n_failed else (
        f"{state.failures.n_failed} of {state.n_evaluations} evaluations failed, where the density counts as "
        "zero: the bounds are those of the evidence of the rest.",
    )  # fmt: skip


def _pooled(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ln of the mean of exp (M, R), and its standard deviation to first order."""
    count = logs.shape[1]
    shares = normalised(logs) * count
    return logsumexp(logs) - np.log(count), shares.std(axis=1, ddof=1) / np.sqrt(count)


def _variance_of_tails(log_ratios: np.ndarray, log_proposal: np.ndarray, weights: np.ndarray) -> float:
    """The variance, over that of the proposal q, of the Gaussian p whose weights rise outwards as those do.

    The slope of ln p / q in -ln q, at the particles (R, L) farthest out with a tenth of the weight, is
    1 - 1 / v: of heavy tails it tends to 1.
    """
    order, log_ratios, log_proposal = np.argsort(log_proposal, None), log_ratios.ravel(), log_proposal.ravel()
    order = order[np.isfinite(log_ratios[order])]
    outer = order[: max(int(np.searchsorted(np.cumsum(weights[order]), 0.1)), 20)]
    q = log_proposal[outer] - np.sum(log_proposal[outer]) / max(len(outer), 1)
    return 1.0 / max(1.0 + float(q @ log_ratios[outer]) / max(float(q @ q), 1e-300), 1e-3)


def _verdict(
    choices: Choices, logs: np.ndarray, interval: np.ndarray, shares: np.ndarray, wider: float
) -> tuple[bool, str]:
    """Whether the bounds have converged, and why, a sentence.

    ``shares`` (M, R L) are the weights since the latest resampling, of sum 1 in each estimate. ``wider`` is
    the largest variance of the posterior along a direction, or in its tails, over that of the proposal: from
    2 on weights have no variance.
    """
    with np.errstate(invalid="ignore"):
        spread = float(np.nan_to_num(logs.std(axis=1, ddof=1), nan=np.inf).max())
    if (interval[:, 0] > interval[:, 1]).any():
        return False, (
            "The interval is empty: the lower bound exceeds the upper one. The draws are not those of this "
            "posterior, or both miss a part of it."
        )
    if spread > ENGINES.counts:
        return False, (
            f"A log estimate has a standard deviation of {spread:.2g} nats: few particles carry it, and both "
            "bounds may lie low. Raise budget or particles, or give a proposal nearer to the posterior."
        )
    if wider > 2.0:
        return False, (
            f"The posterior has {wider:.2g} times the variance of the proposal along a direction, or in its "
            "tails: few particles reach them, and bounds lie low. Give one that is at least as wide."
        )
    shape = max(pareto_shape(row) for row in shares)
    if shape > PARETO.unusable:
        return False, (
            f"The weights have a Pareto tail of shape {shape:.2f}: parts of the posterior where the proposal "
            "is thin may be missing, and with them a part of both bounds. Give a proposal with wider tails."
        )
    if choices.draws is None:
        return True, "A lower bound only: draws of the posterior (posterior=...) give an upper one."
    return True, (
        "The upper bound holds where the draws given are independent draws of the posterior."
        if choices.exact
        else "The upper bound is approximate: it starts from draws of an approximation of the posterior, and "
        "holds as far as these are the posterior's."
    )


def _replicates(found: EvidenceBounds, ax: Axes, truth: Array) -> None:
    sides = [("lower bound", found.lower, found.log_estimates, _BELOW, 0.0)]
    if found.upper_log_estimates is not None:
        sides.append(("upper bound", found.upper, found.upper_log_estimates, _ABOVE, 1.0))
    for title, mean, logs, colour, height in sides:
        ax.plot(logs, np.full(len(logs), height), "|", color=colour, ms=14, alpha=0.6)
        ax.plot(mean, height, "o", color=colour, label=f"{title} {mean:.4f}")
    low, high = found.interval
    if np.isfinite(high):
        ax.axvspan(low, high, color="grey", alpha=0.15, lw=0, label="99% interval")
    elif np.isfinite(low):
        ax.axvline(low, color="grey", lw=1, label="99.5% limit")
    if truth is not None:
        ax.axvline(truth, color="black", lw=1, ls="--", label="truth")
    ax.set_ylim(-0.7, 0.7 + sides[-1][-1])
    ax.set_yticks([])
    ax.ticklabel_format(axis="x", useOffset=False, style="plain")
    ax.set_xlabel("log estimates of the evidence, nats")


def _problems(found: EvidenceBounds, ax: Axes, truth: Array) -> None:
    order = np.argsort(found.lower)
    place = np.arange(len(order))
    for title, mean, colour in (("lower bound", found.lower, _BELOW), ("upper bound", found.upper, _ABOVE)):
        if mean is not None:
            ax.plot(place, mean[order], ".", color=colour, label=title)
    if found.upper is not None:
        ax.vlines(place, *found.interval[order].T, color="grey", alpha=0.5, lw=1)
    if truth is not None:
        ax.plot(place, np.asarray(truth)[order], "_", color="black", label="truth")
    ax.set_xlabel("problems, in order of the lower bound")
    ax.set_ylabel("ln Z, nats")
