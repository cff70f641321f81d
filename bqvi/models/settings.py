"""Constants of models that decide results, with the measurements behind them.

The studies behind them are rows of `experiments/studies/bqvi.models.settings.json`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CentreSettings:
    """The centres at which mixtures start (`starting_centres`)."""

    rows: int = 20_000
    """The largest number of rows that k-means++ uses, drawn at random, so that its cost is bounded for any
    N."""
    candidates: int = 4
    """The number of draws for each further centre, chosen on three clusters (150 rows) and on seven of
    unequal size and spread (400 rows, 20 data sets), one start each."""


@dataclass(frozen=True)
class TopicStartSettings:
    """The start of topics (`latent_dirichlet_allocation`)."""

    documents: int = 10
    """The least number of documents of the sample that is clustered, for each topic."""
    entries: int = 1 << 22
    """The number of entries of the table of documents that are clustered: 32 MiB, with a few copies."""
    clusterings: int = 6
    """The number of clusterings of which the tightest is used."""


CENTRES, TOPIC_STARTS = CentreSettings(), TopicStartSettings()
