"""Mixtures by SciPy's densities and by enumeration: no natural parameters, no pass over blocks."""

import functools
import itertools

import numpy as np
import scipy.special
import scipy.stats

from bqvi.models import categorical, mixture
from gp.arrays import is_torch


def one_column(n_symbols, concentration=1.0):
    """Symbols of one column, with their prior settled."""
    return categorical(n_symbols, concentration).for_data(np.zeros((1, 1)))


def student_evidence(x, mean, strength, scale, dof):
    """ln p(x) of rows under one Gaussian component, row by row by the posterior predictive (Murphy 2007)."""
    d = x.shape[1]
    total = 0.0
    for row in x:
        spread = scale * (strength + 1.0) / (strength * (dof - d + 1.0))
        total += scipy.stats.multivariate_t(mean, spread, df=dof - d + 1.0).logpdf(row)
        gap = row - mean
        scale = scale + strength / (strength + 1.0) * np.outer(gap, gap)
        mean = mean + gap / (strength + 1.0)
        strength, dof = strength + 1.0, dof + 1.0
    return total


def spherical_evidence(x, mean, strength, scale, dof):
    """The evidence of rows under one Gaussian component with one variance for all coordinates."""
    d = x.shape[1]
    total = 0.0
    for row in x:
        spread = np.eye(d) * scale / dof * (strength + 1.0) / strength
        total += scipy.stats.multivariate_t(mean, spread, df=dof).logpdf(row)
        gap = row - mean
        scale = scale + strength / (strength + 1.0) * gap @ gap
        mean = mean + gap / (strength + 1.0)
        strength, dof = strength + 1.0, dof + d
    return total


def dirichlet_evidence(counts, concentration):
    """ln p(z) with weights integrated out."""
    g = scipy.special.gammaln
    return (
        g(concentration.sum())
        - g(concentration.sum() + counts.sum())
        + (g(concentration + counts) - g(concentration)).sum()
    )


def stick_evidence(counts, first, second):
    """ln p(z) with sticks Beta(first, second), (T - 1,), integrated out."""
    behind = counts[::-1].cumsum()[::-1]
    b = scipy.special.betaln
    return sum(
        b(a + counts[t], c + behind[t + 1]) - b(a, c)
        for t, (a, c) in enumerate(zip(first, second, strict=True))
    )


def log_evidence(n, k, log_partition, log_cluster):
    """ln p(X) by enumeration of all K^N assignments.

    ``log_partition(counts)`` is ln p(z), ``log_cluster(rows)`` ln p of the rows of one component.
    """
    known = {}
    partition = functools.cache(lambda counts: log_partition(np.array(counts)))
    terms = []
    for z in itertools.product(range(k), repeat=n):
        z = np.array(z)
        total = partition(tuple(np.bincount(z, minlength=k)))
        for j in range(k):
            rows = tuple(np.flatnonzero(z == j))
            if rows not in known:
                known[rows] = log_cluster(list(rows)) if rows else 0.0
            total += known[rows]
        terms.append(total)
    return scipy.special.logsumexp(terms)


def in_one_piece(monkeypatch):
    """Let the pass over tensors be that of a device; arrays are processed as ever."""
    usual = mixture.mixture_pass

    def passed(x, affine, weights=None):
        return mixture._torch_pass(x, affine, weights) if is_torch(x) else usual(x, affine, weights)

    monkeypatch.setattr(mixture, "mixture_pass", passed)
