"""Bayesian quadrature of the ELBO's gradient for q a mixture of Gaussians, with memory.

    ELBO = E_q[f] + H[q] = E_q[phi] + E_q[prior mean - ln q],        phi = f - prior mean

E_q[phi] and its gradient are in closed form given a process on phi (`mixture_gradient`), in units of the
Gaussian with q's moments at the last round. The prior mean is that Gaussian or q itself at the last round
(`mixture_evidence`). The other term, the entropy or the divergence
from that q, is estimated from draws of q (`mixture_draws`), without evaluations of f and without bias.

The process is on f and does not depend on q, so that not every step needs evaluations. A *round* of
evaluations, chosen to reduce the variance of the gradient most, is made at the first step and once q has
moved by `radius` since the last round,

    KL(w || w') + sum_k w_k KL(N_k || N'_k)  >=  KL(q || q'),

or after `every` steps; the steps between take no evaluations. q is moved in its Euclidean coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from acquisition.designs import normal_frames
from acquisition.functionals import most_informative
from bqvi.arrays import Values
from bqvi.calls import Evaluations
from bqvi.checks import require_above, require_integer, require_one_of
from bqvi.families import GaussianMixture
from bqvi.families.family import Distribution
from bqvi.gradients.evaluations import differentiable, evaluate
from bqvi.gradients.function_process import FunctionSurrogate
from bqvi.gradients.gradient import Batch, Gradient
from bqvi.gradients.memory import Base, Memory
from bqvi.gradients.mixture_draws import drawn_divergence, drawn_entropy
from bqvi.gradients.mixture_evidence import Used, most_likely
from bqvi.gradients.mixture_gradient import MixtureGradient, moment_matched
from bqvi.gradients.settings import DESIGN, MIXTURE
from bqvi.gradients.standard_errors import of_mean
from bqvi.gradients.stratified import require_still, together
from bqvi.gradients.surrogates import OnFunction
from bqvi.gradients.whitened import JITTER, WhitenedFrame
from bqvi.models.log_joint import LogJointModel

__all__ = ["MixtureMemory", "MixtureQuadrature", "value_deviation"]


@dataclass(frozen=True, eq=False)
class MixtureMemory:
    """The evaluations of `MixtureQuadrature`, and the q of its last round."""

    known: Memory
    """The evaluations; its base has the units in which the process was made."""
    q_before: Values
    """Coordinates u of q at the last round."""
    since: int = 0
    """Steps since the last round."""
    relative: bool = False
    """Whether the prior mean is q's of the last round, else the Gaussian with its moments."""
    process: FunctionSurrogate | None = field(default=None, metadata={"derived": True})
    """The process that is kept, which the other fields determine."""
    before: GaussianMixture | None = field(default=None, metadata={"derived": True})
    """q at the last round."""

    def with_evaluations(self, found: Evaluations) -> MixtureMemory:
        """The memory with the evaluations of an interrupted round; the next step begins another round."""
        return replace(self, known=self.known.with_evaluations(found), process=None)


