"""kv-cache-tester JSON: one coding-agent session a file, or a folder of them; times relative to each session.

Entries of `requests` are turns. An entry of type "subagent" is none; where it nests requests of its own, they
are a conversation of their own (a subagent has its own context). Hash ids (64-token blocks) are local to the
session.
"""

from __future__ import annotations

from typing import Any

from mfmc.errors import InputError
from mfmc.traces.json_text import elements, seconds, whole_number
from mfmc.traces.readers.columns import draft_of_rows
from mfmc.traces.readers.format import Format, Options, has_keys
from mfmc.traces.rejections import Rejections
from mfmc.traces.source import Source
from mfmc.traces.staging import KIND_WORDS, MAXIMUM_TOKENS, Draft

PATTERNS = ("*.json", "*.json.gz", "*.json.zst")
INTEGERS = 2**63


def detect(source: Source) -> str | None:
    if source.container == "folder":
        return f"a folder with {len(files(source))} JSON files" if files(source) else None
    return has_keys(source, {"requests", "block_size"})


def files(source: Source) -> list:
    """The session files of a folder, by name."""
    return sorted({path for pattern in PATTERNS for path in source.path.glob(pattern) if path.is_file()})


def read(source: Source, options: Options) -> Draft:
    rejections = Rejections()
    sessions = _Sessions(rejections)
    paths = files(source) if source.container == "folder" else [source.path]
    if not paths:
        raise InputError(f"{source.path}: the folder holds none of {', '.join(PATTERNS)}")
    for path in paths:
        part = Source.open(path) if source.container == "folder" else source
        for session in elements(part, rejections):
            sessions.add(session)
        source.evidence += [f"{path.name}: {note}" for note in part.notes() if part is not source]
    block = options.hash_block_tokens or sessions.block_tokens()
    draft = draft_of_rows("kv_cache_tester", rejections, sessions.rows)
    draft.clock, draft.hash_scope, draft.hash_block_tokens = "per conversation", "local", block
    draft.treatments |= sessions.treatments
    draft.evidence += [
        "times are seconds since each session's own start: there is no arrival process",
        f"{block} tokens a block hash, hash ids local to each session",
    ]
    return draft


class _Sessions:
    """Rows collected from session objects."""

    def __init__(self, rejections: Rejections) -> None:
        self.rejections = rejections
        self.rows: dict[str, list] = {
            name: []
            for name in (
                "source_row",
                "conversation",
                "turn",
                "submitted_at",
                "input_tokens",
                "response_tokens",
                "kind",
                "block_hashes",
            )
        }
        self.seen: set[str] = set()
        self.blocks: list[int] = []
        self.conversations = 0
        self.treatments = {
            "subagent entries: not a turn of the parent": 0,
            "subagents with requests of their own: a conversation each": 0,
            "requests without api_time, kept": 0,
        }

    def block_tokens(self) -> int:
        return max(set(self.blocks), key=self.blocks.count) if self.blocks else 64

    def add(self, session: Any) -> None:
        requests = session.get("requests") if isinstance(session, dict) else None
        if not isinstance(requests, list):
            self._reject("not a session with a list of requests")
            return
        if (key := session.get("id")) not in (None, ""):
            if str(key) in self.seen:
                for _ in requests:
                    self._reject("session id that an earlier session has")
                return
            self.seen.add(str(key))
        block = whole_number(session.get("block_size"), MAXIMUM_TOKENS)
        if block:
            self.blocks.append(block)
        self._conversation(requests)

    def _conversation(self, requests: list, depth: int = 0) -> None:
        number = self.conversations
        self.conversations += 1
        for turn, request in enumerate(requests):
            if isinstance(request, dict) and request.get("type") == "subagent":
                self.treatments["subagent entries: not a turn of the parent"] += 1
                self._reject("subagent entry (its requests are read as a conversation of their own)")
                nested = request.get("requests")
                if isinstance(nested, list) and nested and depth < 100:
                    self.treatments["subagents with requests of their own: a conversation each"] += 1
                    self._conversation(nested, depth + 1)
                continue
            self._turn(request, number, turn)

    def _turn(self, request: Any, number: int, turn: int) -> None:
        if not isinstance(request, dict):
            self._reject("request is not an object")
            return
        time = seconds(request.get("t"))
        prompt = whole_number(request.get("in"), MAXIMUM_TOKENS)
        response = whole_number(request.get("out"), MAXIMUM_TOKENS)
        hashes = request.get("hash_ids", [])
        if time is None:
            self._reject("time missing, negative or unreadable")
        elif not prompt:
            self._reject("prompt length missing, 0 or not a whole number up to a billion")
        elif response is None:
            self._reject("response length missing or not a whole number up to a billion")
        elif not isinstance(hashes, list) or not all(
            type(h) is int and -INTEGERS <= h < INTEGERS for h in hashes
        ):
            self._reject("block hashes are not whole numbers")
        else:
            self.rejections.rows_read += 1
            types = request.get("input_types")
            first = types[0] if isinstance(types, list) and types and isinstance(types[0], str) else ""
            row = (
                self.rejections.rows_read,
                number,
                turn,
                time,
                prompt,
                response,
                KIND_WORDS.get(first, 0),
                hashes,
            )
            for column, value in zip(self.rows.values(), row):
                column.append(value)
            if "api_time" not in request:
                self.treatments["requests without api_time, kept"] += 1

    def _reject(self, reason: str) -> None:
        self.rejections.rows_read += 1
        self.rejections.add(reason, self.rejections.rows_read)


FORMAT = Format("kv_cache_tester", detect, read)
