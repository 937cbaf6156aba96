"""vLLM's multi-turn benchmark JSON: a list of {id, messages: [{role, content}]}; texts, no times."""

from __future__ import annotations

from mfmc.traces.readers.dialogues import read_dialogues
from mfmc.traces.readers.format import Format, Options, has_keys
from mfmc.traces.source import Source
from mfmc.traces.staging import Draft


def detect(source: Source) -> str | None:
    return has_keys(source, {"messages"})


def read(source: Source, options: Options) -> Draft:
    return read_dialogues(source, options, "vllm_multi_turn", "messages", "role", "content", parts=False)


FORMAT = Format("vllm_multi_turn", detect, read)
