"""Claims of the sources, and their verdicts by results.

A claim is checked in one or several settings (in iterations, in seconds; with the source's step sizes,
with tuned ones), each check true or false by a criterion stated in code, or undecided, with the reason: too
few seeds to decide, or a quick run. The verdict follows:

    every check true                        holds
    some checks true                        holds only if: the settings in which it does
    none true, some false                   does not hold
    none decided                            undecided

Checks are decided over seeds by `evidence`; nothing here looks at results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from scipy.stats import beta

__all__ = ["Check", "Claim", "Verdict"]

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
        Why the results do not decide; empty where they do.
    wins, seeds : int
        On how many seeds the statement is true, of those that decide; 0 of 0 where seeds are not counted.

    Raises
    ------
    ValueError
        If it is true and undecided.
    """

    setting: str
    true: bool
    numbers: str
    undecided: str = ""
    wins: int = 0
    seeds: int = 0

    def __post_init__(self) -> None:
        if self.true and self.undecided:
            raise ValueError(
                f"Check {self.setting!r}: undecided is {self.undecided!r}; a true check has no reason"
            )

    @property
    def answer(self) -> str:
        """The outcome as text: yes, no, or undecided with the reason."""
        if self.undecided:
            return f"undecided ({self.undecided})"
        return "yes" if self.true else "no"

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the share of seeds (Clopper and Pearson 1934); None where none is counted."""
        if self.seeds == 0:
            return None
        lower = float(beta.ppf(0.025, self.wins, self.seeds - self.wins + 1)) if self.wins else 0.0
        if self.wins == self.seeds:
            return lower, 1.0
        return lower, float(beta.ppf(0.975, self.wins + 1, self.seeds - self.wins))

    def __and__(self, other: Check) -> Check:
        """The conjunction of two checks in this check's setting, false if one is false."""
        false = any(not check.true and not check.undecided for check in (self, other))
        reasons = [] if false else [check.undecided for check in (self, other) if check.undecided]
        numbers = f"{self.numbers}; {other.numbers}"
        rarer = min(self, other, key=lambda check: check.wins / check.seeds if check.seeds else 1.0)
        true = self.true and other.true
        return Check(self.setting, true, numbers, "; ".join(reasons), rarer.wins, rarer.seeds)


@dataclass(frozen=True)
class Claim:
    """A statement of a source, and the checks that decide it.

    Attributes
    ----------
    source : str
        The section, such as "6.1".
    statement : str
        In our words.
    criterion : str
        The condition of a check.
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

    def left_open(self, reason: str) -> Claim:
        """The claim with the same numbers and no verdict.

        Parameters
        ----------
        reason : str
            Why its results decide nothing.
        """
        checks = [replace(check, true=False, undecided=check.undecided or reason) for check in self.checks]
        return replace(self, checks=checks)
