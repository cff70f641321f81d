"""The constants of Bayesian quadrature of the gradient that decide results, and how they were chosen.

The studies behind them are rows of `experiments/studies/bqvi.gradients.settings.json`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqvi.importance import PARETO


@dataclass(frozen=True)
class NoiseSettings:
    """The noise of an observation over s^2 (`whitened`)."""

    jitter: float = 1e-6
    """The noise near q."""
    near: float = 4.0
    """|u|^2 / D below which there is no more than the jitter."""
    fading: float = 0.5
    """The increase of |u|^2 / D beyond ``near`` over which the noise grows by a factor e."""


@dataclass(frozen=True)
class SearchSettings:
    """The search of hyperparameters (`surrogates`, by `gp.search`)."""

    scale_sd: float = 3.0
    """Prior standard deviation of ln s^2, a factor of twenty, where noise of known variance makes s^2 a
    hyperparameter."""
    length: float = 2.0
    """Lengthscale, over sqrt(D), at the centre of the prior."""
    part: float = 0.1
    """Centre of the prior of each b, and of D times b2 in a separable process."""
    sds: tuple[float, ...] = (0.7, 3.0, 2.0, 2.0)
    """Prior standard deviations of ln l and of ln b for each b."""


@dataclass(frozen=True)
class CacheSettings:
    """Conditions on which a process is made anew (`memory`)."""

    divergence: float = 0.02
    """The largest divergence, in nats, of q from the q in whose units a process is."""
    refit_growth: float = 1.2
    """Hyperparameters are fitted again when the evaluations have grown by this factor."""
    refit_error: float = 4.0
    """They are also fitted when the mean squared standardised error of new evaluations is larger."""


@dataclass(frozen=True)
class FaultSettings:
    """The treatment of failed evaluations (`designs`, `memory`)."""

    nearest: float = 1.5
    """Distance of the nearest successful evaluation over that of the nearest one, a failure, from which on an
    evaluation is expected to fail."""


@dataclass(frozen=True)
class DesignSettings:
    """Designs (`designs`), and the first one of a run (`bayesian_quadrature`)."""

    first: tuple[int, int] = (2, 10)
    """Nodes of the first step: this number times D, but no more than the second; for each component of q."""
    blur: float = 0.35
    """Standard deviation of the numbers added to nodes u, -u, on which every odd function is linear."""
    candidates: int = 64
    """The default number of candidates for the nodes of a design that uses the process."""
    affordable: int = 400
    """The most numbers, nodes times D, with which the process on derivatives is used without memory, where
    ``process`` is 'auto' (`bayesian_quadrature`)."""
    entropy_pairs: int = 128
    """Antithetic pairs of each component of a mixture for an entropy that has no closed form (`pathwise`)."""


@dataclass(frozen=True)
class EvidenceSettings:
    """The ELBO and the evidence from kept evaluations (`remembered`)."""

    rows: int = 600
    """The most numbers, values and entries of gradients, on which the process is conditioned, half of them
    values where there are gradients."""
    furthest: float = 6.0
    """|u|^2 / D beyond which evaluations are not used, unless fewer than 2 D + 2 are nearer."""
    apart: float = 30.0
    """Nats by which phi at an evaluation may differ from its median at the nearer half of the evaluations,
    unless fewer than 2 D + 2 differ by less."""
    predicted: float = 1 / 6
    """The share of the evaluations, the latest, whose errors scale the process' variance."""
    prior: float = 5.0
    """The number of squared standardised errors of one that are counted beside them."""
    draws: int = 4096
    """Draws of q, partly widened."""
    share: float = 0.25
    """Share of the correction of the ELBO that is a standard deviation."""
    heavy_share: float = 1.5
    """The share for larger k."""
    tail_draws: int = 4
    """Draws of Student's t distribution around q among the evaluations that test a claim of convergence."""
    wider: float = 2.0
    """Its scale, in units of that of q."""
    before_rise: float = 0.65
    """Share of the evaluations, the earliest, after which a rise of the highest value counts where there are
    values alone."""

    def share_at(self, shape: float) -> float:
        """The share of the correction that is standard deviation where the weights have this Pareto k."""
        return float(np.interp(shape, (PARETO.good, PARETO.unusable), (self.share, self.heavy_share)))


@dataclass(frozen=True)
class StochasticSettings:
    """The rate (t + delay)^-power of stochastic natural gradients, and of stochastic passes (`memoised`)."""

    delay: float = 10.0
    """The delay; the larger, the shorter the first steps."""
    power: float = 0.7
    """With .55 the ELBO is .002 +- .002 higher on clusters and 1.2 on documents, with .9 .009 and 3.4
    lower."""


@dataclass(frozen=True)
class MemoisedSettings:
    """Batches of memoised inference where the caller gives no size (`memoised`)."""

    batches: int = 10
    """The number of batches."""
    least: int = 100
    """The least number of rows of a batch, which acts on fewer than 1,000 data; and that of a mini-batch."""


STOCHASTIC, MEMOISED = StochasticSettings(), MemoisedSettings()
NOISE = NoiseSettings()
LEFT_OUT = NOISE.near + 16.0 * NOISE.fading
"""|u|^2 / D beyond which points are left out, as their noise would exceed the process' variance."""
SEARCH = SearchSettings()
CACHE = CacheSettings()
FEASIBILITY = FaultSettings()
DESIGN = DesignSettings()
EVIDENCE = EvidenceSettings()
