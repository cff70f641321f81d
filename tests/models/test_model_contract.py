"""What every conjugate model keeps, on random data of random sizes and on degenerate ones.

Coordinate ascent never falls and ends at the bound of `elbo`; local steps are sums over rows, whose weights
are copies, so that mini-batches are unbiased; nothing is infinite or NaN.
"""

from functools import partial

import numpy as np
import pytest

import bqvi
from bqvi.models import (
    DirichletProcessMixture,
    DirichletWeights,
    GaussianMixture,
    HiddenMarkovModel,
    LatentDirichletAllocation,
    Mixture,
    MixtureOfExperts,
    MultinomialMixture,
    Sequences,
    Sticks,
    UniformWeights,
    bernoulli,
    categorical,
    document_step,
    elbo,
    exponential,
    gaussian_components,
    poisson,
)
from bqvi.models.contracts import PerDatumModel, settled
from bqvi.models.data import n_rows, take

SHAPES = ("full", "diagonal", "spherical", "tied")
KNOWN = np.array([[1.0, 0.3, 0.0], [0.3, 0.5, 0.1], [0.0, 0.1, 2.0]])


def table(rng, d=None, missing=0.0):
    """Heavy-tailed rows of columns of unequal sizes, far from 0."""
    n, d = int(rng.integers(1, 60)), d or int(rng.integers(1, 5))
    x = rng.standard_t(2.0, (n, d)) * np.exp(rng.normal(size=d)) + 10.0 * rng.normal(size=d)
    x[:, 1:][rng.random((n, d - 1)) < missing] = np.nan
    if missing and n > 1:
        x[0] = np.where(np.isnan(x[0]), 1.0, x[0])
    return x


KINDS = {
    "poisson": (poisson(), lambda rng, n: rng.poisson([1.0, 9.0], (n, 2))),
    "exponential": (exponential(), lambda rng, n: rng.exponential([1.0, 10.0], (n, 2))),
    "bernoulli": (bernoulli(1.0, 1.0), lambda rng, n: rng.integers(2, size=(n, 3))),
    "categorical": (categorical(3, 1.0), lambda rng, n: rng.integers(3, size=(n, 2))),
    "one column": (categorical(3, 1.0), lambda rng, n: rng.integers(3, size=(n, 1))),
    **{
        shape: (
            gaussian_components(KNOWN if shape == "known" else shape),
            lambda rng, n: 4.0 * rng.integers(3, size=(n, 1)) + rng.normal(size=(n, 3)),
        )
        for shape in (*SHAPES, "known")
    },
}
"""Components, and rows that they can have generated."""


def mixture(kind, weights, rng):
    k, n = int(rng.integers(1, 6)), int(rng.integers(1, 30))
    mixing = {
        "dirichlet": DirichletWeights(k, 1.0),
        "uniform": UniformWeights(k),
        "sticks": Sticks(k),
        "tied": Sticks(k, 1.0, tail="tied"),
    }[weights]
    components, rows = KINDS[kind]
    x = rows(rng, n).astype(float)
    x[1:2, 1:2] = np.nan if n > 3 else x[1:2, 1:2]
    return Mixture(mixing, components), x


def chain(kind, rng):
    """Sequences of which rows, and single columns, are missing."""
    lengths = rng.integers(1, 30, int(rng.integers(1, 7)))
    emissions, rows = KINDS[kind]
    x = rows(rng, int(lengths.sum())).astype(float)
    x[3::7] = np.nan
    x[2::5, 0] = np.nan
    return HiddenMarkovModel(3, emissions), Sequences(x, lengths)


def corpus(rng, n=12, v=6):
    pi, beta = rng.dirichlet(np.full(3, 0.3), n), rng.dirichlet(np.full(v, 0.2), 3)
    return np.stack([rng.multinomial(rng.integers(1, 30), p) for p in pi @ beta]).astype(float)


def topics(rng, **learnt):
    return LatentDirichletAllocation(3, 6, concentration=0.3, word_concentration=1.0, **learnt), corpus(rng)


def experts(n_experts, rng):
    t = rng.uniform(-2.0, 2.0, 40)
    y = np.where(t > 0.3, 2.0 - t, 1.0 + 2.0 * t) + 0.1 * rng.normal(size=40)
    return MixtureOfExperts(n_experts, 2), (np.column_stack([t, np.ones(40)]), y)


def some(rng):
    return int(rng.integers(1, 7))


def gaussian(shape, missing, rng):
    known = shape == "known"
    made = GaussianMixture(some(rng), KNOWN if known else shape, concentration=1.0)
    return made, table(rng, 3 if known else None, missing)


