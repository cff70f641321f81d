"""Torch: results have the kind, dtype and device of the inputs, and the numbers of NumPy. Tests on CUDA run
where there is a device and are skipped elsewhere.
"""

import numpy as np
import pytest
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.optim import optimize_acqf

import gp
from gp.kernels import Columns, Linear, Matern52, RationalQuadratic, SquaredExponential, White

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")),
]
DTYPES = [torch.float32, torch.float64]
TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-11}  # condition numbers up to 1e3
KERNELS = {
    "se": SquaredExponential(np.array([0.5, 0.8]), 1.3),
    "matern52": Matern52(0.7),
    "rational quadratic": RationalQuadratic(0.8, 1.0, 0.7),
    "sum": SquaredExponential(0.5) + Linear(0.3) + White(0.1),
    "product": SquaredExponential(0.5) * Columns(Matern52(0.9), (1,)),
}
pytestmark = pytest.mark.usefixtures("peers_draw_as_they_like")


def f(x):
    return np.sin(3 * x[:, 0]) + x[:, 1] ** 2


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    x, at = rng.uniform(size=(15, 2)), rng.uniform(size=(6, 2))
    return x, f(x), at


def process(name):
    return gp.GaussianProcess(KERNELS[name], gp.means.Linear(0.2, np.array([0.3, -0.1])), noise=0.05)


def same(ours, numpy_result, dtype, device):
    assert isinstance(ours, torch.Tensor)
    assert (ours.dtype, ours.device.type) == (dtype, device)
    np.testing.assert_allclose(ours.detach().cpu().numpy(), numpy_result, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", KERNELS)
def test_posteriors(name, dtype, device, data):
    x, y, at = data
    tx, ty, points = (torch.tensor(part, dtype=dtype, device=device) for part in data)
    ours, numpys = process(name).condition(tx, ty), process(name).condition(x, y)
    for method in ("mean", "variance", "covariance"):
        same(getattr(ours, method)(points), getattr(numpys, method)(at), dtype, device)
    extended = ours.extend(points[:1], ty[:1])
    same(extended.mean(points), numpys.extend(at[:1], y[:1]).mean(at), dtype, device)
    same(ours.log_marginal_likelihood / 100, numpys.log_marginal_likelihood / 100, dtype, device)
    assert ours.sample(points, 3, seed=0).device.type == device
    if name != "sum":  # white noise has neither derivatives nor random features
        same(ours.gradient(points).mean, numpys.gradient(at).mean, dtype, device)
    if name in ("se", "matern52"):
        same(ours.sample_path(seed=0)(points), numpys.sample_path(seed=0)(at), dtype, device)


def measures(make):
    zero, one = make(np.zeros(2)), make(np.ones(2))
    return {
        "Gaussian": gp.measures.Gaussian(zero, make(np.diag([0.5, 2.0]))),
        "mixture": gp.measures.GaussianMixture(
            make(np.array([0.3, 0.7])),
            make(np.array([[0.0, 0.0], [1.0, 0.5]])),
            make(np.stack([np.eye(2)] * 2)),
        ),
        "box": gp.measures.Uniform(zero, one),
        "empirical": gp.measures.Empirical(make(np.random.default_rng(1).uniform(size=(7, 2)))),
    }


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("kernel", "against"), [
    ("se", ("Gaussian", "mixture", "box", "empirical")),
    ("matern52", ("Gaussian", "box", "empirical")),
    ("rational quadratic", ("empirical",)),
])  # fmt: skip
def test_integrals(kernel, against, dtype, device, data):
    x, y, _ = data
    tx, ty, _ = (torch.tensor(part, dtype=dtype, device=device) for part in data)
    ours, numpys = process(kernel).condition(tx, ty), process(kernel).condition(x, y)
    theirs = measures(lambda part: torch.tensor(part, dtype=dtype, device=device))
    for name in against:
        integral, exact = ours.integral(theirs[name]), numpys.integral(measures(np.asarray)[name])
        same(integral.mean, exact.mean, dtype, device)
        same(integral.variance, exact.variance, dtype, device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_fits_and_botorch(dtype, device, data):
    x, y, at = data
    tx, ty, points = (torch.tensor(part, dtype=dtype, device=device) for part in data)
    noisy = 0.1 * np.random.default_rng(2).standard_normal(15)
    ours = gp.fit(tx, ty + torch.tensor(noisy, dtype=dtype, device=device))
    np.testing.assert_allclose(ours.mean(points).cpu(), gp.fit(x, y + noisy).mean(at), atol=1e-2)
    model = gp.as_botorch_model(process("se").condition(tx, ty))
    same(model.posterior(points[None]).mean[0, :, 0], process("se").condition(x, y).mean(at), dtype, device)
    acquisition = LogExpectedImprovement(model, best_f=ty.max())
    candidates = points[:, None, :].clone().requires_grad_()
    acquisition(candidates).sum().backward()
    assert (candidates.grad.dtype, candidates.grad.device.type) == (dtype, device)
    assert bool(candidates.grad.isfinite().all())
    if dtype is torch.float64:  # in single precision L-BFGS-B's line search warns now and then
        torch.manual_seed(0)
        bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=dtype, device=device)
        found, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=2, raw_samples=8)
        assert (found.dtype, found.device.type) == (dtype, device)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_mixed_devices_are_named(data):
    x, y, at = (torch.from_numpy(part) for part in data)
    with pytest.raises(TypeError, match="same device"):
        gp.GaussianProcess(KERNELS["se"]).condition(x.cuda(), y)
    with pytest.raises(TypeError, match="same device"):
        process("se").condition(x.cuda(), y.cuda()).mean(at)


def test_whole_numbers_take_the_dtype_of_the_points(data):
    x = torch.tensor(data[0], dtype=torch.float32)
    posterior = process("se").condition(x, torch.arange(15))
    same(
        posterior.mean(x), process("se").condition(data[0], np.arange(15)).mean(data[0]), torch.float32, "cpu"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, y: (x.half(), y.half()), "float32 or float64"),
        (lambda x, y: (x, y.bfloat16()), "float32 or float64"),
        (lambda x, y: (x + 0j, y), "float32 or float64"),
        (lambda x, y: (x.numpy() + 0j, y.numpy()), "give real numbers"),
        (lambda x, y: (x, y.float()), "same dtype"),
        (lambda x, y: (x, y.numpy()), "both as torch tensors"),
        (lambda x, y: (x, y.to("meta")), "same device"),
    ],
)
def test_other_kinds_are_named(change, message, data):
    x, y, _ = (torch.from_numpy(part) for part in data)
    with pytest.raises(TypeError, match=message):
        gp.fit(*change(x, y))
