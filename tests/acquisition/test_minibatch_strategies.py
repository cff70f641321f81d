"""All strategies: unbiased by enumeration and by statistics, exact on all the data, once an epoch."""

import dataclasses
import itertools

import numpy as np
import pytest

from acquisition.minibatch import (
    Balanced,
    Features,
    GPControlVariate,
    Herding,
    HorvitzThompson,
    Learning,
    MaxVariance,
    QuadratureWeighted,
    Reshuffled,
    Saga,
    SequentialBQ,
    Strategy,
    Svrg,
    Uniform,
    UpperConfidence,
)
from acquisition.minibatch.horvitz_thompson import inclusion


def rows(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 2))


def gradients(x, shift=0.0):
    """Gradients that are smooth in x, plus a part that is not."""
    noise = np.random.default_rng(9).normal(size=(len(x), 1))
    return np.column_stack([np.sin(x + shift), x[:, :1] * x[:, 1:] + shift, noise, np.ones(len(x))])


def every(size, n):
    """One strategy of each kind, for n data."""
    x = rows(n)
    features = Features.of(x, rank=min(n, 20))
    return {
        "uniform": Uniform(size),
        "reshuffled": Reshuffled(size),
        "balanced": Balanced(size, features),
        "balanced, any batch": Balanced(size, features, replacement=True),
        "bound": HorvitzThompson(size, 0.1 + np.abs(x[:, 0])),
        "quadrature": QuadratureWeighted(size, features),
        "herding": Herding(size, features),
        "sequential": SequentialBQ(size, features),
        "variance": MaxVariance(size, features),
        "confidence": UpperConfidence(size, features),
        "saga": Saga(Uniform(size)),
        "svrg": Svrg(Reshuffled(size)),
        "gp control variate": GPControlVariate(Uniform(size), features),
        "gp control variate on balanced": GPControlVariate(Balanced(size, features), features),
        "gp control variate on any batch": GPControlVariate(
            Balanced(size, features, replacement=True), features
        ),
    }


NAMES = list(every(2, 6))
ONCE = ["reshuffled", "balanced"]


def estimated(strategy, state, selection, g):
    if isinstance(strategy, Learning):
        return strategy.estimate(state, selection, g[selection.indices])
    return selection.weights @ g[selection.indices]


def stepped(strategy, state, g, rng):
    """A draw, its estimate, and the state after it was observed."""
    selection, state = strategy.draw(state, rng)
    estimate = estimated(strategy, state, selection, g)
    return estimate, selection, strategy.observe(state, selection, g[selection.indices])


@pytest.mark.parametrize("name", NAMES)
def test_all_the_data_give_the_full_gradient(name):
    n = 8
    strategy, rng, g = every(n, n)[name], np.random.default_rng(0), gradients(rows(n))
    assert isinstance(strategy, Strategy)
    state = strategy.start(n, rng)
    for t in range(6):
        drifting = g + 0.1 * t
        estimate, selection, state = stepped(strategy, state, drifting, rng)
        np.testing.assert_allclose(estimate, drifting.sum(axis=0), rtol=1e-7, atol=1e-7)
        assert sorted(selection.indices) == list(range(n))


class Scripted(np.random.Generator):
    """A generator of which some draws are given."""

    def __init__(self, **outcomes):
        super().__init__(np.random.PCG64(0))
        self.outcomes = {name: iter(values) for name, values in outcomes.items()}

    def _next(self, name, otherwise):
        return np.asarray(next(self.outcomes[name])) if name in self.outcomes else otherwise()

    def permutation(self, n):
        return self._next("permutation", lambda: super(Scripted, self).permutation(n))

    def choice(self, *args, **kwargs):
        return self._next("choice", lambda: super(Scripted, self).choice(*args, **kwargs))

    def integers(self, *args, **kwargs):
        return self._next("integers", lambda: super(Scripted, self).integers(*args, **kwargs))

    def hypergeometric(self, *args):
        return int(self._next("hypergeometric", lambda: super(Scripted, self).hypergeometric(*args)))

    def random(self, size=None):
        return self._next("random", lambda: super(Scripted, self).random(size))


X5 = rows(5)
F5 = Features.of(X5, rank=3)
G5 = gradients(X5)


