"""The one pass over the data against loops, and the same numbers from every kind of array."""

import numpy as np
import pytest
import scipy.sparse
import scipy.special
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mixture_oracles import in_one_piece
from test_elbo import gaussian_case, multinomial_case

import bqvi
from bqvi.models import GaussianMixture, LatentDirichletAllocation, MultinomialMixture, elbo
from bqvi.models import mixture as mixture_module

on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
few = settings(deadline=None, derandomize=True, max_examples=25)
seeds = st.integers(0, 2**32 - 1)


def loop_local_step(model, q, x, weights):
    """Gaussian mixture: sums over data and components in Python, E[.] by Eqs 3.36 and 3.38."""
    precision = np.linalg.inv(model.covariance)
    alpha = q["weights"].concentration
    counts, linear, bound = np.zeros(len(alpha)), np.zeros((len(alpha), x.shape[1])), 0.0
    for n in range(len(x)):
        rho = np.empty(len(alpha))
        for k in range(len(alpha)):
            gap = x[n] - q["means"].mean[k]
            base = x[n] - model.prior_mean
            squares = gap @ precision @ gap + np.trace(precision @ q["means"].covariance[k])
            log_pi = scipy.special.psi(alpha[k]) - scipy.special.psi(alpha.sum())
            rho[k] = log_pi - 0.5 * squares + 0.5 * base @ precision @ base
        r = np.exp(rho - scipy.special.logsumexp(rho))
        counts += weights[n] * r
        linear += weights[n] * np.outer(r, precision @ x[n])
        bound += weights[n] * (r @ rho - scipy.special.xlogy(r, r).sum())
    return counts, linear, -0.5 * counts[:, None, None] * precision, bound