def process(kind, tail, rng):
    return DirichletProcessMixture(KNOWN if kind == "known" else kind, 5, tail=tail), table(rng, 3, 0.2)


def words(rng):
    return MultinomialMixture(some(rng), 6, concentration=1.0, word_concentration=1.0), corpus(rng)


ALL = (*SHAPES, "known")
DISCRETE = ("poisson", "categorical", "one column")
WHOLE = (*DISCRETE, "exponential", "bernoulli")
MODELS = {
    **{f"{shape}, {share}": partial(gaussian, shape, share) for shape in ALL for share in (0.0, 0.3)},
    **{f"{kind}, {tail} sticks": partial(process, kind, tail)
       for kind in ("full", "spherical", "known") for tail in ("truncated", "tied")},
    **{f"{kind}, {weights}": partial(mixture, kind, weights)
       for kind in WHOLE for weights in ("dirichlet", "uniform", "sticks", "tied")},
    **{f"states, {kind}": partial(chain, kind) for kind in (*ALL, *DISCRETE)},
    "multinomial": words,
    "topics": topics,
    "topics, alpha learnt": partial(topics, learn_concentration="symmetric"),
    "topics, alphas learnt": partial(topics, learn_concentration="asymmetric"),
    "topics, eta learnt": partial(topics, learn_concentration="asymmetric", learn_word_concentration=True),
    "two experts": partial(experts, 2),
    "three experts": partial(experts, 3),
}  # fmt: skip
WITHOUT_MODE = ("sticks", "tied", "eta learnt")
"""Not always is there one at a point: of a learnt concentration, of a tail."""
FAMILIES = [(name, "full") for name in MODELS] + [
    (name, "point") for name in MODELS if not name.endswith(WITHOUT_MODE)
]
BY_ROWS = [
    name
    for name in MODELS
    if name.split(", ")[0] in (*ALL, *WHOLE, "multinomial") and not name.endswith((", 0.3", "sticks"))
]


def rises(trace):
    return np.isfinite(trace).all() and (np.diff(trace) >= -1e-9 * np.abs(trace[1:]).max(initial=1.0)).all()


@pytest.mark.parametrize(("name", "family"), FAMILIES)
def test_coordinate_ascent_never_falls(name, family):
    for seed in range(3):
        model, data = MODELS[name](np.random.default_rng(seed))
        start = ("k-means++", "random")[seed % 2]
        fit = bqvi.fit(model, data, "cavi", family=family, start_from=start, steps=20, seed=seed)
        assert rises(fit.trace["elbo"])
        model = fit.problem.model
        if "topics" not in name:  # whose local step is an ascent that starts anew
            assert elbo(model, fit.q, model.check(data)) == pytest.approx(fit.elbo, rel=1e-9, abs=1e-6)
        assert np.isfinite(model.representation(model.check(data))).all()
        assert settled(model, data) is model


def begun(name, seed, whole=False):
    """A model settled by its data, these, and a start; ``whole``: of rows without missing values."""
    rng = np.random.default_rng(seed)
    model, data = MODELS[name](rng)
    data = data[~np.isnan(data).any(axis=1)] if whole else data
    model = settled(model, data)
    data = model.check(data)
    return model, data, model.initial(data, "random", rng), rng


@pytest.mark.parametrize("name", MODELS)
def test_steps_on_parts_average_to_the_step_on_all_and_weights_are_copies(name, monkeypatch):
    if "topics" in name:  # rounding depends on how many documents are swept together
        exact = partial(document_step.Sweeps, short=np.inf, tolerance=1e-13, most=20_000)
        monkeypatch.setattr(document_step, "Sweeps", exact)
    model, data, q, rng = begun(name, 7)
    n, weights = n_rows(data), rng.integers(0, 4, n_rows(data))
    each = [model.local_step(q, take(data, np.array([i])), np.full(1, float(n))) for i in range(n)]
    copies = model.local_step(q, take(data, np.repeat(np.arange(n), weights)))
    pairs = [(model.local_step(q, data), each), (model.local_step(q, data, 1.0 * weights), [copies])]
    for whole, parts in pairs[name == "topics, eta learnt" :]:  # what is added once is no sum over rows
        assert np.mean([part.bound for part in parts]) == pytest.approx(whole.bound, rel=1e-8)
        for j, expected in enumerate(whole.statistics):
            mean = np.mean([part.statistics[j] for part in parts], axis=0)
            np.testing.assert_allclose(mean, expected, rtol=1e-7, atol=1e-8 * (1.0 + np.abs(expected).max()))
    assert np.isfinite(bqvi.fit(model, data, "sngd", minibatch=min(n, 3), steps=5).elbo)


