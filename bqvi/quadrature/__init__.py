"""Quadrature: integrals with standard deviations from few evaluations."""

from bqvi.quadrature.integral import Integral, Row
from bqvi.quadrature.integrate import METHODS, integrate
from bqvi.runs import Trace

__all__ = [
    "METHODS",
    "Integral",
    "Row",
    "Trace",
    "integrate",
]
