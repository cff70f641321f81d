"""The accuracy of a Cholesky factor, against 80-bit eliminations and eigenvalues."""

import numpy as np
import pytest
import torch
from extended_precision import drawn, log_evidence, needs_extended_precision

import gp
from gp.linalg import (
    SMALLEST_EIGENVALUE,
    NotPositiveDefiniteError,
    cholesky,
    extend,
    extension_is_sound,
    smallest_eigenvalue,
)

EPS = np.finfo(float).eps


def spectrum(rng, smallest, n=40):
    """A covariance with variances of many sizes, whose correlation-like matrix has known eigenvalues."""
    turn = np.linalg.qr(rng.standard_normal((n, n)))[0]
    eigenvalues = np.geomspace(1.0, smallest, n)
    scale = 10.0 ** rng.uniform(-6, 6, n)
    matrix = turn * eigenvalues @ turn.T * np.sqrt(np.outer(scale, scale))
    return (matrix + matrix.T) / 2, scale


@pytest.mark.parametrize("smallest", [1e-3, 1e-7, 1e-11])
@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_estimate_of_the_smallest_eigenvalue_errs_upwards_and_little(smallest, kind):
    """One step of inverse iteration gives 1.2 to 1.5 times the eigenvalue in the median of 400, at most 4.8
    times.
    """
    ratios = []
    for seed in range(40):
        matrix, scale = spectrum(np.random.default_rng(seed), smallest)
        ratios.append(smallest_eigenvalue(kind(np.linalg.cholesky(matrix)), kind(scale)) / smallest)
    assert min(ratios) > 0.99
    assert np.median(ratios) < 2
    assert max(ratios) < 10


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_jitter_comes_when_the_smallest_eigenvalue_is_rounding_though_no_pivot_is(kind):
    rng = np.random.default_rng(0)
    matrix, scale = spectrum(rng, 1e3 * EPS)
    assert cholesky(kind(matrix), kind(scale)).jitter == 0
    matrix, scale = spectrum(rng, 3 * EPS)
    pivots = np.diagonal(np.linalg.cholesky(matrix)) ** 2 / scale
    assert pivots.min() > SMALLEST_EIGENVALUE * EPS
    assert cholesky(kind(matrix), kind(scale)).jitter > 0


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
@pytest.mark.parametrize("added", [1, 5])
def test_rows_that_make_a_matrix_singular_are_not_added_in_silence(kind, added):
    """The last rows' pivots are far above rounding; the whole matrix is singular in the last direction."""
    n = 40 - added
    for seed in range(10):
        matrix, _ = spectrum(np.random.default_rng(seed), 1e4 * EPS)
        parts = [kind(part) for part in (matrix[:n, :n], matrix[:n, n:], matrix[n:, n:])]
        extended = extend(cholesky(parts[0]), *parts[1:])
        np.testing.assert_allclose(np.tril(extended.lower @ extended.lower.T), np.tril(matrix), rtol=1e-6)
        matrix, scale = spectrum(np.random.default_rng(seed), 1e-1 * EPS)
        parts = [kind(part) for part in (matrix[:n, :n], matrix[:n, n:], matrix[n:, n:])]
        factor = cholesky(parts[0])
        try:
            extended = extend(factor, *parts[1:])
        except NotPositiveDefiniteError:
            continue
        assert extended.jitter > 0
        lower = np.asarray(extended.lower)
        assert np.linalg.svd(lower / np.sqrt(scale)[:, None])[1].min() ** 2 > EPS


@pytest.mark.parametrize(("smallest", "sound"), [(40.0, True), (4.0, False)])
def test_an_extension_is_as_sound_as_the_smallest_eigenvalue_in_any_units(smallest, sound):
    """The correlations I - (1 - a) v v^T have the smallest eigenvalue a; pivots are up to ten times it."""
    for seed in range(20):
        scale = 10.0 ** np.random.default_rng(seed).uniform(-6, 6, 8)
        correlations = np.eye(8) - (1.0 - smallest * EPS) / 8.0
        matrix = correlations * np.sqrt(np.outer(scale, scale))
        factor = cholesky(matrix[:6, :6])
        new = factor.solve(matrix[:6, 6:]).T
        schur = np.linalg.cholesky(matrix[6:, 6:] - new @ new.T)
        assert np.min(schur.diagonal() ** 2 / scale[6:]) > 10.0 * EPS
        assert extension_is_sound(factor, new, schur, scale[6:]) == sound


@needs_extended_precision
@pytest.mark.parametrize(("n", "seed"), [(8, 0), (15, 0), (18, 1), (20, 5)])
def test_log_evidence_of_noise_free_gradients_does_not_depend_on_last_digits(n, seed):
    """Rounding of the last digits of x changed the evidence by 8, 140 and 6 nats when only positive pivots
    were required.
    """
    x, y = drawn(seed, n)
    # the constant of an evidence whose scale is profiled out
    constant = len(y) / 2 * (np.log(2 * np.pi / len(y)) + 1)
    for repeat in range(3):
        moves = np.random.default_rng(repeat).integers(-1, 2, x.shape)
        moved = x * (1 + moves * EPS / 2)
        observed = [gp.Values(moved), gp.Gradients(moved)]
        found = gp.fit(observed, [y[:n], y[n:]], noise=None).hyperparameters
        exact = log_evidence(moved, y, found.values[1:3], found.jitter) - constant
        assert abs(found.log_evidence - exact) < 0.1
