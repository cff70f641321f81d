"""A drug in many patients: a model whose likelihood takes about a millisecond a datum.

A dose is absorbed at rate ka into a volume that grows with body weight, and removed by an enzyme that
saturates (Michaelis and Menten), so the concentration has no closed form:

    dA/dt = -ka A,   dC/dt = ka A / V - vmax C / (km + C),   A(0) = dose,   V = v (weight / 70)^beta
    ln y_nj = ln(C(t_j; theta, dose_n, weight_n) + BLANK) + SD e_nj,
    theta = (ln ka, ln v, ln vmax, ln km, beta)

theta ~ N(theta_0, I / 4) and q(theta) is a full Gaussian. The likelihood's natural gradient is taken at the
mean of q with Gauss-Newton's curvature (Khan et al. 2018, Eq. 11, without their draws):

    S_n = (J^T r + J^T J m,  -J^T J / 2) / SD^2,   r = ln y_n - ln(C + BLANK), J = -dr / dtheta,

so one datum costs one solution of the equations with its sensitivities, patient by patient, as for a
simulator that cannot be vectorised. The recorded ELBO is that of q, not of this linearisation: it is computed
by a solver for all patients at once, which no method uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import odeint

from bqvi.families import Gaussian
from bqvi.models.contracts import LocalStep, LocalTerms

__all__ = [
    "CENTRE",
    "SD",
    "TRUTH",
    "Floats",
    "Patients",
    "Pharmacokinetics",
    "log_concentrations",
    "optimum",
    "simulate",
    "solved",
]  # fmt: skip

Floats = NDArray[np.float64]

TRUTH: Floats = np.array([0.3, 1.5, 0.7, 0.2, 0.75])
CENTRE: Floats = np.array([0.0, 1.0, 0.5, 0.5, 1.0])
"""theta_0."""
_TIMES: Floats = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 6.0, 9.0, 12.0])
"""Hours."""
_EXACT_ONLY = "a pharmacokinetic model has exact expectations only; use 'sngd', 'sgd', 'ngd' or 'gd'"
SD = 0.3
_DIMENSION = 5
_BLANK = 0.05
"""The reading of the assay without the drug."""


@dataclass(frozen=True)
class Patients:
    """Data."""

    covariates: Floats
    """Dose and weight, (N, 2)."""
    y: Floats
    """ln y, the measurements at TIMES, (N, 8)."""


def simulate(n: int, seed: int) -> Patients:
    """Draw ``n`` patients: five doses, weights around 70."""
    rng = np.random.default_rng(seed)
    dose = rng.choice([5.0, 10.0, 20.0, 40.0, 80.0], n)
    weight = 70.0 * np.exp(0.25 * rng.standard_normal(n))
    covariates = np.column_stack([dose, weight])
    y = log_concentrations(TRUTH[None], covariates)[0] + SD * rng.standard_normal((n, len(_TIMES)))
    return Patients(covariates, y)


def log_concentrations(theta: Floats, covariates: Floats, steps: int = 10) -> Floats:
    """ln(C + BLANK) of all patients (N, 2) at points theta (L, 5), by Runge and Kutta's method: (L, N, 8).

    Parameters
    ----------
    theta : (L, 5). covariates : doses and weights, (N, 2). steps : between two times of observation.
    """
    ka, v, vmax, km = (np.exp(theta[:, i])[:, None] for i in range(4))
    volume = v * (covariates[:, 1] / 70.0) ** theta[:, 4:5]
    peak = ka * covariates[:, 0] / volume

    def slope(t: float, c: Floats) -> Floats:
        return np.asarray(np.exp(-ka * t) * peak - vmax * (c / (km + c)))

    found = np.empty((len(theta), len(covariates), len(_TIMES)))
    c, t = np.zeros(volume.shape), 0.0
    for place, end in enumerate(_TIMES):
        h = (end - t) / steps
        for _ in range(steps):
            k1 = slope(t, c)
            k2 = slope(t + h / 2, c + h / 2 * k1)
            k3 = slope(t + h / 2, c + h / 2 * k2)
            c = np.maximum(c + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(t + h, c + h * k3)), 0.0)
            t += h
        found[:, :, place] = np.log(c + _BLANK)
        t = end
    return found


def solved(theta: Floats, dose: float, weight: float) -> tuple[Floats, Floats]:
    """ln(C + BLANK) of one patient (8,), and its derivatives in theta (8, 5), by an adaptive solver.

    Parameters
    ----------
    theta : (5,). dose, weight : of the patient.
    """
    ka, v, vmax, km = np.exp(theta[:4]).tolist()
    scale = weight / 70.0
    volume = v * scale ** float(theta[4])
    log_scale = float(np.log(scale))

    def slope(state: Floats, t: float) -> list[float]:
        c, c0, c1, c2, c3, c4 = state.tolist()
        inflow = ka * dose * np.exp(-ka * t) / volume
        removal = vmax * c / (km + c)
        decay = vmax * km / (km + c) ** 2
        return [
            inflow - removal,
            inflow * (1.0 - ka * t) - decay * c0,
            -inflow - decay * c1,
            -removal - decay * c2,
            removal * km / (km + c) - decay * c3,
            -inflow * log_scale - decay * c4,
        ]

    path = odeint(slope, np.zeros(6), np.concatenate([[0.0], _TIMES]), rtol=1e-7, atol=1e-9)[1:]
    measured = np.maximum(path[:, 0], 0.0) + _BLANK
    return np.log(measured), path[:, 1:] / measured[:, None]


class Pharmacokinetics:
    """The model; data are (covariates (N, 2), y (N, 8))."""

    @cached_property
    def prior(self) -> Gaussian:
        """N(theta_0, I / 4)."""
        return Gaussian(CENTRE, 0.25 * np.eye(_DIMENSION))

    def check(self, data: Any) -> Any:
        """As they are."""
        return data

    def initial(self, data: Any, how: str, rng: np.random.Generator) -> Gaussian:
        """N(theta_0, 0.1^2 I), or for 'random' a mean drawn around it with sd 0.1."""
        del data
        shift = 0.1 * rng.standard_normal(_DIMENSION) if how == "random" else 0.0
        return Gaussian(CENTRE + shift, 0.01 * np.eye(_DIMENSION))

    def log_prior(self, theta: Any) -> Any:
        """Not defined, as the model has expectations in closed form only: raises TypeError."""
        raise TypeError(_EXACT_ONLY)

    def log_likelihood_terms(self, theta: Any, rows: Any) -> Any:
        """Not defined, as the model has a local step only: raises TypeError."""
        raise TypeError(_EXACT_ONLY)

    def local_step(self, q: Gaussian, rows: Any, weights: Any = None) -> LocalStep:
        """The sum of S_n; see the module's docstring."""
        terms = self.local_terms(q, rows)
        part = np.ones(len(terms.bounds)) if weights is None else weights
        return self.local_total(part @ terms.statistics, float(part @ terms.bounds), None)

    def local_terms(self, q: Gaussian, rows: Any) -> LocalTerms:
        """S_n of each patient: (S, 5 + 15)."""
        covariates, y = rows
        i, j = self._triangle
        statistics = np.empty((len(y), _DIMENSION + len(i)))
        bounds = np.empty(len(y))
        for n, ((dose, weight), seen) in enumerate(zip(covariates, y, strict=True)):
            predicted, jacobian = solved(q.mean, float(dose), float(weight))
            left = seen - predicted
            statistics[n, :_DIMENSION] = jacobian.T @ (left + jacobian @ q.mean) / SD**2
            statistics[n, _DIMENSION:] = -0.5 * (jacobian[:, i] * jacobian[:, j]).sum(axis=0) / SD**2
            bounds[n] = -0.5 * left @ left / SD**2
        return LocalTerms(statistics, bounds)

    def term_limits(self, data: Any) -> None:
        """Curvatures are negative semi-definite for all data."""
        del data

    def local_total(self, total: Floats, bound: float, limits: None) -> LocalStep:
        """The local step whose terms sum to ``total``, the curvature's positive eigenvalues set to 0."""
        del limits
        second = np.zeros((_DIMENSION, _DIMENSION))
        second[self._triangle] = total[_DIMENSION:]
        values, vectors = np.linalg.eigh(second)
        second = (vectors * np.minimum(values, 0.0)) @ vectors.T
        return LocalStep((total[:_DIMENSION], second), bound)

    @cached_property
    def _triangle(self) -> tuple[np.ndarray, np.ndarray]:
        return np.tril_indices(_DIMENSION)

    def elbo(self, q: Gaussian, data: Any) -> float:
        """The ELBO up to a constant of the data, the likelihood's expectation by cubature of degree 3."""
        covariates, y = data
        spread = np.sqrt(_DIMENSION) * q.scale_tril.T
        points = np.concatenate([q.mean + spread, q.mean - spread])
        left = y - log_concentrations(points, covariates, steps=6)
        likelihood = -0.5 * float((left**2).sum()) / SD**2 / len(points)
        return likelihood - float(q.kl(self.prior))


def optimum(data: Any) -> Gaussian:
    """Where the natural gradient of all the data vanishes, from the truth, for all patients at once."""
    covariates, y = data
    prior = Pharmacokinetics().prior
    mean, h = TRUTH, 1e-5
    for _ in range(6):
        shifted = np.concatenate([mean[None], mean + h * np.eye(_DIMENSION), mean - h * np.eye(_DIMENSION)])
        values = log_concentrations(shifted, covariates)
        jacobian = ((values[1 : _DIMENSION + 1] - values[_DIMENSION + 1 :]) / (2 * h)).reshape(_DIMENSION, -1)
        left = (y - values[0]).ravel()
        precision = prior.precision + jacobian @ jacobian.T / SD**2
        linear = prior.natural[0] + jacobian @ (left + mean @ jacobian) / SD**2
        mean = np.linalg.solve(precision, linear)
    return Gaussian(mean, np.linalg.inv(precision))
