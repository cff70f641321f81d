"""Strategies inside `fit`: the same gradient as by sums, the domain kept, resumed to the same numbers."""

import numpy as np
import pytest
import torch

import bqvi
from acquisition.minibatch import (
    Balanced,
    Features,
    GPControlVariate,
    HorvitzThompson,
    MaxVariance,
    QuadratureWeighted,
    Reshuffled,
    Saga,
    SequentialBQ,
    Svrg,
    Uniform,
    UpperConfidence,
    signed,
)
from bqvi.families import Gaussian
from bqvi.gradients import Batch, BayesianQuadrature, Conjugate, Pathwise
from bqvi.gradients.gradient import Combination
from bqvi.models import GaussianMixture, LogisticRegression, MultinomialMixture
from bqvi.models.contracts import ConjugateModel, LocalModel, PerDatumModel

RNG = np.random.default_rng(0)
N = 60
X = np.concatenate([RNG.normal(size=(N // 2, 2)), 5.0 + RNG.normal(size=(N // 2, 2))])
LABELS = (X[:, 0] + RNG.normal(size=N) > 2.5).astype(float)
FEATURES = Features.of(X, rank=20)
MIXTURE = GaussianMixture(3, np.eye(2), prior_mean=np.array([1.0, -1.0]))
LOGISTIC = LogisticRegression(2, prior_scale=2.0)
COUNTS = RNG.poisson(2.0, size=(N, 4)).astype(float)
MULTINOMIAL = MultinomialMixture(2, 4)
MODELS = {
    "mixture": (MIXTURE, X),
    "multinomial": (MULTINOMIAL, COUNTS),
    "logistic": (LOGISTIC, LOGISTIC.check((X, LABELS))),
}
STRATEGIES = {
    "balanced": Balanced(7, FEATURES),
    "quadrature": QuadratureWeighted(7, FEATURES, noise=0.01),
    "sequential": SequentialBQ(7, FEATURES),
    "confidence": UpperConfidence(7, FEATURES),
    "saga": Saga(Uniform(7)),
    "svrg": Svrg(Reshuffled(7)),
    "gp": GPControlVariate(Balanced(7, FEATURES), FEATURES),
}


def start(name):
    model, data = MODELS[name]
    q = model.initial(data, "random", np.random.default_rng(3))
    return q if name != "logistic" else Gaussian(np.array([0.3, -0.2]), np.array([[0.5, 0.1], [0.1, 0.3]]))


@pytest.mark.parametrize("name", MODELS)
def test_terms_sum_to_the_local_step(name):
    model, data = MODELS[name]
    assert isinstance(model, PerDatumModel)
    assert isinstance(model, LocalModel)
    assert isinstance(model, ConjugateModel) == (name != "logistic")
    q, limits = start(name), model.term_limits(data)
    weights = RNG.dirichlet(np.ones(N)) * N
    terms = model.local_terms(q, data)
    found = model.local_total(weights @ terms.statistics, float(weights @ terms.bounds), limits)
    expected = model.local_step(q, data, weights)
    for a, b in zip(found.statistics, expected.statistics, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    assert found.bound == pytest.approx(expected.bound, rel=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_any_total_is_brought_back_to_the_domain(name):
    """At eta_0 + S covariances are positive definite and concentrations positive, whatever the estimate."""
    model, data = MODELS[name]
    q, limits = start(name), model.term_limits(data)
    terms = model.local_terms(q, data).statistics
    for scale in (1.0, 100.0):
        for seed in range(20):
            total = terms.sum(axis=0) + scale * np.random.default_rng(seed).normal(size=terms.shape[1])
            step = model.local_total(total, 0.0, limits)
            target = q.from_natural(
                tuple(p + s for p, s in zip(model.prior.natural, step.statistics, strict=True))
            )
            assert np.isfinite(float(np.sum(target.entropy)))
            factors = target.factors.values() if hasattr(target, "factors") else [target]
            for factor in factors:
                if isinstance(factor, Gaussian):
                    assert np.linalg.eigvalsh(factor.precision).min() > 0
                else:
                    assert (factor.natural[0] > -1).all() or (factor.concentration > 0).all()


def test_the_logistic_gradient_is_the_elbos():
    """Against central differences of the exact ELBO in u."""
    model, data = MODELS["logistic"]
    q = start("logistic")
    gradient = Conjugate()(model, q, Batch(data, N), np.random.default_rng(0))
    found = q.gradient_to_unconstrained(gradient.values)
    u, step = q.unconstrained, 1e-5
    for k in range(2):
        for place in np.ndindex(u[k].shape):
            if k == 1 and place[1] > place[0]:
                continue
            shift = [np.zeros(part.shape) for part in u]
            shift[k][place] = step
            up, down = (
                model.elbo(
                    q.from_unconstrained(tuple(a + s * b for a, b in zip(u, shift, strict=True))), data
                )
                for s in (1.0, -1.0)
            )
            assert found[k][place] == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-6)


def log_sigmoid(x):
    return -np.logaddexp(0, -x)


def slope(x):
    return 1 / (1 + np.exp(x))


def curvature(x):
    return -slope(x) * (1 - slope(x))


@pytest.mark.parametrize("scale", [0.0, 0.3, 1.0, 3.0, 10.0, 40.0])
def test_expected_derivatives_of_the_log_sigmoid(scale):
    """Against adaptive quadrature."""
    import scipy.integrate

    from bqvi.models.logistic_regression import expected_derivatives

    for mean in (-7.0, 0.0, 2.0):

        def expect(f, mean=mean):
            if scale == 0.0:
                return f(mean)

            def weighed(e):
                return f(mean + scale * e) * np.exp(-0.5 * e * e) / np.sqrt(2 * np.pi)

            return scipy.integrate.quad(weighed, -9, 9, points=[-mean / scale], limit=400)[0]

        found = expected_derivatives(np.array([mean]), np.array([scale]))
        expected = [expect(f) for f in (log_sigmoid, slope, curvature)]
        np.testing.assert_allclose(np.ravel(found), expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "confidence"])
@pytest.mark.parametrize("method", ["sngd", "sgd"])
def test_every_strategy_climbs_with_both_geometries(name, strategy, method):
    """All except UpperConfidence, whose bias can lower the ELBO."""
    model, data = MODELS[name]
    begun = bqvi.fit(model, data, method, minibatch=Uniform(7), steps=0, start_from=start(name)).elbo
    found = bqvi.fit(model, data, method, minibatch=STRATEGIES[strategy], steps=40, start_from=start(name))
    assert found.elbo > begun
    assert found.trace["setup_seconds"][-1] >= 0.0
    assert 0.0 < found.trace["minibatch_seconds"][-1] <= found.trace["seconds"][-1]


def test_a_failed_step_can_be_taken_again_from_the_state_before():
    """The table of a strategy is one step late, so that a step that fails half-way does not change it."""

    class Once(Conjugate):
        def __init__(self):
            super().__init__()
            object.__setattr__(self, "calls", [0])

        def __call__(self, model, q, batch, rng):
            self.calls[0] += 1
            gradient = super().__call__(model, q, batch, rng)
            if self.calls[0] == 31:
                raise KeyboardInterrupt
            return gradient

    choices = {
        "minibatch": Saga(Uniform(7)),
        "start_from": start("mixture"),
        "geometry": bqvi.Natural(),
        "schedule": bqvi.Constant(0.1),
    }
    whole = bqvi.fit(MIXTURE, X, Conjugate(), steps=50, **choices)
    with pytest.raises(bqvi.RunInterrupted) as stop:
        bqvi.fit(MIXTURE, X, Once(), steps=50, **choices)
    import dataclasses

    left = stop.value.result()
    left = dataclasses.replace(left, checkpoint=dataclasses.replace(left.checkpoint, settings=whole.settings))
    rest = bqvi.fit(MIXTURE, X, Conjugate(), steps=50, resume=left, **choices)
    np.testing.assert_array_equal(rest.q.natural[0], whole.q.natural[0])


@pytest.mark.parametrize("entropy", ["analytic", "sampled", "sticking-the-landing"])
def test_pathwise_gradients_one_by_one_sum_to_the_gradient(entropy):
    model, data = MODELS["logistic"]
    q, weights = start("logistic"), torch.tensor(RNG.uniform(1, 2, N))
    estimator = Pathwise(4, entropy=entropy)
    combination = Combination(lambda terms: weights.numpy() @ terms)
    one = estimator(model, q, Batch(data, N, weights), np.random.default_rng(1))
    two = estimator(model, q, Batch(data, N, weights, combination), np.random.default_rng(1))
    for a, b in zip(one.values, two.values, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
    assert two.bound == pytest.approx(one.bound)
    assert combination.terms.shape == (N, 6)


def test_strategies_that_need_no_gradients_do_not_compute_them(monkeypatch):
    def forbidden(*_):
        raise AssertionError

    monkeypatch.setattr(GaussianMixture, "local_terms", forbidden)
    for strategy in (Balanced(7, FEATURES), HorvitzThompson(7, np.ones(N)), MaxVariance(7, FEATURES)):
        bqvi.fit(MIXTURE, X, "sngd", minibatch=strategy, steps=3)
    with pytest.raises(bqvi.RunError, match="AssertionError"):  # a learning strategy requires them
        bqvi.fit(MIXTURE, X, "sngd", minibatch=STRATEGIES["saga"], steps=3)


class NoTerms:
    """A conjugate model without terms."""

    def __init__(self, model):
        self._model = model

    prior = property(lambda self: self._model.prior)

    def check(self, data):
        return self._model.check(data)

    def initial(self, data, how, rng):
        return self._model.initial(data, how, rng)

    def local_step(self, q, rows, weights=None):
        return self._model.local_step(q, rows, weights)

    def log_base_measure(self, data):
        return self._model.log_base_measure(data)

    def log_likelihood(self, data, theta):
        return self._model.log_likelihood(data, theta)


LOGISTIC_DATA = MODELS["logistic"][1]
BAD = [
    (LOGISTIC, LOGISTIC_DATA, "iwae", Saga(Uniform(7)), "Saga, .* per-datum gradients, but IWAE gives none"),
    (LOGISTIC, LOGISTIC_DATA, "score", Saga(Uniform(7)), "per-datum gradients, but Score gives none"),
    (NoTerms(MIXTURE), X, "sngd", Saga(Uniform(7)), "needs per-datum gradients, but Conjugate gives none"),
    (NoTerms(MIXTURE), X, "sngd", SequentialBQ(7, FEATURES), "weights can be negative.* needs positive ones"),
    (MIXTURE, X, "sngd", Balanced(7, Features.of(X[:50])), "features has 50 rows, but there are 60 data"),
    (MIXTURE, X, "sngd", Balanced(61, FEATURES), "size 61; it must be between 1 and N = 60"),
    (LOGISTIC, LOGISTIC_DATA, "cavi", None, "method is 'cavi', which takes exact expectations"),
]  # fmt: skip


@pytest.mark.parametrize(("model", "data", "method", "strategy", "message"), BAD)
def test_bad_choices_are_refused_before_any_work(model, data, method, strategy, message):
    with pytest.raises(ValueError, match=message):
        bqvi.fit(model, data, method, minibatch=strategy, steps=1)


@pytest.mark.parametrize("family", ["mean-field", "point"])
def test_exact_logistic_regression_is_for_full_gaussians(family):
    with pytest.raises(ValueError, match=f"family is '{family}'"):
        bqvi.fit(LOGISTIC, LOGISTIC_DATA, "sngd", family=family, steps=1)


def test_signed_rows_are_what_logistic_gradients_depend_on():
    model, q = LOGISTIC, start("logistic")
    v = signed(X, LABELS)
    flipped = model.check((v, np.ones(N)))
    a, b = model.local_terms(q, LOGISTIC_DATA), model.local_terms(q, flipped)
    np.testing.assert_allclose(a.statistics, b.statistics, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_the_default_by_name_needs_no_representation_and_reports_its_cost(name):
    model, data = MODELS[name]
    found = bqvi.fit(model, data, "sngd", minibatch="balanced", steps=3)
    assert isinstance(found.problem.minibatch, Balanced)
    assert found.trace["setup_seconds"][-1] >= found.problem.minibatch.features.seconds > 0.0
    assert len(found.problem.minibatch.features) == N


def test_the_default_by_name_for_a_model_without_a_representation():
    from bqvi.models.representation import representation

    table = representation(NoTerms(MIXTURE), (X, LABELS))
    assert table.shape == (N, 3)
    assert table[:, 2].std() == pytest.approx(np.sqrt(2))
    import scipy.sparse

    with pytest.raises(TypeError, match="data are sparse"):
        representation(NoTerms(MIXTURE), scipy.sparse.csr_array(X))


def test_the_default_by_name_where_it_has_no_place():
    with pytest.raises(ValueError, match="minibatch is 'balanced', but method 'cavi' uses all the data"):
        bqvi.fit(MIXTURE, X, minibatch="balanced")
    with pytest.raises(ValueError, match="minibatch is 'balnced'; it must be 'balanced', the number"):
        bqvi.fit(MIXTURE, X, "sngd", minibatch="balnced")


@pytest.mark.parametrize(
    ("strategy", "gap", "process"),
    [
        (Uniform(20), 0.2, "separable"),
        (Balanced(20, FEATURES), 0.2, "derivative"),
        (Saga(Uniform(20)), 0.2, "derivative"),
        (GPControlVariate(Uniform(20), FEATURES), 0.2, "separable"),
        (QuadratureWeighted(20, FEATURES), 2.0, "derivative"),
        (UpperConfidence(20, FEATURES), 10.0, "separable"),
    ],
)
def test_quadrature_on_mini_batches_ends_near_the_optimum(strategy, gap, process):
    """The optimum by exact natural gradients of all the data; strategies that are not biased come near it.

    That the rows of each process sum to the closed form has its test in `test_mini_batch_errors`.
    """
    best = bqvi.fit(LOGISTIC, (X, LABELS), "ngd").elbo
    run = bqvi.fit(
        LOGISTIC, (X, LABELS), BayesianQuadrature(6, memory=0, process=process), minibatch=strategy,
        geometry=bqvi.Riemannian(), schedule=bqvi.RobbinsMonro(1.0, tau=10.0), steps=200, seed=0,
    )  # fmt: skip
    assert -1e-3 < best - run.elbo < gap


def test_quadrature_that_keeps_evaluations_has_no_mini_batches():
    with pytest.raises(
        ValueError, match=r"minibatch is 20.*keeps evaluations.*BayesianQuadrature\(memory=0\)"
    ):
        bqvi.fit(LOGISTIC, (X, LABELS), "bq", minibatch=20)
