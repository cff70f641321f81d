"""Product of independent factors, itself an exponential family.

Its natural parameters are those of the factors, concatenated, and its log normaliser is the sum of theirs.
Inference therefore treats q(pi, mu) = q(pi) prod_k q(mu_k) like any other family. A factor that is a batch
is the product over its batch. Points theta are dictionaries with the draws of each factor by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bqvi.arrays import Values
from bqvi.families.family import ExponentialFamily
from gp.arrays import Array
from gp.checks import Seed, generator


class Product:
    """Independent named factors.

    Parameters
    ----------
    factors : name -> distribution (or batch of distributions)
    """

    def __init__(self, factors: Mapping[str, Any]) -> None:
        self.factors: dict[str, Any] = dict(factors)

    def __getitem__(self, name: str) -> Any:
        """The factor ``name``."""
        return self.factors[name]

    @property
    def leaf_names(self) -> tuple[str, ...]:
        return tuple(name for name, q in self.factors.items() for _ in q.leaf_names)

    def _gather(self, of: Callable[[Any], Values]) -> Values:
        return tuple(array for q in self.factors.values() for array in of(q))

    def _split(self, values: Values) -> dict[str, Values]:
        parts, start = {}, 0
        for name, q in self.factors.items():
            stop = start + len(q.leaf_names)
            parts[name], start = values[start:stop], stop
        return parts

    def _map(self, values: Values, of: Callable[[Any, Values], Values]) -> Values:
        parts = self._split(values)
        return tuple(array for name, q in self.factors.items() for array in of(q, parts[name]))

    def _rebuild(self, values: Values, of: Callable[[Any, Values], Any]) -> Product:
        parts = self._split(values)
        return Product({name: of(q, parts[name]) for name, q in self.factors.items()})

    @property
    def natural(self) -> Values:
        return self._gather(lambda q: q.natural)

    @property
    def unconstrained(self) -> Values:
        return self._gather(lambda q: q.unconstrained)

    @property
    def expected_statistics(self) -> Values:
        return self._gather(lambda q: q.expected_statistics)

    def from_natural(self, natural: Values) -> Product:
        return self._rebuild(natural, lambda q, part: q.from_natural(part))

    def from_unconstrained(self, unconstrained: Values) -> Product:
        return self._rebuild(unconstrained, lambda q, part: q.from_unconstrained(part))

    @property
    def log_normaliser(self) -> Array:
        return sum(q.log_normaliser.sum() for q in self.factors.values())

    @property
    def entropy(self) -> Array:
        return sum(q.entropy.sum() for q in self.factors.values())

    @property
    def mean(self) -> dict[str, Array]:
        """E[theta] of each factor (thesis Section 6: E[pi], E[mu])."""
        return {name: q.mean for name, q in self.factors.items()}

    @property
    def mode(self) -> dict[str, Array]:
        """Mode of each factor."""
        return {name: q.mode for name, q in self.factors.items()}

    def kl(self, other: Product) -> Array:
        return sum(q.kl(other.factors[name]).sum() for name, q in self.factors.items())

    def statistics(self, theta: Mapping[str, Array]) -> Values:
        return tuple(t for name, q in self.factors.items() for t in q.statistics(theta[name]))

    def log_base_measure(self, theta: Mapping[str, Array]) -> Array:
        """ln h of draws theta (name -> draws of the factor), summed over factors, (L,)."""
        return sum(_over_batch(q.log_base_measure(theta[name])) for name, q in self.factors.items())

    def log_prob(self, theta: Mapping[str, Array]) -> Array:
        return sum(_over_batch(q.log_prob(theta[name])) for name, q in self.factors.items())

    def sample(self, n: int, seed: Seed) -> dict[str, Array]:
        rng = generator(seed)
        return {name: q.sample(n, rng) for name, q in self.factors.items()}

    def rsample(self, n: int, seed: Seed) -> dict[str, Array]:
        rng = generator(seed)
        return {name: q.rsample(n, rng) for name, q in self.factors.items()}

    def fisher_product(self, tangent: Values) -> Values:
        return self._map(tangent, lambda q, part: q.fisher_product(part))

    def fisher_solve(self, cotangent: Values) -> Values:
        """F^-1 d mu, block by block."""
        return self._map(cotangent, lambda q, part: q.fisher_solve(part))

    def gradient_to_unconstrained(self, gradient: Values) -> Values:
        return self._map(gradient, lambda q, part: q.gradient_to_unconstrained(part))

    def gradient_to_natural(self, gradient: Values) -> Values:
        return self._map(gradient, lambda q, part: q.gradient_to_natural(part))

    def retract(self, tangent: Values) -> Product:
        return self._rebuild(tangent, lambda q, part: q.retract(part))


def _over_batch(log_prob: Array) -> Array:
    """(L, ...) summed to (L,)."""
    return log_prob.reshape(log_prob.shape[0], -1).sum(-1)


_: type[ExponentialFamily] = Product
