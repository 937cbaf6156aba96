"""Numbers for conversations, and the canonical order of turns: conversation by conversation, turn by turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfmc.traces.staging import Draft


@dataclass
class Turns:
    """Columns in canonical order: conversation by conversation, turn by turn. `rows` indexes the draft."""

    conversation: np.ndarray
    rows: np.ndarray
    first: np.ndarray

    @classmethod
    def of(cls, draft: Draft, codes: np.ndarray, order: np.ndarray) -> Turns:
        conversation = codes[order]
        return cls(conversation, order, np.diff(conversation, prepend=-1) != 0)


def conversation_codes(draft: Draft) -> np.ndarray:
    """A number 0, 1, .. per conversation from the file's ids; every blank id is a conversation of its own."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ids, n = draft.conversation, len(draft)
    if ids is None:
        draft.evidence.append(
            "no session id: every request is a conversation of its own (arrivals and lengths only)"
        )
        return np.arange(n)
    blank = np.zeros(n, dtype=bool)
    if ids.null_count:
        blank = pc.is_null(ids).to_numpy(zero_copy_only=False)
        draft.treatments["rows with a blank session id: a conversation each"] = int(blank.sum())
    if pa.types.is_integer(ids.type) and not ids.null_count:
        codes = ids.to_numpy()
        if codes.min() < 0 or codes.max() > 4 * n + 1024:
            codes = ids.dictionary_encode().indices.to_numpy().astype(np.int64)
        return dense(codes)
    codes = ids.dictionary_encode().indices.fill_null(0).to_numpy().astype(np.int64)
    if blank.any():
        codes[blank] = codes.max() + 1 + np.arange(blank.sum())
    return dense(codes)


def dense(codes: np.ndarray) -> np.ndarray:
    """Small whole numbers without holes, in the same order."""
    present = np.zeros(codes.max() + 1, dtype=bool)
    present[codes] = True
    return codes if present.all() else (np.cumsum(present) - 1)[codes]


def canonical_order(draft: Draft, codes: np.ndarray) -> np.ndarray:
    """Rows conversation by conversation, by turn number or time, ties in the file's order."""
    n = codes.size
    keys: list[np.ndarray] = []
    if draft.turn is not None:
        keys = [draft.turn]
    elif draft.submitted_at is not None:
        back = np.diff(draft.submitted_at) < 0
        if back.any() and draft.clock == "shared":
            draft.treatments["rows out of time order: sorted"] = int(back.sum())
        keys = [draft.submitted_at]
    step = np.diff(codes)
    for key in keys:
        if np.all((step > 0) | ((step == 0) & (np.diff(key) >= 0))):
            return np.arange(n)  # already in order
    order = np.arange(n)
    for key in keys:
        if np.any(np.diff(key) < 0):
            order = np.argsort(key, kind="stable")
    # One flat sort of packed keys (conversation, place): plain integers sort several times faster than
    # indices.
    bits = max(n - 1, 1).bit_length()
    packed = codes[order] << bits
    packed |= np.arange(n)
    packed.sort()
    packed &= (1 << bits) - 1
    return order[packed]
