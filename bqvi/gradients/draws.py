"""Standard errors of gradients from L independent draws, for each entry.

A mean of L terms g_l has the standard error sd(g_l) / sqrt(L). The importance-weighted estimators are
functions of all draws, and their standard error is that of the jackknife: with theta_(-l) the estimate
without draw l,

    se^2 = (L - 1) / L sum_l |theta_(-l) - mean theta_(-.)|^2.

For a mean the two agree. Standard errors are right in mean square to about a fifth; intervals have their
coverage where terms are nearly normal. They are too short where few terms have most of the variance, as for
weighted estimates under a q narrower than the posterior, where the variance may be infinite.
"""

from __future__ import annotations

import numpy as np

from bqvi.arrays import Values

__all__ = ["of_left_out", "of_mean", "require_several"]


def of_mean(terms: Values) -> Values:
    """Standard errors of means of L terms, each array (L, ...)."""
    return tuple(t.std(0, ddof=1) / np.sqrt(len(t)) for t in terms)


def of_left_out(estimates: Values) -> Values:
    """Standard errors from the L estimates that leave out one draw each, arrays (L, ...)."""
    return tuple(np.sqrt((len(t) - 1) * t.var(0)) for t in estimates)


def require_several(name: str, errors: bool, samples: int) -> None:
    """Raise ValueError if standard errors are asked of fewer than two draws.

    Parameters
    ----------
    name : the argument that gives the number of draws, for the message. errors : whether standard errors are
        asked for.
    samples : L, the number of draws.
    """
    if errors and samples < 2:
        raise ValueError(f"{name} = {samples} with errors=True; a standard error takes at least 2 draws")
