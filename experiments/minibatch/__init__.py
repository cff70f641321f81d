"""Strategies for mini-batches: the variance of their gradients, and runs to the optimum."""
