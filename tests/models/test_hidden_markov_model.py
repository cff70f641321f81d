"""Hidden Markov models against enumeration of all paths and closed forms; forms of data, and floors."""

import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from mixture_oracles import one_column
from scipy.special import gammaln

import bqvi
from bqvi.models import (
    HiddenMarkovModel,
    Sequences,
    gaussian_components,
    poisson,
)
from bqvi.models import forward_backward as fb
from bqvi.models.sequences import SequenceLayout
from experiments.problems.data import simulate_states

few = settings(deadline=None, derandomize=True, max_examples=12)
seeds = st.integers(0, 2**32 - 1)


def enumerated(pi, a, b):
    """Posterior (T, K), expected transitions, log evidence and best path of one sequence; b is (T, K)."""
    steps, k = b.shape
    gamma, pairs, total, best = np.zeros((steps, k)), np.zeros((k, k)), 0.0, (-1.0, None)
    for z in itertools.product(range(k), repeat=steps):
        p = pi[z[0]] * np.prod([a[i, j] for i, j in itertools.pairwise(z)]) * np.prod(b[range(steps), z])
        total += p
        gamma[range(steps), z] += p
        for i, j in itertools.pairwise(z):
            pairs[i, j] += p
        best = max(best, (p, z))
    return gamma / total, pairs / total, np.log(total), np.array(best[1])


def chain_case(rng, k=3, sequences=4, longest=6):
    lengths = rng.integers(1, longest + 1, sequences)
    pi, a = rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k), k) * rng.uniform(0.5, 1.0, (k, 1))
    b = rng.uniform(0.01, 1.0, (lengths.sum(), k))
    return lengths, pi, a, b / b.max(1, keepdims=True)


def laid_out(b, layout):
    return np.where(layout.shown[:, None, :], b[layout.index].transpose(0, 2, 1), 1.0)


@few
@given(seed=seeds, piece=st.integers(1, 6))
def test_recursions_are_sums_over_all_paths(seed, piece):
    lengths, pi, a, b = chain_case(np.random.default_rng(seed))
    layout = SequenceLayout.of(lengths, piece)
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, len(lengths))
    chain = fb.Chain(np.log(pi), np.log(a))
    found = [(layout, fb.smooth(chain, laid_out(b, layout), layout, weights[layout.sequence]))]
    whole = SequenceLayout.of(lengths, 6)
    found.append(
        (whole, fb.InLogarithms(chain, np.log(laid_out(b, whole)), whole).smoothed(weights[whole.sequence]))
    )
    parts = np.split(b, np.cumsum(lengths)[:-1])
    truth = [enumerated(pi, a, part) for part in parts]
    for used, smoothed in found:
        np.testing.assert_allclose(
            used.in_time(smoothed.posterior).T, np.concatenate([t[0] for t in truth]), atol=1e-9
        )
        pairs = sum(w * t[1] for w, t in zip(weights, truth, strict=True))
        np.testing.assert_allclose(smoothed.transitions, pairs, atol=1e-8)
        evidence = np.bincount(used.sequence, smoothed.log_evidence)
        np.testing.assert_allclose(evidence, [t[2] for t in truth], atol=1e-8)
    paths = fb.InLogarithms(chain, np.log(laid_out(b, whole)), whole).most_likely_paths()
    states = whole.in_time(paths[:, None, :])[0]
    np.testing.assert_array_equal(states, np.concatenate([t[3] for t in truth]))


@pytest.mark.parametrize("stay", [0.5, 0.999, 1.0 - 1e-9])
def test_pieces_that_do_not_forget_give_the_same_numbers(stay):
    rng = np.random.default_rng(2)
    k, lengths = 3, np.array([400, 37, 1, 263])
    a = stay * np.eye(k) + (1.0 - stay) / k
    b = rng.uniform(0.9, 1.0, (lengths.sum(), k))
    chain, whole = fb.Chain(np.log(np.full(k, 1 / k)), np.log(a)), SequenceLayout.of(lengths, 400)
    expected = fb.InLogarithms(chain, np.log(laid_out(b, whole)), whole).smoothed()
    for piece in (11, 50, 400):
        layout = SequenceLayout.of(lengths, piece)
        found = fb.smooth(chain, laid_out(b, layout), layout)
        np.testing.assert_allclose(
            layout.in_time(found.posterior), whole.in_time(expected.posterior), atol=1e-8
        )
        np.testing.assert_allclose(found.transitions, expected.transitions, rtol=1e-7, atol=1e-9)
        evidence = np.bincount(layout.sequence, found.log_evidence)
        own = np.bincount(whole.sequence, expected.log_evidence)
        np.testing.assert_allclose(evidence, own, atol=1e-7)


