"""What a study returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Check:
    """A statement that the study tested: `detail` gives the figures on which it stands or falls."""

    name: str
    passed: bool
    detail: str = ""


def check(name: str, passed: Any, detail: str = "") -> Check:
    """A Check from any truth value (numpy's included)."""
    return Check(name, bool(passed), detail)


@dataclass
class Result:
    """Everything that is written about a run; `mfmc.results` writes it, `mfmc.results.read` reads it back.

    summary   plain numbers, lists and dicts under stable names; `checks` is added to it when written
    headline  findings in one sentence each, the most important first (top of the report, terminal)
    tables    name -> rows, each a dict of scalars; the one called "table" is the main one
    arrays    name -> array
    sections  title -> markdown text of the report
    files     name -> text of a further file for the folder, such as a workload that runs
    folders   name -> what writes a folder of further files, given its path
    """

    summary: dict[str, Any]
    headline: list[str] = field(default_factory=list)
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    sections: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    folders: dict[str, Callable[[Path], Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.tables and "table" not in self.tables:
            raise ValueError(
                f"one of the tables {sorted(self.tables)} must be called 'table': it becomes table.csv"
            )

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)
