"""Variational inference: one loop (`loop`), and the choices that make a method of it (`choices`)."""

from bqvi.inference.data_parallel import AllReduced, DataParallel
from bqvi.inference.fit import fit
from bqvi.inference.result import Fit
from bqvi.inference.state import LoopProblem, LoopState, Record, Stop, TraceRow
from bqvi.inference.steps import (
    Adam,
    Constant,
    Cosine,
    Euclidean,
    Exponential,
    Geometry,
    Natural,
    Riemannian,
    RobbinsMonro,
    Schedule,
    TrustRegion,
)
from bqvi.runs import Trace

__all__ = [
    "Adam", "AllReduced", "Constant", "Cosine", "DataParallel", "Euclidean", "Exponential", "Fit", "Geometry",
    "LoopProblem", "LoopState", "Natural", "Record", "Riemannian", "RobbinsMonro", "Schedule", "Stop",
    "Trace", "TraceRow", "TrustRegion", "fit",
]  # fmt: skip
