"""The contract of an exponential family.

A distribution over theta in an exponential family has density (thesis Eq. 4.5)

    p(theta) = h(theta) exp(<eta, t(theta)> - A(eta)),

and variational inference needs two maps between its coordinates:

    natural parameters eta  --grad A-->  mean parameters mu = E[t]       (`expected_statistics`)
    natural parameters eta  <------->    unconstrained parameters u      (`unconstrained`)

two linear maps of gradients at a point, in closed form:

    natural gradient dL/dmu  -->  dL/du          (`gradient_to_unconstrained`, J^T with J = dmu/du)
    dL/du  -->  natural gradient dL/dmu          (`gradient_to_natural`, its inverse)

and a retraction, which stays in the domain for every tangent (`retract`). u are logarithms and Cholesky
factors, so that no step in u leaves the domain.

An instance may hold a batch of distributions: ``log_normaliser``, ``entropy``, ``kl`` and
``log_prob`` then have the batch shape; parameters and statistics have it in front.
"""

from __future__ import annotations

from typing import Any, Protocol, Self, runtime_checkable

from bqvi.arrays import Values, namespace
from gp.arrays import Array
from gp.checks import Seed


class Distribution(Protocol):
    """A distribution over theta that the loop can move: an exponential family, or a mixture of Gaussians."""

    @property
    def leaf_names(self) -> tuple[str, ...]:
        """Name of the factor that owns each array of its coordinates ('' outside a product)."""

    @property
    def unconstrained(self) -> Values:
        """Coordinates u without constraints."""

    def from_unconstrained(self, unconstrained: Values) -> Self:
        """The distribution of the same structure at ``unconstrained``."""

    def log_prob(self, theta: Array) -> Array:
        """Log density of draws theta (L, ...)."""

    def sample(self, n: int, seed: Seed) -> Array:
        """``n`` draws, on a new first axis; a seed is an integer or a generator."""
        return self.rsample(n, seed)

    def rsample(self, n: int, seed: Seed) -> Array:
        """``n`` draws by a seed that carry gradients to torch parameters (reparameterised).

        TypeError where there are none.
        """


class FamilyOrPoint(Distribution, Protocol):
    """The q of a conjugate model: a distribution of an exponential family, or a point mass at its mode."""

    @property
    def natural(self) -> Values:
        """Natural parameters eta; of a point, those of the family whose mode it is."""

    @property
    def expected_statistics(self) -> Values:
        """Mean parameters mu = E[t(theta)]: of a family, the gradient of its log normaliser."""

    @property
    def entropy(self) -> Array:
        """-E[ln p(theta)] in nats; 0 for a point."""

    def from_natural(self, natural: Values) -> Self:
        """The distribution of the same structure with natural parameters ``natural``."""


@runtime_checkable
class ExponentialFamily(FamilyOrPoint, Protocol):
    """A (batch of) distributions of one exponential family; see the module's docstring."""

    @property
    def log_normaliser(self) -> Array:
        """A(eta)."""

    def kl(self, other: Self) -> Array:
        """KL(self || other) in nats."""

    def statistics(self, theta: Array) -> Values:
        """t(theta) of draws (L, ...)."""

    def log_base_measure(self, theta: Array) -> Array:
        """ln h of draws theta (L, ...)."""

    def fisher_product(self, tangent: Values) -> Values:
        """F(eta) d eta = d mu, for a tangent d eta."""

    def fisher_solve(self, cotangent: Values) -> Values:
        """F(eta)^-1 d mu = d eta, for a cotangent d mu."""

    def gradient_to_unconstrained(self, gradient: Values) -> Values:
        """dL/du from the natural gradient dL/dmu."""

    def gradient_to_natural(self, gradient: Values) -> Values:
        """The natural gradient dL/dmu from dL/du."""

    def retract(self, tangent: Values) -> Self:
        """The distribution at eta + d eta to first order, inside the domain for every tangent d eta."""


class AllAtOnePoint(Distribution):
    """All mass at ``mode``, an array: densities are 1 there, and the entropy 0, by convention."""

    @property
    def mode(self) -> Any:
        """Where all mass is."""

    @property
    def mean(self) -> Any:
        """The mode."""
        return self.mode

    @property
    def entropy(self) -> Array:
        """0 by convention: the entropy of a point mass is left out (see `point_mass`)."""
        return namespace(self.mode).zeros_like(self.mode).sum()

    def sample(self, n: int, seed: Seed) -> Array:
        return self.rsample(n, seed) + 0.0

    def rsample(self, n: int, seed: Seed) -> Array:
        """``n`` copies of the mode, (n, ...), which carry gradients to it; the seed is not used."""
        return namespace(self.mode).broadcast_to(self.mode, (n, *self.mode.shape))

    def log_prob(self, theta: Array) -> Array:
        """0 at each of the draws theta (L, ...), by convention."""
        return 0.0 * theta.reshape(theta.shape[0], -1).sum(-1)
