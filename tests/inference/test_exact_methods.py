"""Coordinate ascent, natural and Euclidean gradients: monotone, equal at the end, inside their domain."""

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

import bqvi
from bqvi.families import Dirichlet, Gaussian, Product
from bqvi.gradients import Batch, Conjugate
from bqvi.models import GaussianMixture, MultinomialMixture

few = settings(deadline=None, derandomize=True, max_examples=25)
seeds = st.integers(0, 2**32 - 1)


def spd(rng, d):
    a = rng.standard_normal((d, d + 2))
    return a @ a.T / d


def gaussian_problem(rng, n, k, d):
    x = rng.normal(size=(n, d)) * np.exp(rng.uniform(-1.0, 2.0)) + rng.normal(size=d)
    model = GaussianMixture(
        k, spd(rng, d), concentration=10.0 ** rng.uniform(-3.0, 1.0), prior_covariance=5.0 * spd(rng, d)
    )
    return model, x


def count_problem(rng, n, k, v):
    model = MultinomialMixture(
        k,
        v,
        concentration=10.0 ** rng.uniform(-3.0, 1.0),
        word_concentration=10.0 ** rng.uniform(-2.0, 1.0),
    )
    return model, rng.poisson(np.exp(rng.normal(size=v)), (n, v))


both = pytest.mark.parametrize("problem", [gaussian_problem, count_problem])
sizes = given(
    seed=seeds,
    n=st.integers(1, 40),
    k=st.integers(1, 6),
    d=st.integers(1, 4),
    start=st.sampled_from(["k-means++", "random"]),
)


@both
@few
@sizes
def test_cavi_and_natural_steps_never_lower_the_elbo(problem, seed, n, k, d, start):
    model, x = problem(np.random.default_rng(seed), n, k, d)
    for method, schedule in (("cavi", None), ("ngd", bqvi.Constant(0.3)), ("ngd", bqvi.Constant(1.0))):
        elbo = bqvi.fit(model, x, method, schedule=schedule, start_from=start, steps=25, seed=seed).trace[
            "elbo"
        ]
        # rounding of the sum of N terms and of the KL's differences of large log normalisers
        assert np.diff(elbo).min(initial=0.0) > -1e-11 * (1.0 + np.abs(elbo).max() + k * d / 1e-3)


@both
@few
@sizes
def test_cavi_is_the_natural_gradient_with_step_one(problem, seed, n, k, d, start):
    model, x = problem(np.random.default_rng(seed), n, k, d)
    cavi = bqvi.fit(model, x, "cavi", steps=6, start_from=start, tolerance=1e-300, seed=seed)
    natural = bqvi.fit(
        model, x, "ngd", schedule=bqvi.Constant(1.0), steps=6, start_from=start, tolerance=1e-300, seed=seed
    )
    batch = bqvi.fit(
        model,
        x,
        "sngd",
        minibatch=n,
        schedule=bqvi.Exponential(1.0, 0.0),
        steps=6,
        start_from=start,
        seed=seed,
    )
    for a, b, c in zip(cavi.q.natural, natural.q.natural, batch.q.natural, strict=True):
        np.testing.assert_array_equal(a, b)
        # a mini-batch of all data comes in another order
        np.testing.assert_allclose(a, c, rtol=1e-6, atol=1e-9 * np.abs(a).max())


def bishop_gaussian(model, x, q):
    """One sweep of Eqs 3.12, 3.23 to 3.26, by hand."""
    precision, prior = np.linalg.inv(model.covariance), np.linalg.inv(model.prior_covariance)
    alpha, m, c = q["weights"].concentration, q["means"].mean, q["means"].covariance
    rho = np.empty((len(x), len(alpha)))
    for k in range(len(alpha)):
        gap = x - m[k]
        squares = np.einsum("nd,de,ne->n", gap, precision, gap) + np.trace(precision @ c[k])
        rho[:, k] = scipy.special.psi(alpha[k]) - scipy.special.psi(alpha.sum()) - 0.5 * squares
    r = scipy.special.softmax(rho, axis=1)
    counts = r.sum(0)
    covariances = np.stack([np.linalg.inv(count * precision + prior) for count in counts])
    means = np.stack(
        [covariances[k] @ (precision @ (r[:, k] @ x) + prior @ model.prior_mean) for k in range(len(alpha))]
    )
    return Product(
        {
            "weights": Dirichlet(model.concentration + counts),
            "means": Gaussian(means, 0.5 * (covariances + covariances.swapaxes(1, 2))),
        }
    )


def by_hand_counts(model, x, q):
    """Batch VI of the notes on stochastic variational inference."""
    alpha, gamma = q["weights"].concentration, q["words"].concentration
    log_beta = scipy.special.psi(gamma) - scipy.special.psi(gamma.sum(1, keepdims=True))
    r = scipy.special.softmax(scipy.special.psi(alpha) + x @ log_beta.T, axis=1)
    return Product(
        {
            "weights": Dirichlet(model.concentration + r.sum(0)),
            "words": Dirichlet(model.word_concentration + r.T @ x),
        }
    )


