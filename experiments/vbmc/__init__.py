"""Variational Bayesian Monte Carlo: evidence and posterior from few evaluations."""
