"""Quadrature: integrals with standard deviations from few evaluations."""

from bqvi.quadrature.expectation import Expectation, covariances, expectation
from bqvi.quadrature.integral import Integral, Row, Trace
from bqvi.quadrature.integrand import IntegrandError
from bqvi.quadrature.integrate import METHODS, integrate

__all__ = [
    "METHODS",
    "Expectation",
    "Integral",
    "IntegrandError",
    "Row",
    "Trace",
    "covariances",
    "expectation",
    "integrate",
]
