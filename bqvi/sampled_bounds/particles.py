"""The path of densities from a proposal to the posterior, particles of G systems, and their moves along it.

    pi_b(x)  proportional to  q(x)^(1 - b) p(x)^b,        b from 0 to 1

with q the proposal, normalised, and p the exponential of the log joint. With l = ln p - ln q the weight of a
particle at x grows by (b' - b) l(x) when the temperature goes from b to b'.

M evidences of models with the same structure, such as those of M data under one decoder, are estimated
together, each with its proposal, a mixture of Gaussians in the coordinates: particles (G, L, D) of the G
systems of all problems are evaluated in one call. System s belongs to problem s // (G / M).

A value may have Gaussian noise e of standard deviation s(x). Then p is estimated without bias by

    p(x) exp(e - s(x)^2 / 2),      e ~ N(0, s(x)^2),

and a particle is the pair (x, e): it keeps the estimate with which it was accepted. All statements on x for
exact values then hold for the pair (pseudo-marginal Metropolis; Andrieu and Roberts 2009). Given a draw x of
the posterior, e has the density exp(e) N(e; 0, s^2) up to a constant, which is N(s^2, s^2): s^2 is added to a
new value there.

A transition leaves the density at a temperature invariant. A reversible one also runs a chain backwards,
which the upper bound needs. Each move is made in units u, x = A u, with a step size h; A and h are fixed
before any estimate is made. The factor of the step size that is drawn for each move is independent of the
particle, so that the transition stays reversible and invariant.

    random-walk    u + h e, e ~ N(0, I), accepted by Metropolis' rule: one evaluation
    hmc            leapfrog steps of Hamiltonian dynamics with unit masses in u (Neal 2011), accepted by
                   Metropolis' rule: one evaluation with gradient for each
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bqvi.calls import Budget, Caller, Evaluations, Ledger, Unfinished
from bqvi.calls.faults import NONE_FAILED, Failures
from bqvi.posterior.posterior import mixture_of
from bqvi.records import fingerprint, named
from bqvi.sampled_bounds.settings import SETTINGS
from gp.matrices import named_cholesky
from gp.measures import GaussianMixture
from gp.measures.mixture import MixtureDensity


@dataclass(frozen=True, eq=False)
class Proposals:
    """M mixtures of C Gaussians in D dimensions.

    Attributes
    ----------
    mixtures : the M mixtures.
    density : their densities, with the leading dimension M.
    """

    mixtures: tuple[GaussianMixture, ...]
    density: MixtureDensity

    @classmethod
    def of(cls, given: Sequence[Any]) -> Proposals:
        """The proposals of M problems, Gaussians or mixtures of Gaussians; TypeError for others."""
        plain = tuple(map(mixture_of, given))
        shapes = {q.means.shape for q in plain}
        if len(shapes) > 1:
            raise ValueError(
                f"proposal has mixtures of components and dimensions {sorted(shapes)}; all must have as many"
            )
        parts = (np.stack([getattr(q, part) for q in plain]) for part in ("weights", "means", "factors"))
        return cls(plain, MixtureDensity.of(*parts))

    def __len__(self) -> int:
        return len(self.mixtures)

    @property
    def dimension(self) -> int:
        """The number D of coordinates."""
        return self.mixtures[0].dimension

    @cached_property
    def fingerprint(self) -> str:
        """A checksum of the weights, means and covariances."""
        parts = ((q.weights, q.means, q.covariances) for q in self.mixtures)
        return fingerprint(tuple(np.stack(part) for part in zip(*parts, strict=True)))

    @property
    def factors(self) -> np.ndarray:
        """The lower Cholesky factors of the covariances of the mixtures, (M, D, D)."""
        return named_cholesky("the proposal's covariance", np.stack([q.covariance for q in self.mixtures]))

    def sample(self, systems: int, particles: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws (M systems, L, D), with ``systems`` for each problem, L being ``particles``."""
        drawn = [q.sample(systems * particles, rng) for q in self.mixtures]
        return np.concatenate(drawn).reshape(len(self) * systems, particles, self.dimension)

    def log_density(self, points: np.ndarray, slopes: bool) -> tuple[np.ndarray, np.ndarray | None]:
        """The log densities (G, L) at points (G, L, D), with their gradients (G, L, D) if ``slopes``."""
        grouped = points.reshape(len(self), -1, self.dimension)
        if not slopes:
            return self.density.log_density(grouped).reshape(points.shape[:2]), None
        values, gradient = self.density.with_gradient(grouped)
        return values.reshape(points.shape[:2]), gradient.reshape(points.shape)


