"""The `trace` node: a trace file and how to read it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated

from mfmc.config.ranges import Count, Range
from mfmc.errors import InputError

if TYPE_CHECKING:
    from mfmc.traces.table import Trace


@dataclass(kw_only=True)
class TraceColumnsSection:
    """Role -> column name, for CSV and Parquet files of other people's making; unset: by common names."""

    conversation: str | None = None
    turn: str | None = None
    submitted_at: str | None = None
    input_tokens: str | None = None
    new_prompt_tokens: str | None = None
    response_tokens: str | None = None
    shared_tokens: str | None = None
    kind: str | None = None
    chat: str | None = None
    parent: str | None = None


@dataclass(kw_only=True)
class TraceFileSection:
    """Which file, and the reader's options (see `mfmc.traces.read_trace`)."""

    path: str | None = None
    format: str | None = None
    columns: TraceColumnsSection = field(default_factory=TraceColumnsSection)
    time_unit: Annotated[str | None, Range(choices=("s", "ms", "us", "ns"))] = None
    tokenizer: str | None = None
    characters_per_token: Annotated[float | None, Range(above=0)] = None
    fan_out_limit: Count = 16
    hash_block_tokens: Annotated[int | None, Range(low=1)] = None


@dataclass(kw_only=True)
class TraceSection(TraceFileSection):
    """A file, and how its conversations are counted."""

    block_tokens: Count = 128
    minimum_turns: Count = 1


def load_trace(section: TraceFileSection, key: str = "trace") -> Trace:
    """The trace that a section names; `key` is its place in the configuration, for messages."""
    from mfmc.traces import read_trace

    if section.path is None:
        raise InputError(f"{key}.path is not set: give the trace file, {key}.path=FILE")
    named = {entry.name: getattr(section.columns, entry.name) for entry in fields(section.columns)}
    return read_trace(
        section.path,
        section.format,
        columns={role: name for role, name in named.items() if name is not None} or None,
        time_unit=section.time_unit,
        tokenizer=section.tokenizer,
        characters_per_token=section.characters_per_token,
        fan_out_limit=section.fan_out_limit,
        hash_block_tokens=section.hash_block_tokens,
    )
