"""What a source claims, and what our results say of it.

A claim is checked in one or several settings (in iterations, in seconds; with the source's step sizes,
with tuned ones), each check true or false by a criterion stated in code, or undecided, with the reason: too
few seeds on which either side could win. The verdict follows:

    every check true                        holds
    some checks true                        holds only if: the settings in which it does
    none true, some false                   does not hold
    none decided                            undecided

Checks are decided over seeds by `evidence`; nothing here looks at results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["holds", "holds only if", "does not hold", "undecided"]


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
    undecided : str
        Why the results do not tell; empty where they do.

    Raises
    ------
    ValueError
        If it is true and undecided.
    """

    setting: str
    true: bool
    numbers: str
    undecided: str = ""

    def __post_init__(self) -> None:
        if self.true and self.undecided:
            raise ValueError(
                f"Check {self.setting!r}: undecided is {self.undecided!r}; a true check has no reason"
            )

    @property
    def answer(self) -> str:
        """In words: yes, no, or undecided and why."""
        if self.undecided:
            return f"undecided ({self.undecided})"
        return "yes" if self.true else "no"

    def __and__(self, other: Check) -> Check:
        """Both in one setting, which is this check's; one that is false decides."""
        false = any(not check.true and not check.undecided for check in (self, other))
        reasons = [] if false else [check.undecided for check in (self, other) if check.undecided]
        numbers = f"{self.numbers}; {other.numbers}"
        return Check(self.setting, self.true and other.true, numbers, "; ".join(reasons))


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
        if all(check.undecided for check in self.checks):
            return "undecided"
        return "holds only if" if any(found) else "does not hold"

    @property
    def conditions(self) -> tuple[str, ...]:
        """The settings in which it holds, where those are some and not all."""
        if self.verdict != "holds only if":
            return ()
        return tuple(check.setting for check in self.checks if check.true)
