"""Export of a posterior. For ArviZ it is a tree of data sets, each with dimensions chain and draw first.

    posterior                 the variables of the model, with its coords and dims
    unconstrained_posterior   the unconstrained parameters of the run, where a model was given
    sample_stats              lp (log density of q)
    observed_data, constant_data   of the model, without chain and draw

ArviZ 1.x accepts the tree; of ArviZ 0.x, where that is installed, `as_arviz` makes its InferenceData.
`Posterior.to_netcdf` writes the tree to a file that ``arviz.from_netcdf`` of both versions reads. Both need
the extra ``arviz`` (ArviZ, xarray, h5netcdf). The density is exported as a distribution of torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np

from gp.checks import require_integer
from gp.names import needing

if TYPE_CHECKING:
    import xarray
    from torch import distributions

    from bqvi.calls.target_model import TargetModel
    from bqvi.posterior.posterior import Posterior

_CHAINS = 4
"""The number of chains into which independent draws are divided, as ArviZ's diagnostics compare chains."""
_NOTE = (
    "independent draws, parted into chains for ArviZ: diagnostics of Markov chains (r_hat, ess) do not judge "
    "them; see converged, log_evidence_sd and pareto_k of the run"
)


def data_tree(posterior: Posterior, n: int, seed: int, attributes: Mapping[str, Any]) -> xarray.DataTree:
    """Draws of a posterior as an xarray DataTree.

    Parameters
    ----------
    n : draws, at least 4; they are parted into four chains, as ArviZ expects chains.
    seed : seed of the draws.
    attributes : numbers and strings to be kept with the draws, such as log_evidence.

    Raises
    ------
    ImportError
        xarray is not installed.
    """
    with needing():
        import xarray
    length = require_integer("n", n, _CHAINS) // _CHAINS
    free = posterior.unconstrained
    draws = free.sample(_CHAINS * length, seed)
    plain = {name: int(x) if isinstance(x, bool | np.bool_) else x for name, x in attributes.items()}
    stored = {"inference_library": "bqvi", "note": _NOTE, **plain}
    model = posterior.model

    def table(columns: Mapping[str, np.ndarray], drawn: bool = True) -> xarray.Dataset:
        leading = {"chain": _CHAINS, "draw": length} if drawn else {}
        variables, coords = {}, {name: np.arange(count) for name, count in leading.items()}
        for name, x in columns.items():
            array = np.asarray(x)
            inner = array.shape[1:] if drawn else array.shape
            dims = () if model is None else tuple(model.dims.get(name, ()))
            if len(dims) != len(inner):  # as ArviZ names those without one
                dims = tuple(f"{name}_dim_{i}" for i in range(len(inner)))
            variables[name] = ((*leading, *dims), array.reshape((*leading.values(), *inner)))
            coords |= _labels(model, dims, inner)
        return xarray.Dataset(variables, coords=coords, attrs=stored)

    groups = {"posterior": table(posterior.variables(len(draws), seed))}
    if model is not None or free is not posterior:
        groups["unconstrained_posterior"] = table(dict(zip(free.names, draws.T, strict=True)))
    groups["sample_stats"] = table({"lp": free.log_prob(draws)})
    data = {} if model is None else {"observed_data": model.observed, "constant_data": model.constants}
    groups |= {name: table(columns, drawn=False) for name, columns in data.items() if columns}
    return xarray.DataTree.from_dict(groups)


def as_arviz(tree: xarray.DataTree) -> Any:
    """The ``tree`` as the installed ArviZ reads it: as it is, or as InferenceData before ArviZ 1."""
    try:
        before_one = metadata.version("arviz").startswith("0.")
    except metadata.PackageNotFoundError:
        return tree
    if not before_one:
        return tree
    import arviz

    inference_data: Any = arviz.InferenceData  # whose methods have no types
    return inference_data.from_datatree(tree)


def _labels(model: TargetModel | None, dims: tuple[str, ...], shape: tuple[int, ...]) -> dict[str, Any]:
    """Labels along the dimensions: the model's, or numbers from 0."""
    given = {} if model is None else model.coords
    return {
        dim: np.asarray(given[dim]) if len(given.get(dim, ())) == count else np.arange(count)
        for dim, count in zip(dims, shape, strict=True)
    }


def torch_distribution(posterior: Posterior) -> distributions.Distribution:
    """The density q over the D free parameters as a torch distribution, in float64.

    It is a mixture in the charts' coordinates, with a transform for each. A periodic parameter is in the
    period around the middle of its plausible interval and is not wrapped.
    """
    with needing():
        import torch
        from torch import distributions as of
        from torch.distributions import transforms as to

    def transform(name: str, low: float, high: float) -> to.Transform:
        if name == "above":
            return to.ComposeTransform([to.ExpTransform(), to.AffineTransform(low, 1.0)])
        if name == "below":
            flipped = to.AffineTransform(0.0, -1.0)
            return to.ComposeTransform([flipped, to.ExpTransform(), to.AffineTransform(high, -1.0)])
        if name == "between":
            normal = of.Normal(*torch.eye(2, dtype=torch.float64)[1])
            scaled = to.AffineTransform(low, high - low)
            return to.ComposeTransform([to.CumulativeDistributionTransform(normal), scaled])
        return to.identity_transform

    coordinates, q = posterior.coordinates, posterior.q
    to_charts = coordinates.to_charts
    means, factors = to_charts.from_standard(q.means), to_charts.scale @ q.factors
    mixture = of.MixtureSameFamily(
        of.Categorical(torch.as_tensor(q.weights)),
        of.MultivariateNormal(torch.as_tensor(means), scale_tril=torch.as_tensor(factors)),
    )
    columns = [to.IndependentTransform(transform(*chart), 1) for chart in coordinates.charts()]
    if all(name == "line" for name, _, _ in coordinates.charts()):
        return mixture
    return of.TransformedDistribution(mixture, [to.CatTransform(columns, dim=-1, lengths=[1] * len(columns))])
