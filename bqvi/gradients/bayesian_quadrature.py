"""Bayesian quadrature of the ELBO's gradient, with memory (thesis Section 7.3.2).

A Gaussian process on the gradients of the log joint (`gradient_process`), or on the log joint as one
function (`surrogates`), is integrated against q in closed form. Its prior mean is the estimate of
sticking-the-landing: the gradient estimate is exactly zero where q is the posterior. The log joint stays
the same while q moves, so the process is conditioned on evaluations of earlier steps too, in the units of the
current q. A round is

    whiten the memory -> hyperparameters, if due -> nodes, given the process -> evaluate -> integrate

and takes one Cholesky factorisation for the points in use.

With ``memory=0`` the estimator uses the evaluations of its own step only, which may be of a mini-batch. The
geometry uses the gradient for a step (`Riemannian`, `Euclidean`), or the surrogate for its optimum in a KL
ball (`TrustRegion`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, cast

import numpy as np

from bqvi.arguments import AtLeast, Checked, Such
from bqvi.arrays import Values
from bqvi.calls import Account, EvaluationError, Evaluations
from bqvi.families.family import Distribution
from bqvi.gradients.designs import Informed, LogisticFeasibility, MomentVarianceReduction, NodeRule
from bqvi.gradients.evaluations import differentiable, evaluate
from bqvi.gradients.gradient import Batch, Gradient
from bqvi.gradients.memory import Memory, ProcessCache
from bqvi.gradients.settings import DESIGN
from bqvi.gradients.standard_errors import of_gradient, over_batches, standard_errors, with_sampling
from bqvi.gradients.surrogates import Kind, OnFunction, OnGradients, Process
from bqvi.gradients.whitened import WhitenedFrame
from bqvi.models.contracts import ConjugateModel
from bqvi.models.log_joint import LogJointModel, is_moving
from gp.arrays import to_numpy
from gp.checks import require_one_of

_NEED_GRADIENTS = ("separable", "derivative", "joint")
_DESIGN = Such(
    lambda given: isinstance(given, NodeRule) and not isinstance(given, type),
    "one of bqvi.gradients.designs, such as Sobol()",
)


def _require_process(name: str, process: object) -> None:
    if isinstance(process, type) or not isinstance(process, Kind):
        require_one_of(name, cast(str, process), ("auto", *_NEED_GRADIENTS))


@dataclass(frozen=True)
class BayesianQuadrature(Checked):
    """The natural gradient for a Gaussian q, from a process on gradients, or values, of the log joint.

    Parameters
    ----------
    nodes : n >= 1, new evaluations in each step
    design : a `NodeRule`, which chooses the nodes
    memory : the most evaluations on which the process is conditioned; with 0 only those of the step. After
        500 evaluations of three log joints in D = 10, 500 leaves gaps 3 to 15 times smaller than 200, in 1.2
        times the time
    initial_nodes : evaluations of the first step; by default min(2 D, 10), or ``nodes`` if more
    process : of a log joint with gradients, 'separable' (D outputs share a kernel, O(m^3)), 'derivative' (the
        gradient of one function, O((m D)^3)), 'joint' (its values too, O((m (D + 1))^3)), or 'auto': joint
        while its Cholesky factor takes no longer than the step's evaluations (``seconds``), derivative
        without memory while n D <= 400, else separable; or a `surrogates.Kind` with settings of its own
    errors : whether to return the gradient's posterior covariance and standard errors: O(D^4 m) a step; of a
        mini-batch standard errors alone, with those of the choice of data, or None where they are not known
    seconds : the time of an evaluation, for 'auto'. It is stated and not measured, so that the result depends
        on the seed only
    """

    nodes: Annotated[int, AtLeast(1)] = 2
    design: Annotated[NodeRule, _DESIGN] = field(default_factory=MomentVarianceReduction)
    memory: Annotated[int, AtLeast(0)] = 500
    initial_nodes: Annotated[int | None, AtLeast(1)] = None
    process: Annotated[str | Kind, _require_process] = "auto"
    seconds: Annotated[float, AtLeast(0.0)] = 0.0
    errors: bool = False

    per_datum = True
    """Gradients are available for each datum."""

    @property
    def samples(self) -> int:
        return self.nodes

    def start(self, model: LogJointModel, q: Distribution) -> Memory | None:
        self._require_suited(model)
        dimension = len(WhitenedFrame.of(q).mean)
        return Memory.empty(dimension, differentiable(model)) if self.memory else None

    def __call__(
        self,
        model: LogJointModel,
        q: Distribution,
        batch: Batch,
        rng: np.random.Generator,
        memory: Memory | None = None,
    ) -> Gradient:
        """The natural gradient at q, given the memory of earlier steps.

        Raises
        ------
        EvaluationError
            The log joint has had no finite value for several rounds, or at no node where there is no memory;
            or it is constant.
        ValueError
            The process needs gradients and the log joint has none, or the design returns other than n nodes.
        """
        frame = WhitenedFrame.of(q)
        if memory is None:
            self._require_suited(model)
        kept = Memory.empty(len(frame.mean), differentiable(model)) if memory is None else memory
        kept = _revalued(model, q, batch, kept)
        kept.require_signal()
        found = batch.account.given
        n = self.nodes if memory is None or found is not None else self.count(len(frame.mean), kept)
        cache, before, kept = self._process(model, frame, kept, n)
        if found is None:
            nodes = self._nodes(n, len(frame.mean), rng, _informed(frame, before, kept))
            found = evaluate(model, q, batch, frame.points(nodes), first=not len(kept))
        if memory is None:
            _require_one(found)
        process, kept = cache.after(frame, before, found, kept)
        if batch.combination is None and _beyond(frame, found, kept):
            process = None
        gradient = _gradient(frame, process, found, kept if memory is not None else None)
        if batch.weights is not None and process is not None and (self.errors or batch.combination):
            return self._of_rows(model, frame, process, batch, gradient)
        return _with_errors(frame, process, gradient) if self.errors and batch.weights is None else gradient

    def _of_rows(
        self, model: LogJointModel, frame: WhitenedFrame, process: Process, batch: Batch, gradient: Gradient
    ) -> Gradient:
        """The ``gradient`` with the rows' own, by the rule of the process: summed by a strategy, for errors.

        The rule is linear in the evaluations. Those of the rows one by one count as evaluations again.
        """
        from bqvi.gradients.black_box import TorchPosterior, by_strategy, cost, reference_tensor, spending

        nodes = process.given.points
        theta = reference_tensor(model, batch.rows).new_tensor(frame.points(nodes)).requires_grad_()
        with spending(model, batch, theta):
            terms = model.log_likelihood_terms(theta, batch.rows)
        (slopes,) = TorchPosterior(None, (theta,)).each(terms.sum(0))
        kind, values = self._kind(model, len(frame.mean), len(nodes)), to_numpy(terms.detach()).T
        rows = np.array(
            [kind.targets(frame, np.zeros_like(nodes), *row) for row in zip(values, slopes, strict=True)]
        )
        parts = (frame.natural_gradient(process.by_rule(targets)) for targets in rows)
        each = tuple(np.stack(part) for part in zip(*parts, strict=True))
        gradient = replace(gradient, n_evaluations=gradient.n_evaluations + cost(model, batch, len(nodes)))
        if batch.combination is not None:
            return replace(gradient, values=by_strategy(gradient.values, each, batch))
        errors = cast(Values, _with_errors(frame, process, gradient).standard_error)
        if batch.corrections is not None and batch.size > 1:
            errors = tuple(np.sqrt(_of_all(process, rows, batch)) * error for error in errors)
        return replace(gradient, standard_error=with_sampling(errors, lambda _: each, 2, batch))

    def asked(
        self,
        model: LogJointModel,
        q: Distribution,
        n: int,
        rng: np.random.Generator,
        memory: Memory,
        waiting: np.ndarray,
    ) -> tuple[np.ndarray, Memory]:
        """n further points theta (n, D), and the memory with the process by which they were chosen.

        Parameters
        ----------
        model : a log joint that does not change with q. q, rng, memory : as of a call.
        waiting : points theta (k, D) under evaluation.
        """
        frame = WhitenedFrame.of(q)
        known = None
        if len(memory):
            _, known, memory = self._process(model, frame, memory, self.nodes)
        nodes = self._nodes(n, len(frame.mean), rng, _informed(frame, known, memory, waiting))
        return frame.points(nodes), memory

    def _process(
        self, model: LogJointModel, frame: WhitenedFrame, kept: Memory, n: int
    ) -> tuple[ProcessCache, Process | None, Memory]:
        """The process given the memory before ``n`` evaluations, with its cache and the memory."""
        kind: Kind = self._kind(model, len(frame.mean), len(kept) + n)
        if len(kept) and kind != self._kind(model, len(frame.mean), len(kept)):
            # the other process has other hyperparameters, so they are fitted anew
            kept = replace(kept, fitted_at=0)
        cache = ProcessCache(kind, self.memory)
        return cache, *cache.before(frame, kept)

    def _require_suited(self, model: LogJointModel) -> None:
        if isinstance(model, ConjugateModel):
            raise ValueError(
                f"model is a {type(model).__name__} whose log joint contains the E step and changes with q: "
                "evaluations cannot be kept; give the log joint over R^D: as a LogJoint with z summed out, "
                "or with the E step inside, as a models.log_joint.MovingLogJoint"
            )
        own = isinstance(self.process, OnGradients) or getattr(self.process, "gradients", False)
        gradients = self.process in _NEED_GRADIENTS or own
        if gradients and not differentiable(model):
            raise ValueError(
                f"process is {self.process!r}, which is of gradients, but the log joint has values only; use "
                "'auto', or give it a gradient"
            )

    def _nodes(self, n: int, dimension: int, rng: np.random.Generator, before: Informed | None) -> np.ndarray:
        nodes = self.design.nodes(n, dimension, rng, before)
        if np.shape(nodes) != (n, dimension):
            raise ValueError(
                f"design {self.design!r} gave nodes of shape {np.shape(nodes)}; it must be {(n, dimension)}"
            )
        return nodes

    def _kind(self, model: LogJointModel, dimension: int, points: int) -> Kind:
        """The kind of process for this number of points, those of the step included."""
        if not isinstance(self.process, str):
            return self.process
        if not differentiable(model):
            return OnFunction(gradients=False)
        points = min(points, self.memory + self.nodes)
        factor = (points * (1 + dimension)) ** 3 / (3.0 * 5e9)
        if self.process == "joint" or (self.process == "auto" and factor < self.seconds * self.nodes):
            return OnFunction()
        affordable = self.memory == 0 and self.nodes * dimension <= DESIGN.affordable
        if self.process == "derivative" or (self.process == "auto" and affordable):
            return OnFunction(values=False)
        return OnGradients()

    def count(self, dimension: int, kept: Memory) -> int:
        """Evaluations of the next step, given the memory ``kept``; D is ``dimension``."""
        if len(kept):
            return self.nodes
        each, most = DESIGN.first
        return self.initial_nodes or max(self.nodes, min(each * dimension, most))


def _informed(
    frame: WhitenedFrame, process: Process | None, kept: Memory, waiting: np.ndarray | None = None
) -> Informed | None:
    """The process with points under evaluation and the model of failed ones, in the units of q."""
    if process is None:
        return None
    feasible = LogisticFeasibility.near(frame, kept) if len(kept.censored.failed) else None
    return Informed(process, None if waiting is None else frame.whiten(waiting), feasible)


def _beyond(frame: WhitenedFrame, found: Evaluations, kept: Memory) -> bool:
    """Whether the mean of q lies where evaluations fail, so that a step would be extrapolation."""
    new = int(found.good.sum())
    fell = int(kept.below[len(kept) - new :].sum())
    if new - fell == len(found):
        return False
    if new == fell:
        return True
    at_mean = LogisticFeasibility.near(frame, kept)(np.zeros((1, len(frame.mean))))
    return float(at_mean[0]) < 0.5


def _revalued(model: LogJointModel, q: Distribution, batch: Batch, kept: Memory) -> Memory:
    """The memory with new values at its points, for a log joint that depends on q.

    Such a log joint is cheap once its local step is made, so these do not count as evaluations.
    """
    if not is_moving(model) or not len(kept):
        return kept
    found = evaluate(model, q, replace(batch, account=Account()), kept.points)
    good = found[found.good]
    slopes = kept.gradients[: len(good)] if good.gradients is None else good.gradients
    exact = np.zeros((len(good), 1 + slopes.shape[1]))
    anew = replace(kept, points=good.points, values=good.values, gradients=slopes)
    anew = replace(anew, noise_variances=exact, by_products=())
    return anew.without_process()


def _gradient(
    frame: WhitenedFrame, process: Process | None, found: Evaluations, memory: Memory | None
) -> Gradient:
    if process is None:  # no evaluation has succeeded yet: q stays, and the next step draws again
        d = len(frame.mean)
        nothing = (np.zeros(d), np.zeros(d if frame.diagonal else (d, d)))
        return Gradient(nothing, True, found.n_evaluations, len(found), memory=memory)
    return Gradient(
        frame.natural_gradient(process.at_q),
        natural=True,
        n_evaluations=found.n_evaluations,
        samples=len(found),
        memory=memory,
        surrogate=process,
    )


def _with_errors(frame: WhitenedFrame, process: Process | None, gradient: Gradient) -> Gradient:
    unknown = np.diag(np.full(sum(v.size for v in gradient.values), np.inf))  # of no evaluation
    covariance = unknown if process is None else of_gradient(frame, process.covariance())
    errors = standard_errors(covariance, gradient.values)
    return replace(gradient, covariance=covariance, standard_error=errors)


def _of_all(process: Process, rows: np.ndarray, batch: Batch) -> float:
    """The share of Y^T P Y that is not due to the choice of the rows, whose targets are (S, m, B)."""
    given = process.given
    columns = np.moveaxis(rows.reshape(len(rows), len(given.whitening), -1), 0, 1)
    projected = given.evidence.projected(columns.reshape(len(columns), -1)).reshape(columns.shape)
    chosen = over_batches(rows, np.moveaxis(projected, 1, 0), batch).sum()
    return max(0.0, 1.0 - float(chosen) / (given.scale * given.evidence.residual.size))


def _require_one(found: Evaluations) -> None:
    """Raise EvaluationError unless one evaluation has succeeded."""
    if not found.good.any():
        raise EvaluationError(
            f"the log joint had no finite value and gradient at any of {len(found)} nodes: it "
            f"{'; '.join(dict.fromkeys(found.reasons))}. Nothing is kept between steps (memory=0), so there "
            "is no estimate. Start q where the log joint is finite, or guard it"
        )
