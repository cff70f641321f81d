"""The global state of a process, and its changes by a test.

Some packages draw from the global generators when they are first imported: JAX for the delays of its cluster
client, Rich for the numbers of links. Such draws are not attributed to the test that imports them first, and
are reversed.
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
    """The state that other code in the process depends on, hashable and fast to read."""
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
    """The names of the states that have changed; packages imported meanwhile have no earlier state."""
    return [name for name in before if before[name] != after[name]]


@contextmanager
def generators_kept():
    """Restore the global generators of NumPy and of `random` at the end of the block."""
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
    """Restore the global generators after the import of modules of other packages."""
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
