"""Ranges of settings, written into their types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any


@dataclass(frozen=True)
class Range:
    """What a value may be: `above < value < below`, `low <= value <= high`, one of `choices`.

    Written into the type, `capacity: Annotated[int, Range(low=1)]`. On a list it holds for every element, and
    `nonempty` refuses an empty one.
    """

    above: float | None = None
    below: float | None = None
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] | None = None
    nonempty: bool = False

    def holds(self, value: Any) -> bool:
        """Whether a value of the right type lies in the range."""
        return (
            (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
            and (self.low is None or value >= self.low)
            and (self.high is None or value <= self.high)
            and (self.choices is None or value in self.choices)
        )


Positive = Annotated[float, Range(above=0)]
Count = Annotated[int, Range(low=1)]
