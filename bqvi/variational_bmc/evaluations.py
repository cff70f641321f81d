"""What was paid for: rows of points, values, gradients and faults, and the exceptions that carry them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bqvi.variational_bmc.affine import Affine


@dataclass(frozen=True, eq=False)
class Evaluations:
    """What was paid for, in the coordinates; n rows.

    Attributes
    ----------
    points : (n, D)
    values : (n,), the log joint with the log Jacobian; -inf where `failed`.
    gradients : (n, D) or None; a row is NaN where the function failed, or only its gradient did.
    noise_variance : (n,) or None; NaN where the function failed.
    failed : (n,) bool.
    faults : for each row what went wrong there, or "".
    """

    points: np.ndarray
    values: np.ndarray
    gradients: np.ndarray | None
    noise_variance: np.ndarray | None
    failed: np.ndarray
    faults: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def none(cls, dimension: int) -> Self:
        """No evaluations yet."""
        return cls(np.zeros((0, dimension)), np.zeros(0), None, None, np.zeros(0, bool), ())

    def __getitem__(self, rows: Any) -> Evaluations:
        """The evaluations ``rows``: a slice, indices, or n booleans."""
        index = np.arange(len(self))[rows]
        return Evaluations(
            self.points[index],
            self.values[index],
            None if self.gradients is None else self.gradients[index],
            None if self.noise_variance is None else self.noise_variance[index],
            self.failed[index],
            tuple(self.faults[i] for i in index),
        )

    def joined(self, more: Evaluations) -> Evaluations:
        """These, then ``more``; NaN stands for a gradient or a noise that one of the two does not have."""
        return Evaluations(
            np.concatenate([self.points, more.points]),
            np.concatenate([self.values, more.values]),
            _joined(self.gradients, more.gradients, self.points.shape, more.points.shape),
            _joined(self.noise_variance, more.noise_variance, self.values.shape, more.values.shape),
            np.concatenate([self.failed, more.failed]),
            self.faults + more.faults,
        )

    def moved(self, inner: Affine) -> Evaluations:
        """The same in the coordinates w of `Coordinates.moved`, v = inner.shift + inner.matrix w."""
        return dataclasses.replace(
            self,
            points=inner.inverse(self.points),
            values=self.values + inner.log_determinant,
            gradients=None if self.gradients is None else self.gradients @ inner.matrix,
        )


def _joined(
    a: np.ndarray | None, b: np.ndarray | None, a_shape: tuple[int, ...], b_shape: tuple[int, ...]
) -> np.ndarray | None:
    if (a is None and b is None) or (a is None and a_shape[0] == 0) or (b is None and b_shape[0] == 0):
        return b if a is None else a
    first = np.full(a_shape, np.nan) if a is None else a
    second = np.full(b_shape, np.nan) if b is None else b
    return np.concatenate([first, second])


class TargetError(RuntimeError):
    """The log joint is not what it should be, or nothing could be learnt from it.

    Attributes
    ----------
    evaluations : those made until then by the call that raised, or by the whole run once it passed there.
    state : of the run, once it passed there: ``resume`` takes this exception when the function is mended.
    """

    def __init__(self, message: str, evaluations: Evaluations | None = None, state: object = None) -> None:
        super().__init__(message)
        self.evaluations = evaluations
        self.state = state

    def __reduce__(self) -> Any:
        """A process that fails hands over what it had."""
        return type(self), (str(self), self.evaluations, self.state)


class EvaluationInterrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of a batch.

    Attributes
    ----------
    evaluations : the rows of the batch that were finished.
    """

    def __init__(self, evaluations: Evaluations) -> None:
        super().__init__(f"interrupted after {len(evaluations)} evaluations of a batch")
        self.evaluations = evaluations


def require_good(evaluations: Evaluations, needed: int = 1) -> None:
    """TargetError unless ``needed`` of the evaluations are good; it tells what went wrong most often."""
    good = int((~evaluations.failed).sum())
    if good >= needed:
        return
    reasons: Mapping[str, int] = _counted([fault for fault in evaluations.faults if fault])
    told = "; ".join(f"{reason} ({count} times)" for reason, count in list(reasons.items())[:3])
    raise TargetError(
        f"the log joint is finite at {good} of the {len(evaluations)} first points, {needed} are needed: "
        f"{told}. Move the plausible bounds, or give start points, to where the density is positive",
        evaluations,
    )


def _counted(reasons: Sequence[str]) -> dict[str, int]:
    counts = {reason: reasons.count(reason) for reason in dict.fromkeys(reasons)}
    return dict(sorted(counts.items(), key=lambda item: -item[1]))