@few
@given(seed=seeds, n=st.integers(1, 20), k=st.integers(1, 4), d=st.integers(1, 3), weighted=st.booleans())
def test_gaussian_mixture_pass_is_the_loop(seed, n, k, d, weighted):
    rng = np.random.default_rng(seed)
    x, model, q = gaussian_case(rng, n, k, d)
    weights = rng.uniform(0.0, 9.0, n)
    local = model.local_step(q, x, weights if weighted else None)
    *statistics, bound = loop_local_step(model, q, x, weights if weighted else np.ones(n))
    for found, expected in zip(local.statistics, statistics, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    assert local.bound == pytest.approx(bound, rel=1e-10, abs=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_many_blocks_are_one_pass(monkeypatch, weighted):
    rng = np.random.default_rng(0)
    x, model, q = gaussian_case(rng, 2000, 5, 3)
    weights = rng.uniform(0.0, 2.0, 2000) if weighted else None
    whole = model.local_step(q, x, weights)
    monkeypatch.setattr(mixture_module, "BLOCK_ENTRIES", 1)  # blocks of 256, the last of 208
    parts = model.local_step(q, x, weights)
    assert parts.bound == pytest.approx(whole.bound, rel=1e-12)
    for a, b in zip(parts.statistics, whole.statistics, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def forms(x, tmp_path):
    """Whole numbers ``x`` in every form, and the relative errors of their passes."""
    mapped = np.memmap(tmp_path / "x.bin", dtype=x.dtype, mode="w+", shape=x.shape)
    mapped[:] = x
    frozen = x.copy()
    frozen.flags.writeable = False
    same = [np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2], x[::-1][::-1], frozen, mapped, x.tolist()]
    same += [x.astype(int), x.astype(np.uint8), x.astype(np.float16), scipy.sparse.csr_matrix(x)]
    same += [scipy.sparse.coo_array(x)]
    frame = pytest.importorskip("pandas").DataFrame(x)
    same += [frame, frame.astype(object), torch.tensor(x), torch.tensor(x).half(), torch.tensor(x).int()]
    return [(form, 1e-11) for form in same] + [
        (x.astype(np.float32), 1e-4),
        (torch.tensor(x).float(), 1e-4),
        (torch.tensor(x).bfloat16(), 0.1),
    ]


FORMED = {
    **{shape: GaussianMixture(3, shape) for shape in ("full", "diagonal", "spherical", "tied")},
    "known": GaussianMixture(3, np.eye(4)),
    "multinomial": MultinomialMixture(3, 4),
    "topics": LatentDirichletAllocation(3, 4),
}


PLACES = [pytest.param(name, "cuda", marks=on_cuda) for name in FORMED if name != "topics"]
PLACES += [(name, "cpu, as of a device") for name in FORMED if name != "topics"]


@pytest.mark.parametrize(("name", "place"), [*PLACES, *((name, "cpu") for name in FORMED)])
def test_every_form_of_data_gives_the_same(name, place, tmp_path, monkeypatch):
    """A tensor on the CPU is processed in blocks, as an array is, or in one piece, as one on a device is."""
    if "," in place:
        in_one_piece(monkeypatch)
    rng = np.random.default_rng(4)
    x = rng.poisson([[2.0, 9.0, 1.0, 4.0], [8.0, 1.0, 3.0, 0.5]], (30, 2, 4)).reshape(60, 4).astype(float)
    fit = bqvi.fit(FORMED[name], x, steps=2)
    model, q, weights = fit.problem.model, fit.q, rng.uniform(0.0, 5.0, 60)
    expected = model.local_step(q, model.check(x), weights)
    stream = bqvi.fit(model, x, "sngd", minibatch=7, steps=3, seed=1).elbo
    for form, rtol in forms(x, tmp_path):
        if scipy.sparse.issparse(form) and name not in ("multinomial", "topics"):
            continue
        tensor = isinstance(form, torch.Tensor)
        rows = model.check(form.to(place.partition(",")[0]) if tensor else form)
        found = model.local_step(q, rows, torch.tensor(weights) if tensor else weights)
        assert found.bound == pytest.approx(expected.bound, rel=rtol)
        for a, b in zip(found.statistics, expected.statistics, strict=True):
            np.testing.assert_allclose(a, b, rtol=100 * rtol, atol=100 * rtol * np.abs(b).max())
        if rtol < 1e-10:
            again = bqvi.fit(model, form, "sngd", minibatch=7, steps=3, seed=1)
            assert again.elbo == pytest.approx(stream, rel=1e-9)
    # half precision holds whole numbers to 2048, and no sum of such counts
    large = np.minimum(rng.poisson(900.0, (40, 4)), 2048).astype(float)
    halves = [bqvi.fit(FORMED[name], form, steps=3).elbo for form in (large, large.astype(np.float16))]
    assert halves[1] == pytest.approx(halves[0], rel=1e-11)
    monkeypatch.setattr(mixture_module, "LARGE_PASS", 1)  # torch's exponentials
    assert model.local_step(q, model.check(x), weights).bound == pytest.approx(expected.bound, rel=1e-13)


@few
@given(seed=seeds, n=st.integers(1, 30), v=st.integers(1, 12), weighted=st.booleans())
def test_sparse_counts_are_the_dense_ones(seed, n, v, weighted):
    rng = np.random.default_rng(seed)
    x, model, q = multinomial_case(rng, n, 3, v)
    x *= rng.random(x.shape) < 0.3
    x[rng.integers(n)] = 0.0  # an empty row
    x[:, rng.integers(v)] = 0.0  # a word never seen
    weights = rng.uniform(0.0, 5.0, n) if weighted else None
    dense = model.local_step(q, model.check(x), weights)
    for kind in (scipy.sparse.csr_array, scipy.sparse.csr_matrix, scipy.sparse.coo_array):
        sparse = model.check(kind(x))
        found = model.local_step(q, sparse, weights)
        assert found.bound == pytest.approx(dense.bound, rel=1e-11, abs=1e-10)
        for a, b in zip(found.statistics, dense.statistics, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
        assert elbo(model, q, sparse) == pytest.approx(elbo(model, q, x), rel=1e-11, abs=1e-10)
        np.testing.assert_allclose(
            model.responsibilities(q, sparse), model.responsibilities(q, x), atol=1e-12
        )


@pytest.mark.parametrize("distance", [0.0, 1e2, 1e3, 1e4])
def test_float32_data_far_from_the_prior_mean(distance):
    rng = np.random.default_rng(0)
    x = (distance + 2.0 * rng.standard_normal((500, 2))).astype(np.float32)
    model = GaussianMixture(3, np.eye(2), prior_covariance=1e8 * np.eye(2)).for_data(x)
    q = model.initial(x, "k-means++", rng)
    exact = elbo(model, q, x.astype(float))  # the same numbers, worked on in float64
    # x - centre is rounded to float32, eps * 5 a datum at random signs, and multiplied by the distance;
    # rho itself by about eps * 36 a datum
    tolerance = 1.2e-7 * 500**0.5 * (5.0 * distance + 36.0) + 1e-3
    assert elbo(model, q, x) == pytest.approx(exact, abs=tolerance, rel=0)
