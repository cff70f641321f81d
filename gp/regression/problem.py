"""The evidence of observations as a function of a model's parameters: kernel and noise.

y ~ N(o + H b, s K) with basis functions H (n, p) of the mean, offset o, covariance K = k(x, x) + noise, and
overall scale s. The scale and b are profiled (`gp.evidence`), and the search is over the vector of the other
parameters. The scale is fixed to 1 where the noise is known, since it would scale the noise as well.

The search is over psi (P,): for a positive parameter the logarithm of its ratio to its unit, for a location
its distance from the mean of the inputs in units. The unit of a parameter is

    (standard deviation of its input column)^input_power x (that of the targets)^output_power

(for a parameter that several columns share, the geometric mean of theirs).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import log
from typing import Any, TypeAlias

import numpy as np

from gp.arrays import Array, to_numpy
from gp.evidence import LogPosterior
from gp.fixed_points import gram_of
from gp.kernels.base import Kernel, Kind, Parameter, Pullback
from gp.kernels.parameters import pack, unpack
from gp.linalg import cholesky
from gp.means import Mean
from gp.observations import (
    Functional,
    Gradients,
    Values,
    as_functional,
    blocks_of,
    covariance,
    pieces,
    taken,
)
from gp.priors import JointPrior, Priors
from gp.regression.settings import FIT

_Noise: TypeAlias = np.ndarray | float | None
"""Known variances, or ``None`` where a common one is learnt."""
CONSTANT = 1e-12
"""Relative spread below which targets count as equal up to rounding."""
_ONE_PLACE = 1e-15
"""The same for points, which are not computed: some rounding errors."""
_SMALLEST_SCALE = 1e-8
"""The smallest scale, for targets that equal their mean; in variances of the targets."""


@dataclass(frozen=True, eq=False)
class EvidenceProblem:
    """Data and model whose hyperparameters are searched. NumPy only.

    Attributes
    ----------
    x : points (n, D), or n values and gradients. y : (n,)
    kernel, mean : the model; the kernel's parameters are replaced.
    noise : known noise variances, a number (of values; gradients are exact) or (n,); ``None`` if
        that number is learnt.
    profiled : whether the overall scale is found in closed form.
    jitter : the smallest jitter, as a fraction of each variance: a jitter that changes with the parameters
        makes the evidence discontinuous in them.
    """

    x: Any
    y: np.ndarray
    kernel: Kernel
    mean: Mean
    noise: _Noise
    profiled: bool
    jitter: float = 0.0

    def pack(self) -> np.ndarray:
        """Return the vector of the model's own parameters; the logarithm of the noise is last.

        A noise to be learnt has no value yet: `FIT.first_noise` of the kernel's largest variance.
        """
        vector = pack(self.kernel)
        if self.noise is not None:
            return vector
        return np.append(vector, log(FIT.first_noise * np.max(self.kernel.diagonal(self.points))))

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: `objective` has functions that pickle does not take, and is made again."""
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @cached_property
    def observed(self) -> Functional:
        """The observed functionals: values, or blocks of values and gradients."""
        return as_functional(self.x)

    @cached_property
    def objective(self) -> LogPosterior:
        """The evidence as a function of the vector of parameters."""
        gram, observed = gram_of(self.kernel, self.observed), self.observed
        units = np.eye(self.mean.basis(observed.x).shape[1])
        offset = observed.apply(self.mean.with_coefficients(np.zeros(len(units))))
        columns = [observed.apply(self.mean.with_coefficients(unit)) - offset for unit in units]

        def with_pullback(vector: np.ndarray) -> tuple[np.ndarray, Pullback]:
            matrix, pullback = gram(unpack(self.kernel, vector))
            return matrix, lambda weights: pullback(weights)  # not `Changes`: the search is by L-BFGS

        noise = 1.0 if self.noise is None else self.noise
        return LogPosterior(
            with_pullback,
            noise if isinstance(noise, np.ndarray) and noise.ndim else noise * self.noisy,
            (self.y - offset)[:, None],
            JointPrior.flat(len(self.pack())),
            basis=np.array(columns).reshape(len(units), len(offset)).T,
            convention="profiled" if self.profiled else "known",
            noise_fitted=self.noise is None,
            factor=lambda matrix: cholesky(matrix, jitter=self.jitter),
            least_scale=_SMALLEST_SCALE,
            matrix=lambda vector: covariance(unpack(self.kernel, vector), observed, observed),
        )

    @cached_property
    def points(self) -> np.ndarray:
        """The points of all blocks, one after the other."""
        return np.concatenate([block.x for block in blocks_of(self.observed)])

    @cached_property
    def noisy(self) -> np.ndarray:
        """Which observations a common noise is added to, (n,), ones and zeros: the values."""
        return np.concatenate(
            [np.full(len(block), float(isinstance(block, Values))) for block in blocks_of(self.observed)]
        )

    @property
    def exact(self) -> bool:
        """Whether neither the model nor its kernel has noise."""
        white = any(parameter.kind == "noise" for parameter in self.kernel.parameters())
        return self.noise is not None and not np.any(self.noise) and not white

    def smaller(self, size: int, rng: np.random.Generator) -> EvidenceProblem:
        """Return the problem for about ``size`` of the observations: points at random, of each block."""
        n = len(self.y)
        if n <= size:
            return self
        counts = [len(block.x) for block in blocks_of(self.observed)]
        rows = [np.sort(rng.choice(count, -(-size * count // n), replace=False)) for count in counts]
        x, index = taken(self.observed, rows)
        noise = self.noise[index] if isinstance(self.noise, np.ndarray) and self.noise.ndim else self.noise
        return replace(self, x=x, y=self.y[index], noise=noise)


@dataclass(frozen=True, eq=False)
class DataUnits:
    """The units of the data.

    Attributes
    ----------
    centre : (D,), means of the input columns. inputs : (D,), their standard deviations.
    output : standard deviation of the targets. output_varies : whether they differ at all.

    The unit of a column, or of targets, without spread is their size, or 1 if they are zero. Where gradients
    are observed, the targets' spread is the larger of that of the values and that of a function with these
    gradients.
    """

    centre: np.ndarray
    inputs: np.ndarray
    output: float
    output_varies: bool

    @staticmethod
    def of(x: Array | Functional, y: Array) -> DataUnits:
        """Return the units of points (n, D), or values and gradients, and targets (n,), n >= 1."""
        observed, y = as_functional(x), np.asarray(y, dtype=float)
        points = np.concatenate([block.x for block in blocks_of(observed)]).astype(float)
        inputs, _ = _spread(points, _ONE_PLACE)
        values, rises = _sorted_targets(observed, y, inputs)
        output, varies = _spread(values[:, None]) if values.size else (np.ones(1), np.zeros(1))
        size, varying = float(output[0]), bool(varies[0])
        rise = float(np.sqrt(np.mean(rises**2))) if rises.size else 0.0
        if rise > (size if varying else CONSTANT * size):
            size, varying = rise, True
        return DataUnits(points.mean(axis=0), inputs, size, varying)


def _sorted_targets(observed: Functional, y: np.ndarray, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the values among the targets, and the gradients times the spread of their inputs."""
    values, rises = [np.zeros(0)], [np.zeros(0)]
    for block, part in pieces(observed):
        if isinstance(block, Gradients):
            rises.append((y[part].reshape(len(block.x), -1) * block.take(inputs, 0)).reshape(-1))
        else:
            values.append(y[part])
    return np.concatenate(values), np.concatenate(rises)


def _spread(values: np.ndarray, least: float = CONSTANT) -> tuple[np.ndarray, np.ndarray]:
    largest = np.abs(values).max(axis=0)
    size = np.where(largest > 0, largest, 1.0)
    spread = (values / size).std(axis=0)  # divided by their size first, as the squares of 1e200 overflow
    varies = spread > least
    return np.where(varies, spread, 1.0) * size, varies


@dataclass(frozen=True, eq=False)
class SearchCoordinates:
    """The map from psi to the parameters of the model.

    Attributes
    ----------
    names, kinds : names and kinds of the P entries of psi.
    free : (P,), their indices among all entries of the model's vector.
    reference : the index of the variance that stays at its unit, or ``None``. reference_name : its name.
    origin, step : for all entries, vector = origin + step * psi.
    positive : (P,), whether psi is a logarithm.
    scale_powers : (P,), powers of the root of the overall scale in the parameters.
    prior : the prior of psi.
    """

    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    free: np.ndarray
    reference: int | None
    reference_name: str
    origin: np.ndarray
    step: np.ndarray
    positive: np.ndarray
    scale_powers: np.ndarray
    prior: JointPrior

    @staticmethod
    def of(problem: EvidenceProblem, units: DataUnits, priors: Priors) -> SearchCoordinates:
        """Return the coordinates of a problem's free parameters.

        Where the scale is found in closed form, the first variance stays at its unit, and so do
        redundant parameters.
        """
        entries = list(_entries(problem, units))
        variances = [i for i, entry in enumerate(entries) if entry.parameter.output_power == 2]
        first = variances[0] if problem.profiled and variances else None
        reference = None if first is None or entries[first].name == "noise" else first
        fixed = {i for i, entry in enumerate(entries) if entry.redundant} | {reference}
        free = np.array([i for i in range(len(entries)) if i not in fixed], dtype=int)
        return SearchCoordinates(
            names=tuple(entries[i].name for i in free),
            kinds=tuple(entries[i].parameter.kind for i in free),
            free=free,
            reference=reference,
            reference_name="scale" if reference is None else entries[reference].name,
            origin=np.array([entry.origin for entry in entries]),
            step=np.array([entry.step for entry in entries]),
            positive=np.array([entries[i].parameter.positive for i in free], dtype=bool),
            scale_powers=np.array([entries[i].parameter.output_power for i in free]),
            prior=JointPrior.of([priors.of(entries[i].parameter.kind, entries[i].columns) for i in free]),
        )

    def vector(self, psi: np.ndarray) -> np.ndarray:
        """Return the model's vector for psi (P,)."""
        full = np.zeros(len(self.origin))
        full[self.free] = psi
        return self.origin + self.step * full

    def psi(self, vector: np.ndarray) -> np.ndarray:
        """Return psi (P,) for a vector of the model, moved into the bounds of the search.

        Where the first variance stays at its unit, the others keep their ratio to it.
        """
        counted = (vector - self.origin) / self.step
        psi = counted[self.free]
        if self.reference is not None:
            psi = psi - (self.scale_powers == 2) * counted[self.reference]
        return np.clip(psi, self.prior.bounds_lower, self.prior.bounds_upper)

    def pull_back(self, gradient: np.ndarray) -> np.ndarray:
        """Return a gradient in psi for one in the model's vector."""
        return (gradient * self.step)[self.free]

    def values(self, psi: np.ndarray, scale: float) -> np.ndarray:
        """Return the parameters (P,) in the units of the user, for an overall scale of K."""
        natural = self.vector(psi)[self.free]
        positive = np.exp(np.where(self.positive, natural, 0.0)) * scale ** (self.scale_powers / 2)
        return np.where(self.positive, positive, natural)


@dataclass(frozen=True, eq=False)
class _Entry:
    """A number among the parameters, with its unit; ``columns`` share it."""

    name: str
    parameter: Parameter
    redundant: bool
    origin: float
    step: float
    columns: int


def _entries(problem: EvidenceProblem, units: DataUnits) -> Iterator[_Entry]:
    """One entry for each number among the parameters, in the order of the model's vector."""
    noise = [Parameter("noise", 1.0, "noise", output_power=2)] if problem.noise is None else []
    for parameter in (*problem.kernel.parameters(), *noise):
        columns = list(parameter.columns or range(len(units.inputs)))
        shape, most = np.shape(to_numpy(parameter.value)), len(columns)
        size = int(np.prod(shape, dtype=int))
        if shape and size not in (1, most):
            raise ValueError(f"{parameter.name} has {size} entries: give one, or {most} for as many columns")
        if max(columns) >= len(units.inputs):
            raise ValueError(f"the kernel reads column {max(columns)}, x has {len(units.inputs)}, from 0 on")
        for index, group in enumerate([[column] for column in columns] if size > 1 else [columns]):
            spread = float(np.exp(np.mean(np.log(units.inputs[group]))))
            unit = spread**parameter.input_power * units.output**parameter.output_power
            yield _Entry(
                f"{parameter.name}[{index}]" if shape else parameter.name,
                parameter,
                parameter.redundant and index == 0,
                float(np.log(unit) if parameter.positive else np.mean(units.centre[group])),
                1.0 if parameter.positive else unit,
                len(columns),
            )