@pytest.mark.parametrize(
    ("problem", "sweep"), [(gaussian_problem, bishop_gaussian), (count_problem, by_hand_counts)]
)
@few
@given(seed=seeds, n=st.integers(1, 30), k=st.integers(1, 4), d=st.integers(1, 3))
def test_cavi_is_the_update_by_hand(problem, sweep, seed, n, k, d):
    model, x = problem(np.random.default_rng(seed), n, k, d)
    q = bqvi.fit(model, x, steps=0, seed=seed).q
    for _ in range(3):
        found = bqvi.fit(model, x, steps=1, start_from=q, tolerance=1e-300).q
        q = sweep(model, x, q)
        for a, b in zip(found.expected_statistics, q.expected_statistics, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-8 * (1.0 + np.abs(b).max()))


def separate_clusters():
    """Three clusters far apart, so that there is no plateau between equal optima at which methods could
    differ.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2)) + 6.0 * np.array([[1, 0], [0, 1], [-1, -1]])[np.arange(60) % 3]
    return GaussianMixture(3, np.eye(2)), x


def separate_topics():
    rng = np.random.default_rng(0)
    topics = np.array([[8.0, 1.0, 1.0], [1.0, 8.0, 1.0], [1.0, 1.0, 8.0]])
    return MultinomialMixture(3, 3), rng.poisson(topics[np.arange(60) % 3])


@pytest.mark.parametrize("problem", [separate_clusters, separate_topics])
def test_exact_methods_reach_the_same_fixed_point(problem):
    model, x = problem()
    start = bqvi.fit(model, x, steps=3, seed=1).q
    common = {"start_from": start, "steps": 4000, "tolerance": 1e-11}
    fits = {
        "cavi": bqvi.fit(model, x, "cavi", **common),
        "ngd": bqvi.fit(model, x, "ngd", **common),
        "riemannian": bqvi.fit(
            model, x, Conjugate(), geometry=bqvi.Riemannian(), schedule=bqvi.Constant(0.5), **common
        ),
        "gd": bqvi.fit(model, x, "gd", schedule=bqvi.Adam(0.05, decay=0.003), **common),
        "sngd": bqvi.fit(model, x, "sngd", minibatch=60, schedule=bqvi.Constant(0.5), **common),
    }
    best = fits["cavi"]
    for name, found in fits.items():
        # near the optimum the ELBO is quadratic: parameters to 1e-4 are an ELBO to 1e-8 times curvature
        assert found.elbo == pytest.approx(best.elbo, abs=1e-5), name
        for a, b in zip(found.q.expected_statistics, best.q.expected_statistics, strict=True):
            np.testing.assert_allclose(a, b, atol=2e-3 * (1.0 + np.abs(b).max()), err_msg=name)


def thesis_problem(seed):
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-10.0, 10.0, (7, 2))
    x = centres[rng.integers(7, size=200)] + rng.normal(size=(200, 2))
    model = GaussianMixture(10, np.eye(2), concentration=1e-3, prior_covariance=np.eye(2))
    start = Product(
        {
            "weights": Dirichlet(np.full(10, 10.0)),
            "means": Gaussian(x.mean(0) + rng.uniform(-2.5, 2.5, (10, 2)), np.tile(np.eye(2), (10, 1, 1))),
        }
    )
    return model, x, start


def lowest_eigenvalue(q):
    return np.linalg.eigvalsh(np.asarray(q["means"].covariance)).min()


def test_steps_in_the_covariance_leave_the_cone_and_euclidean_steps_do_not():
    """Eq. 4.3 in C itself, with rho = 1e-3 exp(-0.01 t), against the same gradient in ln L."""
    model, x, start = thesis_problem(0)
    q, left = start, None
    for t in range(15):
        g = Conjugate()(model, q, Batch(x, len(x)), np.random.default_rng(0)).values
        rho = np.exp(-0.01 * t)
        mean_gradient = g[1] + 2.0 * np.einsum("kde,ke->kd", g[2], q["means"].mean)
        c = q["means"].covariance + 1e-2 * rho * g[2]  # dL/dC is the natural gradient's second part
        m = q["means"].mean + 1e-3 * rho * mean_gradient
        if np.linalg.eigvalsh(c).min() <= 0.0:
            left = t
            break
        q = Product({"weights": q["weights"], "means": Gaussian(m, c)})
    assert left is not None
    ours = bqvi.fit(
        model,
        x,
        "gd",
        start_from=start,
        steps=200,
        schedule=bqvi.Exponential(1e-2),
        geometry=bqvi.Euclidean({"means": 0.1}),
        record=bqvi.Record(
            metrics={"lowest": lowest_eigenvalue, "alpha": lambda q: q["weights"].concentration.min()}
        ),
    )
    assert len(ours.trace) == 201
    assert ours.trace["lowest"].min() > 0.0
    assert ours.trace["alpha"].min() > 0.0


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6])
def test_a_step_beyond_floating_point_stops_the_run_inside_the_domain(scale):
    """Steps of 1 in ln alpha multiply alpha by e^(alpha g): no float holds that for long."""
    model, x, start = thesis_problem(0)
    with pytest.raises(bqvi.RunError, match="lower the schedule's scale") as caught:
        bqvi.fit(model, x, "gd", start_from=start, steps=200, schedule=bqvi.Constant(scale))
    q = caught.value.result().q
    assert lowest_eigenvalue(q) > 0.0
    assert (q["weights"].concentration > 0.0).all()
    assert np.isfinite(q["weights"].concentration).all()
