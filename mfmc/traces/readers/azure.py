"""Azure LLM inference CSV: arrivals and lengths; it has no sessions."""

from __future__ import annotations

from mfmc.traces.readers.format import Format, Options, has_columns
from mfmc.traces.source import Source
from mfmc.traces.staging import Draft
from mfmc.traces.tabular import stage_csv

COLUMNS = {"submitted_at": "TIMESTAMP", "input_tokens": "ContextTokens", "response_tokens": "GeneratedTokens"}


def detect(source: Source) -> str | None:
    return has_columns(source, set(COLUMNS.values()))


def read(source: Source, options: Options) -> Draft:
    draft = stage_csv(source, COLUMNS, "azure")
    draft.evidence.append("times are dates, to the microsecond")
    return draft


FORMAT = Format("azure", detect, read)
