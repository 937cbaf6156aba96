"""BurstGPT CSV: seconds, request and response tokens, and a Session ID that is often blank."""

from __future__ import annotations

from mfmc.traces.readers.format import Format, Options, has_columns
from mfmc.traces.source import Source
from mfmc.traces.staging import Draft
from mfmc.traces.tabular import csv_header, stage_csv

COLUMNS = {
    "submitted_at": "Timestamp",
    "input_tokens": "Request tokens",
    "response_tokens": "Response tokens",
}


def detect(source: Source) -> str | None:
    return has_columns(source, set(COLUMNS.values()))


def read(source: Source, options: Options) -> Draft:
    session = {"conversation": "Session ID"} if "Session ID" in csv_header(source) else {}
    draft = stage_csv(source, COLUMNS | session, "burstgpt")
    draft.evidence.append("times are in seconds; request tokens are taken as the whole prompt")
    return draft


FORMAT = Format("burstgpt", detect, read)