@pytest.mark.parametrize(
    ("strategy", "draws"),
    [(Uniform(size), itertools.combinations(range(5), size)) for size in (1, 2, 5)]
    + [(Uniform(size, replacement=True), itertools.product(range(5), repeat=size)) for size in (1, 2, 3)],
)
def test_uniform_draws_are_unbiased_over_all_of_them(strategy, draws):
    state = strategy.start(5, np.random.default_rng(0))
    found = [
        estimated(strategy, state, strategy.draw(state, Scripted(integers=[one], choice=[one]))[0], G5)
        for one in draws
    ]
    np.testing.assert_allclose(np.mean(found, axis=0), G5.sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_each_batch_of_a_partition_is_unbiased_over_every_split(size):
    strategy = Balanced(size, F5)
    found = []
    batches = 5 // size
    for order in itertools.permutations(range(5)):
        for turn in itertools.permutations(range(batches)):
            rng = Scripted(permutation=[order, turn])
            state = strategy.start(5, rng)
            epoch = []
            for _ in range(batches):
                selection, state = strategy.draw(state, rng)
                epoch.append(estimated(strategy, state, selection, G5))
            found.append(epoch)
    np.testing.assert_allclose(np.mean(found, axis=0), np.tile(G5.sum(axis=0), (batches, 1)), atol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_horvitz_thompson_is_unbiased_over_every_start(size):
    bound = np.array([0.1, 5.0, 1.0, 0.4, 2.0])  # the largest is certain to come from size 2 on
    strategy = HorvitzThompson(size, bound)
    state = strategy.start(5, np.random.default_rng(0))
    edges = np.unique(np.concatenate([[0.0, 1.0], state.cumulated % 1.0]))
    found = 0.0
    for low, high in itertools.pairwise(edges):
        selection, _ = strategy.draw(state, Scripted(random=[(low + high) / 2]))
        assert len(set(selection.indices)) == size
        found = found + (high - low) * estimated(strategy, state, selection, G5)
    np.testing.assert_allclose(found, G5.sum(axis=0), rtol=1e-9)
    pi = inclusion(bound, size)
    assert pi.sum() == pytest.approx(size)
    assert pi.max() <= 1.0


@pytest.mark.parametrize("kind", ["saga", "gp", "svrg"])
def test_control_variates_are_unbiased_over_every_subset_given_any_past(kind):
    base = Uniform(2)
    strategy = {"saga": Saga(base), "gp": GPControlVariate(base, F5), "svrg": Svrg(base)}[kind]
    rng = np.random.default_rng(3)
    state = strategy.start(5, rng)
    for t in range(7):
        _, _, state = stepped(strategy, state, gradients(X5, 0.3 * t), rng)
    found = []
    for subset in itertools.combinations(range(5), 2):
        selection, after = strategy.draw(state, Scripted(integers=[subset]))
        assert tuple(selection.indices) == subset
        found.append(estimated(strategy, after, selection, G5))
    np.testing.assert_allclose(np.mean(found, axis=0), G5.sum(axis=0), atol=1e-10)
    plain = [2.5 * G5[list(s)].sum(axis=0) for s in itertools.combinations(range(5), 2)]
    assert np.var(found, axis=0).sum() != pytest.approx(np.var(plain, axis=0).sum())


@pytest.mark.parametrize(("size", "changes"), [(2, (3 / 5, 2 / 5)), (3, (1 / 10, 6 / 10, 3 / 10))])
def test_any_balanced_batch_is_unbiased_over_every_draw_given_any_past(size, changes):
    """With 5 // S batches, 5 % S rows are left over; ``changes`` are probabilities of how many are drawn."""
    strategy = GPControlVariate(Balanced(size, F5, replacement=True), F5)
    rng = np.random.default_rng(3)
    state = strategy.start(5, rng)
    for t in range(7):
        _, _, state = stepped(strategy, state, gradients(X5, 0.3 * t), rng)
    total, odds, included = 0.0, 0.0, np.zeros(5)
    for batch, (changed, chance) in itertools.product(range(5 // size), enumerate(changes)):
        outcomes = list(
            itertools.product(
                itertools.combinations(range(size), changed),
                itertools.permutations(state.below.rows[-(5 % size) :], changed),
            )
        )
        for slots, others in outcomes:
            script = Scripted(integers=[batch], hypergeometric=[changed],
                              choice=[np.array(slots, int), np.array(others, int)])  # fmt: skip
            selection, after = strategy.draw(state, script)
            weight = chance / (5 // size) / len(outcomes)
            total = total + weight * estimated(strategy, after, selection, G5)
            included[selection.indices] += weight
            odds += weight
    assert odds == pytest.approx(1.0)
    np.testing.assert_allclose(included, size / 5)
    np.testing.assert_allclose(total, G5.sum(axis=0), atol=1e-10)


@pytest.mark.parametrize("name", ONCE)
@pytest.mark.parametrize(("n", "size"), [(12, 3), (12, 12), (12, 1), (13, 3), (23, 4)])
def test_partitions_use_each_datum_once_an_epoch(name, n, size):
    strategy, rng, g = every(size, n)[name], np.random.default_rng(0), gradients(rows(n))
    state = strategy.start(n, rng)
    left_out = set()
    for _ in range(12):
        used = []
        for _ in range(n // size):
            _, selection, state = stepped(strategy, state, g, rng)
            used.extend(selection.indices)
        assert len(set(used)) == len(used) == n - n % size
        left_out |= set(range(n)) - set(used)
    assert (len(left_out) > n % size) == bool(n % size)  # the rows left out differ from epoch to epoch


@pytest.mark.parametrize("name", NAMES)
def test_draws_are_valid_reproducible_and_leave_states_alone(name):
    n, size = 23, 4
    strategy, rng, g = every(size, n)[name], np.random.default_rng(0), gradients(rows(n))
    state = strategy.start(n, rng)
    for _ in range(15):
        before = rng.bit_generator.state
        estimate, selection, after = stepped(strategy, state, g, rng)
        rng.bit_generator.state = before
        again, _, after = stepped(strategy, state, g, rng)
        np.testing.assert_array_equal(estimate, again)
        assert selection.indices.shape == selection.weights.shape
        assert len(selection.indices) in (size, n)
        assert selection.indices.min() >= 0
        assert selection.indices.max() < n
        assert len(set(selection.indices)) == len(selection.indices)
        if not getattr(strategy, "signed", False):
            assert selection.weights.min() > 0
        state = after
    fork = getattr(state, "fork", lambda: dataclasses.replace(state))()
    twin, other = np.random.default_rng(5), np.random.default_rng(5)
    for _ in range(9):
        one, _, state = stepped(strategy, state, g + 1.0, twin)
        two, _, fork = stepped(strategy, fork, g + 1.0, other)
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", ["balanced", "gp control variate", "saga"])
def test_what_is_learnt_or_balanced_lowers_the_error(name):
    """The variance is below two thirds of uniform sampling's for gradients that are smooth in the rows."""
    n, size = 240, 12
    x, rng = rows(n), np.random.default_rng(2)
    g = np.column_stack([np.sin(x), x[:, :1] * x[:, 1:]])
    strategy = every(size, n)[name]
    state = strategy.start(n, rng)
    errors, plain = [], []
    for t in range(400):
        estimate, _, state = stepped(strategy, state, g, rng)
        if t >= 100:
            errors.append(((estimate - g.sum(axis=0)) ** 2).sum())
            subset = rng.choice(n, size, replace=False)
            plain.append(((n / size * g[subset].sum(axis=0) - g.sum(axis=0)) ** 2).sum())
    assert np.mean(errors) < 0.67 * np.mean(plain)


def test_a_snapshot_is_taken_again_after_the_stated_number_of_data():
    """Twice 20 data are eight mini-batches of five; the ninth draw is the snapshot."""
    rng, n = np.random.default_rng(0), 20
    strategy, g = Svrg(Reshuffled(5), epochs=2.0), gradients(rows(20))
    state, sizes = strategy.start(n, rng), []
    for _ in range(19):
        announced = strategy.next_size(state)
        _, selection, state = stepped(strategy, state, g, rng)
        assert announced == len(selection.indices)
        sizes.append(announced)
    assert sizes == ([n] + [5] * 8) * 2 + [n]


def started(strategy, n=5):
    return strategy.start(n, np.random.default_rng(0))


BAD = [
    (lambda: started(Uniform(0)), ValueError, "size is 0; it must be at least 1"),
    (lambda: started(Uniform(2.0)), TypeError, "size is 2.0; it must be an integer of at least 1: give 2"),
    (lambda: started(Reshuffled(6)), ValueError, "size is 6; .* of 5 data must have between 1 and 5"),
    (lambda: started(Reshuffled(True)), TypeError, "size is True; it must be an integer of at least 1"),
    (lambda: started(Balanced(7, F5)), ValueError, "size is 7; .* between 1 and 5"),
    (lambda: started(Balanced(2, F5), 6), ValueError, "features has 5 rows, .* 6 data"),
    (lambda: HorvitzThompson(2, np.array([1.0, 0.0])), ValueError, "bound must be .* positive"),
    (lambda: started(HorvitzThompson(2, np.ones(4))), ValueError, "bound has 4 rows"),
    (lambda: QuadratureWeighted(2, F5, noise=-1.0), ValueError, "noise is -1.0"),
    (lambda: Herding(2, F5, pool=0.5), ValueError, "pool is 0.5"),
    (lambda: MaxVariance(2, F5, noise=-1.0), ValueError, "noise is -1.0"),
    (lambda: UpperConfidence(2, F5, beta=-1.0), ValueError, "beta is -1.0"),
    (lambda: Saga(3), TypeError, "base is 3"),
    (lambda: Saga(Svrg(Uniform(3))), TypeError, "base is Svrg"),
    (lambda: Svrg(Uniform(3), epochs=0.0), ValueError, "epochs is 0.0"),
    (lambda: GPControlVariate(Uniform(2), F5, noise=0.0), ValueError, "noise is 0.0"),
    (lambda: GPControlVariate(Uniform(2), F5, drift=2.0), ValueError, "drift is 2.0"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "error", "message"), BAD)
def test_bad_settings_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_identical_rows():
    same = np.ones((6, 2))
    with pytest.raises(ValueError, match="identical rows only"):
        Features.of(same)
    twins = np.repeat(rows(3), 4, axis=0)
    features = Features.of(twins)
    for strategy in (Balanced(5, features), SequentialBQ(5, features)):
        selection, _ = strategy.draw(strategy.start(12, np.random.default_rng(0)), np.random.default_rng(0))
        assert np.isfinite(selection.weights).all()
