"""Strategies for mini-batches: the variance of their gradients, and the way to the optimum."""
