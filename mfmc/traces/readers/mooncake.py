"""Mooncake JSONL: timestamp in ms, lengths in tokens, hashes of 512-token blocks chained by prefix; no
session id.
"""

from __future__ import annotations

from mfmc.traces.json_text import object_keys
from mfmc.traces.readers.format import Format, Options, block_hashes, has_keys, settle_hash_block
from mfmc.traces.source import Source
from mfmc.traces.staging import Draft
from mfmc.traces.tabular import stage_jsonl

KEYS = {"timestamp", "input_length", "output_length", "hash_ids"}
STRUCTURE = '{"timestamp":"VARCHAR","input_length":"VARCHAR","output_length":"VARCHAR","hash_ids":"VARCHAR"}'
EXPRESSIONS = {
    "submitted_at": "o.timestamp",
    "input_tokens": "o.input_length",
    "response_tokens": "o.output_length",
    "block_hashes": block_hashes("o.hash_ids", missing="NULL"),
}


def detect(source: Source) -> str | None:
    evidence = has_keys(source, KEYS, without={"chat_id", "session_id"})
    return evidence if evidence and object_keys(source)["hash_ids"] == "[" else None


def read(source: Source, options: Options) -> Draft:
    draft = stage_jsonl(source, STRUCTURE, EXPRESSIONS, "mooncake")
    draft.seconds_per_unit = 1e-3
    draft.evidence.append("the format counts time in milliseconds")
    settle_hash_block(draft, 512, options.hash_block_tokens, (16, 32, 64, 128, 256, 1024))
    return draft


FORMAT = Format("mooncake", detect, read)
