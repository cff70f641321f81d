"""By-products of a log joint are kept with their rows, however the run ends."""

import numpy as np
import pytest
import torch

import bqvi
from bqvi.calls import Caller, EvaluationError, Function
from bqvi.models import LogJoint

POINTS = np.random.default_rng(0).standard_normal((5, 2))
BOX = {"plausible_lower": [-2.0, -2.0], "plausible_upper": [2.0, 2.0]}


def value(x):
    return -0.5 * float(x @ x)


def with_products(x):
    if x[0] < -1.5:
        raise ValueError("outside")
    return value(x), {"twice": 2.0 * x, "text": f"{x[0]:.3f}", "steps": 3}


def same(products, points):
    assert len(products) == len(points)
    for found, x in zip(products, points, strict=True):
        np.testing.assert_array_equal(found["twice"], 2.0 * x)
        assert found["text"] == f"{x[0]:.3f}"
        assert found["steps"] == 3


def test_a_noise_and_torch_tensors_go_with_them():
    def noisy(x):
        return -0.5 * (x @ x), 0.1, {"square": x @ x}

    found = Caller(Function(noisy, "autodiff")).evaluate(POINTS)
    np.testing.assert_allclose(found.gradients, -POINTS)
    np.testing.assert_allclose(found.noise_variance, 0.01)
    np.testing.assert_allclose([p["square"] for p in found.by_products], (POINTS**2).sum(1))
    assert not any(torch.is_tensor(p["square"]) for p in found.by_products)


@pytest.mark.parametrize("products", [{"a": object()}, {3: 1.0}, {"a": np.array([object()])}])
def test_what_cannot_be_saved_is_named(products):
    with pytest.raises(EvaluationError, match="by-product"):
        Caller(Function(lambda x: (0.0, products))).evaluate(POINTS)


def test_functions_of_many_points_have_no_by_products():
    with pytest.raises(EvaluationError, match="vectorised=False"):
        Caller(Function(lambda x: (-(x**2).sum(1), {"a": 1}), vectorised=True)).evaluate(POINTS)


def test_by_products_are_saved_and_resumed_by_vbmc(tmp_path):
    first = bqvi.vbmc(with_products, **BOX, budget=11)
    first.save(tmp_path / "run.npz")
    found = bqvi.vbmc(with_products, **BOX, budget=14, resume=tmp_path / "run.npz")
    good = ~found.evaluations.failed
    assert good.sum() > 8
    same([p for p, fine in zip(found.evaluations.by_products, good, strict=True) if fine], found.theta[good])


def test_by_products_are_saved_and_resumed_by_fit(tmp_path):
    model = LogJoint(lambda x: (value(x), {"x": x}), 2, gradient=None, vectorised=False)
    bqvi.fit(model, method="bq", budget=12, seed=0).save(tmp_path / "run.npz")
    memory = bqvi.fit(model, method="bq", budget=18, seed=0, resume=tmp_path / "run.npz").state.memory
    memory = getattr(memory, "known", memory)
    np.testing.assert_array_equal([p["x"] for p in memory.by_products], memory.points)
    assert len(memory) > 12
