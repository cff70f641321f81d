"""Bounds on an evidence by sampling: any positive unbiased estimate of Z bounds ln Z from below (Jensen).

`evidence_bounds` is determined by the choice of four components:

    path           pi_b ~ q^(1 - b) p^b from the proposal q to the joint density p   (particles)
    transitions    reversible moves that leave pi_b invariant: Hamiltonian Monte Carlo, random walk, or none
                                                                                     (particles)
    weights        products of pi_b' / pi_b along the path, resampled or not         (passes)
    estimator      mean ln estimate over replicates, forwards: a lower bound; with a chain backwards from a
                   draw of the posterior in each: an upper bound                     (passes, result)

Temperatures, units and step sizes are adapted in a pilot run and frozen before any estimate is made
(passes). Importance sampling is the path of one temperature; annealed importance sampling has no resampling.
"""

from bqvi.sampled_bounds.door import METHODS, evidence_bounds
from bqvi.sampled_bounds.result import EvidenceBounds

__all__ = ["METHODS", "EvidenceBounds", "evidence_bounds"]
