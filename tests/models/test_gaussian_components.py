"""Gaussian mixtures with unknown covariances: their bound by draws, and collapses."""

import numpy as np
import pytest
import scipy.stats
from sklearn.mixture import BayesianGaussianMixture

import bqvi
from bqvi.families import Dirichlet, MatrixNormalInverseWishart, Product
from bqvi.models import GaussianMixture, elbo
from bqvi.models.contracts import settled

SHAPES = ("full", "diagonal", "spherical", "tied")
each_shape = pytest.mark.parametrize("shape", SHAPES)


def clusters(seed=0, n=90, d=2, k=3):
    rng = np.random.default_rng(seed)
    centres = 3.0 * rng.normal(size=(k, d))
    roots = 0.6 * np.eye(d) + 0.4 * rng.normal(size=(k, d, d))
    z = rng.integers(k, size=n)
    return centres[z] + np.einsum("nij,nj->ni", roots[z], rng.normal(size=(n, d))) + 20.0


def given_prior(shape, d):
    scale = {"full": 2.0 * np.eye(d) + 0.5, "tied": 2.0 * np.eye(d) + 0.5, "diagonal": np.linspace(1, 2, d)}
    return {
        "prior_mean": np.full(d, 19.0),
        "prior_strength": 0.3,
        "prior_scale": scale.get(shape, 1.5),
        "prior_dof": d + 2.5,
    }


def fitted(shape, x, k=3, **choices):
    model = GaussianMixture(k, shape, concentration=1.3, **given_prior(shape, x.shape[1]))
    return bqvi.fit(model, x, **{"steps": 60, **choices})


def densities(model, theta, x):
    """ln p(x_n, z_n = k | theta), (N, K), by SciPy, of one draw of theta."""
    k = model.n_components
    family = model.prior["components"]
    means, covariances = model.components.covariance.each(*family.unpacked(theta["components"]))
    means = means + model.components.centre
    return np.column_stack(
        [
            theta["weights"][j] + scipy.stats.multivariate_normal(means[j], covariances[j]).logpdf(x)
            for j in range(k)
        ]
    )


@each_shape
def test_the_bound_with_its_constants_is_the_average_of_draws(shape):
    """E_q[ln p(X, Z, theta) - ln q(Z) - ln q(theta)], at seven standard errors."""
    x = clusters(n=40)
    found = fitted(shape, x, steps=3)
    model, q = found.problem.model, found.q
    r = model.responsibilities(q, x)
    draws = {name: factor.sample(400, 11 + i) for i, (name, factor) in enumerate(q.factors.items())}
    entropy = -(r * np.log(np.maximum(r, 1e-300))).sum()
    values = model.prior.log_prob(draws) - q.log_prob(draws) + entropy
    for i in range(400):
        theta = {name: draw[i] for name, draw in draws.items()}
        values[i] += (r * densities(model, theta, x)).sum()
    error = values.std(ddof=1) / 20.0
    assert elbo(model, q, x) == pytest.approx(values.mean(), abs=7.0 * error)


def test_a_tied_covariance_of_two_distinct_rows_is_reported_as_collapsed():
    """Coordinate ascent has no step size that could be lowered."""
    x = np.repeat([[0.0, 0.0], [1.0, 1.0]], 10, axis=0)
    for k in (1, 2, 3):
        with pytest.raises(bqvi.RunError, match=r"collapsed.*proper prior") as caught:
            bqvi.fit(GaussianMixture(k, "tied", flat=True), x, family="point")
        assert "steps are too large" not in str(caught.value)


def test_a_collapse_under_a_flat_prior_is_named():
    x = np.vstack([np.random.default_rng(0).normal(size=(30, 2)), [[50.0, 50.0]]])
    with pytest.raises(bqvi.RunError, match=r"collapsed|singular|not positive definite"):
        bqvi.fit(GaussianMixture(2, "full", flat=True), x, family="point", steps=200)


def test_a_posterior_of_scikit_learn_is_a_fixed_point():
    x = clusters(3, n=150)
    peer = BayesianGaussianMixture(
        n_components=3,
        weight_concentration_prior_type="dirichlet_distribution",
        weight_concentration_prior=0.7,
        mean_precision_prior=0.3,
        mean_prior=[19.0, 19.5],
        degrees_of_freedom_prior=4.5,
        covariance_prior=np.array([[2.0, 0.5], [0.5, 1.0]]),
        reg_covar=0.0,
        tol=1e-13,
        max_iter=5000,
        random_state=0,
    ).fit(x)
    model = settled(
        GaussianMixture(
            3,
            "full",
            concentration=0.7,
            prior_strength=0.3,
            prior_mean=[19.0, 19.5],
            prior_dof=4.5,
            prior_scale=peer.covariance_prior,
        ),
        x,
    )
    scale = peer.covariances_ * peer.degrees_of_freedom_[:, None, None]
    q = Product(
        {
            "weights": Dirichlet(peer.weight_concentration_),
            "components": MatrixNormalInverseWishart(
                peer.means_[:, None, :, None],
                peer.mean_precision_[:, None, None],
                scale,
                peer.degrees_of_freedom_,
                model.components.centre[:, None],
            ),
        }
    )
    np.testing.assert_allclose(model.responsibilities(q, x), peer.predict_proba(x), atol=1e-8)
    reached = bqvi.fit(model, x, start_from=q, steps=20)
    np.testing.assert_allclose(reached.q["components"].coefficients, q["components"].coefficients, rtol=1e-5)
    np.testing.assert_allclose(reached.q["components"].scale, scale, rtol=1e-3, atol=1e-3)
    # scikit-learn's bound drops constants: what it gains from one posterior to the next is what ours gains
    early = bqvi.fit(model, x, start_from=q, steps=0)
    assert abs(reached.elbo - early.elbo) < 1e-5
