"""The registry of integrals of kernels against measures, by (kernel, measure) pair.

The embedding of a kernel k against a measure pi consists of the integrals by which a Gaussian process is
integrated:

    z(x)        = int k(x, x') pi(dx')               covariance of f(x) and pi[f]
    dz(x)/dx_j                                       covariance of df/dx_j at x and pi[f]
    C(pi, rho)  = int int k(x, x') pi(dx) rho(dx')   covariance of pi[f] and rho[f]

Each pair has its own formulas, and a new pair is one function:

    @embedding(MyKernel, MyMeasure)
    def my_embedding(kernel, measure):
        return Formulas(mean=..., cross=...)

The function has to compute with arrays of the kind of the measure's parameters, NumPy or torch. Derivatives
in the measure's parameters, and in x if left out, are found by automatic differentiation. Kernel and measure
are looked up by their classes from the most derived on, the kernel first; ``object`` stands for any class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from gp.arrays import Array, as_like
from gp.kernels import Kernel
from gp.measures import GaussianMixture, Measure


@dataclass(frozen=True, eq=False)
class Formulas:
    """The integrals of one kernel against one measure.

    Attributes
    ----------
    mean : a function of x (n, D) that returns z(x), (n,).
    cross : a function of another measure that returns C(measure, other), (). It raises
        :class:`UnknownPairError` for other classes (see :func:`choose`); mixtures and empirical measures may
        be among these.
    mean_gradient : a function of x (n, D) that returns dz/dx, (n, D); else automatic differentiation is used.
    """

    mean: Callable[[Array], Array]
    cross: Callable[[Measure], Array]
    mean_gradient: Callable[[Array], Array] | None = None


PairFunction: TypeAlias = Callable[[Any, Any], Formulas]
Known: TypeAlias = Mapping[type, Callable[[Any], Array]]
"""Functions of another measure, by its class."""


class UnknownPairError(TypeError):
    """A kernel and a measure, or two measures, whose integral is not known in closed form."""


_FUNCTIONS: dict[tuple[type, type], PairFunction] = {}


def embedding(kernel: type, measure: type) -> Callable[[PairFunction], PairFunction]:
    """Register a function for a pair of classes, a kernel's and a measure's.

    Raises ValueError where the pair is registered already.
    """

    def register(function: PairFunction) -> PairFunction:
        if (kernel, measure) in _FUNCTIONS:
            raise ValueError(f"{_name(kernel)} x {_name(measure)} has an embedding already")
        _FUNCTIONS[kernel, measure] = function
        return function

    return register


def formulas(kernel: Kernel, measure: Measure) -> Formulas:
    """Return the integrals of a kernel against a measure; UnknownPairError as of `known_pair`."""
    return known_pair(type(kernel), type(measure))(kernel, measure)


def known_pair(kernel: type, measure: type) -> PairFunction:
    """Return the function of a pair of classes, a kernel's and a measure's.

    Raises UnknownPairError, whose message lists the known pairs, where this one is not known.
    """
    for kernel_type in kernel.__mro__:
        for measure_type in measure.__mro__:
            if (kernel_type, measure_type) in _FUNCTIONS:
                return _FUNCTIONS[kernel_type, measure_type]
    raise UnknownPairError(_registered(kernel, measure))


def choose(
    kernel: Kernel,
    measure: Measure,
    other: Measure,
    known: Known,
) -> Array:
    """Return C(measure, other) of the kernel from the functions known for classes of ``other``.

    Raises
    ------
    UnknownPairError
        where ``other`` is none of them.
    """
    for measure_type in type(other).__mro__:
        if measure_type in known:
            return known[measure_type](other)
    names = ", ".join(known_type.__name__ for known_type in known)
    raise UnknownPairError(
        f"no double integral of {type(kernel).__name__} between {type(measure).__name__} and "
        f"{type(other).__name__}: known with {type(measure).__name__} are {names} (and mixtures "
        f"of them, and Empirical). {DISCRETISE}"
    )


def in_kind_of(measure: Measure, like: Array) -> Measure:
    """Return ``measure`` with its parameters in the kind, dtype and device of ``like``."""
    given = measure.parameters()
    wanted = [as_like(value, like) for value in given]
    unchanged = all(a is b for a, b in zip(given, wanted, strict=True))
    return measure if unchanged else measure.with_parameters(wanted)


def weighted_components(measure: Measure) -> tuple[tuple[Array, Measure], ...] | None:
    """Return (weight, component) pairs of a mixture, ``None`` for other measures."""
    if isinstance(measure, GaussianMixture):
        return tuple((measure.weights[k], part) for k, part in enumerate(measure.components))
    return None


def refuse_mixture(measure: Measure) -> None:
    """Raise UnknownPairError for a mixture, so that it is taken component by component."""
    if isinstance(measure, GaussianMixture):
        raise UnknownPairError("mixtures are taken component by component")


DISCRETISE = (
    "Any kernel can be integrated against Empirical(measure.from_unit_cube(u)) instead, with u a "
    "scrambled Sobol set"
)


def _name(registered: type) -> str:
    return "any" if registered is object else registered.__name__


def _registered(kernel: type, measure: type) -> str:
    for_kernel = {_name(m) for k, m in _FUNCTIONS if k is not object and issubclass(kernel, k)}
    # a kernel has an embedding of mixtures if it has one of their components
    for_any = {_name(m) for k, m in _FUNCTIONS if k is object} - {GaussianMixture.__name__}
    for_measure = sorted({_name(k) for k, m in _FUNCTIONS if m is not object and issubclass(measure, m)})
    return (
        f"no embedding of {kernel.__name__} against {measure.__name__}. {kernel.__name__} has one "
        f"against: {', '.join(sorted(for_kernel | for_any))}. {measure.__name__} has one with: "
        f"{', '.join(for_measure) or 'no kernel'}. Add the pair with "
        f"@gp.embeddings.embedding({kernel.__name__}, {measure.__name__}). {DISCRETISE}"
    )
