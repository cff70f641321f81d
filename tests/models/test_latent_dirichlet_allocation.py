"""Latent Dirichlet allocation against enumeration, loops, and a numerical maximiser."""

import itertools
from functools import partial

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln, psi, softmax

import bqvi
from bqvi.families import Concentration, Dirichlet, Product
from bqvi.models import LatentDirichletAllocation, elbo
from bqvi.models import document_step as document_step_module
from bqvi.models.document_step import Sweeps, document_step, split_words

few = settings(deadline=None, derandomize=True, max_examples=8)
seeds = st.integers(0, 2**32 - 1)


def corpus(rng, n, v, length=30, topics=3):
    beta = rng.dirichlet(np.full(v, 0.2), topics)
    pi = rng.dirichlet(np.full(topics, 0.3), n)
    return np.stack([rng.multinomial(rng.integers(1, length), p) for p in pi @ beta]).astype(float)


def case(rng, n=6, k=3, v=5, length=30):
    model = LatentDirichletAllocation(
        k, v, concentration=rng.uniform(0.1, 2.0, k), word_concentration=rng.uniform(0.1, 2.0, v)
    )
    q = Product({"topics": Dirichlet(rng.uniform(0.2, 6.0, (k, v)))})
    return model.check(corpus(rng, n, v, length)), model, q


def dirichlet_multinomial(counts, concentration):
    """ln of the integral of prod_k pi_k^counts_k under the Dirichlet."""
    a, n = concentration, np.asarray(counts)
    return gammaln(a.sum()) - gammaln(a.sum() + n.sum()) + (gammaln(a + n) - gammaln(a)).sum()


def log_evidence(x, model):
    """The sum over all assignments of all words to topics."""
    documents = [np.repeat(np.arange(x.shape[1]), row.astype(int)) for row in x]
    words = np.concatenate(documents)
    owner = np.repeat(np.arange(len(documents)), [len(d) for d in documents])
    k = model.n_topics
    terms = []
    for z in itertools.product(range(k), repeat=len(words)):
        z = np.array(z)
        term = sum(
            dirichlet_multinomial(np.bincount(z[owner == d], minlength=k), model.concentration)
            for d in range(len(documents))
        )
        term += sum(
            dirichlet_multinomial(
                np.bincount(words[z == j], minlength=model.n_words), model.word_concentration
            )
            for j in range(k)
        )
        terms.append(term)
    coefficients = gammaln(x.sum(1) + 1).sum() - gammaln(x + 1).sum()
    return np.logaddexp.reduce(terms) + coefficients


@pytest.mark.parametrize(("seed", "k"), [(0, 2), (1, 2)])
def test_bound_is_below_the_evidence_by_enumeration(seed, k):
    rng = np.random.default_rng(seed)
    x = np.array([[2.0, 1, 0], [0, 1, 2], [1, 0, 1]])
    model = LatentDirichletAllocation(
        k, 3, concentration=rng.uniform(0.3, 2.0, k), word_concentration=rng.uniform(0.3, 2.0, 3)
    )
    evidence = log_evidence(x, model)
    best = bqvi.fit(model, x, starts=2, steps=200, start_from="random", seed=seed).elbo
    assert evidence - 4.0 < best < evidence


def test_one_topic_is_exact():
    x = corpus(np.random.default_rng(0), 5, 4)
    model = LatentDirichletAllocation(1, 4, word_concentration=0.7)
    expected = dirichlet_multinomial(x.sum(0), model.word_concentration)
    expected += gammaln(x.sum(1) + 1).sum() - gammaln(x + 1).sum()
    assert bqvi.fit(model, x).elbo == pytest.approx(expected, rel=1e-12)


@few
@given(seed=seeds)
def test_statistics_are_those_of_a_loop(seed):
    rng = np.random.default_rng(seed)
    x, model, q = case(rng)
    weights = rng.uniform(0.0, 3.0, 6)
    local = model.local_step(q, x, weights)
    expected = np.zeros((3, 5))
    for d, row in enumerate(x.toarray()):
        r = softmax(psi(local.local[d])[:, None] + q["topics"].expected_statistics[0], axis=0)
        expected += weights[d] * row * r
    np.testing.assert_allclose(local.statistics[0], expected, rtol=1e-10, atol=1e-12)


