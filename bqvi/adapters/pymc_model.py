"""`from_pymc`: a PyMC model. The unconstrained vector is that of PyMC's own samplers.

Density and gradient are ``logp_dlogp_function``: priors, likelihoods, potentials and the Jacobians of every
transform. The maps from draws to variables and back are compiled when they are first used. The box of the
prior is the central 95 % of draws from the prior, for which the log joint is not evaluated.

PyMC 5.28 adds the logarithm of the normaliser c of an LKJ density p(R) = |R|^(eta - 1) / c, where it has to
be subtracted; for R of n dimensions (Lewandowski, Kurowicka and Joe 2009, Eq. 16)

    ln c = sum_{k < n} k ln(pi) / 2 + ln Gamma(eta + (n - 1 - k) / 2) - ln Gamma(eta + (n - 1) / 2).

A log evidence is wrong by 2 ln c. The error is computed at R = I, where ln p = -ln c; a version of PyMC
without the error is not corrected.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from bqvi.adapters.variables import PRIOR_DRAWS, Compiled, box_of_draws, start_within
from bqvi.calls.function import VectorLayout
from bqvi.calls.target_model import TargetModel
from gp.names import needing
from gp.user_warnings import warn_user

_KINDS = ("_LKJCholeskyCovRV", "LKJCorrRV")


def log_normaliser(n: int, eta: float) -> float:
    """The logarithm of the integral of |R|^(eta - 1) over correlation matrices of ``n`` dimensions."""
    k = np.arange(1, n)
    terms = 0.5 * k * np.log(np.pi) + gammaln(eta + 0.5 * (n - 1 - k)) - gammaln(eta + 0.5 * (n - 1))
    return float(terms.sum())


def excess(model: Any) -> float:
    """The excess of a PyMC model's log density over the normalised one, from all its LKJ variables."""
    import pymc

    total = 0.0
    for variable in [*model.free_RVs, *model.observed_RVs]:
        if type(variable.owner.op).__name__ in _KINDS:
            inputs, cholesky = variable.owner.inputs, type(variable.owner.op).__name__ == _KINDS[0]
            found = [x.eval(mode="FAST_COMPILE") for x in (inputs[1:3] if cholesky else inputs[-2:])]
            n, eta = int(found[0]), float(found[1])  # constants for PyMC's own density, too
            one = pymc.LKJCorr.dist(n=n, eta=eta)
            identity = np.eye(n) if one.ndim == 2 else np.zeros(n * (n - 1) // 2)
            total += float(pymc.logp(one, identity).eval(mode="FAST_COMPILE")) + log_normaliser(n, eta)
    return total if abs(total) > 1e-9 else 0.0


def from_pymc(
    model: Any,
    *,
    start: Any = None,
    plausible_lower: Any = None,
    plausible_upper: Any = None,
    seed: int = 0,
) -> TargetModel:
    """The log joint of a PyMC model over its unconstrained parameters, with its gradient.

    Parameters
    ----------
    model : a ``pymc.Model`` whose free variables are continuous. Its data are read when this function is
        called; after ``pymc.set_data`` it has to be called again.
    start : the unconstrained point (P,) where a run begins; by default the ``initval`` of variables that have
        one, and for the others 0 or, where the central 95 % of the prior do not contain 0, their middle.
        Where the prior cannot be drawn from (``Flat``), the default is PyMC's initial point.
    plausible_lower, plausible_upper : the ends of the plausible box, (P,) or a number, unconstrained; by
        default the central 95 % of draws from the prior, or 2 to either side of ``start`` where the prior
        cannot be drawn from. Where they are not given, `bqvi.vbmc` begins 2 to either side of ``start``, and
        `bqvi.fit` with 'bq' searches for a box; `bqvi.integrate` asks for a measure.
    seed : the seed of the draws from the prior.

    Returns
    -------
    TargetModel
        The model, with the names of PyMC's value variables ("tau_log__") and PyMC's coords and dims.
        Compilation takes a few seconds, and about twenty the first time.

    Raises
    ------
    ImportError
        PyMC is not installed: the extra ``pymc``.
    TypeError, ValueError
        ``model`` is no PyMC model, has discrete or no free variables, nothing observed, a data container that
        nothing uses or that has missing values, or is not in float64.

    Warns
    -----
    UserWarning
        PyMC's density of an LKJ variable is not normalised; the log joint is (`bqvi.adapters.pymc_model`).
    """
    with needing():
        import pymc
    if not isinstance(model, pymc.Model):
        raise TypeError(f"model is {model!r:.100}; it must be a pymc.Model")
    _check(model)
    density = model.logp_dlogp_function(ravel_inputs=True)
    density.set_extra_values({})
    off = excess(model)
    if off:
        warn_user(
            f"PyMC {pymc.__version__} has the normaliser of the LKJ distribution with the wrong sign; the "
            f"log joint is PyMC's less {off:.6g} nats, which corrects the evidence"
        )
    called = _Density(density, off)
    first = model.initial_point(seed)
    layout = VectorLayout({value.name: tuple(np.shape(first[value.name])) for value in density._grad_vars})
    variables = _PyMCVariables(model, layout)
    prior = _prior_box(model, layout, seed)
    given = {variable.name: model.rvs_to_values[variable] for variable in model.observed_RVs}
    return TargetModel(
        log_joint=called.value,
        names=layout.names,
        log_joint_and_gradient=called.value_and_gradient,
        start=_start(model, layout, first, prior) if start is None else start,
        plausible_lower=plausible_lower,
        plausible_upper=plausible_upper,
        to_named=variables.constrained,
        from_named=variables.unconstrained,
        coords={name: list(labels) for name, labels in model.coords.items() if labels is not None},
        dims={name: tuple(map(str, dims)) for name, dims in model.named_vars_to_dims.items()},
        observed={name: np.asarray(value.eval(mode="FAST_COMPILE")) for name, value in given.items()},
        constants={data.name: np.asarray(data.get_value()) for data in model.data_vars},
        package=f"PyMC {pymc.__version__}",
        prior_box=prior,
    )


def _check(model: Any) -> None:
    """Raise ValueError where a model cannot be used; the message names the variables and says what to do."""
    from pytensor.graph.traversal import ancestors

    discrete = [variable.name for variable in model.free_RVs if variable.dtype[:5] != "float"]
    if discrete:
        raise ValueError(
            f"the model has discrete free variables: {', '.join(discrete)}. Sum them out, for instance by "
            "pymc.Mixture or pymc.Categorical's probabilities in a pymc.Potential"
        )
    if not model.free_RVs:
        raise ValueError("the model has no free variables: there is nothing to infer")
    if not (model.observed_RVs or model.potentials):
        raise ValueError(
            "the model has no observed variable and no potential: its posterior is its prior, and its "
            "evidence 1. Give a variable observed=..."
        )
    for data in model.data_vars:
        values = np.asarray(data.get_value())
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise ValueError(
                f"the data container {data.name} has missing values; give the masked array itself as "
                "observed=..., so that PyMC makes free variables of them, or leave the rows out"
            )
    used = set(ancestors([*model.basic_RVs, *model.deterministics, *model.potentials]))
    if unused := [data.name for data in model.data_vars if data not in used]:
        raise ValueError(
            f"no variable of the model uses the data container {', '.join(unused)}: give it as observed=..., "
            "or take it out of the model"
        )
    single = [value for value in model.value_vars if value.dtype != "float64"]
    if single:
        raise ValueError(
            f'{single[0].name} is {single[0].dtype}; set pytensor.config.floatX = "float64" before the model '
            "is built"
        )


def _prior_box(model: Any, layout: VectorLayout, seed: int) -> tuple[np.ndarray, np.ndarray] | None:
    """The ends (P,), (P,) of the central 95 % of draws from the prior; None where it cannot be drawn from."""
    from pymc.initial_point import make_initial_point_fn

    try:
        drawn = make_initial_point_fn(model=model, overrides=dict.fromkeys(model.free_RVs, "prior"))
        rng = np.random.default_rng(seed)
        draws = [layout.joined(drawn(int(rng.integers(2**31)))) for _ in range(PRIOR_DRAWS)]
    except NotImplementedError:  # PyMC cannot draw from a flat prior
        return None
    return box_of_draws(np.array(draws))


def _start(
    model: Any,
    layout: VectorLayout,
    first: Mapping[str, Any],
    prior: tuple[np.ndarray, np.ndarray] | None,
) -> np.ndarray:
    """The start (P,) of a run: PyMC's initial point ``first`` for an ``initval`` or without prior draws."""
    if prior is None:
        return layout.joined(first)
    values = layout.parted(start_within(*prior))
    for variable in model.free_RVs:
        if model.rvs_to_initial_values[variable] is not None:
            name = model.rvs_to_values[variable].name
            values[name] = first[name]
    return layout.joined(values)


class _Density(NamedTuple):
    """The compiled density, less the constant ``off``; PyMC computes the gradient with each value."""

    density: Any
    off: float

    def value_and_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The log joint and its gradient (P,) at theta (P,)."""
        value, gradient = self.density(theta)
        return float(value) - self.off, np.asarray(gradient)

    def value(self, theta: np.ndarray) -> float:
        """The log joint at theta (P,)."""
        return self.value_and_gradient(theta)[0]


class _PyMCVariables(Compiled):
    """The maps from unconstrained vectors to the variables of the model and back, compiled at first use."""

    def __init__(self, model: Any, layout: VectorLayout) -> None:
        self.model, self.layout = model, layout

    def constrained(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Free variables and deterministics (n, ...) by name at theta (n, P)."""
        rows = [self._constrain(self.layout.parted(point)) for point in theta]
        wanted = {variable.name for variable in [*self.model.free_RVs, *self.model.deterministics]}
        return {
            variable.name: np.stack([np.asarray(row[i]) for row in rows])
            for i, variable in enumerate(self.model.unobserved_value_vars)
            if variable.name in wanted
        }

    def unconstrained(self, values: Mapping[str, Any]) -> np.ndarray:
        """The parameters theta (P,) of the free variables by name."""
        free = {variable.name: np.asarray(values[variable.name], float) for variable in self.model.free_RVs}
        found = self._unconstrain(**free)
        names = [self.model.rvs_to_values[variable].name for variable in self.model.free_RVs]
        return self.layout.joined(dict(zip(names, found, strict=True)))

    @cached_property
    def _constrain(self) -> Any:
        model = self.model
        return model.compile_fn(inputs=model.value_vars, outs=model.unobserved_value_vars, point_fn=True)

    @cached_property
    def _unconstrain(self) -> Any:
        import pytensor
        from pytensor.graph.replace import clone_replace

        model = self.model
        given = {variable: variable.type(variable.name) for variable in model.free_RVs}
        outputs = []
        for variable, value in given.items():
            transform = model.rvs_to_transforms[variable]
            outputs.append(value if transform is None else transform.forward(value, *variable.owner.inputs))
        outputs = clone_replace(outputs, replace=given)
        return pytensor.function(list(given.values()), outputs, on_unused_input="ignore")
