"""Gaussian process regression: predictions, draws, cost, comparison with other packages."""
