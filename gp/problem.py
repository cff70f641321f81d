"""The evidence of observations as a function of a model's parameters: kernel and noise.

y ~ N(o + H b, s K) with basis functions H (n, p) of the mean, offset o, covariance K = k(x, x) + noise, and
overall scale s. The scale and b are profiled (`gp.evidence`), and the search is over the vector of the other
parameters. The scale is fixed to 1 where the noise is known, since it would scale the noise as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import log
from typing import Any, TypeAlias

import numpy as np

from gp.evidence import LogPosterior
from gp.fixed_points import gram_of
from gp.grams import blocks_of, mean_basis, taken
from gp.kernels.base import Kernel, Pullback
from gp.kernels.parameters import pack, unpack
from gp.linalg import cholesky
from gp.means import Mean
from gp.observations import Functional, Values, as_functional, covariance
from gp.priors import JointPrior
from gp.settings import FIT

_Noise: TypeAlias = np.ndarray | float | None
"""Known variances, or ``None`` where a common one is learnt."""
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
        basis = mean_basis(self.mean, observed)
        offset = observed.apply(self.mean.with_coefficients(np.zeros(basis.shape[1])))

        def with_pullback(vector: np.ndarray) -> tuple[np.ndarray, Pullback]:
            matrix, pullback = gram(unpack(self.kernel, vector))
            return matrix, lambda weights: pullback(weights)  # not `Changes`: the search is by L-BFGS

        noise = 1.0 if self.noise is None else self.noise
        return LogPosterior(
            with_pullback,
            noise if isinstance(noise, np.ndarray) and noise.ndim else noise * self.noisy,
            (self.y - offset)[:, None],
            JointPrior.flat(len(self.pack())),
            basis=basis,
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
