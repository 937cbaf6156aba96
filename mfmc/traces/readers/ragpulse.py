"""RAGPulse JSONL: timestamp a string of seconds, session ids, hash_ids an object of lists (system, passages,
..).
"""

from __future__ import annotations

from mfmc.traces.json_text import object_keys
from mfmc.traces.readers.format import Format, Options, block_hashes, has_keys
from mfmc.traces.source import Source
from mfmc.traces.staging import Draft
from mfmc.traces.tabular import stage_jsonl

PARTS = ("sys_prompt", "passages_ids", "history", "web_search", "user_input")  # as they stand in the prompt
STRUCTURE = (
    '{"timestamp":"VARCHAR","input_length":"VARCHAR","output_length":"VARCHAR","session_id":"VARCHAR","hash_ids":{'
    + ",".join(f'"{part}":"VARCHAR"' for part in PARTS)
    + "}}"
)
EXPRESSIONS = {
    "conversation": "o.session_id",
    "submitted_at": "o.timestamp",
    "input_tokens": "o.input_length",
    "response_tokens": "o.output_length",
    "block_hashes": "CASE WHEN o.hash_ids IS NULL THEN [] WHEN COALESCE("
    + ", ".join(f"o.hash_ids.{part}" for part in PARTS)
    + ") IS NOT NULL THEN flatten(["
    + ", ".join(block_hashes(f"o.hash_ids.{part}", missing="[]") for part in PARTS)
    + "]) END",
}


def detect(source: Source) -> str | None:
    evidence = has_keys(source, {"timestamp", "input_length", "output_length", "hash_ids", "session_id"})
    return evidence if evidence and object_keys(source)["hash_ids"] == "{" else None


def read(source: Source, options: Options) -> Draft:
    draft = stage_jsonl(source, STRUCTURE, EXPRESSIONS, "ragpulse")
    draft.evidence.append("times are in seconds; hash ids name passages of unknown length, in prompt order")
    return draft


FORMAT = Format("ragpulse", detect, read)
