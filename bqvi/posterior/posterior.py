"""The posterior of the parameters after a run, in the user's units.

q is a mixture of Gaussians in the coordinates v; a single Gaussian is a mixture of one (`Posterior.of`). In
the charts' coordinates t = shift + matrix v it is a mixture too, and theta_i is a function of t_i alone, so
that all expectations are integrals in one or two dimensions:

    E theta_i            Gauss-Hermite in each component of the marginal of t_i
    E theta_i theta_j    the same in (t_i, t_j)
    marginals            of t_i, with the slope of the chart

Where the surrogate corrects q by importance weights, the posterior also has weighted draws: `sample`, `mean`,
`covariance` and `quantiles` are those of the weighted draws; the density, the mode and the marginal densities
are those of q.

Draws of periodic parameters are wrapped into [lower, upper). Their moments are computed on the period around
the mean direction of the weighted draws, or without these around the middle of the plausible interval, and
the mean is wrapped afterwards. A fixed parameter is a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr

from bqvi import families, notebook
from bqvi.calls.coordinates import Coordinates, make_coordinates
from bqvi.calls.target_model import TargetModel
from bqvi.importance import normalised, resampled
from bqvi.records import DERIVED, write_record
from gp.arrays import Array, to_numpy
from gp.checks import require_integer, require_seed
from gp.measures import Gaussian, GaussianMixture
from gp.measures.mixture import MixtureDensity
from gp.names import suggesting
from gp.threads import single_threaded

if TYPE_CHECKING:
    import torch
    from matplotlib.figure import Figure


_ROUNDS = 20
"""Rounds of expectation maximisation."""


@dataclass(frozen=True, eq=False)
class WeightedDraws:
    """Draws that represent the posterior together with their weights.

    Attributes
    ----------
    points : (n, D), in the coordinates.
    log_weights : (n,), of any common size.
    """

    points: np.ndarray
    log_weights: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        """Normalised weights, (n,)."""
        return normalised(self.log_weights)

    def mixture(self, groups: np.ndarray) -> GaussianMixture:
        """The mixture fitted by expectation maximisation (Dempster, Laird and Rubin 1977).

        Parameters
        ----------
        groups : (n,), integers from 0, the component of each draw at first. A component of fewer than
            2 (D + 1) effective draws is left out, unless it is the only one.
        """
        x, weights = self.points, self.weights
        shares = np.eye(int(groups.max()) + 1)[groups]
        for _ in range(_ROUNDS):
            parts = shares * weights[:, None]
            size = parts.sum(0) ** 2 / np.maximum(np.square(parts).sum(0), 1e-300)
            parts = parts[:, (size >= 2 * (x.shape[1] + 1)) | (size == size.max())]
            mass = parts.sum(0)
            means = (parts.T @ x) / mass[:, None]
            centred = x - means[:, None]
            covariances = (centred * (parts / mass).T[:, :, None]).mT @ centred
            np.einsum("kii->ki", covariances)[:] *= 1.0 + 1e-9  # rounding: correlations of one
            q = GaussianMixture(mass / mass.sum(), means, 0.5 * (covariances + covariances.mT))
            logs = MixtureDensity.of(q.weights, q.means, q.factors).log_parts(x)
            shares = np.exp(logs - np.logaddexp.reduce(logs, axis=0)).T
        return q


def weighted_quantiles(theta: np.ndarray, weights: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Quantiles (J, P) at J levels of draws theta (n, P) with weights (n,) of sum one."""
    columns = []
    for x in theta.T:
        order = np.argsort(x)
        reached = np.cumsum(weights[order]) - 0.5 * weights[order]
        columns.append(np.interp(levels, reached, x[order]))
    return np.stack(columns, axis=1)


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_BISECTIONS = 80
"""The number of bisections: 2^-80 of the bracket is below rounding."""


