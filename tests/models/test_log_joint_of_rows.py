"""A log joint of a prior and a likelihood of rows, against a class of methods."""

import numpy as np
import pytest
import torch
from scipy import stats

import bqvi
import gp
from bqvi.models import LogisticRegression, LogJoint

RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 2))
Y = X @ [0.5, -1.0] + RNG.standard_normal(400)
LABELS = (Y > 0.0).astype(int)
PRIOR = {"w": stats.multivariate_normal(np.zeros(2), np.eye(2))}


def by_name(w, rows):
    x, y = rows
    return -0.5 * (y - w @ x.T) ** 2 - 0.5 * np.log(2.0 * np.pi)


def one_draw(theta, batch):
    x, y = batch
    return -0.5 * (y - x @ theta) ** 2 - 0.5 * np.log(2.0 * np.pi)


def many(theta, batch):
    return by_name(theta, batch)


def test_the_numbers_are_those_of_a_class_of_five_methods():
    def terms(theta, rows):
        x, y = rows
        return torch.nn.functional.logsigmoid((2.0 * y - 1.0) * (theta @ x.T))

    choices = {"method": "pathwise", "minibatch": 40, "steps": 60, "samples": 3, "seed": 2}
    own = bqvi.fit(LogJoint(log_likelihood=terms, prior=[stats.norm()] * 2, data=(X, LABELS)), **choices)
    shipped = bqvi.fit(LogisticRegression(2), (X, LABELS), **choices)
    np.testing.assert_allclose(own.q.mean, shipped.q.mean, rtol=1e-7)
    np.testing.assert_allclose(own.q.covariance, shipped.q.covariance, rtol=1e-6)


def test_a_run_is_resumed_with_the_same_data_only(tmp_path):
    def fit(data, steps, **more):
        model = LogJoint(log_likelihood=by_name, prior=PRIOR, data=data)
        return bqvi.fit(model, method="pathwise", minibatch=40, steps=steps, seed=1, **more)

    whole = fit((X, Y), 20)
    fit((X, Y), 8).save(tmp_path / "run.npz")
    np.testing.assert_allclose(fit((X, Y), 20, resume=tmp_path / "run.npz").q.mean, whole.q.mean)
    with pytest.raises(ValueError, match="data"):
        fit((X, Y + 1.0), 20, resume=tmp_path / "run.npz")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"prior": {"s": stats.gamma(2.0)}}, "prior has bounds, and data were given"),
        ({"lower": 0.0}, "data was given, for log_likelihood"),
        ({"gradient": None}, "data was given, for log_likelihood"),
        ({"data": (X, Y[:3])}, r"data has parts of \[400, 3\] rows"),
        ({"data": (X, "text")}, "data"),
        ({"log_likelihood": None}, "data was given"),
    ],
)
def test_what_has_no_place_is_named(given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        LogJoint(**({"log_likelihood": by_name, "prior": PRIOR, "data": (X, Y)} | given))


def test_data_are_given_once():
    model = LogJoint(log_likelihood=by_name, prior=PRIOR, data=(X, Y))
    with pytest.raises(ValueError, match="data was given to a LogJoint"):
        bqvi.fit(model, (X, Y), method="pathwise", steps=2)


def test_a_call_does_not_print_the_rows(monkeypatch):
    """Which Python does in the message of an error about the arguments of a function: milliseconds a call."""
    model = LogJoint(log_likelihood=many, prior=[stats.norm()] * 2, data=(X, Y))
    monkeypatch.setattr(torch.Tensor, "__repr__", lambda *_, **__: pytest.fail("a tensor is printed"))
    assert model.log_likelihood_terms(torch.zeros(3, 2).double(), model.data).shape == (3, 400)


@pytest.mark.parametrize("form", ["by name", "one draw", "many"])
def test_called_it_is_the_log_joint_of_all_rows(form):
    """Whose evidence is that of the conjugate regression, by any door that takes a function."""
    given = {
        "by name": {"log_likelihood": by_name, "prior": PRIOR},
        "one draw": {"log_likelihood": one_draw, "prior": PRIOR, "vectorised": False},
        "many": {"log_likelihood": many, "prior": [stats.norm()] * 2},
    }[form]
    rows = slice(12)
    model = LogJoint(**given, data=(X[rows], Y[rows]))
    points = np.array([[0.0, 0.0], [1.0, -2.0]])
    exact = [stats.norm.logpdf(w).sum() + stats.norm.logpdf(Y[rows], X[rows] @ w).sum() for w in points]
    np.testing.assert_allclose(model(points), exact)
    np.testing.assert_allclose(model(points[1]), exact[1])
    covariance = np.eye(12) + X[rows] @ X[rows].T
    evidence = stats.multivariate_normal(np.zeros(12), covariance).logpdf(Y[rows])
    box = {"plausible_lower": [-2.0] * 2, "plausible_upper": [2.0] * 2}
    found = bqvi.vbmc(model, **box, gradient="autodiff", budget=30)
    assert abs(found.log_evidence - evidence) < 0.05
    proposal = gp.measures.Gaussian(found.posterior.mean, 2.0 * found.posterior.covariance)
    bounds = bqvi.evidence_bounds(model, proposal, gradient="autodiff", budget=500, seed=0)
    assert abs(bounds.lower - evidence) < 0.15
