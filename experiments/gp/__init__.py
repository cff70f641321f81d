"""Gaussian process regression: predictions, draws, comparison with other packages."""
