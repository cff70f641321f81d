"""The Gaussian process of a quadrature on its integrand, for integrals against other measures.

The surrogate of a quadrature also integrates f against other measures, and differentiates the integral in the
parameters of its own measure. As a function of x it is

    f(x) = centre + unit g(A (x - shift)),      g the surrogate in its chart, A = R^T L^-1,

so the measure is pushed forward by an affine map, and gradients are pulled back through it. Charts that
are not linear do not map Gaussians to measures with an embedding; the best linear candidate is therefore used
alone, with its hyperparameters at their optimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.quadrature.surrogate import CandidateProcess
from gp.arrays import Array, as_like, is_torch, to_numpy
from gp.expectation import Expectation, expectation
from gp.integrals import Integral
from gp.measures import Empirical, Gaussian, GaussianMixture, Measure, Uniform
from gp.measures.pushed import pushed
from gp.observations import Gradients, Values
from gp.posterior import Posterior
from gp.process import GaussianProcess


@dataclass(frozen=True, eq=False)
class IntegrandProcess:
    """A surrogate of f in the user's coordinates.

    Attributes
    ----------
    surrogate : a candidate with a linear chart. shift : (D,). linear : A, (D, D).
    centre, unit : (o,), centre and unit of the values.
    """

    surrogate: CandidateProcess
    shift: Array
    linear: Array
    centre: Array
    unit: Array

    def expectation(self, measure: Measure, output: int = 0) -> Expectation:
        """Return the integral of an output against a measure on the same space, with gradients.

        Raises
        ------
        gp.embeddings.UnknownPairError, TypeError
            where the measure has no embedding in the chart of the surrogate.
        """
        v = pushed(measure, self.shift, self.linear)
        found = expectation(self.surrogate.posterior(output), v)
        unit, centre = float(self.unit[output]), float(self.centre[output])
        gradient = self._pulled_back(measure, found.gradient, unit, centre)

        def uncertainty() -> tuple[Array, Array]:
            slope = self._pulled_back(measure, found.variance_gradient, unit**2, 0.0)
            return unit**2 * found.variance, slope

        return Expectation(centre + unit * found.mean, gradient, uncertainty)

    def integral(self, measure: Measure, output: int = 0) -> Integral:
        """Return the integral as ``gp.Integral``; differentiable where the measure holds tensors."""
        v = pushed(measure, self.shift, self.linear)
        posterior = self.surrogate.posterior(output)
        like = measure.parameters()[0]
        found = (_torch(posterior, like) if is_torch(like) else posterior).integral(v)
        unit, centre = float(self.unit[output]), float(self.centre[output])
        return Integral(centre + unit * found.mean, unit**2 * found.variance)

    def mean(self, x: Array, output: int = 0) -> Array:
        """Return the mean of f at points x (n, D), (n,)."""
        v = (np.asarray(to_numpy(x), dtype=float) - self.shift) @ self.linear.T
        return self.centre[output] + self.unit[output] * self.surrogate.posterior(output).mean(v)

    def _pulled_back(self, measure: Measure, gradient: Array, unit: float, centre: float) -> Array:
        """Gradients in the parameters of v's measure as those in the parameters of x's."""
        a = self.linear
        parts = [unit * to_numpy(part) for part in gradient]
        if isinstance(measure, Gaussian):
            parts = [parts[0] @ a, a.T @ parts[1] @ a]
        elif isinstance(measure, GaussianMixture):
            parts = [centre + parts[0], parts[1] @ a, a.T @ parts[2] @ a]
        elif isinstance(measure, Empirical):
            parts = [parts[0] @ a, centre + parts[1]]
        else:
            assert isinstance(measure, Uniform)  # only uniform measures are pushed forward
            parts = [part * np.diag(a) for part in parts]
        return type(gradient)._make(parts)


def _torch(posterior: Posterior, like: Array) -> Posterior:
    """The posterior with tensors in place of NumPy arrays."""
    blocks = [
        Values(as_like(block.x, like)) if isinstance(block, Values) else Gradients(as_like(block.x, like))
        for block in posterior.observations.blocks
    ]
    process = GaussianProcess(posterior.kernel, posterior.mean_function)
    noise = posterior.noise if isinstance(posterior.noise, float) else as_like(posterior.noise, like)
    sizes = np.cumsum([len(block) for block in blocks])[:-1]
    parts = [as_like(part, like) for part in np.split(posterior.y, sizes)]
    return process.condition(blocks, parts, noise)
