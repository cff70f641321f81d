"""The overhead of a call of another package's model over its own density, microseconds of CPU time.

Eight schools, not centred (D = 10), in each package that is installed. A call is one point with its gradient,
through `bqvi.calls` as the engines make it; beside it the same call of the package's own function.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.paired import Line
from benchmarks.setting import clock
from bqvi.adapters import TargetModel, from_numpyro, from_pymc
from bqvi.calls import Caller

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
CALLS, BAR = 500, 200.0


def run() -> Iterator[Line]:
    """Measure each package that is installed, except Stan, whose models take minutes to build."""
    for name, made in (("pymc", _pymc), ("numpyro", _numpyro)):
        if importlib.util.find_spec(name) is not None:
            model, own = made()
            yield _compared(name, model, own)


def _compared(name: str, model: TargetModel, own: Callable[[np.ndarray], Any]) -> Line:
    caller, plain = Caller(model.function()), Caller(TargetModel(_value, model.names, _both).function())
    point = model.start
    assert point is not None
    engine = _each(lambda: plain.evaluate(point[None]))
    through, theirs = _each(lambda: caller.evaluate(point[None])), _each(lambda: own(point))
    extra = through - theirs - engine
    return Line(
        f"a call of {name}'s eight schools, beyond its own {theirs:.0f} and the engine's {engine:.0f}",
        f"{extra:.0f} microseconds",
        f"at most {BAR:g}",
        extra <= BAR,
    )


def _each(call: Callable[[], object]) -> float:
    """Microseconds of a call; the best of five rounds."""
    call()
    rounds = []
    for _ in range(5):
        began = clock()
        for _ in range(CALLS // 5):
            call()
        rounds.append((clock() - began) / (CALLS // 5))
    return 1e6 * min(rounds)


def _value(theta: np.ndarray) -> float:
    return 0.0


def _both(theta: np.ndarray) -> tuple[float, np.ndarray]:
    return 0.0, theta


def _pymc() -> tuple[TargetModel, Callable[[np.ndarray], Any]]:
    import pymc

    with pymc.Model() as model:
        mu, tau = pymc.Normal("mu", 0, 5), pymc.HalfCauchy("tau", 5)
        pymc.Normal("y", mu + tau * pymc.Normal("z", shape=8), ERRORS, observed=EFFECTS)
    own = model.logp_dlogp_function(ravel_inputs=True)
    own.set_extra_values({})
    return from_pymc(model), own


def _numpyro() -> tuple[TargetModel, Callable[[np.ndarray], Any]]:
    os.environ.setdefault("JAX_ENABLE_X64", "1")  # before JAX is first imported
    import jax
    import numpyro
    import numpyro.distributions as dist

    def model() -> None:
        mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfCauchy(5))
        with numpyro.plate("school", 8):
            z = numpyro.sample("z", dist.Normal(0, 1))
            numpyro.sample("y", dist.Normal(mu + tau * z, ERRORS), obs=EFFECTS)

    made = numpyro.infer.util.initialize_model(jax.random.PRNGKey(0), model)
    own = jax.jit(jax.value_and_grad(made.potential_fn))

    def called(theta: np.ndarray) -> Any:
        value, gradient = own({"mu": theta[0], "tau": theta[1], "z": theta[2:]})
        return float(value), {name: np.asarray(x) for name, x in gradient.items()}

    return from_numpyro(model), called
