"""The evidences of kernels that were fitted to the same data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gp.arrays import shown, to_numpy
from gp.kernels.base import Kernel
from gp.regression.posterior import Posterior
from gp.user_warnings import warn_user


@dataclass(frozen=True, eq=False)
class Comparison:
    """Log evidences of M posteriors, the highest first; made by :func:`compare`, shown by ``print``.

    Attributes
    ----------
    names : (M,). log_evidence : (M,), in nats, at the fitted hyperparameters.
    n_parameters : (M,), the numbers of fitted hyperparameters; 0 where they were given.
    notes : sentences about what makes evidences not comparable.
    """

    names: tuple[str, ...]
    log_evidence: np.ndarray
    n_parameters: np.ndarray
    notes: tuple[str, ...]

    def __str__(self) -> str:
        rows = zip(
            self.names,
            self.log_evidence,
            self.log_evidence - self.log_evidence.max(),
            self.n_parameters,
            strict=True,
        )
        lines = [f"  {name:24s} {value:12.2f} {gap:10.2f} {count:6d}" for name, value, gap, count in rows]
        head = f"  {'':24s} {'log evidence':>12s} {'difference':>10s} {'fitted':>6s}"
        return "\n".join([head, *lines, *self.notes])


def compare(posteriors: Mapping[str, Posterior]) -> Comparison:
    """Compare kernels by the evidence of the same observations.

    Parameters
    ----------
    posteriors : from :func:`gp.fit` or ``GaussianProcess.condition``, by name, two or more.

    Warns
    -----
    UserWarning : where one kernel has a lengthscale or period for each column and another one for all: the
        difference is then that of the columns' relevance, whatever the kernels; or a fit did not converge.

    Raises
    ------
    ValueError, TypeError
        Fewer than two, no posteriors, or observations that differ.
    """
    if not hasattr(posteriors, "items") or len(posteriors) < 2:
        raise ValueError(f"posteriors is {shown(posteriors)}: give a dict of two or more, by name")
    for name, each in posteriors.items():
        if not isinstance(each, Posterior):
            raise TypeError(f"posteriors[{name!r}] is a {type(each).__name__}: give a gp.Posterior")
    first_name, first = next(iter(posteriors.items()))
    for name, each in posteriors.items():
        pairs = ((each.y, first.y), (each.x, first.x))
        if not all(np.array_equal(to_numpy(a), to_numpy(b)) for a, b in pairs):
            raise ValueError(
                f"{name!r} and {first_name!r} have different observations: evidences of different data "
                "cannot be compared"
            )
    order = sorted(posteriors, key=lambda name: -float(posteriors[name].log_marginal_likelihood))
    fits = [posteriors[name].hyperparameters for name in order]
    notes = tuple(_notes(posteriors))
    for note in notes:
        warn_user(note, UserWarning)
    return Comparison(
        tuple(order),
        np.array([float(posteriors[name].log_marginal_likelihood) for name in order]),
        np.array([0 if fit is None else len(fit.names) for fit in fits]),
        notes,
    )


def _notes(posteriors: Mapping[str, Posterior]) -> list[str]:
    dimension = int(next(iter(posteriors.values())).x.shape[1])
    shared = {name: _shares_lengthscales(each.kernel, dimension) for name, each in posteriors.items()}
    notes = []
    if True in shared.values() and False in shared.values():
        of_all = ", ".join(name for name, one in shared.items() if one)
        of_each = ", ".join(name for name, one in shared.items() if one is False)
        notes.append(
            f"{of_all}: one lengthscale for all {dimension} columns, {of_each}: one for each. Give arrays of "
            "lengthscales to both, or none to either, to compare the kernels"
        )
    for name, each in posteriors.items():
        if each.hyperparameters is not None and not each.hyperparameters.converged:
            notes.append(f"{name}: its fit did not converge, and its evidence may be higher")
    return notes


def _shares_lengthscales(kernel: Kernel, dimension: int) -> bool | None:
    """Whether a lengthscale is that of several columns; ``None`` without a lengthscale of several columns."""
    sizes = [
        np.size(to_numpy(p.value))
        for p in kernel.parameters()
        if p.kind in ("lengthscale", "period") and len(p.columns or range(dimension)) > 1
    ]
    return min(sizes) == 1 if sizes else None
