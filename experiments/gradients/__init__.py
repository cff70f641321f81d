"""Bayesian quadrature of the gradient of the ELBO: one estimate, and whole runs."""
