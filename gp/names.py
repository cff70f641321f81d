"""Names: imported when they are first used (SPEC 1), packages of an extra, and what an unknown name may mean.

An unknown name is like one that is here, or what other packages call by that name.
"""

from __future__ import annotations

import ast
import difflib
import functools
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

_EXTRAS = {
    "arviz": ("h5netcdf", "h5py", "xarray"),
    "botorch": ("botorch", "gpytorch", "linear_operator"),
    "jax": ("jax",),
    "numpyro": ("numpyro",),
    "plot": ("matplotlib",),
    "pymc": ("pymc",),
    "ray": ("ray",),
    "sklearn": ("sklearn",),
    "stan": ("bridgestan", "httpstan"),
    "torch": ("torch",),
}


@contextmanager
def needing() -> Iterator[None]:
    """A context for imports of packages that belong to an extra, as in ``pip install "bqvi[plot]"``.

    Raises
    ------
    ImportError
        Where such a package is not installed; the message names the package and the extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        for extra, packages in _EXTRAS.items():
            if package in packages:
                raise ImportError(
                    f'this needs {package}, which is not installed: pip install "bqvi[{extra}]"', name=package
                ) from None
        raise


def attach(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose names are imported when they are used.

    Parameters
    ----------
    package : its name. The names are those that its source imports under ``if TYPE_CHECKING``, where type
        checkers read them, and its submodules.
    """
    module = sys.modules[package]
    source = ast.parse(pkgutil.get_data(package, "__init__.py") or b"")
    blocks = [node for node in source.body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    origins = {alias.name: node.module or "" for node in imports for alias in node.names}

    def get(name: str) -> Any:
        origin = origins.get(name, package)
        if origin != package:
            with needing():
                found = getattr(importlib.import_module(origin), name)
            all_suggesting({name: found})
            setattr(module, name, found)
            return found
        if not name.startswith("_"):
            try:
                return importlib.import_module(f"{package}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{package}.{name}":
                    raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}{did_you_mean(name, dir(module))}")

    return get, lambda: sorted({*vars(module), *origins})


_C = TypeVar("_C", bound=Callable[..., Any])

TRANSFORM = (
    "of dynesty's and UltraNest's loglike and transform give lambda u: loglike(transform(u)) with "
    "lower=np.zeros(D), upper=np.ones(D), or log_likelihood=loglike and distributions as prior"
)

_ELSEWHERE = {
    "lower": "lb low lower_bound lower_bounds bounds",
    "upper": "ub high upper_bound upper_bounds bounds",
    "lengthscale": "l ls ell length_scale length_scales scale",
    "variance": "outputscale output_scale constant_value amplitude sigma_f noise_level signal_variance",
    "period": "p periodicity period_length",
    "mean": "mu loc",
    "covariance": "cov covariance_matrix sigma",
    "n_components n_topics": "k n_components n_clusters n_states n_topics num_topics",
    "concentration": "alpha weight_concentration_prior doc_topic_prior",
    "size": "batch_size minibatch_size n_rows",
    "plausible_lower": "plb plausible_bounds",
    "plausible_upper": "pub plausible_bounds",
    "start start_from": "x0 init initvals theta0 guide",
    "starts n_starts": "n_init n_restarts restarts n_restarts_optimizer num_restarts",
    "gradient": "grad jac",
    "log_joint_and_gradient": "gradient grad jac value_and_grad",
    "noise_sd": "noise noise_std sigma yerr",
    "noise": "alpha likelihood noise_variance",
    "noise=sd**2": "noise_sd noise_std sigma yerr",
    "particles": "nlive n_live live_points n_particles",
    "samples n": "n_samples num_samples num_particles size",
    "steps": "max_iter maxiter n_steps num_steps n_iter n_epochs epochs",
    "budget": "maxeval max_evals max_evaluations max_fun_evals maxfev maxcall n_evaluations nlive max_iter "
    "maxiter n n_steps n_samples num_samples draws n_epochs epochs num_iter n_iter n_evals n_points",
    "minibatch": "batch_size minibatch_size",
    "schedule=bqvi.Adam(0.01)": "lr learning_rate optimizer step_size obj_optimizer",
    "rate scale": "lr learning_rate step_size",
    "tolerance": "tol atol dlogz precision_criterion",
    "seed": "random_state random_seed rng rng_key",
    "progress": "verbose progressbar show_progress print_progress",
    "executor": "pool client",
    "n_jobs": "cores n_workers num_workers queue_size nprocs n_processes processes",
    "dimension": "dim ndim n_dim",
    "sngd": "svi",
    "monte-carlo": "mc montecarlo",
    "Periodic": "expsinesquared",
    "TargetModel": "from_function",
    "SquaredExponential": "rbf se gaussian expquad squared_exponential",
    "measure": "prior prior_transform",
    TRANSFORM: "prior_transform transform ptform nestedsampler reactivenestedsampler",
    "the number of parameters is that of the bounds, or of the priors": "dim ndim n_dim n_params d",
    "kernels are in gp.kernels: SquaredExponential (RBF), Matern52, Constant, White, ...": "rbf matern "
    "whitekernel constantkernel scalekernel rbfkernel maternkernel",
    "it is a package of its own: import gp": "gp",
    "joint covariances are posterior.covariance(x)": "return_cov full_cov",
    "several sequences are given in a list, an array each": "lengths",
    "names are the keys of a dict of bounds or priors": "names param_names parameter_names labels var_names",
    "its number stands beside the function: bqvi.Design(cheap=(function, evaluations))": "cheap_budget",
    "it is one of bqvi.vbmc, bqvi.evidence_bounds and bqvi.models.LogJoint": "log_likelihood prior",
    "a kernel of some columns is gp.kernels.Columns(kernel, (0, 2))": "active_dims",
    "lengthscales that are not given are one for each column": "ard ard_num_dims input_dim",
    "the order is in the name: gp.kernels.Matern12, Matern32 and Matern52": "nu",
    "truths are of plots: found.posterior.plot(truth=...)": "truths",
    "each option is an argument of its own, such as budget or seed": "options options_path",
    "VBMC has a function of its own: bqvi.vbmc(log_joint, ...)": "vbmc",
    "it has a function of its own: bqvi.evidence_bounds(log_joint, proposal)": "smc ais",
    "that is method 'pathwise' with family='mean-field'": "advi",
    "that is family='point', by 'cavi' (EM) or 'pathwise'": "em map mle",
}
"""One or two names here, or a sentence, for names elsewhere; the error suggests those that are possible."""


def meant(name: str, options: Iterable[str], most: int = 1) -> list[str]:
    """The ``options`` that ``name`` may mean, ``most`` of them where it is only like them; or a sentence."""
    known = list(options)
    rows = [row for row, others in _ELSEWHERE.items() if name.lower() in others.split()]
    here = [one for row in rows for one in (row.split() if row.count(" ") == 1 else [row])]
    return (
        [one for one in here if one.partition("=")[0] in known]
        or [one for one in here if " " in one]
        or difflib.get_close_matches(name, known, most)
    )


def did_you_mean(name: object, options: Iterable[str]) -> str:
    """The end of a message about an unknown name; "" where nothing is like it."""
    near = meant(str(name), options, most=3)
    if near and " " in near[0]:
        return f"; {near[0]}"
    return f". Did you mean {' or '.join(map(repr, near))}?" if near else ""


def require_known(callee: str, given: Iterable[str], known: Sequence[str], ways: Mapping[str, str]) -> None:
    """TypeError where a keyword is no argument; it suggests one, or lists all.

    Parameters
    ----------
    callee : what is called. given : the keywords. known : its arguments.
    ways : how the fields of records among these are given, by name.
    """
    for name in given:
        if name not in known:
            near = [ways.get(one, one) for one in meant(name, (*known, *ways))]
            takes = f"it takes {' and '.join(near)}" if near else f"its arguments are {', '.join(known)}"
            raise TypeError(
                f"{name} is no argument of {callee}; {near[0] if ' ' in ''.join(near) else takes}"
            )


def suggesting(called: _C) -> _C:
    """A function, or a class, whose error about its arguments names one, with what its docstring says."""
    function: Any = called.__init__ if isinstance(called, type) else called  # type: ignore[misc]

    @functools.wraps(function)
    def found(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError:
            signature = inspect.signature(called)
            require_known(called.__name__, kwargs, tuple(signature.parameters), {})
            try:
                signature.bind(*args[isinstance(called, type) :], **kwargs)
            except TypeError as error:
                missing = str(error).rpartition("argument: ")[2].strip("'")
                entry = rf"\n(?:\w+, )*{missing}(?:, \w+)* (: .*(?:\n .*)*)"
                said = re.search(entry, inspect.getdoc(called) or "") or ("", "")
                text, names = " ".join([str(error), *said[1].split()]), ", ".join(signature.parameters)
                raise TypeError(f"{called.__name__}({names}): {text}") from None
            raise

    if isinstance(called, type):
        called.__init__ = found  # type: ignore[misc]
        return called
    return found  # type: ignore[return-value]


def all_suggesting(names: Mapping[str, Any]) -> None:
    """`suggesting`, once, for each class with an ``__init__`` of its own among the ``names`` of a module."""
    for one in names.values():
        own = vars(one).get("__init__") if isinstance(one, type) else None
        if own and not hasattr(own, "__wrapped__") and not getattr(one, "_is_protocol", False):
            suggesting(one)
