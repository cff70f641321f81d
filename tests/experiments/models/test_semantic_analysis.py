"""pLSA against its likelihood, a loop, and enumeration; LSA against the full decomposition."""

import numpy as np
import pytest
import scipy.sparse
from scipy.special import gammaln

import bqvi
from bqvi.models import elbo
from experiments.models.semantic_analysis import ProbabilisticLatentSemanticAnalysis, latent_semantic_analysis


def corpus(rng, n=12, v=8):
    beta = rng.dirichlet(np.full(v, 0.3), 3)
    pi = rng.dirichlet(np.full(3, 0.3), n)
    return np.stack([rng.multinomial(rng.integers(1, 40), p) for p in pi @ beta]).astype(float)


@pytest.mark.parametrize("kind", [1, 2])
def test_em_climbs_the_likelihood(kind):
    x = corpus(np.random.default_rng(0))
    x[3] = 0.0
    model = ProbabilisticLatentSemanticAnalysis(3, 8, kind=kind)
    fit = bqvi.fit(model, x, family="point", steps=60, tolerance=1e-300)
    trace = fit.trace["elbo"]
    assert np.isfinite(trace).all()
    assert np.diff(trace).min() > -1e-9 * abs(trace[-1])
    settled = fit.problem.model
    # flat Dirichlets have densities (K - 1)!, whose logarithms the ELBO has beside the likelihood
    flat = sum(float(-np.sum(part.log_normaliser)) for part in settled.prior.factors.values())
    assert fit.elbo - flat == pytest.approx(model.log_likelihood(x, fit.q.mean), rel=1e-9)
    means = fit.q.mean
    shares = means["proportions"] if kind == 2 else means["weights"] * means["documents"].T
    p = shares @ means["words"]
    if kind == 1:
        assert p.sum() == pytest.approx(1.0)
        coefficient = gammaln(x.sum() + 1) - gammaln(x + 1).sum()
    else:
        np.testing.assert_allclose(p.sum(1), 1.0)
        coefficient = gammaln(x.sum(1) + 1).sum() - gammaln(x + 1).sum()
    direct = (x * np.log(np.where(x > 0, p, 1.0))).sum() + coefficient
    assert model.log_likelihood(x, means) == pytest.approx(direct, rel=1e-10)


@pytest.mark.parametrize("kind", [1, 2])
@pytest.mark.parametrize("power", [1.0, 0.6])
def test_an_em_step_is_a_loop_over_cells(kind, power):
    rng = np.random.default_rng(1)
    x = corpus(rng, 5, 4)
    model = ProbabilisticLatentSemanticAnalysis(2, 4, kind=kind, power=power).for_data(x)
    data = model.check(x)
    q = model.initial(data, "random", rng)
    logs = [part.expected_statistics[0] for part in q.factors.values()]
    words, documents, bound = np.zeros((2, 4)), np.zeros((5, 2)), 0.0
    for d, w in np.argwhere(x):
        joint = logs[-1][:, w] + (logs[0][d] if kind == 2 else logs[0] + logs[1][:, d])
        term = np.exp(power * joint)
        r = term / term.sum()
        words[:, w] += x[d, w] * r
        documents[d] += x[d, w] * r
        bound += x[d, w] * (r @ joint - (r @ np.log(r)) / power)
    local = model.local_step(q, data)
    np.testing.assert_allclose(local.statistics[-1], words, rtol=1e-10)
    np.testing.assert_allclose(
        local.statistics[0 if kind == 2 else 1], documents if kind == 2 else documents.T
    )
    assert local.bound == pytest.approx(bound, rel=1e-10)


def test_variational_bayes_of_the_same_model_is_a_lower_bound_with_one_topic_exact():
    x = corpus(np.random.default_rng(2))
    model = ProbabilisticLatentSemanticAnalysis(1, 8, word_concentration=0.5)
    a, n = np.full(8, 0.5), x.sum(0)
    exact = gammaln(a.sum()) - gammaln(a.sum() + n.sum()) + (gammaln(a + n) - gammaln(a)).sum()
    exact += gammaln(x.sum(1) + 1).sum() - gammaln(x + 1).sum()
    assert bqvi.fit(model, x).elbo == pytest.approx(exact, rel=1e-10)
    richer = ProbabilisticLatentSemanticAnalysis(3, 8, word_concentration=0.5)
    fit = bqvi.fit(richer, x, steps=50)
    assert fit.elbo == pytest.approx(elbo(fit.problem.model, fit.q, fit.problem.data), rel=1e-10)


def test_tempering_climbs_its_own_objective_and_flattens_topics():
    x = corpus(np.random.default_rng(3))
    fits = [
        bqvi.fit(
            ProbabilisticLatentSemanticAnalysis(3, 8, power=power),
            x,
            family="point",
            steps=60,
            tolerance=1e-300,
        )
        for power in (1.0, 0.7)
    ]
    for fit in fits:
        assert np.diff(fit.trace["elbo"]).min() > -1e-9 * abs(fit.elbo)
    peaked, flat = (fit.q.mean["proportions"].max(1).mean() for fit in fits)
    assert flat < peaked


def test_truncated_decompositions_are_the_nearest():
    x = corpus(np.random.default_rng(4), 40, 30)
    u, s, vt = np.linalg.svd(x)
    for rank in (1, 4, 29):
        for table in (x, scipy.sparse.csr_array(x)):
            documents, words = latent_semantic_analysis(table, rank)
            np.testing.assert_allclose(documents @ words.T, (u[:, :rank] * s[:rank]) @ vt[:rank], atol=1e-8)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="kind is 3"):
        ProbabilisticLatentSemanticAnalysis(2, 2, kind=3)
    with pytest.raises(ValueError, match=r"power is 1\.5"):
        ProbabilisticLatentSemanticAnalysis(2, 2, power=1.5)
    with pytest.raises(ValueError, match="count of -1"):
        bqvi.fit(ProbabilisticLatentSemanticAnalysis(2, 2), np.array([[1, -1]]), family="point")
    with pytest.raises(ValueError, match="rank is 3"):
        latent_semantic_analysis(np.ones((2, 5)), 3)
    with pytest.raises(ValueError, match="works on all the data"):
        bqvi.fit(ProbabilisticLatentSemanticAnalysis(2, 2), np.eye(2), "sngd", minibatch=1, family="point")
    with pytest.raises(bqvi.RunError, match="each document"):
        bqvi.fit(ProbabilisticLatentSemanticAnalysis(2, 2), np.ones((120, 2)), "sngd", family="point")
