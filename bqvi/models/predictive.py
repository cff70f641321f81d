"""The posterior predictive density of Gaussian mixtures: a mixture of Student-t densities, not a plug-in.

Under mu, Sigma ~ NIW(m, kappa, Psi, nu), a new x has a t density of nu - D + 1 degrees of freedom (Murphy
2007),

    ln p(x) = ln Gamma((nu + 1) / 2) - ln Gamma((nu + 1 - D) / 2)
              - (D ln(pi (kappa + 1) / kappa) + ln|Psi|) / 2
              - (nu + 1) / 2 ln(1 + kappa / (kappa + 1) (x - m)^T Psi^-1 (x - m));

with one variance for D coordinates, s replaces Psi and nu + D replaces nu + 1. A row with missing values has
the density of its observed columns: their part of Psi, and nu less the number of missing ones.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.special

from bqvi.families import MatrixNormalInverseWishart, PointMass, Product
from bqvi.models.component_mixture import Mixture
from bqvi.models.covariances import Matrix
from bqvi.models.data import Data, patterns
from bqvi.models.mixture import ExpectedLogJoint
from bqvi.models.normal_components import GaussianComponents
from gp.arrays import to_numpy

_LOG_PI = math.log(math.pi)


def log_predictive(model: Mixture, q: Product, data: Data) -> np.ndarray:
    """ln p(x_n | the data that ``q`` was fitted to), (N,), with the weights' means.

    Parameters
    ----------
    model : a mixture with Gaussian components of unknown covariance, and no tied tail
    q : its posterior
    data : (N, D), NaN where missing
    """
    components = model.components
    if not isinstance(components, GaussianComponents):
        raise TypeError(
            f"the components are {type(components).__name__}, not Gaussians of unknown covariance"
        )
    factor = q[components.name]
    with np.errstate(divide="ignore"):
        log_weights = np.log(model.expected_weights(q))
    if isinstance(factor, PointMass):
        expected = components.expectations(factor)
        table = ExpectedLogJoint(components, expected, np.maximum(log_weights, -1e30)).rho(to_numpy(data))
        return np.asarray(scipy.special.logsumexp(table, axis=1) + components.log_base_measure(data))
    density = _of_matrices if isinstance(components.covariance, Matrix) else _of_variances
    y = to_numpy(data).astype(float) - components.centre
    densities = np.empty((len(y), len(log_weights)))
    for index, block, shown in patterns(y):
        densities[index] = density(factor, block[:, shown], shown)
    return np.asarray(scipy.special.logsumexp(densities + log_weights, axis=1))


def _of_matrices(q: MatrixNormalInverseWishart, y: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """(N, K), of a matrix for each component or one for all; ``y`` are the columns ``shown`` (D,)."""
    d = y.shape[1]
    means = np.moveaxis(q.centred_mean, -2, -1).reshape(-1, q.dimension)[:, shown]
    strength = np.diagonal(q.precision, axis1=-2, axis2=-1).ravel()
    roots = np.linalg.cholesky(q.scale[..., shown, :][..., shown])
    log_determinant = 2.0 * np.log(np.diagonal(roots, axis1=-2, axis2=-1)).sum(-1)
    inverses = np.linalg.inv(np.broadcast_to(roots, (len(means), d, d)))
    squares = np.stack(
        [(((y - m) @ inverse.T) ** 2).sum(1) for m, inverse in zip(means, inverses, strict=True)], axis=1
    )
    total = q.dof + 1.0 - (q.dimension - d)
    return np.asarray(_student(squares, strength, log_determinant, total, d))


def _of_variances(q: MatrixNormalInverseWishart, y: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """(N, K), of a variance for each coordinate of each component, or for each component; ``y`` as above."""
    d = y.shape[1]
    gap = y[:, None, :] - q.centred_mean[:, shown].reshape(len(q.dof), d)
    strength, scale = q.precision[..., 0, 0], q.scale[..., 0, 0]
    if q.dof.ndim == 1:
        squares = (gap**2).sum(-1) / scale
        return np.asarray(_student(squares, strength, d * np.log(scale), q.dof + d, d))
    strength, scale, dof = (part[:, shown] for part in (strength, scale, q.dof))
    return np.asarray(_student(gap**2 / scale, strength, np.log(scale), dof + 1.0, 1).sum(-1))


def _student(
    squares: np.ndarray, strength: np.ndarray, log_determinant: np.ndarray, total: np.ndarray, dimension: int
) -> np.ndarray:
    """The density of the module's docstring; ``total`` is twice the argument of the first Gamma."""
    gammas = scipy.special.gammaln(0.5 * total) - scipy.special.gammaln(0.5 * (total - dimension))
    spread = dimension * (_LOG_PI + np.log1p(1.0 / strength)) + log_determinant
    tail = 0.5 * total * np.log1p(strength / (strength + 1.0) * squares)
    return np.asarray(gammas - 0.5 * spread - tail)
