"""Priors of SciPy, torch or the user, and the log joint that a log likelihood makes with one.

Bounds are the ends of the support; the ends of the plausible box and the start are quantiles (.16, .84 and
.5), of 16,384 draws where a distribution has none in closed form. Gradients are those of torch's densities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from bqvi.calls.coordinates import make_coordinates
from bqvi.calls.function import AUTODIFF, LOG_JOINT, Range, VectorLayout, by_name, in_order
from bqvi.calls.returned import numbers_in
from bqvi.posterior import Posterior
from bqvi.records import fingerprint
from gp.arrays import Array, is_torch, shown, to_numpy
from gp.checks import vector_of
from gp.measures import Gaussian
from gp.names import TRANSFORM, needing

BOUNDS = ("lower", "upper", "plausible_lower", "plausible_upper")
_QUANTILES, UNIT_QUANTILE = (0.16, 0.84, 0.5), ndtri(0.84)
_DRAWS = 2**14
_JOINT = ("multivariate_normal_frozen", "multivariate_t_frozen")
"""SciPy's joint distributions over R^k."""
_IN_TORCH: dict[str, Callable[..., tuple[Any, ...]]] = {
    "norm": lambda: ("Normal", 0.0, 1.0), "uniform": lambda: ("Uniform", 0.0, 1.0),
    "expon": lambda: ("Exponential", 1.0), "gamma": lambda a: ("Gamma", a, 1.0),
    "invgamma": lambda a: ("InverseGamma", a, 1.0), "beta": lambda a, b: ("Beta", a, b),
    "lognorm": lambda s: ("LogNormal", 0.0, s), "t": lambda df: ("StudentT", df),
    "cauchy": lambda: ("Cauchy", 0.0, 1.0), "laplace": lambda: ("Laplace", 0.0, 1.0),
    "halfnorm": lambda: ("HalfNormal", 1.0), "halfcauchy": lambda: ("HalfCauchy", 1.0),
}  # fmt: skip
"""SciPy's distributions in their own units: the name and the arguments of torch's."""
_KINDS = (
    "a frozen distribution of SciPy, as scipy.stats.norm(0, 1) is, or one of torch; a dict of these by "
    "parameters' names, or a sequence of them; or a function of theta that returns the log density"
)


