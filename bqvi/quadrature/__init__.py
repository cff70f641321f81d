"""Quadrature: integrals with standard deviations from few evaluations."""

from bqvi.quadrature.integral import Integral, Row, Trace
from bqvi.quadrature.integrate import METHODS, integrate

__all__ = [
    "METHODS",
    "Integral",
    "Row",
    "Trace",
    "integrate",
]
