"""Numbers for conversations, and the canonical order of turns: conversation by conversation, turn by turn."""

from __future__ import annotations

import numpy as np

from mfmc.traces.staging import Draft


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
    kind = np.int32 if codes.size < 2**31 else np.int64
    return codes.astype(kind) if present.all() else (np.cumsum(present, dtype=kind) - 1)[codes]


def canonical_order(draft: Draft, codes: np.ndarray) -> np.ndarray | None:
    """Rows by conversation, then turn number or time, then place in the file; None: as they stand."""
    key = draft.turn if draft.turn is not None else draft.submitted_at
    if key is None:
        return group(codes)
    falls = key[1:] < key[:-1]
    if draft.turn is None and draft.clock == "shared" and falls.any():
        draft.treatments["rows out of time order: sorted"] = int(np.count_nonzero(falls))
    if not np.any(falls & (codes[1:] == codes[:-1])) and not np.any(codes[1:] < codes[:-1]):
        return None
    if not falls.any():
        return group(codes)
    by_key = np.argsort(key, kind="stable")
    return by_key[group(codes[by_key])]


def group(codes: np.ndarray) -> np.ndarray:
    """Rows sorted by their code, equal codes in the order they came.

    The column indices of a sparse matrix with a one at every (code, row): a counting sort, in C.
    """
    from scipy.sparse import coo_array

    n = codes.size
    rows = np.arange(n, dtype=np.int32 if n < 2**31 else np.int64)
    ones = np.ones(n, dtype=np.int8)
    return (
        coo_array((ones, (codes.astype(rows.dtype), rows)), shape=(int(codes.max()) + 1, n)).tocsr().indices
    )


def first_rows(conversation: np.ndarray) -> np.ndarray:
    """Where a sorted column of conversations moves on to the next: bool [n]."""
    first = np.ones(conversation.size, dtype=bool)
    np.not_equal(conversation[1:], conversation[:-1], out=first[1:])
    return first


def before(values: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The value one row earlier in the same conversation; 0 at its first row."""
    shifted = np.empty_like(values)
    shifted[1:] = values[:-1]
    np.copyto(shifted, 0, where=first)
    return shifted
