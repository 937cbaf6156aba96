"""Steps from a file of any format that mfmc knows, told apart by content, and from a trace."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from .rounds import steps_from_duckdb, steps_from_rounds_jsonl
from .steps import Steps, steps_from_arrays
from .tables import AGENTIC_COLUMNS, REQUIRED, read_lines, steps_from_csv

if TYPE_CHECKING:
    from ..traces.table import Trace


def steps_from_file(path: str | Path) -> Steps:
    """Rounds in DuckDB or JSONL, a CSV of steps (text plain or gzip), or any trace of `read_trace`."""
    path = Path(path)
    if path.is_file():
        with path.open("rb") as file:
            if file.read(12)[8:] == b"DUCK":
                return steps_from_duckdb(path)
        first = next((line for line in read_lines(path, Counter()) if line.strip()), "")
        if first.lstrip().startswith("{") and '"timing_events"' in first:
            return steps_from_rounds_jsonl(path)
        if {AGENTIC_COLUMNS[name] for name in REQUIRED} <= set(next(csv.reader([first]), [])):
            return steps_from_csv(path)
    from ..traces.readers import read_trace

    return steps_from_trace(read_trace(path))


def steps_from_trace(trace: Trace) -> Steps:
    """The turns of a trace as steps.

    Traces know when a prompt was submitted, not when its answer was complete: the gap is the time between two
    submissions, and no generation span is known, so that R is not defined. What a deployed cache served is
    not known either.
    """
    from ..traces.staging import KIND_NAMES

    if trace.clock == "none":
        raise InputError(
            f"{trace.format}: there are no times in this trace, so no gap can outlast a time-out"
        )
    waited = np.diff(trace.submitted_at, prepend=np.nan)
    waited[trace.starts] = np.nan
    return steps_from_arrays(
        trace.conversation,
        total=trace.input_tokens,
        output=trace.response_tokens,
        gap=waited,
        kind=np.array(KIND_NAMES)[trace.kind],
        rejected={reason: entry.count for reason, entry in trace.rejections.by_reason.items()},
    )
