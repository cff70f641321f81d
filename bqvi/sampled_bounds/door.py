"""`evidence_bounds`: a lower and an upper bound on the log evidence of a log joint, given a proposal.

All arguments are checked here, before the first evaluation. The engine is
:mod:`bqvi.sampled_bounds.bounds_run`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

import numpy as np

from bqvi.arguments import AtLeast, of
from bqvi.calls import HERE, Caller, Coordinates, Function, Run, TargetModel
from bqvi.calls.coordinates import VECTORS
from bqvi.calls.function import AUTODIFF, STATED
from bqvi.calls.run import CALLED
from bqvi.calls.target_model import require_alone
from bqvi.posterior import Posterior
from bqvi.priors import posed
from bqvi.runs import Ended, Steps, door, resumed
from bqvi.sampled_bounds.bounds_run import DOOR, BoundsRun, Choices
from bqvi.sampled_bounds.particles import RECORDS, TRANSITIONS, Proposals, Systems
from bqvi.sampled_bounds.result import EvidenceBounds
from gp.arrays import is_torch, to_numpy
from gp.checks import Seed, require_numbers, require_seed, whole_seed
from gp.names import TRANSFORM

Method: TypeAlias = Literal["smc", "ais", "importance"]
METHODS = get_args(Method)
_ANNEALED = of("smc", "ais")


@door(EvidenceBounds)
def evidence_bounds(
    log_joint: Annotated[Callable[..., Any] | TargetModel | None, CALLED] = None,
    proposal: object = None,
    budget: Annotated[int, AtLeast(1)] = 100_000,
    method: Method = "smc",
    *,
    log_likelihood: Callable[..., Any] | None = None,
    prior: Any = None,
    posterior: np.ndarray | Posterior | None = None,
    gradient: Callable[..., Any] | str | None = None,
    noise_sd: Annotated[float | Callable[..., Any] | None, STATED] = None,
    particles: Annotated[int | None, AtLeast(1)] = None,
    replicates: Annotated[int, AtLeast(2)] = 10,
    temperatures: Annotated[int | None, AtLeast(1), _ANNEALED] = None,
    vectorised: bool = True,
    seed: Annotated[Seed, require_seed] = 0,
    resume: EvidenceBounds | Ended | str | Path | None = None,
    run: Run = HERE,
) -> Steps[Any, EvidenceBounds]:
    """Bounds on the log evidence by annealed importance sampling or sequential Monte Carlo.

    The logarithm of an unbiased, positive estimate of the evidence Z is in expectation a lower bound on ln Z.
    The same estimate from chains that begin at draws of the posterior and are annealed backwards gives an
    upper bound (bidirectional Monte Carlo; Grosse, Ghahramani and Adams 2015).

    Parameters
    ----------
    log_joint : a function of points theta (n, P) that returns the log of prior times likelihood (n,), with
        all constants, -inf where that is zero. With M proposals its arguments are (theta (n, P), problems
        (n,)), the second the index 0 to M - 1 of the problem of each row. Or a `TargetModel` of
        `bqvi.adapters`, with its gradient if it has one. Or a function of the parameters by name, with
        arrays (n,), where the proposal is a `bqvi.Posterior` that names them.
    proposal : q, from which the first particles are drawn: a Gaussian or a mixture of Gaussians of
        `gp.measures` or `bqvi.families` over R^P, or a `bqvi.Posterior`, whose bounds are then those of the
        parameters. Bounds are tighter the closer the proposal is to the posterior; it should not be narrower,
        and may be the prior. Or a sequence of M Gaussians or mixtures, for M problems at once. Beside a
        ``prior`` of distributions by default the one with its quantiles, in coordinates without bounds.
    budget : evaluations of log_joint in all, of which the pilot run takes at most a fifth. An evaluation is
        a value, with its gradient if there is one.
    method : "smc", sequential Monte Carlo with systematic resampling; "ais", annealed importance sampling,
        which has no resampling; "importance", importance sampling with one temperature, the bound of
        importance-weighted autoencoders.
    log_likelihood, prior : both in the place of ``log_joint``, as of `bqvi.vbmc`, for one problem; a function
        of points (n, P), or by the prior's names of arrays (n,).
    posterior : independent draws theta (n, P) of the posterior, for the upper bound; of M problems (M, n, P).
        The parameters from which data were simulated are one such draw. R of the draws are used, chosen at
        random. Or a `bqvi.Posterior`, whose draws are approximate, and then so is the upper bound.
    gradient : None, "autodiff" (log_joint takes and returns torch tensors) or a function of the arguments of
        log_joint that returns (n, P). With one, and exact values, particles move by Hamiltonian Monte Carlo
        ("hmc"), otherwise by a random walk.
    noise_sd : standard deviation of the noise of log_joint's values: a number, or a function of the arguments
        of log_joint. None: they are exact, or log_joint returns (value, deviation). Noise is taken to be
        Gaussian and independent from one evaluation to the next; the bounds then hold for noise of that kind.
    particles : L, the number of particles in each estimate.
    replicates : R, the number of independent estimates.
    temperatures : T, their number; the pilot run determines their values. By default the pilot run
        also divides the budget between particles and temperatures; where one of the two is given, the other
        uses the rest.
    vectorised : ``False`` if log_joint takes one point (P,) at a time.
    seed : an integer or a generator; the same seed gives the same result.
    resume : a result, the path of a saved one, or the exception that ended a run: the run continues from
        there, with the same arguments. The budget may be larger, which has no effect once the pilot run has
        ended.
    run : how the run is carried out (`bqvi.Run`): executor, callback, progress line, checkpoint, verify,
        the treatment of errors.

    Returns
    -------
    EvidenceBounds

    Raises
    ------
    ValueError, TypeError
        Bad input, before any evaluation.
    RunError
        log_joint failed, or is noisy and "hmc" moves the particles, or is -inf at each draw of the proposal
        or at one of ``posterior``, or the gradient is not that of the values.
        RunInterrupted : Ctrl-C. RunExit : SystemExit. Each of these exceptions has every evaluation that
        returned.

    Temperatures, units and step sizes of the moves are adapted in a pilot run whose particles no estimate
    uses. They are then fixed, so that both bounds hold in expectation.

    ``evidence_bounds.steps``, with the same arguments, returns the run itself, an iterator over its states.

    Examples
    --------
    Bounds from below and, with draws of the posterior, from above on ln 2 pi = 1.838:

    >>> import bqvi
    >>> import gp
    >>> import numpy as np
    >>> proposal = gp.measures.Gaussian(np.zeros(2), 2 * np.eye(2))
    >>> draws = np.random.default_rng(0).standard_normal((20, 2))
    >>> def log_joint(theta):  # (n, 2) -> (n,)
    ...     return -0.5 * (theta**2).sum(axis=1)
    >>> bounds = bqvi.evidence_bounds(log_joint, proposal, budget=20_000, posterior=draws, seed=0)
    >>> print(bounds.interval[0] < np.log(2 * np.pi) < bounds.interval[1])
    True
    """
    run.refuse("evidence_bounds", "max_seconds", "workers")
    names: tuple[str, ...] | None
    if isinstance(log_joint, TargetModel):
        require_alone(log_joint, gradient=gradient, log_likelihood=log_likelihood, prior=prior)
        asked: Any = log_joint.function()
        names, vectorised = log_joint.names, asked.vectorised
    else:
        titles = proposal.names if isinstance(proposal, Posterior) else None
        asked = posed(log_joint, log_likelihood, prior, gradient, vectorised, {}, titles)
        names = asked.names
        proposal = getattr(asked.prior, "proposal", None) if proposal is None else proposal
    value, gradient = asked.value, asked.gradient
    proposals, coordinates, like = _proposals(proposal)
    count = proposals.dimension if coordinates is None else coordinates.n_parameters
    if names is not None and (len(proposals), count) != (1, len(names)):
        raise ValueError(
            f"proposal has {len(proposals)} densities over R^{count}; the model, or the prior, is one "
            f"problem of {len(names)} parameters"
        )
    known = names if names or coordinates is None else coordinates.names
    for argument, one in {"proposal": proposal, "posterior": posterior}.items():
        if known and isinstance(one, Posterior):
            one.coordinates.require_names(argument, known)
    if coordinates is not None and isinstance(posterior, Posterior):
        ends = {"lower": -np.inf, "upper": np.inf} | dict(getattr(asked, "usual", {}))
        low, high = np.fmax(coordinates.lower, ends["lower"]), np.fmin(coordinates.upper, ends["upper"])
        within = replace(coordinates, lower=low, upper=high)
        within.require_like(posterior.coordinates, "posterior", VECTORS[:2])
    exact = gradient is not None and noise_sd is None
    name = "" if method == "importance" else "hmc" if exact else "random-walk"
    transition = TRANSITIONS[name] if name else None
    if name != "hmc":
        if gradient == AUTODIFF:
            from bqvi.calls.autodiff import values_only

            like = values_only(Function(value, like=like)).like
        gradient = None
    number = whole_seed(seed)
    draws, of_posterior = _draws(posterior, proposals, coordinates, replicates, number)
    systems = Systems(len(proposals), replicates, 0 if draws is None else draws.shape[1])
    choices = Choices(method, name, systems, particles, temperatures, budget, number, draws, of_posterior)
    _require_room(choices, transition)
    if len(proposals) > 1:
        value = _Numbered(value)
        gradient = _Numbered(gradient, gradient=True) if callable(gradient) else gradient
        noise_sd = _Numbered(noise_sd) if callable(noise_sd) else noise_sd
    function = Function(
        value, gradient, noise_sd=noise_sd, vectorised=vectorised, like=like,
        errors=run.errors or "numerical", names=names or () if coordinates is None else coordinates.names,
        range=asked.range,
    )  # fmt: skip
    caller = Caller(function, coordinates, run)
    engine = BoundsRun(caller, proposals, transition, choices)
    if resume is None:
        return Steps(engine, None, run)
    before = resumed(resume, DOOR, RECORDS, engine.checkpoint(engine.init()).settings)
    return Steps(engine, engine.resumed(before), run)


@dataclass(frozen=True)
class _Numbered:
    """A function of points and problems' numbers, as one of points with the number in the last column.

    To a ``gradient`` a zero for the number is added.
    """

    function: Callable[..., Any]
    gradient: bool = False

    def __call__(self, rows: Any) -> Any:
        last = rows[..., -1]
        found = self.function(rows[..., :-1], last.long() if is_torch(last) else last.astype(int))
        if not self.gradient:
            return found
        found = np.asarray(to_numpy(found))
        return np.concatenate([found, np.zeros((*found.shape[:-1], 1))], axis=-1)


def _proposals(proposal: Any) -> tuple[Proposals, Coordinates | None, Any]:
    """Proposals, coordinates where there are bounds, and an array of the kind of the points."""
    if proposal is None:
        raise ValueError("proposal is None: give a Gaussian or a mixture of them, or distributions as prior")
    if isinstance(proposal, Posterior):
        return Proposals.of([proposal.q]), proposal.coordinates, None
    several = list(proposal) if isinstance(proposal, Sequence) else [proposal]
    if not several or any(isinstance(one, Posterior) for one in several):
        raise TypeError("proposal is a sequence; its entries must be Gaussians or mixtures, one a problem")
    try:
        proposals = Proposals.of(several)
    except TypeError as error:
        raise TypeError(
            f"proposal is a {type(proposal).__name__}; it must be gp.measures.Gaussian(mean, covariance), a "
            f"mixture, a sequence, or a bqvi.Posterior ({error}){f'; {TRANSFORM}' * callable(proposal)}"
        ) from None
    mean = several[0].mean
    return proposals, None, mean if is_torch(mean) else None


def _require_room(choices: Choices, transition: Any) -> None:
    least = choices.least(transition)
    if choices.budget < least:
        systems = choices.systems
        raise ValueError(
            f"budget is {choices.budget}; {systems.problems * systems.each} estimates of "
            f"{choices.particles or 1} particles need at least {least}: raise it, or lower particles, "
            "replicates or temperatures"
        )


def _draws(
    posterior: Any, proposals: Proposals, coordinates: Coordinates | None, replicates: int, number: int
) -> tuple[np.ndarray | None, bool]:
    """Draws of the posteriors (M, R', D) in the coordinates, or None; whether they were given as draws."""
    if posterior is None:
        return None, True
    count, rng = len(proposals), np.random.default_rng([number, 3])
    if isinstance(posterior, Posterior):
        if count > 1:
            raise ValueError(f"posterior is a Posterior, for {count} problems; give draws (M, n, P)")
        given, exact = posterior.unconstrained.sample(replicates, rng)[None], False
    else:
        given, exact = require_numbers("posterior", posterior), True
        given = given[None] if count == 1 and given.ndim == 2 else given
    width = proposals.dimension if coordinates is None else coordinates.n_parameters
    if given.ndim != 3 or given.shape[0] != count or given.shape[2] != width or not given.shape[1]:
        allowed = f"(n, {width})" if count == 1 else f"({count}, n, {width})"
        raise ValueError(f"posterior has shape {np.shape(posterior)}; it must be {allowed} with n >= 1")
    if not np.isfinite(given).all():
        raise ValueError("posterior has NaN or infinite entries; draws of the posterior have none")
    chosen = rng.permutation(given.shape[1])[:replicates]
    given = given[:, chosen]
    if coordinates is None:
        return given, exact
    return coordinates.from_user(given[0])[None], exact
