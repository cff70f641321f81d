"""GPyTorch's kernels as ours: against GPyTorch's own values, for any kernel that can be built."""

import gpytorch.kernels as gk
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gp

D = 3
POSITIVE = st.floats(0.2, 3.0)
DIMENSIONS = st.none() | st.lists(st.integers(0, D - 1), min_size=1, max_size=D, unique=True)


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


@st.composite
def simple_kernels(draw):
    """A kernel that is not made of others, with its parameters and active dimensions drawn."""
    name = draw(st.sampled_from(["rbf", "matern", "rq", "periodic", "linear", "constant"]))
    active = draw(DIMENSIONS)
    if name == "constant":
        return gk.ConstantKernel().double().initialize(constant=tensor([draw(POSITIVE)]))
    seen = D if active is None else len(active)
    ard = seen if draw(st.booleans()) else None
    options = {"ard_num_dims": ard, "active_dims": active}
    if name == "periodic" and ard is None:
        del options["ard_num_dims"]  # GPyTorch takes None for a number there
    lengthscale = tensor([draw(POSITIVE) for _ in range(ard or 1)])
    if name == "matern":
        kernel = gk.MaternKernel(nu=draw(st.sampled_from([0.5, 1.5, 2.5])), **options)
    else:
        kinds = {"rbf": gk.RBFKernel, "rq": gk.RQKernel, "periodic": gk.PeriodicKernel}
        kernel = (kinds | {"linear": gk.LinearKernel})[name](**options)
    kernel = kernel.double()
    if name == "linear":
        kernel.variance = lengthscale[None]
        return kernel
    kernel.lengthscale = lengthscale
    if name == "rq":
        kernel.alpha = draw(POSITIVE)
    if name == "periodic":
        kernel.period_length = lengthscale.flip(0) + 0.3
    return kernel


def composites(parts):
    scales = st.builds(lambda k, s: gk.ScaleKernel(k).double().initialize(outputscale=s), parts, POSITIVE)
    sums = st.builds(lambda a, b: a + b, parts, parts)
    return scales | sums | st.builds(lambda a, b: a * b, parts, parts)


def gram(kernel, x, y):
    return kernel(x, y).to_dense().detach().numpy()


@settings(max_examples=150, deadline=None, derandomize=True)
@given(kernel=st.recursive(simple_kernels(), composites, max_leaves=4), seed=st.integers(0, 99))
def test_values_are_those_of_gpytorch(kernel, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(6, D)), rng.normal(size=(5, D))
    ours = gp.from_gpytorch_kernel(kernel)
    theirs = gram(kernel, torch.from_numpy(x), torch.from_numpy(y))
    # GPyTorch takes distances through |x|^2 + |y|^2 - 2 x.y: for points this far apart that leaves
    # 1e-13 of them, and kernels here are at most 3^3 times their distances' error
    np.testing.assert_allclose(ours(x, y), theirs, rtol=0, atol=1e-11 * max(1, abs(theirs).max()))


@pytest.mark.parametrize(
    "kernel",
    [
        gk.CosineKernel(),
        gk.RBFKernelGrad(),  # a subclass of RBFKernel with another meaning
        gk.ScaleKernel(gk.PolynomialKernel(power=2)),
        gk.RBFKernel() + gk.CosineKernel(),
    ],
)
def test_an_unknown_kernel_is_refused_with_what_there_is(kernel):
    with pytest.raises(TypeError, match=r"(?s)no counterpart.*RBFKernel, MaternKernel.*Product"):
        gp.from_gpytorch_kernel(kernel)
    with pytest.raises(TypeError, match="no counterpart"):
        gp.GaussianProcess(kernel)


def test_a_batch_of_kernels_is_refused():
    with pytest.raises(ValueError, match="batch_shape = \\(2,\\)"):
        gp.from_gpytorch_kernel(gk.RBFKernel(batch_shape=torch.Size([2])))


def test_what_is_no_kernel_is_refused():
    with pytest.raises(TypeError, match="kernel = 'rbf': give a kernel"):
        gp.GaussianProcess("rbf")
