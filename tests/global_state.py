"""What a process shares, and what of it a test has changed.

Some packages draw from the global generators when they are first imported: JAX for the delays of its cluster
client, Rich for the numbers of links. That is no change by the test that happens to import them first, and is
taken back.
"""

import importlib.machinery
import random
import sys
from contextlib import contextmanager
from functools import partialmethod

import numpy as np

OURS = ("acquisition", "bqvi", "experiments", "gp")
LOADERS = (importlib.machinery.SourceFileLoader, importlib.machinery.ExtensionFileLoader)


def _bytes_of(numpy_state):
    return numpy_state[1].tobytes(), numpy_state[2:]


def global_state():
    """What others in the process rely on, hashable and cheap to take."""
    state = {
        "numpy's global generator": _bytes_of(np.random.get_state()),  # noqa: NPY002
        "random's global generator": hash(random.getstate()),
        "numpy's error handling": str(np.geterr()),
        "numpy's print options": str(np.get_printoptions()),
    }
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_rng_state"):
        state |= {
            "torch's global generator": torch.get_rng_state().numpy().tobytes(),
            "torch's default dtype": torch.get_default_dtype(),
            "torch's default device": str(torch.get_default_device()),
            "torch's threads": torch.get_num_threads(),
            "torch's grad mode": torch.is_grad_enabled(),
            "torch's deterministic mode": torch.are_deterministic_algorithms_enabled(),
        }
    return state


def changed(before, after):
    """Names of what is no longer as it was; what was only just imported has no before."""
    return [name for name in before if before[name] != after[name]]


@contextmanager
def generators_kept():
    """What is drawn meanwhile from the global generators of NumPy and of `random` is taken back."""
    before = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(before[0])  # noqa: NPY002
        random.setstate(before[1])


def _execute(loader, module, *, execute):
    if module.__name__.partition(".")[0] in OURS:
        return execute(loader, module)
    with generators_kept():
        return execute(loader, module)


@contextmanager
def first_imports_apart():
    """What modules of other packages draw while they are executed is taken back."""
    before = {loader: loader.__dict__.get("exec_module") for loader in LOADERS}
    for loader in LOADERS:
        loader.exec_module = partialmethod(_execute, execute=loader.exec_module)
    try:
        yield
    finally:
        for loader, execute in before.items():
            if execute is None:
                del loader.exec_module
            else:
                loader.exec_module = execute
