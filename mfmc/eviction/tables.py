"""Read a CSV of steps (plain or gzip) into `Steps`."""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError
from .steps import Steps, steps_from_arrays

#: What each column of the steps table is called in the CSV files of coding-agent steps.
AGENTIC_COLUMNS: Mapping[str, str] = {
    "session": "trace",
    "order": "step",
    "total": "in_tokens",
    "prefix": "shared_prefix_tokens",
    "output": "out_tokens",
    "gap": "think_time_s",
    "generation": "api_time_s",
    "kind": "kind",
    "provider": "provider",
}
REQUIRED = ("session", "total", "output", "gap")


def steps_from_csv(path: str | Path, columns: Mapping[str, str] | None = None) -> Steps:
    """Read one row per step; `columns` maps the names of `Steps` to the header's (default `AGENTIC_COLUMNS`).

    Needed: session, total, output, gap; the others are used where the header has them. A step's predecessor
    is the previous row of the same session (by the `order` column where there is one). An empty gap or
    generation means none; a row without a session is dropped; a row whose token counts cannot be read stays
    as a step of unknown size, so that its successor is not paired with the wrong step. Both are counted in
    `Steps.rejected`.
    """
    path = Path(path)
    columns = {**AGENTIC_COLUMNS, **(columns or {})}
    rejected: Counter[str] = Counter()
    lines = read_lines(path, rejected)
    header = next(csv.reader([next(lines, "")]), [])
    missing = [columns[name] for name in REQUIRED if columns[name] not in header]
    if missing:
        raise InputError(
            f"{path}: no column {', '.join(missing)}; the header has {', '.join(header) or 'nothing'}"
        )
    present = {name: header.index(title) for name, title in columns.items() if title in header}
    table: dict[str, Any] = {name: [] for name in present}
    for row in csv.reader(lines):
        cells = {name: row[i].strip() if i < len(row) else "" for name, i in present.items()}
        if not cells["session"]:
            rejected["row without a session (dropped)"] += 1
            continue
        tokens = {name: _number(cells[name]) for name in ("total", "prefix", "output") if name in cells}
        if not all(value >= 0 and math.isfinite(value) for value in tokens.values()):
            rejected["token counts unreadable (step kept, not counted)"] += 1
            tokens = dict.fromkeys(tokens, 0.0)
        for name, text in cells.items():
            if name in tokens:
                table[name].append(int(tokens[name]))
            elif name in ("gap", "generation", "order"):
                table[name].append(_number(text))
            else:
                table[name].append(text)
    if not table["session"]:
        raise InputError(f"{path}: no row with a session below the header")
    order = table.pop("order", None)
    return steps_from_arrays(**table, order=[] if order is None else [order], rejected=rejected)


def read_lines(path: Path, rejected: Counter[str]) -> Iterator[str]:
    """The lines of a text file, plain or gzip; one cut off in the middle ends early, and that is counted."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    with path.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    with (gzip.open if compressed else open)(
        path, "rt", encoding="utf-8", errors="replace", newline=""
    ) as file:
        try:
            yield from file
        except (EOFError, zlib.error):
            rejected["compressed file cut off (read up to there)"] += 1


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
