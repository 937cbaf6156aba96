"""ShareGPT JSON: a list of {id, conversations: [{from, value}]}; texts, no times; ids X_0, X_1 are parts of
one.
"""

from __future__ import annotations

from mfmc.traces.readers.dialogues import read_dialogues
from mfmc.traces.readers.format import Format, Options, has_keys
from mfmc.traces.source import Source
from mfmc.traces.staging import Draft


def detect(source: Source) -> str | None:
    return has_keys(source, {"conversations"})


def read(source: Source, options: Options) -> Draft:
    return read_dialogues(source, options, "sharegpt", "conversations", "from", "value", parts=True)


FORMAT = Format("sharegpt", detect, read)
