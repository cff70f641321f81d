"""The prior: a Gaussian process before it is conditioned on observations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gp.arrays import Array
from gp.kernels.base import Kernel
from gp.linalg import sample_gaussian
from gp.means import Mean, Zero
from gp.observations import Functional, as_functional, covariance
from gp.regression.interop import as_kernel
from gp.regression.paths import Path, draw_path
from gp.regression.posterior import Posterior, condition


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """f ~ GP(mean, kernel), observed with independent Gaussian noise.

    Attributes
    ----------
    kernel : a covariance function (:mod:`gp.kernels`); one of GPyTorch's is converted
        (:func:`gp.from_gpytorch_kernel`).
    mean : a mean function (:mod:`gp.means`); zero by default.
    noise : the *variance* of the noise, in squared output units: ``None`` or 0 for none, a number
        for all observed values (derivatives are then exact), or an array (n,), one for each
        observation that will be conditioned on.

    Examples
    --------
    >>> import gp
    >>> import numpy as np
    >>> process = gp.GaussianProcess(gp.kernels.SquaredExponential(1.0), noise=1e-6)
    >>> x = np.linspace(-2, 2, 9)[:, None]
    >>> posterior = process.condition(x, np.sin(x[:, 0]))
    >>> print(posterior.mean(np.array([[0.3]])).round(3), round(np.sin(0.3), 3))
    [0.296] 0.296
    """

    kernel: Kernel
    mean: Mean = field(default_factory=Zero)
    noise: Array | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel", as_kernel(self.kernel))
        if not isinstance(self.mean, Mean):
            raise TypeError(f"mean = {self.mean!r}: give a mean function, such as those of gp.means")

    def condition(
        self,
        x: Array | Functional | Sequence[Functional],
        y: Array | Sequence[Array],
        noise: Array | None = None,
    ) -> Posterior:
        """Return the posterior given observations.

        Parameters
        ----------
        x : points (n, D), NumPy or torch; or functionals (:class:`gp.Gradients`); or a list of
            blocks of functionals, such as ``[Values(x), Gradients(x)]``. No points are allowed:
            the posterior is the prior then.
        y : (n,), the observations; for several blocks, a list with one array each. Gradients are
            (n, D), or flattened in that order.
        noise : overrides the noise of the process for these observations.

        Raises
        ------
        ValueError, TypeError
            For entries that are not finite, shapes that do not agree, arrays of different kinds,
            and for a point with two values but no noise.
        NotPositiveDefiniteError
            If no small jitter makes the covariance positive definite.
        """
        return condition(self.kernel, self.mean, x, y, self.noise if noise is None else noise)

    def covariance(self, x: Array | Functional, x2: Array | Functional | None = None) -> Array:
        """Return the prior covariance of f at x (m, D) and x2 (m2, D), (m, m2)."""
        at = as_functional(x)
        return covariance(self.kernel, at, at if x2 is None else as_functional(x2))

    def sample(self, x: Array | Functional, n: int, seed: int | np.random.Generator = 0) -> Array:
        """Return n joint draws of f (without noise) at points x (m, D), by the seed: (n, m)."""
        at = as_functional(x)
        scale = at.variance(self.kernel)
        return sample_gaussian(at.apply(self.mean), self.covariance(at), n, seed, scale)

    def sample_path(self, like: Array, seed: int | np.random.Generator = 0, n_features: int = 1024) -> Path:
        """Return one function drawn from the prior by its seed, to be evaluated anywhere later.

        ``like`` holds points (any number, also 0) of the kind and dimension the path will be
        evaluated at. For ``n_features`` see :meth:`gp.Posterior.sample_path`.
        """
        points = as_functional(like).x
        return draw_path(self.kernel, self.mean, points, n_features, np.random.default_rng(seed))