def _chart_moments(coordinates: Coordinates, raw: GaussianMixture) -> tuple[np.ndarray, np.ndarray]:
    """Mean (D,) and covariance (D, D) of the free parameters for t ~ raw."""
    d = raw.dimension
    sds = np.sqrt(np.einsum("kii->ki", raw.covariances))  # (K, D)
    at = coordinates.chart_values(raw.means[:, None] + sds[:, None] * _NODES[:, None])  # (K, m, D)
    inner = np.einsum("m,kmd->kd", _WEIGHTS, at)
    mean = raw.weights @ inner
    covariance = np.empty((d, d))
    for i in range(d):
        spread = np.einsum("m,km->k", _WEIGHTS, (at[:, :, i] - mean[i]) ** 2)
        covariance[i, i] = raw.weights @ spread
        for j in range(i):
            # t_j given t_i is Gaussian: for each node of t_i there are nodes of t_j
            slope = raw.covariances[:, i, j] / sds[:, i]
            conditional_sd = np.sqrt(np.maximum(raw.covariances[:, j, j] - slope**2, 0.0))
            t = raw.means[:, j, None, None] + slope[:, None, None] * _NODES[:, None]
            t = t + conditional_sd[:, None, None] * _NODES
            other = coordinates.axis(j).chart_values(t[..., None])[..., 0] - mean[j]
            product = np.einsum("m,n,km,kmn->k", _WEIGHTS, _WEIGHTS, at[:, :, i] - mean[i], other)
            covariance[i, j] = covariance[j, i] = raw.weights @ product
    return mean, covariance


def _mixture_quantiles(raw: GaussianMixture, i: int, levels: np.ndarray) -> np.ndarray:
    """Quantiles of the coordinate t_i at levels (J,), by bisection of its distribution function."""
    means, sds = raw.means[:, i], np.sqrt(raw.covariances[:, i, i])
    low = np.full(len(levels), (means - 40 * sds).min())
    high = np.full(len(levels), (means + 40 * sds).max())
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        below = raw.weights @ ndtr((middle - means[:, None]) / sds[:, None]) < levels
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)


KIND, FORMAT = "bqvi.Posterior", 3
"""Kind and version of the file that ``save`` writes and `bqvi.load` reads."""
_GAUSSIANS = Gaussian | families.Gaussian | families.DiagonalGaussian
_SHOWN = 20
"""The most parameters that a notebook shows."""
_WIDEST = 8.0
"""Standard deviations around a component within which a mode is searched for."""