@dataclass(frozen=True)
class Systems:
    """The G systems: for each of M problems free ones, then conditional ones with a retained particle.

    Attributes
    ----------
    problems : the number M of problems.
    free, conditional : the numbers of free and of conditional systems of each problem.
    """

    problems: int
    free: int
    conditional: int

    @property
    def each(self) -> int:
        """The number of systems of a problem."""
        return self.free + self.conditional

    def cost(self, temperatures: int, particles: int, each: int) -> int:
        """Evaluations of T ``temperatures`` with L ``particles``, with the chains, ``each`` for a move."""
        return self.problems * self.each * particles * (1 + (temperatures - 1) * each)

    @property
    def with_retained(self) -> np.ndarray:
        """The indices of the systems with a retained particle, (M conditional,)."""
        order = np.arange(self.problems * self.each).reshape(self.problems, self.each)
        return order[:, self.free :].reshape(-1)

    def kept(self, particles: int) -> np.ndarray:
        """Which of L ``particles`` are retained, (G, L)."""
        found = np.zeros((self.problems * self.each, particles), bool)
        found[self.with_retained, 0] = True
        return found


_FAR = 1e100
"""The largest coordinate that is evaluated: a divergent trajectory may leave the range of numbers."""


@dataclass(frozen=True, eq=False)
class Particles:
    """The L particles of each of G systems.

    Attributes
    ----------
    points : the points (G, L, D), in the coordinates.
    log_joint, log_proposal : ln p and ln q there (G, L); the first is -inf where the density is zero.
    joint_slopes, proposal_slopes : the gradients of both (G, L, D), or None.
    """

    points: np.ndarray
    log_joint: np.ndarray
    log_proposal: np.ndarray
    joint_slopes: np.ndarray | None = None
    proposal_slopes: np.ndarray | None = None

    @property
    def log_ratio(self) -> np.ndarray:
        """The log ratios l = ln p - ln q, (G, L)."""
        return self.log_joint - self.log_proposal

    def log_density(self, temperature: float) -> np.ndarray:
        """The log density ln pi_b without its constant, (G, L), at a ``temperature`` b > 0."""
        return (1.0 - temperature) * self.log_proposal + temperature * self.log_joint

    def slopes(self, temperature: float) -> np.ndarray:
        """The force at a ``temperature`` b, (G, L, D): the gradient of ln pi_b, or of ln q where p has none.

        A leapfrog step is reversible and preserves volume with any force that depends on the position alone.
        """
        assert self.joint_slopes is not None
        assert self.proposal_slopes is not None
        found: np.ndarray = (1.0 - temperature) * self.proposal_slopes + temperature * self.joint_slopes
        return np.where(np.isfinite(found).all(axis=-1, keepdims=True), found, self.proposal_slopes)

    def where(self, chosen: np.ndarray, others: Particles) -> Particles:
        """These particles where ``chosen`` (G, L) is True, and ``others`` elsewhere."""

        def mixed(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
            return np.where(chosen[..., None] if mine.ndim == 3 else chosen, mine, theirs)

        return self.each(mixed, others)

    def taken(self, parents: np.ndarray) -> Particles:
        """The particles with indices ``parents`` (G, L) in each system."""
        return self.each(lambda part: part[np.arange(len(parents))[:, None], parents])

    def each(self, change: Callable[..., np.ndarray], *others: Particles) -> Particles:
        """The particles with ``change`` applied to each array, and to that of ``others``."""
        together = zip(self.parts(), *(other.parts() for other in others), strict=True)
        parts: list[Any] = [None if arrays[0] is None else change(*arrays) for arrays in together]
        return Particles(*parts)

    def written(self, systems: np.ndarray | slice, index: int, places: Particles) -> Particles:
        """The particles with those of this ``index`` in ``systems`` (R,) replaced by ``places`` (R, 1)."""

        def change(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
            mine = mine.copy()
            mine[systems, index] = theirs[:, 0]
            return mine

        return self.each(change, places)

    def parts(self) -> tuple[Any, ...]:
        """The arrays of the particles, in order."""
        return self.points, self.log_joint, self.log_proposal, self.joint_slopes, self.proposal_slopes


class AnnealedTarget:
    """The log joint and the proposals at particles, within the budget of one step of a run.

    Parameters
    ----------
    caller : the user's function. With M > 1 problems its points have the problem's number as a last column.
    proposals : the proposals of the M problems.
    ledger, budget : the ledger in which evaluations are entered, and the budget of the step.
    unfinished : the evaluations of an earlier attempt at the step that was cut short.
    failures : the failed evaluations of the steps before.

    Once a batch has raised, the log joint is called at one point at a time: a batch that is called again
    point by point counts twice, which the plan for the whole budget does not allow for.
    """

    def __init__(
        self,
        caller: Caller,
        proposals: Proposals,
        ledger: Ledger,
        budget: Budget,
        unfinished: Evaluations | None,
        failures: Failures,
    ) -> None:
        self._caller, self.proposals = caller, proposals
        self._ledger, self._budget = ledger, budget
        self._unfinished = None if unfinished is None else Unfinished(unfinished)
        self._made = 0
        self.noisy, self.failures = False, failures

    @property
    def n_evaluations(self) -> int:
        """The number of evaluations of the step, including those made before it was cut short."""
        return self._made + (0 if self._unfinished is None else self._unfinished.left().n_evaluations)

    @property
    def separately(self) -> bool:
        """Whether the log joint is called at one point at a time, since a batch has raised."""
        return self._caller.separately

    @property
    def gradient(self) -> bool:
        """Whether the log joint has a gradient."""
        return self._caller.has_gradient

    def at(
        self,
        points: np.ndarray,
        wanted: np.ndarray | bool = True,
        first: bool = False,
        of_posterior: bool = False,
    ) -> Particles:
        """Particles at points (G, L, D); the log joint is -inf where it is not ``wanted`` (G, L).

        Parameters
        ----------
        first : whether nothing has been evaluated before.
        of_posterior : whether the points are draws of the posterior.

        Raises
        ------
        EvaluationError
            As in `Caller.evaluate`.
        RuntimeError
            The budget is spent, because a batch that raised was evaluated again point by point.
        ValueError
            The log joint is noisy, and its gradient is used.
        """
        log_proposal, proposal_slopes = self.proposals.log_density(points, self.gradient)
        evaluated = (np.abs(points) < _FAR).all(axis=-1) & wanted
        log_joint = np.full(evaluated.shape, -np.inf)
        slopes = np.full(points.shape, np.nan) if self.gradient else None
        made = self._evaluated(with_numbers(points, evaluated, len(self.proposals)), first)
        log_joint[evaluated] = made.values
        if made.failed.any():
            self.failures = self.failures.after(made[made.failed])
        if made.noise_variance is not None:
            if self.gradient:
                raise ValueError(
                    "log_joint returns a standard deviation, and moves by its gradient take exact values; "
                    "leave the gradient out"
                )
            self.noisy = True
            shift = 0.5 if of_posterior else -0.5
            log_joint[evaluated] += np.where(made.failed, 0.0, shift * made.noise_variance)
        if slopes is not None and made.gradients is not None:
            slopes[evaluated] = made.gradients[:, : points.shape[-1]]
        return Particles(points, log_joint, log_proposal, slopes, proposal_slopes)

    def _evaluated(self, rows: np.ndarray, first: bool) -> Evaluations:
        def evaluate(points: np.ndarray) -> Evaluations:
            made = self._caller.evaluate(points, self._ledger, self._budget, first)
            if made.n_evaluations > len(made):
                self._caller = replace(self._caller, separately=True)
            return made

        if not len(rows):
            return Evaluations.none(rows.shape[-1])
        made = evaluate(rows) if self._unfinished is None else self._unfinished.completed(rows, evaluate)
        self._made += made.n_evaluations
        if len(made) < len(rows):
            raise RuntimeError(
                "the budget is spent: a batch at which log_joint raised was evaluated again point by point; "
                "resume with a larger budget"
            )
        return made


def with_numbers(points: np.ndarray, chosen: np.ndarray, problems: int) -> np.ndarray:
    """The ``chosen`` (G, L) of points (G, L, D) as rows; with several problems their number is appended.

    Parameters
    ----------
    problems : the number M of problems, each with G / M consecutive systems.
    """
    if problems > 1:
        numbers = np.repeat(np.arange(problems), len(points) // problems)[:, None, None]
        points = np.concatenate([points, np.broadcast_to(numbers, (*chosen.shape, 1))], axis=-1)
    return points[chosen]


@dataclass(frozen=True, eq=False)
class MoveUnits:
    """The units of moves for each of M problems.

    Attributes
    ----------
    factors : the matrices A (M, D, D).
    steps : the step sizes h (M,).
    """

    factors: np.ndarray
    steps: np.ndarray

    def of_systems(self, systems: int) -> tuple[np.ndarray, np.ndarray]:
        """The matrices A (G, D, D) and step sizes h (G, 1, 1) of the G ``systems``."""
        each = systems // len(self.steps)
        return np.repeat(self.factors, each, axis=0), np.repeat(self.steps, each)[:, None, None]


@dataclass(frozen=True)
class Transition:
    """One move of every particle.

    Attributes
    ----------
    cost : the number of evaluations of the log joint in a move of one particle: leapfrog steps, or 1.
    acceptance : the rate of acceptance to which step sizes are adapted.
    step : adaptation begins with the step size ``step`` D^(-1/4) with slopes, else D^(-1/2).
    slopes : whether particles move by the gradient: Hamiltonian Monte Carlo, else Metropolis' random walk.
    """

    cost: int
    acceptance: float
    step: float
    slopes: bool

    def first_step(self, dimension: int) -> float:
        """The step size with which adaptation begins, D being ``dimension``."""
        return self.step / math.sqrt(math.sqrt(dimension) if self.slopes else dimension)

    def __call__(
        self,
        particles: Particles,
        temperature: float,
        units: MoveUnits,
        target: AnnealedTarget,
        rng: np.random.Generator,
        movable: np.ndarray,
    ) -> tuple[Particles, np.ndarray]:
        """The particles after a move, and the probability of acceptance of each, (G, L).

        Parameters
        ----------
        particles : the particles of G systems.
        temperature : the temperature b of the density that is left invariant.
        units : the units of the M problems. target : the log joint and the proposals.
        rng : the generator, which draws numbers for all G L particles.
        movable : which particles are moved, (G, L) bool.
        """
        factors, steps = units.of_systems(len(particles.points))
        momenta = rng.standard_normal(particles.points.shape)
        uniform = rng.random(movable.shape)
        here = particles
        if self.slopes:
            steps = steps * rng.uniform(0.8, 1.2, (*movable.shape, 1))
            kinetic = 0.5 * (momenta**2).sum(axis=-1)
            momenta = momenta + 0.5 * steps * (here.slopes(temperature) @ factors)
        for remaining in range(self.cost, 0, -1):
            points = here.points + (steps * momenta) @ np.swapaxes(factors, -1, -2)
            here = target.at(points, movable)
            if self.slopes:
                half = 1.0 if remaining > 1 else 0.5
                momenta = momenta + half * steps * (here.slopes(temperature) @ factors)
        # -inf less -inf is NaN: a particle at -inf whose proposal is at -inf stays where it is
        with np.errstate(invalid="ignore", over="ignore"):
            gain = here.log_density(temperature) - particles.log_density(temperature)
            if self.slopes:
                gain = gain + kinetic - 0.5 * (momenta**2).sum(axis=-1)
        rate = np.exp(np.minimum(np.where(movable & ~np.isnan(gain), gain, -np.inf), 0.0))
        return here.where(uniform < rate, particles), rate


TRANSITIONS = {
    # the best acceptance of a walk is .234 for large D, and 2.38 D^(-1/2) its step (Roberts et al. 1997)
    "random-walk": Transition(1, 0.25, 2.38, False),
    "hmc": Transition(SETTINGS.leapfrog, SETTINGS.hamiltonian_acceptance, 1.2, True),
}


PILOT, BACKWARDS, FORWARDS = "pilot run", "backwards", "forwards"
"""The phases of a run, in order."""


@dataclass(frozen=True, eq=False)
class Pilot:
    """The pilot run, up to one of its temperatures.

    Attributes
    ----------
    particles : the particles (M, L', .), with equal weights.
    temperatures : the temperatures (j + 1,) so far, from 0.
    conditional_shares : the conditional effective sample sizes over L' (j,) between them.
    units : the j units of moves, one for each temperature above 0.
    """

    particles: Particles
    temperatures: np.ndarray
    conditional_shares: np.ndarray
    units: tuple[MoveUnits, ...] = ()


@dataclass(frozen=True, eq=False)
class AnnealingPlan:
    """The settings of the estimates, which are fixed after the pilot run.

    Attributes
    ----------
    temperatures : the temperatures (T + 1,), from 0 to 1.
    particles : the number L of particles.
    units : the T - 1 units of moves, one for each temperature strictly between.
    """

    temperatures: np.ndarray
    particles: int
    units: tuple[MoveUnits, ...]

    def __len__(self) -> int:
        return len(self.temperatures) - 1

    def at(self, t: int) -> tuple[float, MoveUnits]:
        """The temperature b_t, strictly between 0 and 1, and the units of moves there."""
        return float(self.temperatures[t]), self.units[t - 1]


@dataclass(frozen=True, eq=False)
class Pass:
    """The G systems on their way from temperature 0 to 1.

    Attributes
    ----------
    particles : the particles (G, L, .), after the move at the latest temperature.
    log_weights : their log weights (G, L) since the latest resampling.
    log_estimates : the logarithms (G,) of the product of mean weights up to that resampling.
    effective_sample_sizes : the effective sample sizes (G, t) at the temperatures passed, before resampling.
    """

    particles: Particles
    log_weights: np.ndarray
    log_estimates: np.ndarray
    effective_sample_sizes: np.ndarray

    @property
    def passed(self) -> int:
        """The number of temperatures passed."""
        return self.effective_sample_sizes.shape[1]


@dataclass(frozen=True, eq=False)
class BoundsState:
    """The state of a run.

    Attributes
    ----------
    phase : "pilot run", "backwards" or "forwards". completed : the number of evaluations in completed steps.
    pilot, plan, forwards : the pilot run, the plan and the pass forwards; None before they exist.
    backwards : the chains (R', T, .) from draws of the posterior, by temperature, which are complete when
        ``to_go`` is 0; None where there are no draws.
    to_go : the number of temperatures that the chains backwards have yet to pass.
    acceptance : the mean rates of acceptance (t,) of the moves forwards.
    failures : the failed evaluations in completed steps, at which the density counts as zero.
    noisy : whether the log joint has returned noisy values.
    separately : whether it has raised at a batch, and is called at one point at a time.
    unfinished : evaluations of the next step, made before it was cut short.
    """

    phase: str
    completed: int = 0
    pilot: Pilot | None = None
    plan: AnnealingPlan | None = None
    backwards: Particles | None = None
    to_go: int = 0
    forwards: Pass | None = None
    acceptance: tuple[float, ...] = ()
    failures: Failures = NONE_FAILED
    noisy: bool = False
    separately: bool = False
    unfinished: Evaluations | None = None

    @property
    def n_evaluations(self) -> int:
        """The number of evaluations, including those of an unfinished step."""
        return self.completed + (0 if self.unfinished is None else self.unfinished.n_evaluations)


RECORDS = named(BoundsState, Pilot, AnnealingPlan, Pass, Particles, MoveUnits, Evaluations, Failures)
"""The classes of a saved run."""
