"""Hidden Markov models beside hmmlearn's: likelihood, smoothing, Viterbi, and a step of Baum and Welch."""

import numpy as np
import pytest
from mixture_oracles import one_column

import bqvi
from bqvi.models import HiddenMarkovModel, Sequences, gaussian_components

hmm = pytest.importorskip("hmmlearn.hmm")

K, SYMBOLS, LENGTHS = 3, 5, np.array([60, 1, 25, 150])
SHAPES = {"full": "full", "tied": "tied", "diagonal": "diag", "spherical": "spherical"}


def case(kind):
    """Model, data, and a point at which hidden states are uncertain."""
    rng = np.random.default_rng(1)
    if kind == "categorical":
        values, emissions = rng.integers(0, SYMBOLS, LENGTHS.sum()), one_column(SYMBOLS, 1.0)
    else:
        values = rng.normal(size=(LENGTHS.sum(), 2)) @ [[1.0, 0.4], [0.0, 0.7]] + [3.0, -1.0]
        emissions = gaussian_components(kind, flat=True)
    data = Sequences(values, LENGTHS)
    fit = bqvi.fit(HiddenMarkovModel(K, emissions), data, family="point", start_from="random", steps=3)
    return fit.problem.model, data, fit.q


def parameters(model, q):
    """The parameters under the names of hmmlearn; covariances (K, D, D)."""
    found = {"startprob_": q["initial"].mean, "transmat_": q["transitions"].mean}
    if "probabilities" in q.factors:
        return {**found, "emissionprob_": q["probabilities"].mean[:, 0]}
    means, covariances = model.emissions.each(q["components"])
    return {**found, "means_": means, "covars_": covariances}


def peer(kind, values):
    settings = {"init_params": "", "n_iter": 1, "tol": -np.inf}
    if kind == "categorical":
        other = hmm.CategoricalHMM(K, n_features=SYMBOLS, **settings)
    else:
        # hmmlearn has another prior of covariances by default; without a prior its estimate is the maximum
        # likelihood
        other = hmm.GaussianHMM(K, SHAPES[kind], covars_prior=0.0, covars_weight=0.0, **settings)
        values = {**values, "covars_": as_stored(kind, values["covars_"])}
    for name, value in values.items():
        setattr(other, name, value)
    return other


def as_stored(kind, covariances):
    """(K, D, D) as the peer takes them."""
    diagonals = covariances.diagonal(axis1=1, axis2=2)
    return {"full": covariances, "tied": covariances[0], "diagonal": diagonals, "spherical": diagonals[:, 0]}[
        kind
    ]


@pytest.mark.parametrize("kind", ["categorical", *SHAPES])
def test_a_point_estimate_has_the_peers_values_and_takes_its_step(kind):
    model, data, q = case(kind)
    other = peer(kind, parameters(model, q))
    x = data.values.reshape(len(data.values), -1)
    assert model.log_likelihood(data, q.mean) == pytest.approx(other.score(x, LENGTHS), rel=1e-10)
    posteriors = np.concatenate(model.posteriors(q, data))
    assert np.median(posteriors.max(axis=1)) < 0.99
    np.testing.assert_allclose(posteriors, other.predict_proba(x, LENGTHS), atol=1e-8)
    np.testing.assert_array_equal(np.concatenate(model.viterbi(q, data)), other.decode(x, LENGTHS)[1])
    stepped = bqvi.fit(model, data, family="point", start_from=q, steps=1).q
    other.fit(x, LENGTHS)
    for name, value in parameters(model, stepped).items():
        expected = getattr(other, name)
        expected = expected[:: len(expected) // K]  # after its step a spherical variance is there D times
        np.testing.assert_allclose(value, expected, rtol=1e-7, atol=1e-9, err_msg=name)


def test_a_step_of_variational_bayes_is_the_peers():
    """Dirichlet posteriors after one step from the same ones, and their priors."""
    peers = pytest.importorskip("hmmlearn.vhmm")
    model, data, _ = case("categorical")
    x = data.values[:, None]
    start = bqvi.fit(model, data, start_from="random", steps=2).q
    names = {"startprob": "initial", "transmat": "transitions", "emissionprob": "probabilities"}
    other = peers.VariationalCategoricalHMM(K, n_features=SYMBOLS, n_iter=1, init_params="", tol=-np.inf)
    for peer_name, name in names.items():
        setattr(other, f"{peer_name}_prior_", np.squeeze(model.prior[name].concentration))
        setattr(other, f"{peer_name}_posterior_", np.squeeze(start[name].concentration))
    other.fit(x, LENGTHS)
    stepped = bqvi.fit(model, data, start_from=start, steps=1).q
    for peer_name, name in names.items():
        found = getattr(other, f"{peer_name}_posterior_")
        np.testing.assert_allclose(np.squeeze(stepped[name].concentration), found, rtol=1e-7, err_msg=name)