def test_the_bound_is_exact_wherever_sweeps_stop():
    rng = np.random.default_rng(9)
    x, model, q = case(rng, n=4, length=12)
    log_topics, alpha = q["topics"].expected_statistics[0], model.concentration * 1e-3
    found = document_step(x, log_topics, alpha, sweeps=Sweeps(most=2))
    gamma = found.proportions
    share = psi(gamma) - psi(gamma.sum(1))[:, None]
    words = (x.toarray() * np.log(np.exp(share) @ np.exp(log_topics))).sum()
    logs = gammaln(gamma.sum(1)) - gammaln(gamma).sum(1) - gammaln(alpha.sum()) + gammaln(alpha).sum()
    divergence = logs.sum() + ((gamma - alpha) * share).sum()
    assert found.bound == pytest.approx(words - divergence, rel=1e-11)


def test_refined_steps_keep_the_better_proportions_of_each_document():
    x, model, q = case(np.random.default_rng(8), n=30)
    anew = model.local_step(q, x)
    start = np.random.default_rng(0).uniform(0.5, 20.0, (30, 3))
    refined = model.refined_step(q, x, start)
    assert refined.bound >= anew.bound
    at_start = document_step(
        x, q["topics"].expected_statistics[0], model.concentration, start=start, sweeps=Sweeps(most=2)
    )
    assert refined.bound >= at_start.bound - 1e-9


def in_double_precision(patch):
    """Sweeps in double precision, to the fixed point.

    Rounding depends on how many documents are swept together. Single precision would show it, and so would
    extrapolated steps on the way: by up to 2e-8 at the tolerance of the defaults.
    """
    patch.setattr(document_step_module, "Sweeps", partial(Sweeps, short=np.inf, tolerance=1e-13, most=20_000))


def test_extrapolated_sweeps_end_in_maxima_as_high_as_plain_ones():
    """Where they took topics away the bounds of these 60 documents were hundreds of nats lower."""
    rng = np.random.default_rng(12)
    beta, alpha = rng.dirichlet(np.full(150, 0.1), 15), np.full(15, 0.06)
    x = np.stack([rng.multinomial(200, p) for p in rng.dirichlet(alpha, 60) @ beta])
    log_topics = np.log(0.95 * beta + 0.05 / 150)
    ours = document_step(scipy.sparse.csr_array(x), log_topics, alpha).bound
    gamma = alpha + x.sum(1, keepdims=True) / 15
    for _ in range(400):
        share = np.exp(psi(gamma))
        gamma = alpha + share * ((x / (share @ np.exp(log_topics))) @ np.exp(log_topics).T)
    share = psi(gamma) - psi(gamma.sum(1))[:, None]
    plain = (x * np.log(np.exp(share) @ np.exp(log_topics))).sum() - ((gamma - alpha) * share).sum()
    plain += (
        gammaln(gamma).sum(1) - gammaln(gamma.sum(1)) - gammaln(alpha).sum() + gammaln(alpha.sum())
    ).sum()
    assert ours > plain - 20.0


def test_sweeps_in_single_precision_end_as_near_as_their_tolerance():
    """A sweep changes gamma by .001 at most where sweeps end, and the bound is stationary there."""
    x, model, q = case(np.random.default_rng(5), n=40)
    statistics = q["topics"].expected_statistics[0], model.concentration
    single = document_step(x, *statistics)
    double = document_step(x, *statistics, sweeps=Sweeps(short=np.inf))
    np.testing.assert_allclose(single.proportions, double.proportions, atol=0.01)
    assert single.bound == pytest.approx(double.bound, abs=1e-4 * 40)


