"""Suggestions for keywords that are no arguments of a front door."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

_ELSEWHERE = {
    "bounds": ("lower", "upper"),
    "plausible_bounds": ("plausible_lower", "plausible_upper"),
    "grad": ("gradient",),
    "jac": ("gradient",),
    "max_evaluations": ("budget",),
    "max_fun_evals": ("budget",),
    "max_iter": ("steps", "budget"),
    "n_evaluations": ("budget",),
    "n_steps": ("steps", "budget"),
    "noise": ("noise_sd",),
    "sigma": ("noise_sd",),
    "n_samples": ("samples", "budget"),
    "random_state": ("seed",),
    "rng": ("seed",),
    "verbose": ("progress",),
    "x0": ("start", "start_from"),
}
"""Arguments of other packages and the arguments here; the error suggests those that the door has."""


def require_known(door: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Require that the door takes every keyword of a call.

    Parameters
    ----------
    door : name of the door. given : the keywords of a call. known : the door's arguments.

    Raises
    ------
    TypeError
        A keyword is no argument; the message suggests one, or lists all.
    """
    for name in given:
        if name in known:
            continue
        meant = [other for other in _ELSEWHERE.get(name, ()) if other in known]
        meant = meant or difflib.get_close_matches(name, known, n=1)
        raise TypeError(
            f"{name} is no argument of {door}; "
            + (f"it takes {' and '.join(meant)}" if meant else f"its arguments are {', '.join(known)}")
        )
