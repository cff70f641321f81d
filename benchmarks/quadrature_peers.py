"""Whole runs of Bayesian quadrature beside Emukit's loops, in turns, in one process.

Emukit (0.5, with GPy) runs in the setting that suits it best: an isotropic N(0, I), its default loop
(integral variance reduction, hyperparameters after each node) and the same initial design. Integrands are
therefore brought to standard coordinates first, for both.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import bqvi
from benchmarks.paired import Line, missing, paired
from experiments.problems.integrands import Integrand, integrands, standard
from gp.low_discrepancy import scrambled_sobol

BUDGET, INITIAL = 80, 14
NAMES = ("probit 5", "logistic ELBO 5", "bump, far 5")
ROUNDS = 3


@dataclass(frozen=True, eq=False)
class Whitened:
    """An integrand brought to N(0, I): a function of points (n, D)."""

    integrand: Integrand

    @property
    def dimension(self) -> int:
        """D."""
        return self.integrand.measure.dimension

    def __call__(self, u: Any) -> Any:
        """Return f at the points that u (n, D) stands for."""
        return self.integrand.function(self.integrand.measure.standardise().map.from_standard(u))


def run() -> Iterator[Line]:
    """Emukit's two loops against 'bq' and 'wsabi-l'; one line where it is not installed."""
    absent = missing("Emukit", "emukit GPy", "emukit.quadrature", "GPy")
    if absent is not None:
        yield absent
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of GPy
        for integrand in integrands():
            if integrand.name in NAMES:
                yield from _beside(integrand)


def _beside(integrand: Integrand) -> Iterator[Line]:
    f = Whitened(integrand)
    pairs = [("bq", emukit_vanilla)]
    if integrand.non_negative:
        pairs.append(("wsabi-l", emukit_wsabi))
    for method, theirs in pairs:
        errors: dict[str, float] = {}

        def ours(method: str = method, errors: dict[str, float] = errors) -> None:
            found = bqvi.integrate(f, standard(f.dimension), BUDGET, method)
            errors["ours"] = abs(found.mean - integrand.truth)

        def peers(theirs: Callable[[Whitened], float] = theirs, errors: dict[str, float] = errors) -> None:
            errors["Emukit"] = abs(theirs(f) - integrand.truth)

        times = paired({"ours": ours, "Emukit": peers}, rounds=ROUNDS)
        ratio = times.ratio("Emukit", "ours")
        what = f"seconds of Emukit / ours, {method}, {integrand.name}, n = {BUDGET}"
        measured = (
            f"{ratio:.1f} ({times.median('Emukit'):.2f} s, {times.median('ours'):.2f} s; "
            f"errors {errors['Emukit']:.1e}, {errors['ours']:.1e})"
        )
        yield Line(what, measured, "at least 10", ratio >= 10)


def _model(f: Whitened) -> Any:
    import GPy
    from emukit.model_wrappers.gpy_quadrature_wrappers import create_emukit_model_from_gpy_model
    from emukit.quadrature.measures import GaussianMeasure

    u = standard(f.dimension).from_unit_cube(scrambled_sobol(f.dimension, INITIAL, 0))
    y = f(u)[:, None]
    gpy = GPy.models.GPRegression(u, y, GPy.kern.RBF(f.dimension, variance=float(np.var(y)), lengthscale=1.5))
    measure = GaussianMeasure(mean=np.zeros(f.dimension), variance=1.0)
    return create_emukit_model_from_gpy_model(gpy_model=gpy, measure=measure), u, y


def _looped(loop: Any, f: Whitened) -> float:
    loop.run_loop(user_function=lambda u: f(u)[:, None], stopping_condition=BUDGET - INITIAL)
    mean, _ = loop.model.integrate()
    return float(np.squeeze(mean))


def emukit_vanilla(f: Whitened) -> float:
    """Return the integral by Emukit's vanilla loop."""
    from emukit.quadrature.loop import VanillaBayesianQuadratureLoop
    from emukit.quadrature.methods import VanillaBayesianQuadrature

    model, u, y = _model(f)
    return _looped(VanillaBayesianQuadratureLoop(VanillaBayesianQuadrature(base_gp=model, X=u, Y=y)), f)


def emukit_wsabi(f: Whitened) -> float:
    """Return the integral by Emukit's WSABI-L loop."""
    from emukit.quadrature.loop import WSABILLoop
    from emukit.quadrature.methods import WSABIL

    model, u, y = _model(f)
    return _looped(WSABILLoop(WSABIL(base_gp=model, X=u, Y=y)), f)