def test_floors_that_matter_are_noticed():
    """Two states without transitions between them: data of one for 30 steps, then of the other, which no path
    allows."""
    chain = fb.Chain(np.log([0.5, 0.5]), np.array([[0.0, -np.inf], [-np.inf, 0.0]]))
    layout = SequenceLayout.of(np.array([60]), 60)
    logs = np.zeros((60, 2, 1))
    logs[:30, 1], logs[30:, 0] = -40.0, -40.0
    assert fb.smooth(chain, np.exp(logs), layout) is None
    found = fb.InLogarithms(chain, logs, layout).smoothed()
    np.testing.assert_allclose(found.log_evidence, -1200.0)
    np.testing.assert_allclose(found.posterior, 0.5)


def test_what_no_path_explains_stays_finite():
    model = HiddenMarkovModel(2, one_column(3, 1.0))
    q = bqvi.fit(model, [np.array([0, 1, 0, 1])], family="point", steps=30).q  # symbol 2 has probability 0
    bounds = model.log_evidence_bounds(q, [np.array([0, 2, 1]), np.array([0, 1])])
    assert np.isfinite(bounds).all()
    assert bounds[0] < -1e20
    for posterior in model.posteriors(q, [np.array([0, 2, 1])]):
        np.testing.assert_allclose(posterior.sum(1), 1.0)
    assert all(np.isin(path, (0, 1)).all() for path in model.viterbi(q, [np.array([2, 2])]))


def dirichlet_multinomial(counts, a):
    n = np.asarray(counts)
    return gammaln(a.sum()) - gammaln(a.sum() + n.sum()) + (gammaln(a + n) - gammaln(a)).sum()


def log_evidence(parts, k, v, model):
    terms = []
    for z in itertools.product(range(k), repeat=sum(map(len, parts))):
        paths = np.split(np.array(z), np.cumsum([len(part) for part in parts])[:-1])
        first, moves, symbols = np.zeros(k), np.zeros((k, k)), np.zeros((k, v))
        for path, part in zip(paths, parts, strict=True):
            first[path[0]] += 1
            np.add.at(moves, (path[:-1], path[1:]), 1)
            np.add.at(symbols, (path, part), 1)
        term = dirichlet_multinomial(first, model.initial_concentration)
        for j in range(k):
            term += dirichlet_multinomial(moves[j], model.transition_concentration[j])
            term += dirichlet_multinomial(symbols[j], model.emissions.component_prior.concentration[0])
        terms.append(term)
    return np.logaddexp.reduce(terms)


@pytest.mark.parametrize("seed", range(3))
def test_bound_is_below_the_evidence_by_enumeration(seed):
    rng = np.random.default_rng(seed)
    parts = [rng.integers(0, 3, 5), rng.integers(0, 3, 3)]
    model = HiddenMarkovModel(
        2,
        one_column(3, concentration=rng.uniform(0.3, 2.0, 3)),
        initial_concentration=0.7,
        transition_concentration=rng.uniform(0.3, 2.0, (2, 2)),
    )
    evidence = log_evidence(parts, 2, 3, model)
    best = bqvi.fit(model, parts, starts=3, seed=seed).elbo
    assert evidence - 3.0 < best < evidence


def test_likelihoods_at_parameters_with_zeros_are_sums_over_the_paths_that_are_left():
    """Rates, transitions and starts with zeros, and rows with missing columns, against enumeration."""
    rng = np.random.default_rng(12)
    x = rng.poisson(2.0, (6, 2)).astype(float)
    x[1, 0] = x[2, 1] = x[4] = np.nan
    x[:, 1][x[:, 1] > 0] = np.nan  # what is left of the column agrees with a rate of 0
    theta = {
        "initial": np.array([1.0, 0.0]),
        "transitions": np.array([[0.6, 0.4], [0.0, 1.0]]),
        "rates": np.array([[1.5, 0.0], [2.5, 0.4]]),
    }
    b = np.exp([[np.nansum(scipy.stats.poisson.logpmf(row, rate)) for rate in theta["rates"]] for row in x])
    right = enumerated(theta["initial"], theta["transitions"], b)[2]
    model = HiddenMarkovModel(2, poisson()).for_data(x)
    assert model.log_likelihood(x, theta) == pytest.approx(right, rel=1e-12)