@pytest.mark.parametrize("name", BY_ROWS)
def test_rows_by_themselves_sum_to_the_local_step_and_impossible_sums_are_brought_back(name):
    model, data, q, rng = begun(name, 5, whole=True)
    assert isinstance(model, PerDatumModel)
    terms, limits, whole = model.local_terms(q, data), model.term_limits(data), model.local_step(q, data)
    total = terms.statistics.sum(0)
    again = model.local_total(total, terms.bounds.sum(), limits)
    assert again.bound == pytest.approx(whole.bound, rel=1e-10)
    for a, b in zip(again.statistics, whole.statistics, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8 * (1.0 + np.abs(b).max()))
    step = model.local_total(total + 300.0 * rng.normal(size=total.shape), 0.0, limits)
    moved = tuple(a + b for a, b in zip(model.prior.natural, step.statistics, strict=True))
    assert np.isfinite(model.prior.from_natural(moved).log_normaliser)


REAL = {
    "copies": np.ones((8, 2)),
    "zeros": np.zeros((3, 2)),
    "one row": np.array([[3.0, -1.0]]),
    "two points": np.array([[0.0, 0.0], [1.0, 1.0]] * 10),
    "collinear": np.outer(np.arange(12.0), [1.0, 2.0]),
    "a constant column": np.column_stack([np.arange(9.0), np.full(9, 5.0)]),
    "an outlier": np.vstack([np.random.default_rng(0).normal(size=(20, 2)), [[1e6, 1e6]]]),
    "tiny": 1e-150 * np.random.default_rng(1).normal(size=(10, 2)),
    "large": 1e100 * np.random.default_rng(2).normal(size=(10, 2)),
    "far": 1e8 + np.random.default_rng(3).normal(size=(30, 2)),
}
BURSTS = np.vstack([np.zeros((9, 2)), [[5000.0, 0.0]]])
COUNTS = {
    "zeros": np.zeros((5, 2)),
    "one row": np.array([[0.0, 3.0]]),
    "a burst": BURSTS,
    "identity": np.eye(2),
}
RUNS = {
    "one value each": [np.array([[1.0]]), np.array([[2.0]])],
    "one value": [np.zeros((300, 1))],
    "two levels": [np.zeros((5, 1)), np.full((1, 1), 3.0)],
}
LONG = RUNS | {name: REAL[name] for name in ("copies", "an outlier")}
DEGENERATE = {
    **{shape: (GaussianMixture(3, shape, concentration=1.0), REAL) for shape in SHAPES},
    "known": (GaussianMixture(4, np.eye(2), concentration=1.0), REAL),
    "experts": (MixtureOfExperts(3, 2), {"copies": (np.ones((4, 2)), np.ones(4))}),
    "poisson": (Mixture(DirichletWeights(3, 1.0), poisson()), COUNTS),
    "exponential": (Mixture(DirichletWeights(3, 1.0), exponential()), COUNTS),
    "multinomial": (MultinomialMixture(4, 2, concentration=1.0, word_concentration=1.0), COUNTS),
    "topics": (LatentDirichletAllocation(4, 2, concentration=1e-3, word_concentration=1.0), COUNTS),
    "states, poisson": (HiddenMarkovModel(5, poisson()), RUNS | COUNTS),
    "states, categorical": (HiddenMarkovModel(5, categorical(4, 1.0)), RUNS),
    **{f"states, {shape}": (HiddenMarkovModel(5, gaussian_components(shape)), LONG) for shape in SHAPES},
}


SPARSE = {"concentration": 1e-3, "word_concentration": 1e-3, "learn_concentration": "asymmetric"}
DEGENERATE["sparse topics"] = LatentDirichletAllocation(4, 2, **SPARSE), COUNTS


@pytest.mark.parametrize(
    ("name", "family"),
    [*((name, "full") for name in DEGENERATE), *((name, "point") for name in list(DEGENERATE)[:-1])],
)
def test_degenerate_data_leave_everything_finite(name, family):
    model, cases = DEGENERATE[name]
    for data in cases.values():
        for start in ("k-means++", "random"):
            fit = bqvi.fit(model, data, "cavi", family=family, start_from=start, steps=20)
            assert rises(fit.trace["elbo"])
            assert all(np.isfinite(part).all() for part in fit.q.natural)
            found = fit.problem.model
            told = ("responsibilities", "posteriors", "transform")
            shares = next(getattr(found, of)(fit.q, data) for of in told if hasattr(found, of))
            assert np.isfinite(np.concatenate(shares) if isinstance(shares, list) else shares).all()
            if hasattr(found, "log_base_measures") and "states" not in name:
                stochastic = bqvi.fit(model, data, "sngd", family=family, steps=5)
                assert np.isfinite(stochastic.elbo)