@dataclass(frozen=True, eq=False)
class _Part:
    """A density of one or several parameters, of SciPy or torch, called ``name`` in messages."""

    name: str
    given: Any

    def __post_init__(self) -> None:
        given = self.given
        discrete = hasattr(given, "logpmf") and not isinstance(given, type) and (
            not hasattr(given, "logpdf") or np.isposinf(given.logpdf(self.quantiles[:2])).any()
        )  # fmt: skip
        if isinstance(given, type) or discrete or not (hasattr(given, "logpdf") or self._of_torch):
            said = "a discrete distribution" if discrete else shown(given)
            raise TypeError(f"{self.name} is {said}; it must be {_KINDS}")
        if not self._of_torch and hasattr(given, "freeze"):
            raise TypeError(f"{self.name} is scipy.stats.{given.name}, without arguments; it must be frozen")
        if self._of_torch:
            shapes = {np.shape(end) for end in self.ends} - {()}
            other = self._constraint.is_discrete or self._constraint.event_dim or shapes - {self.shape}
        else:
            other = not hasattr(given, "support") and self.kind not in _JOINT
        if other or len(self.shape) > 1 or self.kind.lower() == "vonmises":
            raise TypeError(
                f"{self.name} is {shown(given)}; it must be a density of a number or of a vector that lies "
                "in intervals; of an angle give scipy.stats.vonmises_line"
            )
        if not np.isfinite(self.quantiles).all():
            raise ValueError(f"{self.name}, {self.kind}, has no quantiles: look at its arguments")

    @property
    def _of_torch(self) -> bool:
        return any(kind.__module__.startswith("torch.") for kind in type(self.given).__mro__)

    @property
    def kind(self) -> str:
        """The name of the distribution."""
        return str(getattr(getattr(self.given, "dist", None), "name", type(self.given).__name__))

    @cached_property
    def _constraint(self) -> Any:
        """The support of a distribution of torch, of one entry."""
        found = self.given.support
        while hasattr(found, "base_constraint"):
            found = found.base_constraint
        return found

    @cached_property
    def ends(self) -> tuple[Any, Any]:
        """The ends of the support."""
        if not self._of_torch:
            return self.given.support() if hasattr(self.given, "support") else (-np.inf, np.inf)
        lower = getattr(self._constraint, "lower_bound", -np.inf)
        return to_numpy(lower), to_numpy(getattr(self._constraint, "upper_bound", np.inf))

    @cached_property
    def quantiles(self) -> np.ndarray:
        """The quantiles (3,) or (3, k) of each entry."""
        return self.quantiles_within(-np.inf, np.inf)

    def quantiles_within(self, low: Any, high: Any) -> np.ndarray:
        """The quantiles (3,) or (3, k) of what lies between ``low`` and ``high``, numbers or (k,); or NaN."""
        inverse = getattr(self.given, "ppf", None) or getattr(self.given, "icdf", None)
        if self._of_torch:
            import torch

            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                draws = to_numpy(self.given.sample((_DRAWS,)))
        elif inverse is not None:
            below, upto = self.given.cdf(low), self.given.cdf(high)
            return np.array([inverse(below + p * (upto - below)) for p in _QUANTILES], float)
        else:
            draws = np.reshape(self.given.rvs(size=_DRAWS, random_state=0), (_DRAWS, -1))
        kept = ((draws >= low) & (draws <= high)).reshape(_DRAWS, -1).all(1)
        draws = draws[kept] if kept.sum() > 20 else draws[:1] * np.nan
        return np.asarray(np.quantile(draws, _QUANTILES, axis=0))

    @property
    def shape(self) -> tuple[int, ...]:
        """() or (k,)."""
        return self.quantiles.shape[1:]

    @cached_property
    def twin(self) -> tuple[Any, Any, Any, Any] | None:
        """A distribution of torch, if it has it, and location, scale and log scale of parameters in it."""
        if self._of_torch:
            return self.given, 0.0, 1.0, 0.0
        with needing():
            from torch import distributions, tensor
        if self.kind == "multivariate_normal_frozen":
            mean, covariance = (tensor(np.asarray(x, float)) for x in (self.given.mean, self.given.cov))
            return distributions.MultivariateNormal(mean, covariance), 0.0, 1.0, 0.0
        if self.kind not in _IN_TORCH:
            return None
        shapes, *units = self.given.dist._parse_args(*self.given.args, **self.given.kwds)
        name, *given = _IN_TORCH[self.kind](*shapes)
        *arguments, location, scale = (tensor(np.asarray(x, float)) for x in (*given, *units))
        return getattr(distributions, name)(*arguments), location, scale, scale.log()

    def log_density(self, x: Array) -> Array:
        """The log density (n,) at x, (n,) or (n, k), inside the support; in torch's graph for tensors."""
        if is_torch(x):
            assert self.twin is not None  # checked by `Prior.require_gradient`
            one, location, scale, log_scale = self.twin
            found = one.log_prob((x - location) / scale) - log_scale
        elif self._of_torch:
            import torch

            found = to_numpy(self.given.log_prob(torch.from_numpy(np.ascontiguousarray(x))))
        else:
            found = np.atleast_1d(self.given.logpdf(x))
        return found if found.ndim == 1 else found.sum(-1)


