"""Mixtures of Gaussians with known or unknown covariances, of K components or of a Dirichlet process.

    theta_k ~ its prior,   z_n ~ Cat(pi),   x_n | z_n = k ~ N(mu_k, Sigma_k)

With one known covariance (thesis Section 3) theta_k is mu_k, of `known_covariance`; else it is (mu_k,
Sigma_k), of `gaussian_components`. The weights are pi ~ Dir(alpha_0), or `mixing.Sticks` (Blei and Jordan
2006; "Raise your ELBO"), for any components.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bqvi.families import Gamma, Product
from bqvi.models.component_mixture import Mixture
from bqvi.models.components import Components
from bqvi.models.covariances import COVARIANCES
from bqvi.models.known_covariance import KnownCovariance
from bqvi.models.mixing import DirichletWeights, Sticks
from bqvi.models.normal_components import GaussianComponents
from gp.checks import require_one_of


def gaussian_components(
    covariance: str | np.ndarray = "full", **prior: Any
) -> KnownCovariance | GaussianComponents:
    """Components by the name of their covariance's shape, or with a known covariance (D, D).

    ``prior`` : prior_mean and prior_covariance, for a known covariance; prior_mean, prior_strength,
    prior_scale, prior_dof or flat, for an unknown one. What is not given has `KnownCovariance`'s defaults, or
    is taken from the data; see `GaussianMixture`.
    """
    given = {name: value for name, value in prior.items() if value is not None and value is not False}
    known = not isinstance(covariance, str)
    allowed = ("prior_mean", "prior_covariance") if known else _UNKNOWN
    for name in given:
        if name not in allowed:
            raise ValueError(
                f"{name} was given with {'a known' if known else 'an unknown'} covariance, whose prior has "
                f"{', '.join(allowed)}"
            )
    if not isinstance(covariance, str):
        return KnownCovariance(covariance, **given)
    require_one_of("covariance", covariance, COVARIANCES)
    if given.get("flat") and len(given) > 1:
        raise ValueError(f"flat is True, and so has no {', '.join(n for n in given if n != 'flat')}")
    settings = {name.removeprefix("prior_"): value for name, value in given.items()}
    return GaussianComponents(COVARIANCES[covariance], **settings)


_UNKNOWN = ("prior_mean", "prior_strength", "prior_scale", "prior_dof", "flat")


class GaussianMixture(Mixture):
    """Mixture of Gaussians; data (N, D).

    Parameters
    ----------
    n_components : K >= 1
    covariance : (D, D), known and shared by all components; or, of unknown ones, 'full' (a matrix for each
        component), 'diagonal', 'spherical' (one variance for each component) or 'tied' (one matrix for all)
    concentration : alpha_0 > 0, a number or (K,); default 1 / K, which empties superfluous components
    prior_mean : (D,), m_0; default 0 for a known covariance, else the data's mean
    prior_covariance : (D, D), C_0, for a known covariance only; default 100 times ``covariance``
    prior_strength : kappa_0 > 0, for an unknown covariance: mu_k ~ N(m_0, Sigma_k / kappa_0); default 0.01
    prior_scale : of the unknown covariances: (D, D) for 'full' and 'tied', Sigma_k ~ IW(scale, dof); (D,) for
        'diagonal' and a number for 'spherical', each variance ~ InverseGamma(dof / 2, scale / 2). Default a
        tenth of the variances of the data's columns
    prior_dof : of the same; default D + 2 for matrices and 3 for variances, with which prior_scale is their
        mean
    flat : True for a flat prior of unknown covariances, and of the weights: with family='point', maximum
        likelihood by EM
    """

    def __init__(
        self,
        n_components: int,
        covariance: str | np.ndarray,
        *,
        concentration: float | np.ndarray | None = None,
        prior_mean: np.ndarray | None = None,
        prior_covariance: np.ndarray | None = None,
        prior_strength: float | None = None,
        prior_scale: np.ndarray | float | None = None,
        prior_dof: float | None = None,
        flat: bool = False,
    ) -> None:
        mixing = DirichletWeights(n_components, concentration)
        components = gaussian_components(
            covariance,
            prior_mean=prior_mean,
            prior_covariance=prior_covariance,
            prior_strength=prior_strength,
            prior_scale=prior_scale,
            prior_dof=prior_dof,
            flat=flat,
        )
        super().__init__(mixing, components)
        self.concentration = mixing.concentration
        if isinstance(components, KnownCovariance):
            self.covariance, self.precision = components.covariance, components.precision
            self.prior_mean, self.prior_covariance = components.prior_mean, components.prior_covariance

    @property
    def dimension(self) -> int:
        """D; of unknown covariances, when the prior is settled."""
        return len(self.components.centre)


def component_estimates(model: Mixture, q: Product) -> tuple[np.ndarray, np.ndarray]:
    """Means (K, D) and covariances (K, D, D) of the Gaussian components of ``model`` under q.

    Of an unknown covariance what is returned is E[Sigma_k^-1]^-1; of a point mass, the point.
    """
    components = model.components
    factor = q[components.name]
    if isinstance(components, KnownCovariance):
        means = np.asarray(factor.mean)
        return means, np.broadcast_to(components.covariance, (len(means), *components.covariance.shape))
    if not isinstance(components, GaussianComponents):
        raise TypeError(f"the components are {type(components).__name__}, not Gaussian")
    return components.each(factor)


class DirichletProcessMixture(Mixture):
    """A mixture of which the number of occupied components is inferred.

    Parameters
    ----------
    components : any components; or a known covariance (D, D), or the name of an unknown one's shape, for
        Gaussians with the default priors of `GaussianMixture`
    truncation : T, the largest number of components in q
    concentration : alpha, a number; or the (shape, rate) of a gamma prior, to learn it
    discount : d in [0, 1), for Pitman and Yor's process; above 0 only with a fixed concentration
    tail : 'truncated' (the last component has all remaining weight) or 'tied' (beyond T, q is the prior)
    """

    def __init__(
        self,
        components: Components | str | np.ndarray,
        truncation: int = 20,
        *,
        concentration: float | tuple[float, float] = (1.0, 1.0),
        discount: float = 0.0,
        tail: str = "truncated",
    ) -> None:
        if isinstance(components, str | np.ndarray):
            components = gaussian_components(components)
        super().__init__(Sticks(truncation, concentration, discount, tail), components)

    def concentration(self, q: Product) -> Gamma:
        """The posterior of alpha, where it is learnt."""
        mixing = self.mixing
        if not isinstance(mixing, Sticks):
            raise TypeError(f"the weights are {type(mixing).__name__}, not Sticks")
        return mixing.concentration_given(q["sticks"])
