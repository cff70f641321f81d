"""The user's function: how it is called, what it may do, what was paid for, and how much may be spent."""

from bqvi.calls.budget import Budget, BudgetError
from bqvi.calls.evaluations import Evaluations
from bqvi.calls.ledger import Ledger

__all__ = ["Budget", "BudgetError", "Evaluations", "Ledger"]
