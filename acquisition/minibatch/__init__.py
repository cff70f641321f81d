"""Mini-batches of a data set: a strategy a file, control variates in one.

`strategy` is the protocol of each, `features` the kernel over data.

                              unbiased over            needs          weights
    Uniform                   the draw                                equal
    Reshuffled                the permutation                         equal
    Balanced                  the split, or each draw  features       equal      recommended default
    HorvitzThompson           the draw                 a bound        1 / pi
    QuadratureWeighted        biased                   features       quadrature
    Herding, SequentialBQ,    biased                   features       equal or quadrature
    MaxVariance, UpperConfidence
    Saga, Svrg                the draw, given the past gradients      corrected sum
    GPControlVariate          the draw, on Uniform     gradients,     corrected sum
                              or Balanced with         features
                              replacement

Choosing data takes time. The choice makes a run faster where a datum's gradient is expensive, or
where the same partition serves many epochs.
"""

from acquisition.minibatch.balanced import Balanced
from acquisition.minibatch.control_variates import GPControlVariate, Saga, Svrg
from acquisition.minibatch.features import (
    Features,
    affine_in_labels,
    signed,
    standardised,
)
from acquisition.minibatch.horvitz_thompson import HorvitzThompson
from acquisition.minibatch.pools import (
    Herding,
    MaxVariance,
    QuadratureWeighted,
    SequentialBQ,
    UpperConfidence,
)
from acquisition.minibatch.strategy import Learning, Selection, Strategy
from acquisition.minibatch.uniform import Reshuffled, Uniform
from gp.names import all_suggesting

__all__ = [
    "Balanced", "Features", "GPControlVariate", "Herding", "HorvitzThompson", "Learning", "MaxVariance",
    "QuadratureWeighted", "Reshuffled", "Saga", "Selection", "SequentialBQ", "Strategy", "Svrg", "Uniform",
    "UpperConfidence", "affine_in_labels", "signed", "standardised",
]  # fmt: skip
all_suggesting(globals())
