"""Read coding-agent rounds (a JSONL file, or a DuckDB file of rounds, tool_calls and timing_events) into
`Steps`.

A round is one request with the events that its log kept: the input that set it off (`user_message`,
`tool_result`), then the model's output (`reasoning`, `text`, `tool_call`), each with a time. Tools that a
round calls finish later; their results are the input of a later round.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..traces.staging import epoch_microseconds
from .steps import Steps, steps_from_arrays
from .tables import read_lines

KIND_OF_INPUT = {"user_message": "human", "tool_result": "tool"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECONDS = 1_000_000
OUTPUT_EVENTS = frozenset({"reasoning", "text", "tool_call"})


@dataclass
class Round:
    """One round as both sources give it. Times are whole microseconds (exact differences), or None."""

    provider: str
    session: str
    index: int
    sequence: int  # file order, breaks ties of `index`
    prefix: int | None
    append: int | None
    output: int | None
    events: list[tuple[str, int | None, str | None]]  # (type, time, tool call id), in the order of the log
    tools: list[tuple[str | None, int | None, int | None]]  # (call id, emitted, result)

    @property
    def kind(self) -> str:
        return KIND_OF_INPUT.get(self.events[0][0], "other") if self.events else "other"

    def activity(self) -> tuple[int | None, int | None]:
        """First and last sign of life: the first event that carries a time, and the latest time of all."""
        of_events = [time for _, time, _ in self.events if time is not None]
        every = of_events + [time for _, *times in self.tools for time in times if time is not None]
        if not every:
            return None, None
        return (of_events[0] if of_events else min(every)), max(every)

    def generation(self) -> float:
        """Decoding seconds: last input before the first output, to last output; NaN if unknown."""
        outputs = [time for kind, time, _ in self.events if kind in OUTPUT_EVENTS and time is not None]
        inputs = [
            time
            for kind, time, _ in self.events
            if kind in KIND_OF_INPUT and time is not None and outputs and time <= min(outputs)
        ]
        span = max(outputs) - max(inputs) if inputs else 0
        return span / MICROSECONDS if span > 0 else np.nan

    def awaited_tools(self) -> list[str]:
        """The calls whose results open the round, up to its first event of another type."""
        calls = []
        for kind, _, call in self.events:
            if kind != "tool_result":
                break
            if call:
                calls.append(call)
        return calls


def steps_from_rounds(rounds: Iterable[Round], rejected: Counter[str]) -> Steps:
    """Order the rounds of each session by (index, sequence) and give each step its idle gap.

    A human step was idle since the last activity of the round before it; a tool step for as long as the
    slowest of the tool calls that its leading results answer (called by earlier rounds of the session: a
    session waits for all of them). Negative durations and unknown times give no gap.
    """
    sessions: dict[tuple[str, str], list[Round]] = defaultdict(list)
    for item in rounds:
        sessions[item.provider, item.session].append(item)
    columns: dict[str, Any] = defaultdict(list)
    for number, members in enumerate(sessions.values()):
        members.sort(key=lambda item: (item.index, item.sequence))
        latency: dict[str, int | None] = {}
        last_activity: int | None = None
        for item in members:
            began, ended = item.activity()
            gap: int | None = None
            if item.kind == "human" and began is not None and last_activity is not None:
                gap = began - last_activity
            elif item.kind == "tool":
                waits = [wait for call in item.awaited_tools() if (wait := latency.get(call)) is not None]
                gap = max(waits, default=None)
            # Only now: a round's own tools cannot be what it waited for.
            latency.update({call: _latency(emitted, result) for call, emitted, result in item.tools if call})
            last_activity = ended
            prefix, append = item.prefix, item.append
            if prefix is None or append is None:
                rejected["token counts unreadable (step kept, not counted)"] += 1
                prefix = append = 0
            columns["session"].append(number)
            columns["total"].append(prefix + append)
            columns["prefix"].append(prefix)
            columns["output"].append(item.output or 0)
            columns["gap"].append(np.nan if gap is None else gap / MICROSECONDS)
            columns["generation"].append(item.generation())
            columns["provider"].append(item.provider)
            columns["kind"].append(item.kind)
    if not columns:
        raise InputError("no usable round: expected rows with a session_id and a whole round_index")
    return steps_from_arrays(**columns, rejected=rejected)


def steps_from_rounds_jsonl(path: str | Path) -> Steps:
    """Read a JSONL file with one round per line, `timing_events` and `tools` nested; plain or gzip."""
    rejected: Counter[str] = Counter()

    def read() -> Iterator[Round]:
        for sequence, line in enumerate(read_lines(Path(path), rejected)):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                row = None
            if not isinstance(row, dict):
                rejected["line that is not a JSON object (dropped)"] += 1
                continue
            events = [
                (str(event.get("event_type")), _time(event.get("timestamp")), event.get("tool_call_id"))
                for event in _objects(row.get("timing_events"))
            ]
            tools = [
                (tool.get("tool_call_id"), _time(tool.get("emitted_at")), _time(tool.get("result_at")))
                for tool in _objects(row.get("tools"))
            ]
            made = _round(row, sequence, events, tools, rejected)
            if made is not None:
                yield made

    return steps_from_rounds(read(), rejected)


def steps_from_duckdb(path: str | Path) -> Steps:
    """Read the DuckDB file of the source: `rounds`, joined to `timing_events` and `tool_calls` by `round_pk`.

    `round_id` and `(session_id, round_index)` repeat, so neither is used as a key. Timestamps may be stored
    as text. A file without `tool_calls` gives tool steps no gap. Needs the package duckdb (extra `traces`).
    """
    import duckdb

    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        connection = duckdb.connect(str(path), read_only=True)
    except duckdb.Error as error:
        raise InputError(f"{path}: not a DuckDB file ({str(error).splitlines()[0]})") from error
    with connection:
        connection.execute("SET TimeZone = 'UTC'")
        rejected: Counter[str] = Counter()
        events: dict[int, list] = defaultdict(list)
        for key, kind, time, call in _table(
            connection, path, "timing_events", ("event_type", "timestamp", "tool_call_id"), "event_index"
        ):
            events[key].append((kind, time, call))
        tools: dict[int, list] = defaultdict(list)
        if _columns(connection, "tool_calls"):
            for key, call, emitted, result in _table(
                connection, path, "tool_calls", ("tool_call_id", "emitted_at", "result_at"), "tool_index"
            ):
                tools[key].append((call, emitted, result))
        else:
            rejected["table tool_calls missing (tool steps have no gap)"] += 1
        names = (
            "provider",
            "session_id",
            "round_index",
            "prefix_tokens",
            "newly_append_tokens",
            "output_tokens",
        )
        rounds = []
        for sequence, (key, *values) in enumerate(_table(connection, path, "rounds", names, "ingest_seq")):
            made = _round(dict(zip(names, values)), sequence, events[key], tools[key], rejected)
            if made is not None:
                rounds.append(made)
    return steps_from_rounds(rounds, rejected)


def _table(connection: Any, path: Path, table: str, names: tuple[str, ...], order: str) -> Iterator[tuple]:
    """Rows (round_pk, *names); times become microseconds since the epoch, however they are stored."""
    stored = _columns(connection, table)
    missing = [name for name in ("round_pk", *names) if name not in stored]
    if missing:
        raise InputError(
            f"{path}: table {table} has no column {', '.join(missing)}"
            if stored
            else f"{path}: no table {table}; expected rounds, timing_events and tool_calls"
        )
    times = {"timestamp", "emitted_at", "result_at"}
    selected = [
        epoch_microseconds(f'CAST("{name}" AS VARCHAR)') if name in times else name
        for name in names
    ]
    sorting = f"ORDER BY {order}, round_pk" if order in stored else ""  # DuckDB keeps the order of insertion
    cursor = connection.execute(f"SELECT round_pk, {', '.join(selected)} FROM {table} {sorting}")
    while rows := cursor.fetchmany(65536):
        yield from rows


def _columns(connection: Any, table: str) -> set[str]:
    query = "SELECT column_name FROM information_schema.columns WHERE table_name = ?"
    return {name for (name,) in connection.execute(query, [table]).fetchall()}


def _round(
    row: Mapping[str, Any], sequence: int, events: list, tools: list, rejected: Counter[str]
) -> Round | None:
    session, index = row.get("session_id"), _whole(row.get("round_index"))
    if not session or index is None:
        rejected["round without session_id or round_index (dropped)"] += 1
        return None
    return Round(
        provider=str(row.get("provider") or "unknown"),
        session=str(session),
        index=index,
        sequence=sequence,
        prefix=_whole(row.get("prefix_tokens")),
        append=_whole(row.get("newly_append_tokens")),
        output=_whole(row.get("output_tokens")),
        events=events,
        tools=tools,
    )


def _objects(value: Any) -> list[dict]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _whole(value: Any) -> int | None:
    """A count of 0 or more, given as a number or as text; None for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return int(number) if number >= 0 and number.is_integer() else None


def _time(value: Any) -> int | None:
    """Microseconds since the epoch of an ISO time; a time without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // timedelta(microseconds=1)


def _latency(emitted: int | None, result: int | None) -> int | None:
    if emitted is None or result is None or result < emitted:
        return None
    return result - emitted
