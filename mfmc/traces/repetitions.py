"""Rows that repeat earlier ones. A row is only called a repetition where something identifies it.

That is its block hashes, its own id, its turn number, or its conversation together with its time and lengths.
Equal rows of a file without any of these (arrivals and lengths) are different requests and stay.
"""

from __future__ import annotations

import numpy as np

from mfmc.traces.order import Turns
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


def reject_repeated_turns(draft: Draft, turns: Turns) -> Turns:
    """Drop second rows for one turn number, or rows equal in conversation, time and lengths."""
    rows = turns.rows
    if draft.conversation is None:
        return turns
    if draft.turn is not None:
        if not draft.unique_turns:
            return turns
        repeated = ~turns.first & (np.diff(draft.turn[rows], prepend=-1) == 0)
        reason = "turn that its conversation already has"
    elif draft.submitted_at is not None:
        repeated = _repeated_at_one_time(draft, turns)
        reason = "exact repetition of an earlier row"
    else:
        return turns
    if not repeated.any():
        return turns
    draft.rejections.add(reason, draft.source_row[rows[repeated]])
    conversation = turns.conversation[~repeated]
    return Turns(conversation, rows[~repeated], np.diff(conversation, prepend=-1) != 0)


def _repeated_at_one_time(draft: Draft, turns: Turns) -> np.ndarray:
    """Rows like an earlier one of their conversation in time, prompt and response."""
    times = draft.submitted_at[turns.rows]
    tied = ~turns.first & (np.diff(times, prepend=np.nan) == 0)
    tied[:-1] |= tied[1:]
    places = np.flatnonzero(tied)
    repeated = np.zeros(tied.size, dtype=bool)
    if places.size:
        rows = turns.rows[places]
        prompt = draft.input_tokens if draft.input_tokens is not None else draft.new_prompt_tokens
        columns = (turns.conversation[places], times[places], prompt[rows], draft.response_tokens[rows])
        order = np.lexsort((places, *columns))
        same = np.ones(places.size - 1, dtype=bool)
        for column in columns:
            same &= np.diff(column[order]) == 0
        repeated[places[order[1:][same]]] = True
    return repeated
