"""From the columns of a file to checked numbers, in SQL: types, ranges and the reason why a row is not kept.

A reader names, for every role that its format has, the SQL expression of the raw column. `stage` gives the
rows whose every number is usable, as columns of seconds and whole tokens, and counts the others by the first
reason that applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mfmc.cores import on_cores
from mfmc.traces.rejections import Rejections

MAXIMUM_TOKENS = 1_000_000_000
KIND_NAMES = ("unknown", "human", "tool")

#: Roles of whole numbers, in the order in which they are checked: role -> what a message calls it.
COUNTS = {
    "input_tokens": "prompt length",
    "new_prompt_tokens": "new prompt length",
    "response_tokens": "response length",
    "shared_tokens": "shared prefix length",
    "turn": "turn number",
}
KIND_WORDS = {"human": 1, "user": 1, "user_message": 1, "text": 1, "tool": 2, "tool_result": 2}
WHOLE_TYPES = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
TEXTS = ("conversation", "chat", "parent")
ROLES = ("submitted_at", *COUNTS, *TEXTS, "kind", "block_hashes")


@dataclass
class Draft:
    """Checked turns before they are put into conversations: one entry per kept row in every column.

    A column that the file does not have is None.

    conversation, chat, parent: pyarrow arrays of text or whole numbers (null = blank). submitted_at: float64
    in the file's unit until `sessions.assemble` has made seconds of it. input_tokens (the whole prompt) or
    new_prompt_tokens (what the turn adds to it), response_tokens, shared_tokens, turn: int32, so that two of
    MAXIMUM_TOKENS can be added. kind: int8 index into KIND_NAMES. block_hashes: pyarrow list<int64>.
    """

    format: str
    rejections: Rejections
    source_row: np.ndarray
    submitted_at: Any = None
    input_tokens: Any = None
    new_prompt_tokens: Any = None
    response_tokens: Any = None
    shared_tokens: Any = None
    turn: Any = None
    kind: Any = None
    conversation: Any = None
    chat: Any = None
    parent: Any = None
    block_hashes: Any = None
    clock: str = "shared"
    seconds_per_unit: float | None = 1.0
    hash_block_tokens: int | None = None
    hash_scope: str = "global"
    unique_turns: bool = True  # (conversation, turn) is meant to name one row
    evidence: list[str] = field(default_factory=list)
    treatments: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.source_row)

    def take(self, order: np.ndarray) -> None:
        """Put the rows in another order."""
        names = [name for name in ("source_row", *ROLES) if getattr(self, name) is not None]
        for name, column in zip(names, on_cores(lambda name: getattr(self, name).take(order), names)):
            setattr(self, name, column)

    def keep(self, mask: np.ndarray, reason: str) -> None:
        """Reject the rows outside `mask` for `reason`."""
        if not mask.all():
            self.rejections.add(reason, self.source_row[~mask])
            self.filter(mask)

    def filter(self, mask: np.ndarray) -> None:
        """Leave only the rows of `mask`."""
        where: Any = None
        for name in ("source_row", *ROLES):
            column = getattr(self, name)
            if isinstance(column, np.ndarray):
                setattr(self, name, column[mask])
            elif column is not None:
                import pyarrow as pa

                where = pa.array(mask) if where is None else where
                setattr(self, name, column.filter(where))


def stage(
    connection: Any,
    relation: str,
    expressions: Mapping[str, str],
    format: str,
    rejections: Rejections | None = None,
    text_time: bool = False,
    zero_prompts: bool = False,
    optional_time: bool = False,
    whole_ids: bool = False,
) -> Draft:
    """Run the checks over the rows of the SQL `relation`.

    `expressions`: role -> SQL over the relation's columns. A column `row` of the relation, if it has one,
    numbers the records; otherwise they are numbered 1, 2, .. in order. `rejections`: what fell out before the
    relation (its `rows_read` is complete once the relation was scanned). `text_time`: the times are dates in
    text. `zero_prompts`: a prompt of 0 tokens may stand (formats that give what a turn adds).
    `optional_time`: a row without a time stays, its time NaN. `whole_ids`: identifiers look like whole
    numbers; they are kept as numbers if every one is (the relation may then be scanned twice).
    """
    streamed = rejections is not None
    rejections = rejections if rejections is not None else Rejections()
    columns = connection.sql(f"SELECT * FROM {relation} LIMIT 0").columns
    asked = ", ".join(expressions.values())
    types = dict(zip(expressions, map(str, connection.sql(f"SELECT {asked} FROM {relation} LIMIT 0").types)))
    parsed = [name for name in ("row", "is_object") if name in columns]
    checks = [("NOT is_object", "not a JSON object")] if "is_object" in columns else []
    final = ["row"] if "row" in columns else []
    parts = (
        *_times(expressions, text_time, optional_time),
        *_counts(expressions, types, zero_prompts),
        *_others(expressions),
    )
    for source, tests, column in parts:
        parsed.append(source)
        checks += tests
        final.append(column)
    texts = [role for role in TEXTS if role in expressions]
    whole = []
    for role in texts:
        if types[role] in WHOLE_TYPES:
            parsed.append(f"CAST({expressions[role]} AS BIGINT) AS {role}")
        else:
            text = f"NULLIF(trim(CAST({expressions[role]} AS VARCHAR)), '')"
            if role in ("chat", "parent"):  # one names the other, and where some are missing 5 is often written 5.0
                text = f"regexp_replace({text}, '^(-?[0-9]+)[.]0$', '\\1')"
            parsed.append(f"{text} AS {role}")
            whole += [role] if whole_ids else []
        final.append(f"{_as_whole(role)} AS {role}" if role in whole else role)
    cases = " ".join(f"WHEN {test} THEN {code}" for code, (test, _) in enumerate(checks, 1))
    final.append(f"CAST(CASE {cases} ELSE 0 END AS UTINYINT) AS reason")
    inner = f"(SELECT {', '.join(parsed)} FROM {relation})"
    table = _fetch(connection, f"SELECT {', '.join(final)} FROM {inner}")
    if any(table[role].null_count for role in whole):  # blank, or no plain number: take the texts
        table |= _fetch(connection, f"SELECT {', '.join(whole)} FROM {inner}")

    reason = table.pop("reason").to_numpy()
    rows = table.pop("row").to_numpy() if "row" in table else np.arange(1, len(reason) + 1, dtype=np.int32)
    if not streamed:
        rejections.rows_read = len(reason)
    numbers = {name: column for name, column in table.items() if name not in (*TEXTS, "block_hashes")}
    # duckdb may drop a COALESCE around a cast of a column without nulls, though the cast of a NaN is null.
    arrays = {name: column.fill_null(0).to_numpy(zero_copy_only=False) for name, column in numbers.items()}
    draft = Draft(format, rejections, rows, **{**table, **arrays})
    for code in np.flatnonzero(np.bincount(reason)):
        if code:
            rejections.add(checks[code - 1][1], rows[reason == code])
    if reason.any():
        draft.filter(reason == 0)
    return draft


def epoch_microseconds(text: str) -> str:
    """SQL for the moment that a text names; without an offset, in the session's time zone. NULL where it names none.

    A cast to TIMESTAMP would drop the offset.
    """
    return f"epoch_us(TRY_CAST({text} AS TIMESTAMPTZ))"


#: (parsed column, its tests with reasons, column handed on)
Part = list[tuple[str, list[tuple[str, str]], str]]


def _times(expressions: Mapping[str, str], text_time: bool, optional: bool) -> Part:
    if "submitted_at" not in expressions:
        return []
    raw = expressions["submitted_at"]
    time = f"{epoch_microseconds(raw)} / 1e6" if text_time else f"TRY_CAST({raw} AS DOUBLE)"
    if optional:
        return [(f"COALESCE({time}, 'nan'::DOUBLE) AS submitted_at", [], "submitted_at")]
    tests = [
        ("submitted_at IS NULL", "time missing or unreadable"),
        ("NOT isfinite(submitted_at)", "time not finite"),
        ("submitted_at < 0", "time negative"),
    ]
    return [(f"{time} AS submitted_at", tests, "submitted_at")]


def _counts(expressions: Mapping[str, str], types: Mapping[str, str], zero_prompts: bool) -> Part:
    parts: Part = []
    for role, name in COUNTS.items():
        if role not in expressions:
            continue
        whole = types[role] in WHOLE_TYPES
        tests = [
            (f"{role} IS NULL", f"{name} missing or not a number"),
            (f"{role} > {MAXIMUM_TOKENS}", f"{name} above {MAXIMUM_TOKENS:,}"),
            (f"{role} < 0", f"{name} negative"),
        ]
        if not whole:
            tests.insert(1, (f"NOT isfinite({role})", f"{name} not finite"))
            tests.append((f"{role} <> floor({role})", f"{name} not a whole number"))
        if role == "input_tokens" and not zero_prompts:
            tests.append((f"{role} = 0", f"{name} of 0 tokens"))
        if role == "response_tokens" and "new_prompt_tokens" in expressions:
            tests.append((f"{role} = 0 AND new_prompt_tokens = 0", "turn of 0 tokens"))
        column = f"COALESCE(TRY_CAST({role} AS INTEGER), 0) AS {role}"
        typed = "BIGINT" if whole else "DOUBLE"
        raw = f"CAST({expressions[role]} AS VARCHAR)" if types[role] == "BOOLEAN" else expressions[role]
        parts.append((f"TRY_CAST({raw} AS {typed}) AS {role}", tests, column))
    return parts


def _others(expressions: Mapping[str, str]) -> Part:
    parts: Part = []
    if "kind" in expressions:
        codes = " ".join(f"WHEN '{word}' THEN {code}" for word, code in KIND_WORDS.items())
        kind = f"CAST(CASE lower(trim(CAST({expressions['kind']} AS VARCHAR))) {codes} ELSE 0 END AS TINYINT) AS kind"
        parts.append((kind, [], "kind"))
    if "block_hashes" in expressions:
        bad = "block_hashes IS NULL OR len(list_filter(block_hashes, lambda h: h IS NULL)) > 0"
        tests = [(bad, "block hashes missing or not whole numbers")]
        parts.append((f"{expressions['block_hashes']} AS block_hashes", tests, "block_hashes"))
    return parts


def _as_whole(role: str) -> str:
    """The identifier as a number if it is written as one, without leading zeros or decimals; else NULL."""
    number = f"TRY_CAST({role} AS BIGINT)"
    return f"CASE WHEN CAST({number} AS VARCHAR) = {role} THEN {number} END"


def _fetch(connection: Any, query: str) -> dict[str, Any]:
    """Columns of a query, each as one contiguous array."""
    table = connection.sql(query).to_arrow_table()
    return {name: table[name].combine_chunks() for name in table.column_names}