@dataclass(frozen=True)
class MixtureQuadrature:
    """dL/du for q a `families.GaussianMixture`.

    Parameters
    ----------
    nodes : n >= 1, evaluations in each round
    memory : the most evaluations, the latest, on which the process is conditioned; with 0 those of the step
        only
    initial_nodes : evaluations of the first round, by default min(2 D, 10) for each component, or ``nodes``
        if that is more
    radius : > 0, nats by which q moves before the next round
    every : >= 1, the number of steps after which there is a round in any case
    process : of a log joint with gradients, 'joint' (values and gradients, O((m (D + 1))^3)) or 'derivative'
        (gradients only, O((m D)^3): the difference in height between two modes is then extrapolated along the
        line between them); for a log joint without gradients the process is of values
    candidates : >= n, the number of candidates for the nodes of a round
    entropy_pairs : >= 2, antithetic pairs in each component for the entropy
    errors : whether to return standard errors at each step: those of posterior, jackknife and entropy
        together
    """

    nodes: int = 4
    memory: int = 100
    initial_nodes: int | None = None
    radius: float = 0.25
    every: int = 50
    process: str = "joint"
    candidates: int = DESIGN.candidates
    entropy_pairs: int = 256
    errors: bool = False

    mixtures = True
    """q is a mixture of Gaussians."""
    gives_surrogate = False
    """False: it has no surrogate that a trust region could maximise."""
    noisy = False
    """By default the step size is constant: gradients have a small variance, and the ELBO of a mixture has
    plateaus."""

    def __post_init__(self) -> None:
        require_integer("nodes", self.nodes, 1)
        require_integer("memory", self.memory, 0)
        if self.initial_nodes is not None:
            require_integer("initial_nodes", self.initial_nodes, 1)
        require_above("radius", self.radius, 0.0)
        require_integer("every", self.every, 1)
        require_one_of("process", self.process, ("joint", "derivative"))
        require_integer("candidates", self.candidates, self.nodes)
        require_integer("entropy_pairs", self.entropy_pairs, 2)

    @property
    def samples(self) -> int:
        """Evaluations a round."""
        return self.nodes

    def start(self, model: LogJointModel, q: Any) -> MixtureMemory | None:
        """An empty memory for a run of ``model`` from ``q``, or None where nothing is to be kept."""
        _require_mixture(model, q)
        return _fresh(model, q) if self.memory else None

    def __call__(
        self,
        model: LogJointModel,
        q: Any,
        batch: Batch,
        rng: np.random.Generator,
        memory: MixtureMemory | None = None,
    ) -> Gradient:
        """The gradient at q, given the memory of earlier steps.

        Raises
        ------
        TypeError
            q is no mixture of Gaussians, or the log joint changes with q.
        EvaluationError
            The log joint has had no finite value for several rounds, or is constant.
        """
        _require_mixture(model, q)
        kept = memory or _fresh(model, q)
        spent = n_nodes = 0
        if self._due(q, kept):
            nodes = self._nodes(model, q, rng, kept)
            found = evaluate(model, q, batch, nodes, first=not len(kept.known))
            spent, n_nodes, kept = found.n_evaluations, len(nodes), self._with_round(model, q, found, kept)
        else:
            before = _before(q, kept)
            kept = replace(kept, since=kept.since + 1, process=self._process(model, q, kept), before=before)
        gradient = self._gradient(model, q, rng, kept)
        return replace(
            gradient, n_evaluations=spent, samples=n_nodes, memory=kept if memory is not None else None
        )

    def _due(self, q: GaussianMixture, kept: MixtureMemory) -> bool:
        """Whether there is a round of evaluations at this step."""
        if not kept.known.base.at or kept.since + 1 >= self.every:
            return True
        return _moved(q, _before(q, kept)) > self.radius

    def _nodes(
        self, model: LogJointModel, q: GaussianMixture, rng: np.random.Generator, kept: MixtureMemory
    ) -> np.ndarray:
        """Points theta of a round, (n, D)."""
        process = self._process(model, q, kept)
        if process is None:
            known = len(kept.known) or not self.memory
            fewest = max(self.nodes, q.n_components * DESIGN.first_nodes(q.dimension))
            return _within(q, self.nodes if known else self.initial_nodes or fewest, rng)
        own = rng.choice(q.n_components, size=self.candidates, p=np.asarray(q.weights))
        noise = np.zeros((self.candidates, q.n_components, q.dimension))
        rows = np.arange(self.candidates)
        noise[rows, own] = MIXTURE.spread * rng.standard_normal((self.candidates, q.dimension))
        pool = np.asarray(q.strata(noise))[rows, own]
        frame = kept.known.base.frame
        candidates = MixtureGradient(process, frame, q).candidates(frame.whiten(pool))
        return pool[most_informative(candidates, self.nodes, JITTER)]

    def _with_round(
        self, model: LogJointModel, q: GaussianMixture, found: Evaluations, kept: MixtureMemory
    ) -> MixtureMemory:
        """The memory with a round's evaluations, and a new process in the units of the current q."""
        known = kept.known.joined(found)
        known.require_signal()
        if not len(known):
            return replace(kept, known=known)
        frame = WhitenedFrame.of(moment_matched(q))
        q_before = tuple(np.asarray(u) + 0.0 for u in q.unconstrained)
        before, relative, process = q.from_unconstrained(q_before), kept.relative, None
        if len(known) >= MIXTURE.growth * known.fitted_at:
            start = (known.hyperparameters, relative) if known.fitted_at else None
            fitted = most_likely(self._used(known, frame), self._kind(model), before, start)
            relative, process = fitted.relative, fitted.process
            known = replace(known, hyperparameters=fitted.hyperparameters, fitted_at=len(known))
        known = replace(known, base=Base(frame.mean, frame.scale, len(known)))
        kept = MixtureMemory(known, q_before, 0, relative, process, before)
        return replace(kept, process=self._process(model, q, kept))

    def _process(
        self, model: LogJointModel, q: GaussianMixture, kept: MixtureMemory
    ) -> FunctionSurrogate | None:
        """The process that is kept, or, in a resumed run, the same process made again."""
        if kept.process is not None or not kept.known.base.at:
            return kept.process
        mean = _before(q, kept) if kept.relative else None
        kind, used = self._kind(model), self._used(kept.known, kept.known.base.frame)
        return kind.process(used.observed(kind, mean), kept.known.hyperparameters)

    def _used(self, known: Memory, frame: WhitenedFrame) -> Used:
        return Used.of(known, frame, self.memory or len(known))

    def _kind(self, model: LogJointModel) -> OnFunction:
        if not differentiable(model):
            return OnFunction(gradients=False)
        return OnFunction(values=self.process == "joint")

    def _gradient(
        self, model: LogJointModel, q: GaussianMixture, rng: np.random.Generator, kept: MixtureMemory
    ) -> Gradient:
        """The gradient: that of the process in closed form plus that of the other term by draws."""
        if kept.process is None:  # all evaluations so far have failed: q stays, and the next step draws again
            return Gradient(tuple(np.zeros(np.shape(u)) for u in q.unconstrained), False, 0)
        if kept.relative:
            drawn = drawn_divergence(q, _before(q, kept), rng, self.entropy_pairs)
        else:
            drawn = drawn_entropy(q, rng, self.entropy_pairs)
        part = MixtureGradient(kept.process, kept.known.base.frame, q, kept.relative)
        values = q.pulled_back(
            *(a + b for a, b in zip(part.expectation.gradient, drawn.gradient, strict=True))
        )
        # gradients do not determine the level of the log joint
        level = None if not self._kind(model).values else part.expectation.value + float(drawn.values.mean())
        errors = together(of_mean(drawn.each()), part.standard_errors()) if self.errors else None
        return Gradient(values, False, 0, bound=level, standard_error=errors)


