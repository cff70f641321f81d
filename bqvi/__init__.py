"""Bayesian quadrature and Gaussian processes for estimating ELBOs and their gradients."""