def mixture_of(q: Any) -> GaussianMixture:
    """The Gaussian, or mixture of these, q of `bqvi.families` or `gp.measures` as a mixture in float64."""
    if all(hasattr(q, part) for part in ("weights", "means", "covariances")):
        parts = tuple(to_numpy(x) for x in (q.weights, q.means, q.covariances))
    elif isinstance(q, _GAUSSIANS):
        parts = np.ones(1), to_numpy(q.mean)[None], to_numpy(q.covariance)[None]
    else:
        raise TypeError(
            f"q is a {type(q).__name__}; it must be a Gaussian or a mixture of Gaussians over R^D"
        )
    return GaussianMixture(*(x.astype(float) for x in parts))


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of P parameters, D of which are free.

    Attributes
    ----------
    q : a mixture of Gaussians on R^D, in the coordinates.
    coordinates : the map from the coordinates to the parameters.
    draws : draws with importance weights under the surrogate, where the weights are reliable.
    model : the `bqvi.calls.TargetModel` to which the parameters belong, if one was given; it is not saved.
    """

    q: GaussianMixture
    coordinates: Coordinates
    draws: WeightedDraws | None = None
    model: TargetModel | None = field(default=None, metadata=DERIVED)

    def __post_init__(self) -> None:
        if self.q.dimension != self.coordinates.dimension:
            raise ValueError(
                f"q has dimension {self.q.dimension}; the coordinates have {self.coordinates.dimension}"
            )

    def __repr__(self) -> str:
        parts = f"{len(self.q.weights)} components" + (
            f", {len(self.draws.points)} draws" if self.draws is not None else ""
        )
        shown = ", ".join(self.names[:4]) + (", ..." if len(self.names) > 4 else "")
        return f"Posterior({len(self.names)} parameters: {shown}; {parts})"

    def _repr_html_(self) -> str:
        """Mean and standard deviation of each parameter as a table, for notebooks; of the first twenty."""
        summaries = list(zip(self.names, self.mean, self.sd, strict=True))
        rows = {name: f"{mean:.4g} ± {sd:.2g}" for name, mean, sd in summaries[:_SHOWN]}
        return notebook.table(
            rows | ({"...": f"{len(summaries)} parameters"} if len(summaries) > _SHOWN else {})
        )

    @classmethod
    def of(
        cls,
        q: Any,
        coordinates: Coordinates | None = None,
        names: Sequence[str] | None = None,
        model: TargetModel | None = None,
    ) -> Self:
        """The posterior with density q and without weighted draws.

        Parameters
        ----------
        q : over R^D: a `Gaussian`, `DiagonalGaussian` or `GaussianMixture` of `bqvi.families`, or a
            `Gaussian` or `GaussianMixture` of `gp.measures`.
        coordinates : the map from q's coordinates to the parameters; ``None`` if q is over the parameters.
        names : D different names, where ``coordinates`` is None; by default the model's, or x0, x1, ...
        model : the model to which the parameters belong, if any.
        """
        mixture = mixture_of(q)
        if coordinates is None:
            names = model.names if names is None and model is not None else names
            coordinates = make_coordinates(
                plausible_lower=-1.0, plausible_upper=1.0, names=names, dimension=mixture.dimension
            )  # the coordinates are the parameters here, so the plausible box is [-1, 1]^D
        return cls(mixture, coordinates, model=model)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the P parameters."""
        return self.coordinates.names

    @property
    def free_names(self) -> tuple[str, ...]:
        """Names of the D free parameters."""
        return self.coordinates.free_names

    @property
    def unconstrained(self) -> Posterior:
        """The posterior of the run's parameters: of a model with variables of its own another one."""
        return self

    @suggesting
    def sample(self, n: int, seed: int | np.random.Generator = 0) -> np.ndarray:
        """Draws (n, P) by the seed; from the weighted draws, if there are any, by systematic resampling."""
        require_integer("n", n, 1)
        require_seed("seed", seed)
        rng = np.random.default_rng(seed)
        if self.draws is None:
            return self.coordinates.to_user(self.q.sample(n, rng))
        index = rng.permutation(resampled(self.draws.weights, n, rng))
        return self.coordinates.to_user(self.draws.points[index])

    def variables(self, n: int, seed: int | np.random.Generator = 0) -> dict[str, np.ndarray]:
        """``n`` draws by the ``seed`` as the variables of the model by name, (n, ...) each.

        Without a `model` they are the parameters by name, (n,) each.
        """
        draws = self.sample(n, seed)
        return (
            dict(zip(self.names, draws.T, strict=True)) if self.model is None else self.model.constrain(draws)
        )

    def log_prob(self, theta: Array) -> np.ndarray:
        """Log density of q (n,) at theta (n, P), or a number at (P,), with the Jacobian.

        It is the density of the free parameters: -inf outside of the bounds and off a fixed value.
        """
        given = np.asarray(theta, float)
        if given.ndim not in (1, 2) or given.shape[-1] != self.coordinates.n_parameters:
            count = self.coordinates.n_parameters
            raise ValueError(f"theta has shape {given.shape}; it must be (n, {count}) or ({count},)")
        rows = np.atleast_2d(given)
        inside = self.coordinates.inside(rows).all(axis=1)
        values = np.full(len(rows), -np.inf)
        if inside.any():
            points = self.coordinates.from_user(rows[inside])
            values[inside] = self.q.log_density(points) - self.coordinates.log_jacobian(points)
        return values if given.ndim == 2 else values[0]

    @property
    def mean(self) -> np.ndarray:
        """Means of the parameters, (P,)."""
        return self.coordinates.wrapped(self._moments()[0][None])[0]

    @property
    def sd(self) -> np.ndarray:
        """Standard deviations of the parameters, (P,)."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def covariance(self) -> np.ndarray:
        """Covariance of the parameters, (P, P); zero in the rows of fixed parameters."""
        return self._moments()[1]

    def _weighted(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The parameters (m, P) at the draws and their weights (m,); None without draws.

        Periodic ones are on the period around their mean direction.
        """
        if self.draws is None:
            return None
        theta, weights = self.coordinates.unwrapped(self.draws.points), self.draws.weights
        for i, (_, low, high) in zip(self.coordinates.free, self.coordinates.charts(), strict=True):
            if self.coordinates.periodic[i]:
                turns = (theta[:, i] - low) / (high - low) - 0.5
                middle = np.angle(weights @ np.exp(2j * np.pi * turns)) / (2 * np.pi)
                theta[:, i] -= (high - low) * np.round(turns - middle)
        return theta, weights

    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean before wrapping and covariance of all parameters."""
        if (weighted := self._weighted()) is not None:
            rows, weights = weighted
            mean = rows[0] + weights @ (rows - rows[0])  # of a constant exactly that
            return mean, ((rows - mean).T * weights) @ (rows - mean)
        mean, covariance = _chart_moments(self.coordinates, self._raw())
        free = self.coordinates.free
        full = self.coordinates.lower.copy()
        full[free] = mean
        matrix = np.zeros((len(full), len(full)))
        matrix[np.ix_(free, free)] = covariance
        return full, matrix

    def _raw(self) -> GaussianMixture:
        """q in the charts' coordinates t."""
        to_charts = self.coordinates.to_charts
        covariances = to_charts.scale @ self.q.covariances @ to_charts.scale.T
        symmetric = 0.5 * (covariances + np.swapaxes(covariances, -1, -2))
        return GaussianMixture(self.q.weights, to_charts.from_standard(self.q.means), symmetric)

    @single_threaded()
    def mode(self) -> np.ndarray:
        """The point of largest density of q in the user's units, (P,).

        It is found by climbs from the means of the largest components, at most 8 standard deviations away
        from them, as a density that grows towards a bound has no mode inside.
        """
        order = np.argsort(self.q.weights)[::-1][:10]
        found = [self._climbed(self.q.means[k], np.sqrt(np.diag(self.q.covariances[k]))) for k in order]
        point = max(found, key=lambda pair: pair[0])[1]
        return self.coordinates.to_user(point[None])[0]

    def _climbed(self, start: np.ndarray, sd: np.ndarray) -> tuple[float, np.ndarray]:
        """The largest density reached from ``start``, and its point."""
        density = MixtureDensity.of(self.q.weights, self.q.means, self.q.factors)

        def negative(u: np.ndarray) -> tuple[float, np.ndarray]:
            v = (start + sd * u)[None]
            value, slope = density.with_gradient(v)
            slope = slope[0] - self.coordinates.log_jacobian_gradient(v)[0]
            return float(self.coordinates.log_jacobian(v)[0] - value[0]), -slope * sd

        bounds = [(-_WIDEST, _WIDEST)] * len(start)
        end = minimize(negative, np.zeros(len(start)), jac=True, method="L-BFGS-B", bounds=bounds)
        return -float(end.fun), start + sd * end.x

    def quantiles(self, levels: Sequence[float] | np.ndarray) -> np.ndarray:
        """Quantiles (J, P) of each parameter at the J levels in (0, 1).

        Those of a periodic parameter are on the period of its moments, not wrapped.
        """
        wanted = np.asarray(levels, float)
        if wanted.ndim != 1 or not ((wanted > 0) & (wanted < 1)).all():
            raise ValueError(f"levels is {levels!r}; it must be numbers strictly between 0 and 1")
        if (weighted := self._weighted()) is not None:
            return weighted_quantiles(*weighted, wanted)
        raw = self._raw()
        t = np.stack([_mixture_quantiles(raw, i, wanted) for i in range(raw.dimension)], axis=1)
        return self.coordinates.unwrapped(self.coordinates.to_charts.to_standard(t))

    def marginal_density(self, parameter: int | str, x: np.ndarray) -> np.ndarray:
        """Density of q for one free parameter, (n,) at the values x (n,)."""
        values = np.asarray(x, float)
        index = self._index(parameter)
        position = int(np.flatnonzero(self.coordinates.free == index)[0])
        marginal = self._raw().marginal([position])
        axis = self.coordinates.axis(position)
        inside = axis.inside(values[:, None])[:, 0]
        density = np.zeros(len(values))
        if inside.any():
            points = axis.from_user(values[inside][:, None])
            logs = marginal.log_density(axis.to_charts.from_standard(points))
            log_slope = axis.log_jacobian(points) - axis.to_charts.log_determinant
            density[inside] = np.exp(logs - log_slope)
        return density

    def _index(self, parameter: int | str) -> int:
        names = list(self.names)
        index = names.index(parameter) if parameter in names else parameter
        if isinstance(index, str) or not 0 <= index < len(names):
            raise ValueError(f"parameter is {parameter!r}; it must be one of {', '.join(names)}, or an index")
        if index not in self.coordinates.free:
            raise ValueError(f"parameter {names[index]} is fixed: it has no density")
        return int(index)

    def to_torch(self) -> torch.distributions.Distribution:
        """q over the D free parameters as a torch distribution; see `bqvi.posterior.export`."""
        from bqvi.posterior.export import torch_distribution

        return torch_distribution(self)

    def to_arviz(self, n: int = 4000, seed: int = 0, **attributes: object) -> Any:
        """``n`` draws by the seed as groups for ArviZ, with the variables of the `model` if there is one.

        See `bqvi.posterior.export`. Further ``attributes``, such as ``log_evidence``, are stored with the
        draws. The result is what the installed ArviZ reads: a DataTree of xarray, or before ArviZ 1 its
        InferenceData. The extra ``arviz`` is needed. The draws are independent: r_hat, the effective sample
        size and other diagnostics of Markov chains do not apply to them.
        """
        from bqvi.posterior.export import as_arviz, data_tree

        return as_arviz(data_tree(self, n, seed, attributes))

    def to_netcdf(self, path: str | Path, n: int = 4000, seed: int = 0, **attributes: object) -> None:
        """Write the groups of `to_arviz`, with ``n`` draws by the seed, to a netCDF file at ``path``."""
        from bqvi.posterior.export import data_tree

        data_tree(self, n, seed, attributes).to_netcdf(Path(path), engine="h5netcdf")

    @suggesting
    def plot(
        self,
        figure: Figure | None = None,
        *,
        parameters: Sequence[str] | None = None,
        truth: Sequence[float] | np.ndarray | None = None,
        n: int = 5000,
        seed: int = 0,
    ) -> Figure:
        """Draw the marginals, and draws with 50 % and 90 % contours of each pair of parameters.

        The median and the central 90 % stand above each marginal.

        Parameters
        ----------
        figure : the figure of matplotlib in which to draw; by default a new one.
        parameters : names of the parameters shown, or one name; the free ones if None.
        truth : (P,), marked by lines.
        n : draws shown. seed : of the draws.

        Returns
        -------
        The figure.

        Raises
        ------
        ImportError
            matplotlib is not installed: ``pip install "bqvi[plot]"``.
        ValueError
            A name is unknown, or truth is not of P parameters.
        """
        from bqvi.canvas import shown_figure
        from bqvi.posterior.plots import corner

        if figure is None:
            names = self.free_names if parameters is None else parameters
            size = 2.1 * (1 if isinstance(names, str) else max(len(names), 1))
            figure = shown_figure(size, size)
        return corner(self, figure, parameters, truth, n, seed)

    def __str__(self) -> str:
        """A table of the parameters: mean, sd and the central 90 %."""
        columns, width = self.summary(), max(9, *(len(name) for name in self.names))
        head = f"{'parameter':<{width}} " + " ".join(f"{title:>11}" for title in columns)
        rows = {name: " ".join(f"{x[name]:>11.5g}" for x in columns.values()) for name in self.names}
        return "\n".join([head, *(f"{name:<{width}} {row}" for name, row in rows.items())])

    def summary(self) -> dict[str, dict[str, float]]:
        """Mean, sd and the ends of the central 90 %, by parameter, as ``pandas.DataFrame`` takes them."""
        low, high = self.quantiles([0.05, 0.95])
        columns = {"mean": self.mean, "sd": self.sd, "5 %": low, "95 %": high}
        return {title: dict(zip(self.names, x.tolist(), strict=True)) for title, x in columns.items()}

    def recorded(self) -> Self:
        """The posterior with what a file has of it."""
        return self

    def save(self, path: str | Path) -> None:
        """Write plain arrays and a JSON header to one .npz file at ``path``, without pickles; atomically.

        `bqvi.load` reads it. Of a `model` it has the variables at draws.
        """
        write_record(path, {"kind": KIND, "format": FORMAT}, self.recorded())
