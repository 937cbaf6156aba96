"""Rows that a reader could not use: counted by reason, with the first of each, so that kept + rejected =
read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

FIRST_ROWS = 5


@dataclass
class Rejected:
    """How many rows fell to one reason, and the numbers of the first few (records counted from 1)."""

    count: int = 0
    first_rows: list[int] = field(default_factory=list)


@dataclass
class Rejections:
    """`rows_read` records were read; `by_reason` are those that were not kept."""

    rows_read: int = 0
    by_reason: dict[str, Rejected] = field(default_factory=dict)

    def add(self, reason: str, rows: ArrayLike) -> None:
        """Count one row, or many."""
        numbers = np.atleast_1d(np.asarray(rows, dtype=np.int64))
        if numbers.size == 0:
            return
        entry = self.by_reason.setdefault(reason, Rejected())
        entry.count += int(numbers.size)
        if numbers.size > FIRST_ROWS:
            numbers = np.partition(numbers, FIRST_ROWS)[:FIRST_ROWS]
        entry.first_rows = sorted([*entry.first_rows, *map(int, numbers)])[:FIRST_ROWS]

    @property
    def count(self) -> int:
        """All rejected rows."""
        return sum(entry.count for entry in self.by_reason.values())

    @property
    def rows_kept(self) -> int:
        return self.rows_read - self.count

    def describe(self) -> str:
        """ "12 rows read = 10 kept + 2 rejected: 2 x prompt missing (rows 3, 7)"."""
        line = f"{self.rows_read:,} rows read = {self.rows_kept:,} kept + {self.count:,} rejected"
        if not self.by_reason:
            return line
        ranked = sorted(self.by_reason.items(), key=lambda item: -item[1].count)
        return f"{line}: " + "; ".join(
            f"{entry.count:,} x {reason} (first at row {', '.join(map(str, entry.first_rows))})"
            for reason, entry in ranked
        )

    def to_dict(self) -> dict:
        """Plain numbers for a result file."""
        return {
            "rows_read": self.rows_read,
            "rows_kept": self.rows_kept,
            "rows_rejected": self.count,
            "rejected": {
                reason: {"count": entry.count, "first_rows": entry.first_rows}
                for reason, entry in self.by_reason.items()
            },
        }

    @classmethod
    def from_dict(cls, values: dict) -> Rejections:
        return cls(
            values["rows_read"],
            {
                reason: Rejected(entry["count"], entry["first_rows"])
                for reason, entry in values["rejected"].items()
            },
        )