@dataclass(frozen=True, eq=False)
class _Distributions:
    """The prior of P parameters as a product of densities.

    Attributes
    ----------
    layout : the parameters by name. parts : the densities, in the order of the parameters.
    """

    layout: VectorLayout
    parts: tuple[_Part, ...]

    @classmethod
    def of(cls, given: Any) -> _Distributions:
        """The prior of what the user gave."""
        several = isinstance(given, Mapping | Sequence) and not isinstance(given, str)
        each = given if isinstance(given, Mapping) else dict(enumerate(given if several else [given]))
        if not each:
            raise ValueError(f"prior is {shown(given)}; it must be {_KINDS}")
        parts = [_Part(f"prior[{at!r}]" if several else "prior", one) for at, one in each.items()]
        if isinstance(given, Mapping):
            layout = VectorLayout({name: part.shape for name, part in zip(given, parts, strict=True)})
        else:
            layout = VectorLayout({f"x{i}": () for i in range(sum(int(np.prod(x.shape)) for x in parts))})
        return cls(layout, tuple(parts))

    @cached_property
    def usual(self) -> dict[str, np.ndarray]:
        """Bounds, ends of the plausible box and start (P,), by argument."""
        none = np.full(len(self.layout.names), np.inf)
        return self.within(-none, none)

    def within(self, lower: np.ndarray, upper: np.ndarray) -> dict[str, np.ndarray]:
        """Bounds, box and start of the prior within bounds (P,); ValueError where these leave nothing."""
        all_ends = [[np.broadcast_to(end, p.shape).ravel() for end in p.ends] for p in self.parts]
        least, most = map(np.concatenate, zip(*all_ends, strict=True))
        low, high = np.fmax(lower, least), np.fmin(upper, most)
        fixed, at, rows = lower == upper, 0, list[np.ndarray]()
        for part in self.parts:
            of = slice(at, at + int(np.prod(part.shape)))
            ends = (np.where(fixed, least, low), np.where(fixed, most, high))
            found = part.quantiles_within(*(end[of].reshape(part.shape) for end in ends))
            rows.append(np.where(fixed[of], lower[of], found.reshape(3, -1)))
            at = of.stop
        box = np.concatenate(rows, axis=1)
        left = np.where(fixed, (least < lower) & (lower < most), low < high) & np.isfinite(box).all(0)
        if not left.all():
            where = ", ".join(np.array(self.layout.names)[~left])
            raise ValueError(f"lower and upper leave nothing, or too little, of the prior of {where}")
        return dict(zip((*BOUNDS, "start"), (low, high, *box), strict=True))

    def log_density(self, points: Array) -> Array:
        """The log density (n,) at points (n, P), -inf outside of the support."""
        low, high, start = (self.usual[name] for name in ("lower", "upper", "start"))
        where: Any = np.where
        if is_torch(points):
            import torch

            where = torch.where
            low, high, start = (points.new_tensor(x) for x in (low, high, start))
        inside = ((points > low) & (points < high)).all(-1)
        safe = where(inside[:, None], points, start)
        found, at = 0.0 * safe.sum(-1), 0
        for part in self.parts:
            size = int(np.prod(part.shape))
            found = found + part.log_density(safe[:, at : at + size] if part.shape else safe[:, at])
            at += size
        return where(inside, found, -np.inf)

    def gradient(self, points: np.ndarray) -> np.ndarray:
        """The gradient (n, P) of the log density at points (n, P)."""
        import torch

        x = torch.from_numpy(np.array(points, float)).requires_grad_()
        with torch.enable_grad():
            return to_numpy(torch.autograd.grad(self.log_density(x).sum(), x)[0])

    def require_gradient(self, gradient: object) -> None:
        """ValueError where there is none of the prior."""
        for part in self.parts:
            if part.twin is None:
                other = "of torch" if gradient == AUTODIFF else "with its gradient, (log_prior, gradient)"
                raise ValueError(
                    f"gradient is given, and that of {part.name}, scipy's {part.kind}, is not known: give a "
                    f"distribution of torch, or a function {other}"
                )

    @property
    def proposal(self) -> Posterior:
        """The Gaussian with the prior's quantiles, in coordinates of the parameters."""
        coordinates = make_coordinates(*(self.usual[name] for name in BOUNDS), names=self.layout.names)
        unit = np.eye(coordinates.dimension)
        return Posterior.of(Gaussian(np.zeros(len(unit)), unit / UNIT_QUANTILE**2), coordinates)


