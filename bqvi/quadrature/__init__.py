"""Quadrature: integrals with standard deviations from few evaluations."""

from bqvi.quadrature.integral import EstimateRow, Integral
from bqvi.quadrature.integrate import METHODS, integrate
from bqvi.runs import Trace

__all__ = ["METHODS", "EstimateRow", "Integral", "Trace", "integrate"]
