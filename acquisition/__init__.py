"""Where to evaluate next: points for quadrature, mini-batches of a data set."""

from acquisition import minibatch

__all__ = ["minibatch"]
