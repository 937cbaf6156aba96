"""Rows that repeat earlier ones. A row is only called a repetition where something identifies it.

That is its block hashes, its own id, its turn number, or its conversation together with its time and lengths.
Equal rows of a file without any of these (arrivals and lengths) are different requests and stay.
"""

from __future__ import annotations

import numpy as np

from mfmc.traces.staging import Draft
from mfmc.traces.tabular import connect


def reject_repetitions(draft: Draft) -> None:
    """Drop rows that repeat an earlier one in everything, block hashes included."""
    import pyarrow as pa

    columns = {
        "id": np.arange(len(draft)),
        "t": np.zeros(len(draft)) if draft.submitted_at is None else draft.submitted_at,
        "prompt": draft.input_tokens,
        "response": draft.response_tokens,
        "hashes": draft.block_hashes,
    }
    keys = ["t", "prompt", "response", "hashes"]
    for name in ("conversation", "chat", "turn"):
        if getattr(draft, name) is not None:
            columns[name] = getattr(draft, name)
            keys.append(name)
    with connect() as connection:
        connection.register("requests", pa.table(columns))
        later = connection.sql(
            f"SELECT id FROM requests QUALIFY row_number() OVER (PARTITION BY {', '.join(keys)} ORDER BY id)"
            " > 1"
        ).fetchnumpy()["id"]
    keep = np.ones(len(draft), dtype=bool)
    keep[np.asarray(later, dtype=np.int64)] = False
    draft.keep(keep, "exact repetition of an earlier row")


def reject_repeated_chats(draft: Draft) -> None:
    """Drop rows whose own id an earlier row has."""
    codes = draft.chat.dictionary_encode().indices.fill_null(-1).to_numpy()
    _, earliest = np.unique(codes, return_index=True)
    keep = codes < 0
    keep[earliest] = True
    draft.keep(keep, "chat id that an earlier row has")


def repeated_turns(draft: Draft, first: np.ndarray) -> tuple[np.ndarray, str] | None:
    """(second rows for one turn number, or rows like another of their conversation in time and lengths; why).

    The draft is in canonical order, `first` marks the first rows of conversations.
    """
    if draft.conversation is None:
        return None
    if draft.turn is not None:
        if not draft.unique_turns:
            return None
        repeated = ~first
        repeated[1:] &= draft.turn[1:] == draft.turn[:-1]
        return repeated, "turn that its conversation already has"
    if draft.submitted_at is None:
        return None
    return _repeated_at_one_time(draft, first), "exact repetition of an earlier row"


def _repeated_at_one_time(draft: Draft, first: np.ndarray) -> np.ndarray:
    """Rows like an earlier one of their conversation in time, prompt and response."""
    times = draft.submitted_at
    tied = ~first
    tied[1:] &= times[1:] == times[:-1]
    tied[:-1] |= tied[1:]
    places = np.flatnonzero(tied)
    repeated = np.zeros(tied.size, dtype=bool)
    if places.size:
        prompt = draft.input_tokens if draft.input_tokens is not None else draft.new_prompt_tokens
        conversation = np.searchsorted(np.flatnonzero(first), places, side="right")
        columns = (conversation, times[places], prompt[places], draft.response_tokens[places])
        order = np.lexsort((places, *columns))
        same = np.ones(places.size - 1, dtype=bool)
        for column in columns:
            same &= np.diff(column[order]) == 0
        repeated[places[order[1:][same]]] = True
    return repeated
