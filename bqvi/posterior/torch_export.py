"""A posterior as a distribution of torch: a mixture in the charts' coordinates, with a transform for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gp.imports import needing

with needing():
    import torch
    from torch import distributions as of
    from torch.distributions import transforms as to

if TYPE_CHECKING:
    from bqvi.posterior.posterior import Posterior


def torch_distribution(posterior: Posterior) -> of.Distribution:
    """The density q over the D free parameters as a torch distribution, in float64.

    A periodic parameter is in the period around the middle of its plausible interval and is not wrapped.
    """
    coordinates, q = posterior.coordinates, posterior.q
    to_charts = coordinates.to_charts
    means, factors = to_charts.from_standard(q.means), to_charts.scale @ q.factors
    mixture = of.MixtureSameFamily(
        of.Categorical(torch.as_tensor(q.weights)),
        of.MultivariateNormal(torch.as_tensor(means), scale_tril=torch.as_tensor(factors)),
    )
    columns = [to.IndependentTransform(_transform(*chart), 1) for chart in coordinates.charts()]
    if all(name == "line" for name, _, _ in coordinates.charts()):
        return mixture
    return of.TransformedDistribution(mixture, [to.CatTransform(columns, dim=-1, lengths=[1] * len(columns))])


def _transform(name: str, low: float, high: float) -> to.Transform:
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
