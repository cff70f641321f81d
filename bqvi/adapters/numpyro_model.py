"""`from_numpyro`: a NumPyro model. The unconstrained vector is that of NumPyro's own samplers.

Density and gradient come from the potential function of ``numpyro.infer.util.initialize_model``, compiled for
batches (`bqvi.adapters.jax_function`). The box of the prior is the central 95 % of draws from the prior.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bqvi.adapters.jax_function import Jitted, batched, padded, require_double
from bqvi.adapters.variables import PRIOR_DRAWS, Compiled, box_of_draws, start_within
from bqvi.calls.function import VectorLayout
from bqvi.calls.target_model import TargetModel
from gp.names import needing


def from_numpyro(
    model: Callable[..., Any],
    *args: Any,
    start: Any = None,
    plausible_lower: Any = None,
    plausible_upper: Any = None,
    coords: Mapping[str, Sequence[Any]] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    seed: int = 0,
    **kwargs: Any,
) -> TargetModel:
    """The log joint of a NumPyro model over its unconstrained parameters, with its gradient.

    Parameters
    ----------
    model : a function of NumPyro statements, with continuous latent variables. JAX has to be in float64.
    args, kwargs : the arguments of ``model``; one with the name of an argument of this function has to be
        bound by ``functools.partial``.
    start : the unconstrained point (P,) where a run begins; by default 0 or, where the central 95 % of the
        prior do not contain 0, their middle; where the prior cannot be drawn from, its medians
        (``numpyro.infer.init_to_median``).
    plausible_lower, plausible_upper : the ends of the plausible box, as those of `from_pymc`.
    coords : dimension -> labels, which NumPyro does not have. dims : variable -> names of its dimensions; by
        default the plates that contain it.
    seed : the seed of the draws from the prior.

    Returns
    -------
    TargetModel
        The model, with parameters by site in the order of the model. NumPyro itself evaluates the log joint
        at its initial point, to check that it is finite.

    Raises
    ------
    ImportError
        NumPyro is not installed: the extra ``numpyro``.
    TypeError, ValueError
        ``model`` is no function, JAX is in float32, a latent variable is discrete, a plate draws a part of
        its data, a site is a ``numpyro.param``, random numbers are drawn by ``numpyro.prng_key``, or nothing
        is observed.
    """
    with needing():
        import numpyro
    import jax

    require_double()
    if not callable(model):
        raise TypeError(f"model is {model!r:.100}; it must be a function of NumPyro statements")
    sites = _traced(model, args, kwargs, jax.random.PRNGKey(seed))
    _check(sites)
    first = _initialised(model, args, kwargs, seed).param_info.z
    latent = [name for name in sites if name in first]
    layout = VectorLayout({name: tuple(np.shape(first[name])) for name in latent})
    site_model = _Sites(model, args, kwargs, layout, seed)
    called = Jitted(site_model.log_joint)
    given = {name: site["value"] for name, site in sites.items() if site.get("is_observed")}
    drawn = site_model.prior(PRIOR_DRAWS, jax.random.PRNGKey(seed + 1))
    prior = None if drawn is None else box_of_draws(drawn)
    if start is None:
        start = layout.joined(first) if prior is None else start_within(*prior)
    return TargetModel(
        log_joint=called.value,
        names=layout.names,
        log_joint_and_gradient=called.value_and_gradient,
        vectorised=True,
        start=start,
        plausible_lower=plausible_lower,
        plausible_upper=plausible_upper,
        to_named=site_model.constrained,
        from_named=site_model.unconstrained,
        coords=dict(coords or {}),
        dims={**_plates(sites), **(dims or {})},
        observed={name: np.asarray(x) for name, x in given.items() if x is not None and np.size(x)},
        package=f"NumPyro {numpyro.__version__}",
        prior_box=prior,
    )


def _traced(model: Callable[..., Any], args: Any, kwargs: Any, key: Any) -> Any:
    """The sites of a model by name, latent ones at medians where a prior can be drawn from, else about 0.

    ValueError where the model draws random numbers that are no site.
    """
    import numpyro
    from numpyro.handlers import seed, substitute, trace

    class Keys(numpyro.primitives.Messenger):  # type: ignore[misc]
        def process_message(self, msg: Any) -> None:
            if msg["type"] == "prng_key":
                raise ValueError(
                    "the model draws random numbers by numpyro.prng_key: its log joint is no function of the "
                    "parameters. Make them latent sites by numpyro.sample, or give fixed numbers"
                )

    seeded = seed(Keys(model), key)
    return trace(substitute(seeded, substitute_fn=numpyro.infer.init_to_median)).get_trace(*args, **kwargs)


def _initialised(model: Callable[..., Any], args: Any, kwargs: Any, seed: int) -> Any:
    """What NumPyro makes of a model for its samplers."""
    import jax
    import numpyro

    return numpyro.infer.util.initialize_model(
        jax.random.PRNGKey(seed), model, model_args=args, model_kwargs=kwargs,
        init_strategy=numpyro.infer.init_to_median,
    )  # fmt: skip


def _check(sites: Mapping[str, Any]) -> None:
    """Raise ValueError where a model cannot be used; the message names the variables and says what to do."""
    for name, site in sites.items():
        if site["type"] == "plate" and site["args"][1] is not None and site["args"][1] < site["args"][0]:
            size, part = site["args"]
            raise ValueError(
                f"the plate {name} draws {part} of {size} data anew at each call (subsample_size): its log "
                "joint is no function of the parameters. Leave subsample_size out"
            )
        if site["type"] == "param":
            raise ValueError(
                f"{name} is a numpyro.param, which is optimised; give it a prior by numpyro.sample"
            )
    samples = {name: site for name, site in sites.items() if site["type"] == "sample"}
    latent = {name: site for name, site in samples.items() if not site["is_observed"]}
    discrete = [name for name, site in latent.items() if site["fn"].support.is_discrete]
    if discrete:
        raise ValueError(
            f"the model has discrete latent variables: {', '.join(discrete)}. Sum them out, for instance by "
            "numpyro.distributions.MixtureSameFamily"
        )
    if not latent:
        raise ValueError("the model has no latent variables: there is nothing to infer")
    if len(latent) == len(samples):
        raise ValueError(
            "the model has no observed site and no factor: its posterior is its prior, and its evidence 1. "
            "Give obs=..., also in the arguments of the model"
        )


def _plates(sites: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The names of the dimensions of each variable in plates."""
    found = {}
    for name, site in sites.items():
        frames = site.get("cond_indep_stack") or []
        if site["type"] != "sample" or not frames:
            continue
        shape, events = np.shape(site["value"]), site["fn"].event_dim
        titles = [f"{name}_dim_{i}" for i in range(len(shape))]
        for frame in frames:
            at = len(shape) - events + frame.dim
            if 0 <= at < len(shape):
                titles[at] = frame.name
        found[name] = tuple(titles)
    return found