def test_one_state_is_exact():
    x = np.array([0, 2, 1, 1, 0])
    model = HiddenMarkovModel(1, one_column(3, concentration=0.4))
    expected = dirichlet_multinomial(
        np.bincount(x, minlength=3), model.emissions.component_prior.concentration[0]
    )
    assert bqvi.fit(model, x).elbo == pytest.approx(expected, rel=1e-10)


def simulated(rng, kind, lengths):
    k = 3
    a = 0.8 * np.eye(k) + 0.2 * rng.dirichlet(np.ones(k), k)
    z = simulate_states(np.full(k, 1 / k), a, lengths, rng)
    if kind == "categorical":
        e = rng.dirichlet(np.full(5, 0.3), k)
        return z, np.array([rng.choice(5, p=e[s]) for s in z]).astype(float), one_column(5, 1.0)
    if kind == "Poisson":
        return z, rng.poisson(np.array([1.0, 6.0, 20.0])[z]).astype(float), poisson()
    shape = np.eye(2) if kind == "known" else kind
    x = 4.0 * rng.standard_normal((k, 2))[z] + rng.standard_normal((len(z), 2))
    return z, x, gaussian_components(shape)


def test_all_forms_of_data_are_one(tmp_path):
    lengths = np.array([20, 5, 9])
    _, x, emissions = simulated(np.random.default_rng(9), "categorical", lengths)
    model = HiddenMarkovModel(3, emissions)
    parts = np.split(x, [20, 25])
    fits = [
        bqvi.fit(model, data, steps=9, tolerance=1e-300)
        for data in (
            Sequences(x, lengths),
            parts,
            tuple(parts),
            [part.astype(int).tolist() for part in parts],
        )
    ]
    assert len({found.elbo for found in fits}) == 1
    first = bqvi.fit(model, parts, steps=4, tolerance=1e-300)
    first.save(tmp_path / "fit.npz")
    assert bqvi.fit(model, parts, steps=9, tolerance=1e-300, resume=tmp_path / "fit.npz").elbo == fits[0].elbo
    one = bqvi.fit(model, x, steps=3).elbo
    assert one == bqvi.fit(model, [x], steps=3).elbo


SHAPES = ["full", "tied", "diagonal", "spherical", "known"]


def gaussians(shape):
    """Emissions of two columns about 1000."""
    if shape == "known":
        return gaussian_components(np.array([[1.0, 0.3], [0.3, 0.5]]), prior_mean=[1e3, 1e3])
    return gaussian_components(shape)


def marginal_densities(model, q, values):
    """The densities (T, K) of the observed columns; 1 where there are none."""
    mixture = bqvi.models.GaussianMixture(2, np.eye(2))
    mixture.components = model.emissions
    means, covariances = bqvi.models.component_estimates(mixture, q)
    out = np.ones((len(values), len(means)))
    for row, shown in enumerate(~np.isnan(values)):
        for k, (m, c) in enumerate(zip(means, covariances, strict=True)):
            if shown.any():
                normal = scipy.stats.multivariate_normal(m[shown], c[np.ix_(shown, shown)])
                out[row, k] = normal.pdf(values[row, shown])
    return out


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("missing", [False, True])
def test_statistics_of_gaussian_components_are_sums_over_all_paths(shape, missing):
    rng = np.random.default_rng(3)
    values = rng.normal(size=(7, 2)) + 1e3
    if missing:
        values[[1, 2, 5, 5], [0, 1, 0, 1]] = np.nan
    data = Sequences(values, np.array([5, 2]))
    fit = bqvi.fit(HiddenMarkovModel(2, gaussians(shape)), data, family="point", steps=2)
    model, q = fit.problem.model, fit.q
    theta = {**q.mean, "initial": np.array([0.3, 0.7]), "transitions": np.array([[0.9, 0.1], [0.4, 0.6]])}
    b = np.split(marginal_densities(model, q, values), [5])
    expected = sum(enumerated(theta["initial"], theta["transitions"], part)[2] for part in b)
    assert model.log_likelihood(data, theta) == pytest.approx(expected, rel=1e-9)
    gammas, _, bounds, paths = zip(
        *(enumerated(q["initial"].mean, q["transitions"].mean, part) for part in b), strict=True
    )
    np.testing.assert_allclose(model.log_evidence_bounds(q, data), bounds, rtol=1e-9)
    np.testing.assert_allclose(np.concatenate(model.posteriors(q, data)), np.concatenate(gammas), atol=1e-8)
    np.testing.assert_array_equal(np.concatenate(model.viterbi(q, data)), np.concatenate(paths))
    best = np.concatenate(gammas).argmax(axis=1)
    np.testing.assert_array_equal(np.concatenate(model.decode(q, data)), best)
