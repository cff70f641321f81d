"""Mini-batches of a data set: one strategy a file; `strategy` says what each must give."""

from acquisition.minibatch.reshuffled import Reshuffled
from acquisition.minibatch.strategy import Selection, Strategy
from acquisition.minibatch.uniform import Uniform

__all__ = ["Reshuffled", "Selection", "Strategy", "Uniform"]
