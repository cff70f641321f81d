"""Regression for users of `gp`: prior, posterior, fit of hyperparameters, paths.

Each name is imported from the package itself (`gp.GaussianProcess`, `gp.fit`). The engines condition by
:mod:`gp.evidence` and :mod:`gp.conditioning`, and make a posterior of this folder only when asked for one.
"""
