"""Variational Bayesian Monte Carlo: evidence and posterior of an expensive model in few evaluations."""
