"""Constants of models that decide results, with the measurements behind them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CENTRES", "MOVES", "TOPIC_STARTS", "CentreSettings", "MoveSettings", "TopicStartSettings"]


@dataclass(frozen=True)
class CentreSettings:
    """The centres at which mixtures start (`starts`)."""

    rows: int = 20_000
    """The largest number of rows that k-means++ uses, drawn at random, so that its cost is bounded for any
    N."""
    candidates: int = 4
    """The number of draws for each further centre, chosen on three clusters (150 rows) and on seven of
    unequal size and spread (400 rows, 20 data sets), one start each: with 1, EM with as many components as
    clusters ended at its best bound in 18 of 20 runs and near the seven labels in 3 of 20; with 4 in 20 and
    7."""


@dataclass(frozen=True)
class MoveSettings:
    """Merges and births of a mixture's components (`merging`, `gradients.memoised_moves`).

    Figures are of the ELBO, in nats, of mixtures of 25 Gaussians with 1,200 draws of 12 that overlap (means
    N(0, 2.25 I), D = 3, seeds 1300 to 1305): merges after 25 passes, births in ten passes of six batches.
    """

    neighbours: int = 3
    """The number of components with the most shared data for which a merge with a component is tried. With 1,
    2, 6 and 20 no result differs: 22 or 23 components are merged."""
    least: float = 0.5
    """The number of data below which a component counts as empty, and no merge is tried. With .1 one of
    twelve results differs, by .01; with 2 merges end 1.4 +- 1.4 lower, one by 8.6, and births 2.5 +- 2.5
    higher, one by 15."""
    own: float = 0.5
    """The responsibility above which a row belongs to a component. With .3 2.7 +- 2.7 higher, one by 16; with
    .7 2.1 +- 2.7."""


@dataclass(frozen=True)
class TopicStartSettings:
    """The start of topics (`latent_dirichlet_allocation`).

    Figures are differences of the ELBO after 40 passes of coordinate ascent over 400 documents (10 topics,
    150 words, 60 words a document), seeds 1300 to 1303, from 'k-means++'. "The same" is within .01 %.
    """

    noise: float = 100.0
    """The shape of the gamma noise of mean 1 by which topics start apart. The same with 10 and with 1,000.
    From 'random' the ELBO is 3.6 +- 1.4 % higher with 10 and 1.3 +- .8 % with 1,000; on seeds 1310 to 1313
    1.8 +- 1.4 % with 10, -.9 +- .8 % with 30 and -.8 +- 2.3 % with 1."""
    smoothing: float = 10.0
    """The number of words of the average document that are added to each document before it is clustered. The
    same with 0 and with 40."""
    own: float = 0.5
    """The share of a cluster's words in its topic; the rest is the average document. The same with .25 and
    with .9."""
    least: float = 1e-3
    """The multiple of the noise that is added to every word. The same with 1e-5 and with .1."""
    documents: int = 10
    """The least number of documents of the sample that is clustered, for each topic."""
    entries: int = 1 << 22
    """The number of entries of the table of documents that are clustered: 32 MiB, with a few copies."""
    lloyd_steps: int = 4
    """The number of Lloyd steps, beyond the first, of a clustering. The same with 1 and with 10. It was
    chosen with ``clusterings``."""
    clusterings: int = 6
    """The number of clusterings of which the tightest is used. With 2 1.7 +- 1.6 % lower (one of four runs
    6.4 %), with 15 the same. It was chosen on 20,000 simulated documents (20 topics), where two topics often
    started as one: two passes of SVI with mini-batches of 50 end .25 to .88 % below batch in ten seeds, of
    which five were the worst of 22 with one clustering (.26 to 1.34 %)."""


CENTRES, MOVES, TOPIC_STARTS = CentreSettings(), MoveSettings(), TopicStartSettings()
