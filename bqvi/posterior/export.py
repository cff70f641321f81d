"""A posterior for other packages: a torch distribution, and groups that ArviZ opens.

    torch     MixtureSameFamily in the charts' coordinates t, and one transform for each coordinate
    xarray    a tree of data sets: `posterior` (chain, draw), `sample_stats` with the log density of q

`Posterior.to_netcdf` writes the tree to a file, which `arviz.from_netcdf` reads; both need the extra `arviz`
(xarray, h5netcdf).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.distributions import (
    Categorical,
    Distribution,
    MixtureSameFamily,
    MultivariateNormal,
    TransformedDistribution,
)
from torch.distributions.transforms import (
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    Transform,
    identity_transform,
)

from bqvi.checks import require_integer

if TYPE_CHECKING:
    import xarray

    from bqvi.posterior.posterior import Posterior


def torch_distribution(posterior: Posterior) -> Distribution:
    """Q over the D free parameters, in float64.

    A periodic parameter runs over the period around the middle of its plausible interval: not wrapped.
    """
    coordinates, q = posterior.coordinates, posterior.q
    affine = coordinates.raw_affine()
    factors = np.linalg.cholesky(affine.matrix @ q.covariances @ affine.matrix.T)
    mixture = MixtureSameFamily(
        Categorical(torch.as_tensor(q.weights)),
        MultivariateNormal(torch.as_tensor(affine.forward(q.means)), scale_tril=torch.as_tensor(factors)),
    )
    columns = [IndependentTransform(_transform(*chart), 1) for chart in coordinates.charts()]
    if all(name == "line" for name, _, _ in coordinates.charts()):
        return mixture
    return TransformedDistribution(mixture, [CatTransform(columns, dim=-1, lengths=[1] * len(columns))])


def _transform(name: str, low: float, high: float) -> Transform:
    """The chart as torch has it."""
    if name == "above":
        return ComposeTransform([ExpTransform(), AffineTransform(low, 1.0)])
    if name == "below":
        return ComposeTransform([AffineTransform(0.0, -1.0), ExpTransform(), AffineTransform(high, -1.0)])
    if name == "between":
        normal = torch.distributions.Normal(
            torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)
        )
        return ComposeTransform([CumulativeDistributionTransform(normal), AffineTransform(low, high - low)])
    return identity_transform


def data_tree(posterior: Posterior, n: int, seed: int, attributes: Mapping[str, Any]) -> xarray.DataTree:
    """Draws with their log densities under q as an xarray DataTree.

    Parameters
    ----------
    n : draws, at least 4; they are parted into four chains, as ArviZ expects chains.
    seed : of the draws.
    attributes : numbers and strings to be kept with the draws, such as log_evidence.

    Raises
    ------
    ImportError
        xarray is not installed.
    """
    try:
        import xarray
    except ImportError:
        raise ImportError("to_xarray needs xarray: pip install 'bqvi[arviz]'") from None
    length = require_integer("n", n, 4) // 4
    draws = posterior.sample(4 * length, seed)
    shape = (4, length)
    coords = {"chain": np.arange(4), "draw": np.arange(length)}

    plain = {name: int(x) if isinstance(x, bool | np.bool_) else x for name, x in attributes.items()}

    def table(columns: Mapping[str, np.ndarray]) -> xarray.Dataset:
        variables = {name: (("chain", "draw"), x.reshape(shape)) for name, x in columns.items()}
        return xarray.Dataset(variables, coords=coords, attrs={"inference_library": "bqvi", **plain})

    return xarray.DataTree.from_dict(
        {
            "posterior": table(dict(zip(posterior.names, draws.T, strict=True))),
            "sample_stats": table({"lp": posterior.log_prob(draws)}),
        }
    )