def test_topics_predict_better_than_word_frequencies():
    rng = np.random.default_rng(9)
    beta = np.kron(np.eye(3), np.ones(10)) / 10.0
    pi = rng.dirichlet(np.full(3, 0.1), 300)
    x = np.stack([rng.multinomial(40, p) for p in pi @ beta]).astype(float)
    model = LatentDirichletAllocation(3, 30)
    q = bqvi.fit(model, x[:200], steps=100).q
    assert {tuple(sorted(top // 10)) for top in model.top_words(q, 10)} == {(i,) * 10 for i in range(3)}
    assert 10.0 < model.perplexity(q, x[200:]) < 20.0  # 30 without topics


def test_splitting_words_keeps_them_all():
    x = scipy.sparse.csr_array(corpus(np.random.default_rng(1), 30, 12))
    first, second = split_words(x, 0.3, 0)
    np.testing.assert_array_equal((first + second).toarray(), x.toarray())
    total = x.sum()
    assert abs(first.sum() - 0.3 * total) < 5.0 * np.sqrt(0.21 * total)


@few
@given(seed=seeds, k=st.integers(2, 6))
def test_concentrations_are_at_the_maximum_of_their_likelihood(seed, k):
    rng = np.random.default_rng(seed)
    alpha = np.exp(rng.uniform(-2.0, 2.0, k))
    logs = Dirichlet(alpha).sample(40, rng).mean(axis=0)

    def loss(log_alpha):
        a = np.exp(log_alpha) * np.ones(k)
        return gammaln(a).sum() - gammaln(a.sum()) - a @ logs

    point = Concentration(np.ones(k)).from_natural((40.0 * logs, np.asarray(40.0)))
    best = scipy.optimize.minimize(loss, np.zeros(k), method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(np.log(point.mode), best.x, atol=1e-4)
    one = Concentration(np.ones(k), symmetric=True).from_natural((40.0 * logs, np.asarray(40.0)))
    line = scipy.optimize.minimize_scalar(lambda t: loss(t), bounds=(-15.0, 15.0), method="bounded")
    assert loss(np.log(one.mode[0])) <= line.fun + 1e-9
    u = point.unconstrained
    moved = point.from_unconstrained((u[0] + 0.1, u[1]))
    np.testing.assert_allclose(moved.mode, point.mode * np.exp(0.1), rtol=1e-9)
    gradient = moved.gradient_to_unconstrained((40.0 * logs, np.asarray(40.0)))[0]
    steps = 1e-5 * np.eye(k)
    at = np.log(moved.mode)
    differences = [-40.0 * (loss(at + h) - loss(at - h)) / 2e-5 for h in steps]
    np.testing.assert_allclose(gradient, differences, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("size", [1, 2, 30])
@pytest.mark.parametrize("alpha", [1e-4, 0.1, 3.0, 1e4])
def test_symmetric_concentrations_come_back(size, alpha):
    point = Concentration(np.full(size, alpha), 7.0, symmetric=True)
    if size > 1:
        np.testing.assert_allclose(point.mode, alpha, rtol=1e-6)
    assert np.isfinite(point.mode).all()


def test_counts_in_files_are_read_in_parts_and_not_copied(tmp_path, monkeypatch):
    in_double_precision(monkeypatch)
    rng = np.random.default_rng(0)
    whole = scipy.sparse.csr_array(rng.poisson(0.7, (50, 12)).astype(float))
    whole.data.astype(np.uint8).tofile(tmp_path / "data")
    whole.indices.astype(np.int32).tofile(tmp_path / "indices")
    mapped = np.memmap(tmp_path / "data", np.uint8, "r")
    indices = np.memmap(tmp_path / "indices", np.int32, "r")
    counts = scipy.sparse.csr_array((mapped, indices, whole.indptr.astype(np.int32)), shape=whole.shape)
    model = LatentDirichletAllocation(3, 12)
    checked = model.check(counts)
    assert np.shares_memory(checked.data, mapped)
    assert np.shares_memory(checked.indices, indices)
    q = model.initial(model.check(whole), "k-means++", np.random.default_rng(1))
    weights = rng.uniform(0.5, 2.0, 50)
    expected = model.local_step(q, whole, weights)
    monkeypatch.setattr(document_step_module, "_PART", 7)
    again = model.initial(checked, "k-means++", np.random.default_rng(1))
    np.testing.assert_allclose(again.natural[0], q.natural[0], rtol=1e-12)
    found = model.local_step(q, checked, weights)
    assert found.bound == pytest.approx(expected.bound, rel=1e-12)
    np.testing.assert_allclose(found.statistics[0], expected.statistics[0], rtol=1e-9)
    np.testing.assert_allclose(found.local, expected.local, rtol=1e-9)
    assert model.log_base_measure(checked) == pytest.approx(model.log_base_measure(whole), rel=1e-12)
    assert elbo(model, q, checked) == pytest.approx(elbo(model, q, whole), rel=1e-12)
    whole.data[20] = -1.0
    with pytest.raises(ValueError, match=rf"row {np.searchsorted(whole.indptr, 20, side='right') - 1}, "):
        model.check(whole)


@pytest.mark.parametrize("method", ["cavi", "memoised"])
@pytest.mark.parametrize(("eta", "counts"), [(1.1, [[1, 0, 1]] * 12), (1.5, np.zeros((6, 3)))])
def test_points_of_words_that_do_not_occur_leave_no_eta_to_learn(method, eta, counts):
    """The density at probability zero, or at equal probabilities, grows with eta without bound."""
    model = LatentDirichletAllocation(3, 3, word_concentration=eta, learn_word_concentration=True)
    with pytest.raises(bqvi.RunError, match="a learnt word_concentration has no maximum"):
        bqvi.fit(model, counts, method, family="point", steps=50)
    bound = bqvi.fit(model, counts, method, steps=50).elbo
    assert np.isfinite(bound) if np.any(counts) else bound == pytest.approx(0.0, abs=1e-9)


decomposition = pytest.importorskip("sklearn.decomposition")


def test_settled_proportions_are_a_fixed_point_and_a_maximum():
    rng = np.random.default_rng(5)
    x, model, q = case(rng, n=20)
    log_topics = q["topics"].expected_statistics[0]
    exact = Sweeps(tolerance=1e-12, most=20_000)
    found = document_step(x, log_topics, model.concentration, sweeps=exact)
    for d, row in enumerate(x.toarray()):
        r = softmax(psi(found.proportions[d])[:, None] + log_topics, axis=0)
        np.testing.assert_allclose(model.concentration + r @ row, found.proportions[d], rtol=1e-8)
    rough = document_step(x, log_topics, model.concentration)
    assert found.bound - 1e-3 < rough.bound < found.bound + 1e-9


def test_scikit_learn_has_the_same_proportions_and_bound():
    x = corpus(np.random.default_rng(4), 30, 12)
    peer = decomposition.LatentDirichletAllocation(
        3,
        doc_topic_prior=0.3,
        topic_word_prior=0.2,
        max_iter=5,
        mean_change_tol=1e-12,
        max_doc_update_iter=20_000,
        random_state=0,
    ).fit(x)
    model = LatentDirichletAllocation(3, 12, concentration=0.3, word_concentration=0.2)
    q = Product({"topics": Dirichlet(peer.components_)})
    counts = model.check(x)
    found = document_step(
        counts, q["topics"].expected_statistics[0], model.concentration, sweeps=Sweeps(1e-12, 20_000)
    )
    shares = found.proportions / found.proportions.sum(1, keepdims=True)
    bound = found.bound - float(q.kl(model.prior).sum())
    # a document has several maxima, and scikit-learn starts elsewhere: most documents agree to the last
    # digits
    same = np.abs(shares - peer.transform(x)).max(1) < 1e-6
    assert same.mean() > 0.8
    keep = scipy.sparse.csr_array(x[same])
    ours = document_step(
        keep, q["topics"].expected_statistics[0], model.concentration, sweeps=Sweeps(1e-12, 20_000)
    )
    assert ours.bound - float(q.kl(model.prior)) == pytest.approx(peer.score(x[same]), rel=1e-9)
    assert bound > peer.score(x) - 1.0
