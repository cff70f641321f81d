"""Bayesian quadrature of integrals and evidences."""