@dataclass(frozen=True, eq=False)
class _Stated:
    """The prior as the user's function of points, which takes many if ``vectorised``, and its gradient.

    With ``tensors`` it takes those of torch.
    """

    function: Callable[..., Any]
    slopes: Callable[..., Any] | None
    vectorised: bool
    tensors: bool

    def log_density(self, points: Array) -> Array:
        """The log density (n,) at points (n, P)."""
        if self.tensors and not is_torch(points):
            import torch

            return to_numpy(self.log_density(torch.from_numpy(points)))
        if not self.vectorised and len(points) > 1:
            return np.concatenate([to_numpy(self.log_density(point[None])) for point in points])
        found = self.function(points if self.vectorised else points[0])
        numbers = numbers_in(found)
        if numbers is None or numbers.size != len(points):
            raise TypeError(
                f"prior returned {shown(found)}; it must return one number for each point, the log of its "
                f"density; {TRANSFORM}"
            )
        return found.reshape(-1) if is_torch(found) else numbers.reshape(-1)

    def gradient(self, points: np.ndarray) -> np.ndarray:
        """The gradient (n, P)."""
        assert self.slopes is not None  # checked by `require_gradient`
        return np.reshape(self.slopes(points if self.vectorised else points[0]), points.shape)

    def require_gradient(self, gradient: object) -> None:
        """ValueError where there is none of the prior."""
        if gradient != AUTODIFF and self.slopes is None:
            raise ValueError("gradient is given, and prior is a function alone: give (log_prior, gradient)")


@dataclass(frozen=True, eq=False)
class Joint:
    """The log joint of a log likelihood of theta (P,), or if ``vectorised`` of (n, P), and a prior.

    The log likelihood is not called where the prior is zero; ``slopes`` is its gradient.
    """

    log_likelihood: Callable[..., Any]
    prior: Any
    vectorised: bool
    slopes: Any = None

    def __call__(self, theta: Array, /) -> Any:
        """The log joint; a standard deviation and a dict are passed on."""
        logs = self.prior.log_density(theta if self.vectorised else theta[None])
        inside = logs > -np.inf
        if not inside.any():
            return logs if self.vectorised else logs[0]
        if not inside.all():  # any point at which the prior is not zero, in the place of the others
            theta = theta[np.where(to_numpy(inside), np.arange(len(logs)), int(to_numpy(inside).argmax()))]
        found = self.log_likelihood(theta)
        value = found[0] if isinstance(found, tuple) and found else found
        numbers = numbers_in(value)
        if numbers is None or numbers.shape not in ((len(logs),), () if not self.vectorised else None):
            return found
        value = value + (logs if numbers.ndim else logs[0])
        return (value, *found[1:]) if isinstance(found, tuple) else value

    def gradient(self, theta: np.ndarray, /) -> Any:
        """Its gradient, (P,) or (n, P)."""
        found, more = self.slopes(theta), self.prior.gradient(np.atleast_2d(theta))
        same = numbers_in(found) is not None and np.size(found) == theta.size  # else the call is refused
        return np.reshape(found, theta.shape) + more.reshape(theta.shape) if same else found


