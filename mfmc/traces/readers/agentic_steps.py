"""agentic_steps.csv, derived from kv-cache-tester: one row per step of a coding agent, times relative to its
session.
"""

from __future__ import annotations

from mfmc.traces.readers.format import Format, Options, has_columns
from mfmc.traces.source import Source
from mfmc.traces.staging import Draft
from mfmc.traces.tabular import stage_csv

COLUMNS = {
    "conversation": "trace",
    "turn": "step",
    "submitted_at": "t_s",
    "input_tokens": "in_tokens",
    "shared_tokens": "shared_prefix_tokens",
    "response_tokens": "out_tokens",
    "kind": "kind",
}


def detect(source: Source) -> str | None:
    return has_columns(source, set(COLUMNS.values()))


def read(source: Source, options: Options) -> Draft:
    draft = stage_csv(source, COLUMNS, "agentic_steps")
    draft.clock = "per conversation"
    draft.hash_block_tokens = options.hash_block_tokens or 64
    draft.evidence.append("times are seconds since each session's own start: there is no arrival process")
    draft.evidence.append(f"shared prefixes are counted in blocks of {draft.hash_block_tokens} tokens")
    return draft


FORMAT = Format("agentic_steps", detect, read)
