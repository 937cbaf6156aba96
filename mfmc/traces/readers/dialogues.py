"""Conversations given as lists of messages: prompts are gathered until the assistant answers, that is one
turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from mfmc.traces.json_text import elements
from mfmc.traces.lengths import token_counter
from mfmc.traces.readers.columns import draft_of_rows
from mfmc.traces.readers.format import Options
from mfmc.traces.rejections import Rejections
from mfmc.traces.source import Source
from mfmc.traces.staging import MAXIMUM_TOKENS, Draft

ASSISTANT = {"gpt", "assistant", "chatgpt", "bing", "bard", "model"}
TOOLS = {"tool", "function", "observation"}
_PART = re.compile(r"(.+)_([0-9]{1,9})", re.DOTALL)
FEWEST_NUMBERED = 10  # entries of one name before their numbers can be taken for those of conversations


#: Row of the first message, prompt tokens, response tokens, kind.
Turn = tuple[int, int, int, int]


def read_dialogues(
    source: Source, options: Options, format: str, messages: str, role: str, text: str, parts: bool
) -> Draft:
    """Draft of a JSON array (or lines) of `{id, <messages>: [{<role>, <text>}]}`. A row is a message.

    `parts`: the ids X_0, X_1, .. name parts of one conversation (but not where one X has most of a file).
    """
    rejections = Rejections()
    count, how = token_counter(options.tokenizer, options.characters_per_token)
    reader = _Dialogues(rejections, count, role, text, parts)
    for item in elements(source, rejections):
        reader.add(item, messages)
    draft = reader.draft(format)
    draft.evidence += [
        how,
        "rows are messages; a turn is what was said up to and with an answer; there are no times",
    ]
    return draft


class _Dialogues:
    def __init__(
        self, rejections: Rejections, count: Callable[[str], int], role: str, text: str, parts: bool
    ) -> None:
        self.rejections, self.count, self.role, self.text, self.parts = rejections, count, role, text, parts
        self.dialogues: dict[str | int, list[Turn]] = {}  # by id, or by number where there is none
        self.treatments = {
            "split conversations (ids X_0, X_1, ..): joined": 0,
            "conversations without a message": 0,
            "last prompts without an answer: response of 0 tokens": 0,
            "turns of 0 tokens: left out": 0,
        }

    def add(self, item: Any, messages: str) -> None:
        dialogue = item.get(messages) if isinstance(item, dict) else None
        if not isinstance(dialogue, list):
            self._reject(f"no list of {messages}")
            return
        if not dialogue:
            self.treatments["conversations without a message"] += 1
            return
        key = len(self.dialogues) if item.get("id") in (None, "") else str(item["id"])
        if key in self.dialogues:
            for _ in dialogue:
                self._reject("message of a conversation whose id an earlier one has")
            return
        self.dialogues[key] = self._turns(dialogue)

    def _turns(self, dialogue: list) -> list[Turn]:
        turns, prompt, begin, kind = [], 0, None, 1
        for message in dialogue:
            who = message.get(self.role) if isinstance(message, dict) else None
            words = message.get(self.text) if isinstance(message, dict) else None
            words = _joined(words)
            if not isinstance(who, str) or words is None:
                self._reject(f"message without {self.role} or {self.text}")
                continue
            tokens = self.count(words)
            if not 0 <= tokens <= MAXIMUM_TOKENS:
                self._reject(f"message of {tokens:,} tokens")
                continue
            self.rejections.rows_read += 1
            begin = self.rejections.rows_read if begin is None else begin
            if who.lower() in ASSISTANT:
                turns.append((begin, prompt, tokens, kind))
                prompt, begin, kind = 0, None, 1
            else:
                prompt += tokens
                kind = 2 if who.lower() in TOOLS else 1
        if begin is not None:
            self.treatments["last prompts without an answer: response of 0 tokens"] += 1
            turns.append((begin, prompt, 0, kind))
        said = [turn for turn in turns if turn[1] or turn[2]]
        self.treatments["turns of 0 tokens: left out"] += len(turns) - len(said)
        return said

    def draft(self, format: str) -> Draft:
        rows: dict[str, list] = {
            name: []
            for name in ("conversation", "turn", "source_row", "new_prompt_tokens", "response_tokens", "kind")
        }
        for number, parts in enumerate(self._conversations()):
            self.treatments["split conversations (ids X_0, X_1, ..): joined"] += len(parts) > 1
            turns = (row for part in parts for row in part)
            for turn, row in enumerate(turns, 1):
                for column, value in zip(rows.values(), (number, turn, *row)):
                    column.append(value)
        draft = draft_of_rows(format, self.rejections, rows)
        draft.treatments |= self.treatments
        return draft

    def _conversations(self) -> list[list[list[Turn]]]:
        """The parts of every conversation, in order."""
        dialogues = {key: turns for key, turns in self.dialogues.items() if turns}
        named: dict[str | int, list[tuple[int, list[Turn]]]] = {}
        for key, turns in dialogues.items():
            match = _PART.fullmatch(key) if self.parts and isinstance(key, str) else None
            name, part = (match[1], int(match[2])) if match else (key, 0)
            named.setdefault(name, []).append((part, turns))
        if any(len(parts) > max(len(dialogues) / 2, FEWEST_NUMBERED) for parts in named.values()):
            return [[turns] for turns in dialogues.values()]
        return [[turns for _, turns in sorted(parts, key=lambda part: part[0])] for parts in named.values()]

    def _reject(self, reason: str) -> None:
        self.rejections.rows_read += 1
        self.rejections.add(reason, self.rejections.rows_read)


def _joined(words: Any) -> str | None:
    """A message's text; chat formats may give it as a list of parts."""
    if isinstance(words, list):
        words = "".join(part.get("text", "") for part in words if isinstance(part, dict) and _is_text(part))
    return words if isinstance(words, str) else None


def _is_text(part: dict) -> bool:
    return isinstance(part.get("text"), str)
