"""vidur CSV: arrived_at in seconds, prefill and decode tokens; a session_id column where the file has one."""

from __future__ import annotations

from mfmc.traces.readers.format import Format, Options, has_columns
from mfmc.traces.source import Source
from mfmc.traces.staging import Draft
from mfmc.traces.tabular import csv_header, stage_csv

COLUMNS = {
    "submitted_at": "arrived_at",
    "input_tokens": "num_prefill_tokens",
    "response_tokens": "num_decode_tokens",
}


def detect(source: Source) -> str | None:
    return has_columns(source, set(COLUMNS.values()))


def read(source: Source, options: Options) -> Draft:
    session = {"conversation": "session_id"} if "session_id" in csv_header(source) else {}
    draft = stage_csv(source, COLUMNS | session, "vidur")
    draft.evidence.append("times are in seconds")
    return draft


FORMAT = Format("vidur", detect, read)