class PosedLogJoint(NamedTuple):
    """A log joint as a door takes it."""

    value: Any
    gradient: Any
    names: tuple[str, ...] | None
    arguments: dict[str, Any]
    """Bounds and start as vectors, with those of the prior where none are given."""
    usual: Mapping[str, np.ndarray] = {}
    """Bounds, plausible box and start of a prior of distributions, within bounds that are given."""
    prior: Any = None
    """None where the log joint was given."""

    @property
    def range(self) -> Range:
        """What the function may return, with its name in messages."""
        if self.prior is None:
            return LOG_JOINT
        title, known, beside = "log of prior times likelihood", "a function", self.prior.log_density
        if self.usual:
            title, known = "log likelihood", fingerprint(beside(np.stack([*self.usual.values()][2:])))
        return Range(title, True, beside=beside, prior=known)

    def of_the_same(self, function: Any) -> Any:
        """Another log likelihood with the same prior, or another log joint; (such, a number) as such."""
        if isinstance(function, tuple):
            return (self.of_the_same(function[0]), *function[1:])
        if self.prior is None or not callable(function):
            return function
        return Joint(by_name(function, self.names or ()), self.prior, False)


def posed(
    log_joint: Any,
    log_likelihood: Any,
    prior: Any,
    gradient: Any,
    vectorised: bool,
    arguments: Mapping[str, Any],
    titles: tuple[str, ...] | None = None,
) -> PosedLogJoint:
    """The log joint, or that of a log likelihood and a prior, with parameters by name.

    Parameters
    ----------
    log_joint, log_likelihood, prior, gradient, vectorised : as of the doors.
    arguments : bounds, plausible box and start, by argument; vectors, or dicts of parameters' names.
    titles : the names where neither these nor the prior have them.

    Raises
    ------
    ValueError, TypeError
        Two of them exclude one another or one is missing, names differ, or the prior is no distribution.
    """
    named = {"log_joint": log_joint, "log_likelihood": log_likelihood, "prior": prior}
    for name, one in named.items():
        if getattr(one, "__name__", "") in ("pdf", "pmf"):
            raise ValueError(
                f"{name} is {shown(one)}, a density; it must be a logarithm, as .log{one.__name__}"
            )
    given = [name for name in ("log_likelihood", "prior") if named[name] is not None]
    if log_joint is not None and given:
        raise ValueError(
            f"{given[-1]} is given beside log_joint, which has a prior: it would be counted twice; give "
            "log_likelihood and prior, or log_joint alone"
        )
    if log_joint is None and len(given) < 2:
        raise ValueError(
            f"{' and '.join(given) or 'no function'} is given: give log_likelihood and prior, or log_joint"
        )
    if log_joint is not None:
        return PosedLogJoint(log_joint, gradient, *in_order(arguments))
    if not callable(log_likelihood):
        raise TypeError(f"log_likelihood is {shown(log_likelihood)}; it must be a function of theta")
    alone = not (isinstance(prior, tuple) and len(prior) == 2 and all(map(callable, prior)))
    pair = (prior, None) if alone else prior
    known = isinstance(prior, type) or any(hasattr(prior, name) for name in ("freeze", "logpdf", "log_prob"))
    if callable(pair[0]) and not known:
        names, found = in_order(arguments)
        names = names or titles
        log_prior, slopes = (by_name(one, names or ()) for one in pair)
        of: Any = _Stated(log_prior, slopes, vectorised, gradient == AUTODIFF)
        usual = {}
    else:
        of = _Distributions.of(prior)
        count = len(of.layout.names)
        stated = {end: in_order({end: arguments.get(end)}, of.layout, of.usual)[1][end] for end in BOUNDS[:2]}
        ends = [vector_of(at, stated[at], count, x) for at, x in zip(stated, (-np.inf, np.inf), strict=True)]
        usual = of.within(*ends)
        names, found = in_order(arguments, of.layout, usual)
        found |= {end: usual[end] for end in BOUNDS[:2] if end in found}
    if gradient is not None:
        of.require_gradient(gradient)
    log_likelihood, slopes = (by_name(one, names or ()) for one in (log_likelihood, gradient))
    value = Joint(log_likelihood, of, vectorised, slopes)
    return PosedLogJoint(value, value.gradient if callable(gradient) else gradient, names, found, usual, of)