@dataclass(frozen=True, eq=False)
class _Sites(Compiled):
    """A model as functions of its unconstrained parameters theta (n, P), compiled when first called.

    Attributes
    ----------
    model, args, kwargs : the function and its arguments. layout : the layout of theta.
    seed : of NumPyro's initialisation, by which the functions are made again in another process.
    """

    model: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    layout: VectorLayout
    seed: int

    def constrained(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Latent and deterministic sites (n, ...) by name at theta (n, P)."""
        found = self._constrain(padded(theta))
        return {name: np.asarray(x)[: len(theta)] for name, x in found.items()}

    def unconstrained(self, values: Mapping[str, Any]) -> np.ndarray:
        """The parameters theta (P,) of the latent variables by name."""
        given = {name: values[name] for name in self.layout.shapes}
        return self.layout.joined(self._unconstrain(given))

    def prior(self, n: int, key: Any) -> np.ndarray | None:
        """Draws from the prior (n, P), or None where it cannot be drawn from."""
        import jax
        import numpyro

        def one(key: Any) -> Any:
            seeded = numpyro.handlers.seed(self.model, key)
            sites = numpyro.handlers.trace(seeded).get_trace(*self.args, **self.kwargs)
            return {name: sites[name]["value"] for name in self.layout.shapes}

        # Compilation removes computations that the draws do not depend on, such as simulators in the
        # likelihood.
        try:
            draws = batched(one)(jax.random.split(key, n))
        except NotImplementedError:  # NumPyro cannot draw from an improper prior
            return None
        free = batched(self._unconstrain)(draws)
        return np.concatenate([np.asarray(free[name]).reshape(n, -1) for name in self.layout.shapes], axis=1)

    def log_joint(self, theta: Any) -> Any:
        """The log joint at theta (P,), in JAX."""
        return -self._functions.potential_fn(self.layout.parted(theta))

    def _unconstrain(self, values: Mapping[str, Any]) -> Any:
        import numpyro

        return numpyro.infer.util.unconstrain_fn(self.model, self.args, self.kwargs, values)

    @cached_property
    def _functions(self) -> Any:
        return _initialised(self.model, self.args, self.kwargs, self.seed)

    @cached_property
    def _constrain(self) -> Any:
        return batched(lambda theta: self._functions.postprocess_fn(self.layout.parted(theta)))
