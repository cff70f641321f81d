"""The user's function: calls, errors, evaluations that returned, and the budget."""

from bqvi.calls.caller import Caller
from bqvi.calls.coordinates import Coordinates, make_coordinates
from bqvi.calls.executors import RayExecutor
from bqvi.calls.faults import EvaluationError, require_good
from bqvi.calls.function import Function, Range
from bqvi.calls.run import HERE, USUAL, Design, Executor, Run
from bqvi.calls.table import (
    Account,
    AsksError,
    Budget,
    Evaluations,
    Ledger,
    StepEvaluations,
    Told,
    Unfinished,
)
from bqvi.calls.target_model import TargetModel

__all__ = [
    "HERE", "USUAL", "Account", "AsksError", "Budget", "Caller", "Coordinates", "Design",
    "EvaluationError", "Evaluations", "Executor", "Function", "Ledger", "Range", "RayExecutor", "Run",
    "StepEvaluations", "TargetModel", "Told", "Unfinished", "make_coordinates", "require_good",
]  # fmt: skip
