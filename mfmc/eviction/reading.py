"""Read steps from a file of any format that this study knows, told apart by content."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ..errors import InputError
from .rounds import steps_from_duckdb, steps_from_rounds_jsonl
from .steps import Steps
from .tables import read_lines, steps_from_csv


def steps_from_file(path: str | Path) -> Steps:
    """A DuckDB file of rounds, a JSONL of rounds, or a CSV of steps; the last two plain or gzip."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    with path.open("rb") as file:
        if file.read(12)[8:] == b"DUCK":
            return steps_from_duckdb(path)
    first = next((line for line in read_lines(path, Counter()) if line.strip()), "")
    return steps_from_rounds_jsonl(path) if first.lstrip().startswith("{") else steps_from_csv(path)
