"""ShareGPT as numbers: conv, turn, prompt_tokens and response_tokens that each turn adds; no times."""

from __future__ import annotations

from mfmc.traces.readers.format import Format, Options, has_columns
from mfmc.traces.source import Source
from mfmc.traces.staging import Draft
from mfmc.traces.tabular import stage_csv

COLUMNS = {
    "conversation": "conv",
    "turn": "turn",
    "new_prompt_tokens": "prompt_tokens",
    "response_tokens": "response_tokens",
}


def detect(source: Source) -> str | None:
    return has_columns(source, set(COLUMNS.values()))


def read(source: Source, options: Options) -> Draft:
    draft = stage_csv(source, COLUMNS, "sharegpt_turns")
    draft.evidence.append("token counts are what each turn adds; there are no times")
    return draft


FORMAT = Format("sharegpt_turns", detect, read)
