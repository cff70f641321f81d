"""Point masses (Dirac deltas) as q, and the flat prior beside which they are maximum likelihood.

A conjugate update is a function of E_q[t(theta)] only. With a point mass at the mode of the family to which
the update belongs, E[t] = t(mode): the local step is the E step, and the mode of eta* the M step, so that
`cavi` is MAP-EM (soft k-means for the mixture with known covariance) and `sngd` the online EM of Cappe and
Moulines (2009). The entropy of a point mass is -infinity at every point and is left out: the ELBO is then
ln p(X, theta), with z summed out.

The natural parameters of the flat prior are those at which a family's density is constant: 1 for a
Dirichlet's concentrations and a gamma's shape (densities are in pi and in the rate), 0 for all others.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np

from bqvi.arrays import Values, namespace
from bqvi.families.dirichlet import Dirichlet
from bqvi.families.family import AllAtOnePoint
from bqvi.families.gamma import Gamma
from bqvi.families.gaussian import Gaussian
from gp.arrays import Array, to_numpy
from gp.checks import require_finite


class Flat:
    """Density 1 on the points of ``family``.

    Parameters
    ----------
    family : a distribution (or batch) with points of the same structure; its parameters are not used
    """

    def __init__(self, family: Any) -> None:
        self.family = family

    @property
    def leaf_names(self) -> tuple[str, ...]:
        """Name of the factor that owns each array of ``natural``, as of the family."""
        return tuple(self.family.leaf_names)

    @property
    def natural(self) -> Values:
        """Natural parameters of the flat density."""
        zeros = tuple(np.zeros_like(eta) for eta in self.family.natural)
        if isinstance(self.family, Dirichlet | Gamma):
            return (np.where(self.family.natural[0] == 0.0, 0.0, 1.0), *zeros[1:])
        return zeros

    def from_natural(self, natural: Values) -> Any:
        """The distribution of the family at ``natural``, such as the posterior under the flat prior."""
        return self.family.from_natural(natural)

    def log_prob(self, theta: Array) -> Array:
        """0 at the points (L, ...), batch-shaped."""
        return np.zeros(len(theta))


class Point(AllAtOnePoint):
    """All mass at ``place``.

    Parameters
    ----------
    place : array of any shape, finite: where all mass is
    """

    leaf_names = ("",)

    def __init__(self, place: Array) -> None:
        require_finite("place", place)
        self.place = place

    @property
    def mode(self) -> Array:
        """The place."""
        return self.place

    @property
    def unconstrained(self) -> Values:
        """u = the place."""
        return (self.place,)

    def from_unconstrained(self, unconstrained: Values) -> Self:
        found = object.__new__(type(self))
        found.place = unconstrained[0]
        return found

    def gradient_to_unconstrained(self, gradient: Values) -> Values:
        """The gradient itself, as u is the place."""
        return gradient


class PointMass(AllAtOnePoint):
    """All mass at the mode of ``family``, a distribution or a batch of distributions.

    Raises
    ------
    ValueError
        The family has no mode inside its support (a Dirichlet with some alpha_k < 1).
    """

    def __init__(self, family: Any) -> None:
        concentration = getattr(family, "concentration", None)
        positive = np.ones(1) if concentration is None else to_numpy(concentration)
        positive = positive[positive > 0.0]
        if positive.min() < 1.0:
            raise ValueError(
                f"a point mass needs Dirichlet concentrations of at least 1, or 0 (smallest given: "
                f"{positive.min():.3g}): below 1 the density has no mode inside"
            )
        self.family = family

    @property
    def leaf_names(self) -> tuple[str, ...]:
        return tuple(self.family.leaf_names)

    @property
    def natural(self) -> Values:
        return tuple(self.family.natural)

    def from_natural(self, natural: Values) -> PointMass:
        other = object.__new__(PointMass)
        other.family = self.family.from_natural(natural)
        return other

    @cached_property
    def mode(self) -> Any:
        """The mode of the family, where all mass is."""
        return self.family.mode

    @property
    def mean(self) -> Any:
        """E[theta]: the mode; of a Dirichlet probabilities, of a gamma rates, whose points are logs."""
        if getattr(self.family, "logarithmic_points", False):
            return namespace(self.mode).exp(self.mode)
        return self.mode

    @cached_property
    def expected_statistics(self) -> Values:
        """E[t] = t(mode)."""
        return tuple(t[0] for t in self.family.statistics(self.mode[None]))

    @property
    def covariance(self) -> Array:
        """The covariance of a point mass, which is zero, (..., D, D)."""
        return np.zeros((*self.mode.shape, self.mode.shape[-1]))

    def kl(self, other: Any) -> Array:
        """-ln p(mode) for the density p of ``other``: the divergence without the entropy of q."""
        prior = other.family if isinstance(other, PointMass) else other
        return -prior.log_prob(self.mode[None])[0]

    @property
    def unconstrained(self) -> Values:
        """u = (m, 0): the mode m of a Gaussian family; the second coordinate stays 0."""
        mean, raw = self._gaussian().unconstrained
        return mean, 0.0 * raw

    def from_unconstrained(self, unconstrained: Values) -> PointMass:
        return PointMass(self._gaussian().from_unconstrained(unconstrained))

    def gradient_to_unconstrained(self, gradient: Values) -> Values:
        """d ln p(X, m)/dm = g + 2 G m from the natural gradient; 0 for the second coordinate."""
        mean_gradient, raw = self._gaussian().gradient_to_unconstrained(gradient)
        return mean_gradient, 0.0 * raw

    def _gaussian(self) -> Gaussian:
        if not isinstance(self.family, Gaussian):
            raise TypeError(
                f"a point mass on a {type(self.family).__name__} has no Euclidean coordinates here; "
                "use method 'cavi', 'ngd' or 'sngd' for point estimates"
            )
        return self.family