def value_deviation(q: GaussianMixture, kept: MixtureMemory) -> float:
    """The standard deviation of E_q[f] in a step's bound; infinite where there is no process."""
    if kept.process is None or kept.process.given.basis is None:
        return np.inf
    return MixtureGradient(kept.process, kept.known.base.frame, q, kept.relative).value_deviation


def _within(q: GaussianMixture, n: int, rng: np.random.Generator) -> np.ndarray:
    """n points of q, (n, D): antithetic-orthogonal in each component, with the components in turn."""
    k = q.n_components
    each = [normal_frames(-(-n // k), q.dimension, rng) for _ in range(k)]
    points = np.asarray(q.strata(np.stack(each, 1))).reshape(-1, q.dimension)
    return points[:n]


def _fresh(model: LogJointModel, q: GaussianMixture) -> MixtureMemory:
    """An empty memory before a round at q."""
    q_before = tuple(np.asarray(u, dtype=float) for u in q.unconstrained)
    return MixtureMemory(Memory.empty(q.dimension, differentiable(model)), q_before)


def _before(q: GaussianMixture, kept: MixtureMemory) -> GaussianMixture:
    """q at the last round."""
    return kept.before or q.from_unconstrained(kept.q_before)


def _moved(q: GaussianMixture, before: GaussianMixture) -> float:
    """A bound of KL(q || before), components matched; nats."""
    gap: Any = q.components
    weights = np.asarray(q.weights)
    found = weights @ (np.asarray(q.log_weights - before.log_weights) + gap.kl(before.components))
    return float(found)


def _require_mixture(model: LogJointModel, q: Distribution) -> None:
    require_still(model)
    if not isinstance(q, GaussianMixture):
        raise TypeError(
            f"q is a {type(q).__name__}; MixtureQuadrature takes a GaussianMixture (start_from), and "
            "BayesianQuadrature one Gaussian"
        )
