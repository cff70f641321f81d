"""A prior mean of a user's own: m(x) = maximum - sum_d (x_d - location_d)^2 / (2 scale_d^2)."""

from dataclasses import dataclass, replace
from typing import Any

from gp.arrays import as_like, namespace


@dataclass(frozen=True, eq=False)
class NegativeQuadratic:
    maximum: Any = 0.0
    location: Any = 0.0
    scale: Any = 1.0

    def _standardised(self, x):
        return (x - as_like(self.location, x)) / as_like(self.scale, x)

    def __call__(self, x):
        return as_like(self.maximum, x) - 0.5 * namespace(x).sum(self._standardised(x) ** 2, axis=1)

    def gradient(self, x):
        return -self._standardised(x) / as_like(self.scale, x)

    def basis(self, x):
        return namespace(x).ones_like(x[:, :1])

    def with_coefficients(self, coefficients):
        return replace(self, maximum=coefficients[0])

    def expectation(self, location, covariance):
        xp = namespace(location, covariance)
        spread = xp.linalg.diagonal(covariance) / as_like(self.scale, location) ** 2
        return self(location[None, :])[0] - 0.5 * xp.sum(spread)

    def expectation_gradient(self, location, covariance):
        xp = namespace(location, covariance)
        precision = xp.ones_like(location) / as_like(self.scale, location) ** 2
        eye = xp.eye(location.shape[0], dtype=location.dtype, device=location.device)
        return self.gradient(location[None, :])[0, :], -0.5 * eye * precision
