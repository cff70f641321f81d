"""The integrand itself as a Gaussian process: its integral is Gaussian (thesis Eq. 7.12)."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from bqvi.quadrature.nodes import by_variance
from bqvi.quadrature.surrogate import CandidateProcess, StandardData

if TYPE_CHECKING:
    from bqvi.quadrature.state import IntegrationProblem, IntegrationState


@dataclass(frozen=True)
class Direct:
    """f ~ GP, after subtraction of its mean and division by its standard deviation over the nodes."""

    def data(
        self, problem: IntegrationProblem, state: IntegrationState, values: np.ndarray, shift: float
    ) -> tuple[StandardData, np.ndarray, np.ndarray]:
        unit, centre = _spread(values, problem.noise_sd is not None), values.mean(axis=0)
        slopes = None
        if state.slopes is not None:
            in_units = state.slopes * np.exp(-shift) / unit
            slopes = np.einsum("ndo,de->neo", in_units, problem.standard.map.scale)
        relative, variance = None, None
        noisy = problem.noise_sd is not None
        # if all values are zero, as of a density that vanishes at the nodes, there is no size to divide the
        # noise by; logarithms, whose shift may have no exponential, have no noise
        if values.any() and (noisy or state.noise_variance is not None):
            relative, variance = _noise(problem, state, float(unit[0]) * float(np.exp(shift)))
        data = StandardData(state.u, (values - centre) / unit, slopes, relative, variance, noisy)
        return data, centre, unit

    def moments(self, member: CandidateProcess) -> tuple[np.ndarray, np.ndarray]:
        mean, unit = member.integral()
        return mean, member.process.inflation * unit * member.process.output_covariance

    def weights(self, member: CandidateProcess) -> np.ndarray:
        return member.process.rules(
            member.process.factor.solve(member.with_integral), float(member.data.centred)
        )

    def variance_of_the_prior(self, member: CandidateProcess) -> np.ndarray:
        """Return zero, (o,): far from nodes the mean tends to that of the data."""
        return np.zeros(member.data.outputs)

    def choose(
        self, member: CandidateProcess, candidates: np.ndarray, count: int, given: int = 0, before: int = 0
    ) -> np.ndarray:
        """Return the candidates that reduce the integral's variance most."""
        return by_variance(member, candidates, count, given)


def _spread(values: np.ndarray, shared: bool) -> np.ndarray:
    """Standard deviations of the outputs, or their sizes where these are 0; one for all if ``shared``."""
    sizes = np.abs(values).max(axis=0)
    spread = values.std(axis=0)
    spread = np.where(spread > 1e-13 * sizes, spread, np.maximum(sizes, 1e-300))
    return np.full_like(spread, spread.max()) if shared else spread


def _noise(
    problem: IntegrationProblem, state: IntegrationState, unit: float
) -> tuple[np.ndarray | None, float | None]:
    """Relative noise variances (n,) or ``None``, and their mean in ``unit``, if it is known.

    Nodes at which f counts as zero because it failed have the smallest of the known variances.
    """
    if state.noise_variance is not None:
        known = np.isfinite(state.noise_variance)
        noise = np.where(known, state.noise_variance, state.noise_variance[known].min())
        mean = float(noise.mean())
        return noise / mean, (sqrt(mean) / unit) ** 2
    sd = problem.noise_sd
    # where noise_sd is a function, the variances are in the state
    if sd is None or isinstance(sd, str) or callable(sd):
        return None, None
    return None, (float(sd) / unit) ** 2
