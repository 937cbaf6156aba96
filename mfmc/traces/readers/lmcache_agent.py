"""LMCache agent JSONL: timestamp in MICROSECONDS, session_id, input and output as text (or token counts
beside them).
"""

from __future__ import annotations

import json
from typing import Any

from mfmc.traces.json_text import seconds, whole_number
from mfmc.traces.lengths import token_counter
from mfmc.traces.readers.columns import draft_of_rows, encodable
from mfmc.traces.readers.format import Format, Options, has_keys
from mfmc.traces.rejections import Rejections
from mfmc.traces.source import Source
from mfmc.traces.staging import MAXIMUM_TOKENS, Draft

PROMPT_COUNTS = ("prompt_tokens", "input_tokens", "input_length")
RESPONSE_COUNTS = ("completion_tokens", "output_tokens", "output_length")


def detect(source: Source) -> str | None:
    found = has_keys(source, {"timestamp", "session_id"}, without={"round_index", "hash_ids", "requests"})
    named = (found and has_keys(source, {name}) for name in ("input", *PROMPT_COUNTS))
    return found if found and any(named) else None


def read(source: Source, options: Options) -> Draft:
    rejections = Rejections()
    count, how = token_counter(options.tokenizer, options.characters_per_token)
    rows: dict[str, list] = {
        name: [] for name in ("source_row", "conversation", "submitted_at", "input_tokens", "response_tokens")
    }
    by_text = 0
    for numbers, lines in source.line_batches(rejections):
        for number, line in zip(numbers, lines):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                rejections.add("line is not JSON", number)
                continue
            if not isinstance(record, dict):
                rejections.add("not a JSON object", number)
                continue
            time = seconds(record.get("timestamp"))
            prompt, counted = _length(record, PROMPT_COUNTS, "input", count)
            response, _ = _length(record, RESPONSE_COUNTS, "output", count)
            if time is None:
                rejections.add("time missing, negative or unreadable", number)
            elif not prompt:
                rejections.add("prompt missing, empty or of no usable length", number)
            elif response is None:
                rejections.add("response missing or of no usable length", number)
            else:
                by_text += not counted
                session = record.get("session_id")
                name = str(session).strip() if isinstance(session, (str, int)) else ""
                for column, value in zip(rows.values(), (number, name or None, time, prompt, response)):
                    column.append(value)
    import pyarrow as pa

    sessions = pa.array(list(map(encodable, rows.pop("conversation"))), type=pa.string())
    draft = draft_of_rows("lmcache_agent", rejections, rows)
    draft.conversation = sessions
    draft.seconds_per_unit = 1e-6
    draft.evidence.append("the format counts time in microseconds")
    if by_text:
        draft.evidence.append(f"{how}; {by_text:,} prompts")
    return draft


def _length(record: dict, counts: tuple[str, ...], text: str, count: Any) -> tuple[int | None, bool]:
    """(tokens, whether the file itself gives them)."""
    for name in counts:
        if name in record:
            return whole_number(record[name], MAXIMUM_TOKENS), True
    words = record.get(text)
    if words is None:
        return None, False
    tokens = count(words if isinstance(words, str) else json.dumps(words, ensure_ascii=False))
    return (tokens if 0 <= tokens <= MAXIMUM_TOKENS else None), False


FORMAT = Format("lmcache_agent", detect, read)
