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
sampling (`experiments.problems.torch_posteriors.reference`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from experiments.problems.known_posteriors import Problem
from experiments.problems.torch_posteriors import TensorPosterior, known

__all__ = [
    "DIFFERENCES", "EACH", "INTERVALS", "LONGEST", "PerceptionModel", "common", "multisensory",
    "multisensory_model", "response_log_density", "simulated_responses", "timing", "timing_model",
    "with_normal_prior",
]  # fmt: skip

_Array = np.ndarray

INTERVALS = np.array([0.6, 0.675, 0.75, 0.825, 0.9, 0.975])
"""Seconds."""
LONGEST = 2.0
"""The longest response, seconds."""
_NODES = 21
"""Of the rule over x; with 61, log likelihoods at 20 points about the simulated parameters differ by at most
.008 nats."""
DIFFERENCES = np.array([-40.0, -20.0, -10.0, -5.0, 0.0, 5.0, 10.0, 20.0, 40.0])
"""Degrees."""
EACH = 120, 40
"""The number of responses for each interval, and for each difference and coherence."""
_SCALE = 0.7875, 0.1
"""Mean and sd of the prior of mu, seconds."""


@dataclass(frozen=True, eq=False)
class PerceptionModel(TensorPosterior):
    """A model of perception; ``start`` are the parameters (D,) with which its responses are simulated.

    Attributes
    ----------
    centre, spread : the means and sds of the prior, (D,).
    counts : the numbers of responses "common" (3, 9) of the multisensory model.
    """

    centre: _Array
    spread: _Array
    counts: _Array | None = None


def with_normal_prior(
    likelihood: Callable[[torch.Tensor], torch.Tensor], centre: _Array, spread: _Array
) -> Callable[[torch.Tensor], torch.Tensor]:
    """The log joint of a log likelihood and independent normal priors of these means and sds (D,).

    Parameters
    ----------
    likelihood : a function of points (n, D) that returns (n,). centre, spread : means and standard
        deviations, (D,).
    """
    mean, sd = torch.tensor(centre), torch.tensor(spread)
    constant = float(np.log(spread).sum() + 0.5 * len(spread) * np.log(2.0 * np.pi))

    def log_joint(theta: torch.Tensor) -> torch.Tensor:
        z = (theta - mean) / sd
        return likelihood(theta) - 0.5 * (z * z).sum(1) - constant

    return log_joint


def response_log_density(theta: torch.Tensor, responses: torch.Tensor) -> torch.Tensor:
    """The log densities (L, 6, n) of ``responses`` (6, n) to the intervals, with parameters (L, 5)."""
    z, w = np.polynomial.hermite_e.hermegauss(_NODES)
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
    return torch.logaddexp(attended, lapsed.expand_as(attended))


def simulated_responses(theta: _Array, count: int, seed: int) -> _Array:
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
    simulated = np.array([np.log(0.1), np.log(0.06), 0.3, np.log(0.12), np.log(0.03 / 0.97)])
    responses = torch.tensor(simulated_responses(simulated, EACH[0], 0))

    def likelihood(theta: torch.Tensor) -> torch.Tensor:
        return response_log_density(theta, responses).sum((1, 2))

    centre = np.array([np.log(0.1), np.log(0.06), 0.0, np.log(0.15), np.log(0.02 / 0.98)])
    spread = np.array([0.5, 0.5, 1.0, 0.6, 1.0])
    return PerceptionModel(simulated, with_normal_prior(likelihood, centre, spread), centre, spread)


def common(theta: torch.Tensor, differences: torch.Tensor) -> torch.Tensor:
    """The probability (L, 3, 9) of the response "common" with parameters (L, 6)."""
    sd = torch.hypot(theta[:, :3].exp(), theta[:, 3:4].exp())[:, :, None]
    kappa, lapse = theta[:, 4].exp()[:, None, None], theta[:, 5].sigmoid()[:, None, None]
    inside = torch.special.ndtr((kappa - differences) / sd) - torch.special.ndtr((-kappa - differences) / sd)
    return (1.0 - lapse) * inside + 0.5 * lapse


@cache
def multisensory_model() -> PerceptionModel:
    """Headings: three coherences and nine differences, 40 responses to each pair."""
    simulated = np.array([*np.log([6.0, 10.0, 18.0, 9.0, 20.0]), np.log(0.05 / 0.95)])
    differences = torch.tensor(DIFFERENCES)
    shares = common(torch.tensor(simulated)[None], differences)[0].numpy()
    drawn = np.random.default_rng(0).binomial(EACH[1], shares)
    counts = torch.tensor(drawn)

    def likelihood(theta: torch.Tensor) -> torch.Tensor:
        p = common(theta, differences)
        return (torch.xlogy(counts, p) + torch.xlogy(EACH[1] - counts, 1.0 - p)).sum((1, 2))

    centre = np.array([*np.log([10.0, 10.0, 10.0, 10.0, 15.0]), np.log(0.05 / 0.95)])
    spread = np.array([0.8, 0.8, 0.8, 0.8, 0.8, 1.0])
    return PerceptionModel(simulated, with_normal_prior(likelihood, centre, spread), centre, spread, drawn)


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
    name: str, model: PerceptionModel, log_evidence: float, mean: _Array, covariance: _Array
) -> Problem:
    box = model.centre - model.spread, model.centre + model.spread
    return known(name, model, box, log_evidence, (mean, covariance))


@cache
def timing() -> Problem:
    """Reproduction of time intervals, D = 5."""
    return _problem("timing 5", timing_model(), *_TIMING)


@cache
def multisensory() -> Problem:
    """Common cause of two headings, D = 6."""
    return _problem("multisensory 6", multisensory_model(), *_MULTISENSORY)
