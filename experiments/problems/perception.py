"""Two models of perception with simulated responses, of a published benchmark of VBMC with noisy values.

timing        Reproduction of time intervals, D = 5 (Acerbi, Wolpert and Vijayakumar 2012). An interval s is
              measured as x ~ N(s, (w_s s)^2). The observer has the prior N(mu, sigma^2) of intervals and
              estimates

                  s*(x) = (sigma^2 x + (w_s x)^2 mu) / (sigma^2 + (w_s x)^2);

              the response is r ~ N(s*, (w_m |s*|)^2), or uniform on (0, LONGEST) with probability lambda. The
              integral over x is a Gauss-Hermite rule.
multisensory  Whether a visual and a vestibular heading have a common cause, D = 6 (Acerbi, Dokka, Angelaki
              and Ma 2018). Both headings are measured, with the sd sigma_c of one of three visual coherences
              c and the sd sigma_0. "Common" is the response if the measurements differ by less than kappa,

                  p(common | difference d, c) = (1 - lambda) (Phi((kappa - d) / S) - Phi((-kappa - d) / S))
                                                + lambda / 2,          S^2 = sigma_c^2 + sigma_0^2.

Both are used by Acerbi (2020, "Variational Bayesian Monte Carlo with noisy likelihoods") and by Li, Huggins
and Acerbi (2025), there with the responses of people. Here responses are simulated. The parameters are
logarithms of sds, Weber fractions and kappa, the logit of lambda, and (mu - .7875 s) / .1 s, with independent
normal priors; the plausible box is one prior sd to either side. The evidences are constants, by importance
sampling (`reference`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from bqvi.importance import Proposal, normalised, resampled
from experiments.problems.known_posteriors import Problem, unbounded
from experiments.problems.laplace import laplace
from gp.triangular import cholesky

if TYPE_CHECKING:
    import torch

__all__ = ["multisensory", "reference", "timing"]

Array = np.ndarray

INTERVALS = np.array([0.6, 0.675, 0.75, 0.825, 0.9, 0.975])
"""Seconds."""
LONGEST = 2.0
"""The longest response, seconds."""
NODES = 21
"""Of the rule over x; with 61, log likelihoods at 20 points about the simulated parameters differ by at most
.008 nats."""
DIFFERENCES = np.array([-40.0, -20.0, -10.0, -5.0, 0.0, 5.0, 10.0, 20.0, 40.0])
"""Degrees."""
EACH = 120, 40
"""The number of responses for each interval, and for each difference and coherence."""
_SCALE = 0.7875, 0.1
"""Mean and sd of the prior of mu, seconds."""
_ROUNDS, _ROUND, _COMPONENTS = 6, 2048, 24
"""Rounds of population Monte Carlo, draws of each, and the components of its mixture."""


@dataclass(frozen=True, eq=False)
class PerceptionModel:
    """A model of perception.

    Attributes
    ----------
    simulated : the parameters (D,) with which responses are simulated.
    centre, spread : the means and sds of the prior, (D,).
    likelihood : a function of parameters (L, D), tensors, that returns log likelihoods (L,).
    counts : the numbers of responses "common" (3, 9) of the multisensory model.
    """

    simulated: Array
    centre: Array
    spread: Array
    likelihood: Callable[[torch.Tensor], torch.Tensor]
    counts: Array | None = None

    def log_joint(self, theta: torch.Tensor) -> torch.Tensor:
        """The log joint density (L,) at parameters (L, D)."""
        import torch

        z = (theta - torch.tensor(self.centre)) / torch.tensor(self.spread)
        constant = float(np.log(self.spread).sum() + 0.5 * len(self.spread) * np.log(2.0 * np.pi))
        found: torch.Tensor = self.likelihood(theta) - 0.5 * (z * z).sum(1) - constant
        return found

    def log_density(self, points: Array) -> Array:
        """The log joint density (n,) at points (n, D)."""
        import torch

        with torch.no_grad():
            parts = np.split(points, range(32, len(points), 32))
            return np.concatenate([self.log_joint(torch.tensor(part)).numpy() for part in parts])

    def gradient(self, points: Array) -> Array:
        """Its gradient (n, D) at points (n, D)."""
        import torch

        theta = torch.tensor(points, requires_grad=True)
        (found,) = torch.autograd.grad(self.log_joint(theta).sum(), theta)
        return found.numpy()


def response_log_density(theta: torch.Tensor, responses: torch.Tensor) -> torch.Tensor:
    """The log densities (L, 6, n) of ``responses`` (6, n) to the intervals, with parameters (L, 5)."""
    import torch

    z, w = np.polynomial.hermite_e.hermegauss(NODES)
    nodes, log_w = torch.tensor(z), torch.tensor(np.log(w / w.sum()))
    w_s, w_m, sigma = (theta[:, i].exp()[:, None, None] for i in (0, 1, 3))
    mu = (_SCALE[0] + _SCALE[1] * theta[:, 2])[:, None, None]
    x = torch.tensor(INTERVALS)[:, None] * (1.0 + w_s * nodes)
    wide = (w_s * x) ** 2
    mean = ((sigma**2 * x + wide * mu) / (sigma**2 + wide))[:, :, None]
    sd = w_m[..., None] * mean.abs()
    logs = log_w - 0.5 * ((responses[:, :, None] - mean) / sd) ** 2 - sd.log() - 0.5 * np.log(2.0 * np.pi)
    attended = torch.nn.functional.logsigmoid(-theta[:, 4])[:, None, None] + logs.logsumexp(3)
    lapsed = torch.nn.functional.logsigmoid(theta[:, 4])[:, None, None] - np.log(LONGEST)
    found: torch.Tensor = torch.logaddexp(attended, lapsed.expand_as(attended))
    return found


def simulated_responses(theta: Array, count: int, seed: int) -> Array:
    """Draw ``count`` responses to each interval with parameters theta (5,), (6, count)."""
    rng = np.random.default_rng(seed)
    w_s, w_m, sigma = np.exp(theta[[0, 1, 3]])
    x = INTERVALS[:, None] * (1.0 + w_s * rng.standard_normal((len(INTERVALS), count)))
    wide = (w_s * x) ** 2
    mean = (sigma**2 * x + wide * (_SCALE[0] + _SCALE[1] * theta[2])) / (sigma**2 + wide)
    attended = mean * (1.0 + w_m * rng.standard_normal(mean.shape))
    lapsed = rng.random(mean.shape) < 1.0 / (1.0 + np.exp(-theta[4]))
    return np.where(lapsed, rng.uniform(0.0, LONGEST, mean.shape), attended)


@cache
def timing_model() -> PerceptionModel:
    """Time intervals: six intervals, 120 responses to each."""
    import torch

    simulated = np.array([np.log(0.1), np.log(0.06), 0.3, np.log(0.12), np.log(0.03 / 0.97)])
    responses = torch.tensor(simulated_responses(simulated, EACH[0], 0))

    def likelihood(theta: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = response_log_density(theta, responses).sum((1, 2))
        return found

    centre = np.array([np.log(0.1), np.log(0.06), 0.0, np.log(0.15), np.log(0.02 / 0.98)])
    return PerceptionModel(simulated, centre, np.array([0.5, 0.5, 1.0, 0.6, 1.0]), likelihood)


def common(theta: torch.Tensor, differences: torch.Tensor) -> torch.Tensor:
    """The probability (L, 3, 9) of the response "common" with parameters (L, 6)."""
    import torch

    sd = torch.hypot(theta[:, :3].exp(), theta[:, 3:4].exp())[:, :, None]
    kappa, lapse = theta[:, 4].exp()[:, None, None], theta[:, 5].sigmoid()[:, None, None]
    inside = torch.special.ndtr((kappa - differences) / sd) - torch.special.ndtr((-kappa - differences) / sd)
    found: torch.Tensor = (1.0 - lapse) * inside + 0.5 * lapse
    return found


@cache
def multisensory_model() -> PerceptionModel:
    """Headings: three coherences and nine differences, 40 responses to each pair."""
    import torch

    simulated = np.array([*np.log([6.0, 10.0, 18.0, 9.0, 20.0]), np.log(0.05 / 0.95)])
    differences = torch.tensor(DIFFERENCES)
    shares = common(torch.tensor(simulated)[None], differences)[0].numpy()
    drawn = np.random.default_rng(0).binomial(EACH[1], shares)
    counts = torch.tensor(drawn)

    def likelihood(theta: torch.Tensor) -> torch.Tensor:
        p = common(theta, differences)
        found: torch.Tensor = (torch.xlogy(counts, p) + torch.xlogy(EACH[1] - counts, 1.0 - p)).sum((1, 2))
        return found

    centre = np.array([*np.log([10.0, 10.0, 10.0, 10.0, 15.0]), np.log(0.05 / 0.95)])
    return PerceptionModel(simulated, centre, np.array([0.8, 0.8, 0.8, 0.8, 0.8, 1.0]), likelihood, drawn)


def reference(model: PerceptionModel, power: int, seed: int) -> tuple[Array, Array]:
    """Points (2^power, D) and log weights (2^power,) of an importance sample; their mean is the evidence.

    The proposal is a mixture that begins with wide Gaussians at Laplace's approximation and is adapted by a
    few rounds of population Monte Carlo (`bqvi.importance.Proposal.adapted`), as the posterior of the
    multisensory model is a curved ridge: its data determine sums of two variances.
    """
    around = laplace(model.log_joint, model.simulated).heavy_tailed((1.0, 4.0, 12.0))
    g = wide = Proposal(around.weights, around.means, around.factors)
    for step in range(_ROUNDS):
        u = g.draws(_ROUND, seed + 1 + step)
        logs = g.density.log_parts(u)
        weights = normalised(model.log_density(u) - logsumexp(logs, axis=0))
        if step == 0:
            centres = u[resampled(weights, _COMPONENTS, seed)]
            spread = cholesky(np.cov(u.T, aweights=weights) / _COMPONENTS ** (2.0 / u.shape[1]))
            g = Proposal(
                np.full(_COMPONENTS, 1.0 / _COMPONENTS), centres, np.tile(spread, (_COMPONENTS, 1, 1))
            )
        else:
            g = g.adapted(u, weights, logs)
        g = g.widened(0.2, 1.5).joined(wide, 0.1)
    points = g.draws(2**power, seed)
    return points, model.log_density(points) - g.density.log_density(points)


_TIMING = (
    735.7956,
    np.array([-2.364395, -2.924013, 0.304510, -2.081210, -3.339364]),
    np.array(
        [
            [0.029942, -0.037702, 0.0046194, 0.032379, -0.0012207],
            [-0.037702, 0.074018, -0.0090881, -0.044876, -0.0012396],
            [0.0046194, -0.0090881, 0.012272, 0.0044623, 4.603e-05],
            [0.032379, -0.044876, 0.0044623, 0.038531, -0.00098216],
            [-0.0012207, -0.0012396, 4.603e-05, -0.00098216, 0.053444],
        ]
    ),
)
"""The log evidence, mean and covariance: `reference` of 2^15 draws, averaged over seeds 0 and 1, which differ
by .0007 nats."""
_MULTISENSORY = (
    -561.0951,
    np.array([1.649638, 2.092083, 2.930306, 2.018284, 3.072822, -2.572366]),
    np.array(
        [
            [0.26694, 0.10226, 0.022682, -0.092456, 0.0026949, -0.076206],
            [0.10226, 0.14763, 0.017408, -0.057182, 0.0020107, -0.072034],
            [0.022682, 0.017408, 0.014045, -0.0095669, 0.0016291, -0.021412],
            [-0.092456, -0.057182, -0.0095669, 0.19517, 0.0056819, -0.18408],
            [0.0026949, 0.0020107, 0.0016291, 0.0056819, 0.0017695, -0.01424],
            [-0.076206, -0.072034, -0.021412, -0.18408, -0.01424, 0.85704],
        ]
    ),
)
"""The same of 2^17 draws, the mean over seeds 0 to 3, whose log evidences have an sd of .006."""


def _problem(
    name: str, model: PerceptionModel, log_evidence: float, mean: Array, covariance: Array
) -> Problem:
    @cache
    def pool() -> tuple[Array, Array]:
        points, logs = reference(model, 13, 0)
        share = np.exp(logs - logsumexp(logs))
        return points, share

    def draws(n: int, rng: np.random.Generator) -> Array:
        points, share = pool()
        return points[rng.choice(len(points), n, p=share)]

    lower, upper = model.centre - model.spread, model.centre + model.spread
    return Problem(
        name, model.log_density, model.gradient, *unbounded(len(mean)), lower, upper, log_evidence,
        mean, covariance, draws,
    )  # fmt: skip


@cache
def timing() -> Problem:
    """Reproduction of time intervals, D = 5."""
    return _problem("timing 5", timing_model(), *_TIMING)


@cache
def multisensory() -> Problem:
    """Common cause of two headings, D = 6."""
    return _problem("multisensory 6", multisensory_model(), *_MULTISENSORY)
