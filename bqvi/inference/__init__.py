"""Variational inference: one loop (`loop`), and the choices that make a method of it (`choices`)."""

from bqvi.inference.data_parallel import AllReduced, DataParallel
from bqvi.inference.fit import fit
from bqvi.inference.geometry import Euclidean, Geometry, Natural, Riemannian, TrustRegion
from bqvi.inference.result import Fit
from bqvi.inference.schedules import Adam, Constant, Cosine, Exponential, RobbinsMonro, Schedule
from bqvi.inference.state import LoopProblem, LoopState, Record, Stop, TraceRow
from bqvi.runs import Trace

__all__ = [
    "Adam", "AllReduced", "Constant", "Cosine", "DataParallel", "Euclidean", "Exponential", "Fit", "Geometry",
    "LoopProblem", "LoopState", "Natural", "Record", "Riemannian", "RobbinsMonro", "Schedule", "Stop",
    "Trace", "TraceRow", "TrustRegion", "fit",
]  # fmt: skip
