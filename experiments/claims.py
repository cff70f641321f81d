"""What a source claims, and what our results say of it.

A claim is checked in one or several settings (in iterations, in seconds; with the source's step sizes,
with tuned ones), each check true or false by a criterion stated in code. The verdict follows:

    every check true     holds
    some checks true     holds only if: the settings in which it does
    no check true        does not hold

Checks are decided over seeds by `evidence`; nothing here looks at results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["holds", "holds only if", "does not hold"]


@dataclass(frozen=True)
class Check:
    """A claim in one setting.

    Attributes
    ----------
    setting : str
        Completes "holds only if: ...".
    true : bool
    numbers : str
        What was measured.
    """

    setting: str
    true: bool
    numbers: str

    def __and__(self, other: Check) -> Check:
        """Both in one setting, which is this check's."""
        return Check(self.setting, self.true and other.true, f"{self.numbers}; {other.numbers}")


@dataclass(frozen=True)
class Claim:
    """A statement of a source, and the checks that decide it.

    Attributes
    ----------
    source : str
        Where it stands, such as "6.1".
    statement : str
        In our words.
    criterion : str
        What makes a check true.
    checks : sequence of Check
        At least one.

    Raises
    ------
    ValueError
        If there is no check.
    """

    source: str
    statement: str
    criterion: str
    checks: Sequence[Check]

    def __post_init__(self) -> None:
        if not self.checks:
            raise ValueError(f"Claim {self.statement!r}: checks must hold at least one check")

    @property
    def verdict(self) -> Verdict:
        """The verdict, by the rule in the module's docstring."""
        found = [check.true for check in self.checks]
        if all(found):
            return "holds"
        return "holds only if" if any(found) else "does not hold"

    @property
    def conditions(self) -> tuple[str, ...]:
        """The settings in which it holds, where those are some and not all."""
        if self.verdict != "holds only if":
            return ()
        return tuple(check.setting for check in self.checks if check.true)
