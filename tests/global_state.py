"""What a process shares, and what of it has changed."""

import random
import sys

import numpy as np


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
