"""Qwen-Bailian JSONL: chats that name their parent, seconds, hashes of 16-token blocks."""

from __future__ import annotations

from mfmc.traces.readers.format import Format, Options, block_hashes, has_keys, settle_hash_block
from mfmc.traces.source import Source
from mfmc.traces.staging import Draft
from mfmc.traces.tabular import stage_jsonl

STRUCTURE = (
    '{"chat_id":"VARCHAR","parent_chat_id":"VARCHAR","timestamp":"VARCHAR","input_length":"VARCHAR",'
    '"output_length":"VARCHAR","hash_ids":"VARCHAR"}'
)
EXPRESSIONS = {
    "chat": "o.chat_id",
    "parent": "o.parent_chat_id",
    "submitted_at": "o.timestamp",
    "input_tokens": "o.input_length",
    "response_tokens": "o.output_length",
    "block_hashes": block_hashes("o.hash_ids", missing="[]"),
}


def detect(source: Source) -> str | None:
    return has_keys(source, {"chat_id", "parent_chat_id", "timestamp", "input_length"})


def read(source: Source, options: Options) -> Draft:
    draft = stage_jsonl(source, STRUCTURE, EXPRESSIONS, "qwen_bailian")
    draft.evidence.append("conversations follow from parent_chat_id (-1 at the root); times are in seconds")
    settle_hash_block(draft, 16, options.hash_block_tokens, (32, 64, 128, 256, 512))
    return draft


FORMAT = Format("qwen_bailian", detect, read)
