"""From checked rows to conversations: which rows belong together, in which order, and what each turn kept of
the last.

Rules, each with its count in `Trace.treatments`:

* explicit ids group rows; a row with a blank id is a conversation of its own;
* parent ids: a row continues its parent, which must come earlier; one that has a missing or later parent
  begins anew;
* chained block hashes: see `prefix_chain`;
* turns are ordered by the file's turn number, or else by time; rows with equal times keep the file's order;
* exact repetitions of a row are rejected; where a file has turn numbers, so is a second row for one turn;
* a prompt of less than the one before shrank; one that keeps less of it than all but two blocks was
  rewritten; one that continues an older turn than the last is a branch. For a cache that keeps prefixes,
  `Trace.conversations` starts a new conversation at each of the three.
"""

from __future__ import annotations

import numpy as np

from mfmc.cores import chunks, on_cores
from mfmc.errors import InputError
from mfmc.traces.clock import to_seconds
from mfmc.traces.contexts import contexts
from mfmc.traces.order import canonical_order, conversation_codes, dense, first_rows
from mfmc.traces.prefix_chain import parents_by_hashes, root_of
from mfmc.traces.repetitions import reject_repeated_chats, reject_repetitions, repeated_turns
from mfmc.traces.staging import Draft
from mfmc.traces.table import APPENDED, BRANCH, CONTEXTS, FIRST, REWRITTEN, SHORTENED, SHRUNK, Trace


def assemble(draft: Draft, time_unit: str | None = None, fan_out_limit: int = 16) -> Trace:
    """The trace of a draft. Raises InputError if no row is left."""
    origin = to_seconds(draft, time_unit)
    if draft.block_hashes is not None:
        reject_repetitions(draft)
    if draft.chat is not None:
        reject_repeated_chats(draft)
    if len(draft) == 0:
        raise InputError(f"no row can be used: {draft.rejections.describe()}")

    sensitivity: list[dict[str, int]] = []
    parent = None
    if draft.chat is not None:
        parent = _parents_by_ids(draft)
    elif draft.conversation is None and draft.block_hashes is not None and draft.hash_block_tokens:
        _sort_by_time(draft)
        parent, sensitivity = parents_by_hashes(draft, fan_out_limit)
        draft.evidence.append(
            f"no session id: conversations follow from chained block hashes (fan-out limit {fan_out_limit})"
        )
    codes = conversation_codes(draft) if parent is None else dense(root_of(parent))
    order = canonical_order(draft, codes)
    if order is not None:
        draft.take(order)
        codes = codes[order]
        if parent is not None:
            place = np.empty_like(order)
            place[order] = np.arange(order.size)
            parent = np.where(parent < 0, -1, place[parent])[order]
    first = first_rows(codes)
    repeated = repeated_turns(draft, first) if parent is None else None
    if repeated is not None and repeated[0].any():
        draft.keep(~repeated[0], repeated[1])
        first = first_rows(codes[~repeated[0]])
    return _trace(draft, first, parent, origin, sensitivity)


def _trace(
    draft: Draft,
    first: np.ndarray,
    parent: np.ndarray | None,
    origin: float | None,
    sensitivity: list[dict[str, int]],
) -> Trace:
    starts, response = np.flatnonzero(first), draft.response_tokens
    if draft.new_prompt_tokens is not None:
        new = draft.new_prompt_tokens
        content = np.cumsum(new + response, dtype=np.int64)
        start = (content - new - response)[first]
        history = content - new - response - start[np.cumsum(first) - 1]
        context = np.where(first, FIRST, APPENDED).astype(np.int8)
    else:
        history, context = contexts(draft, first, parent)
        new = draft.input_tokens - history
    lengths = np.diff(np.append(starts, first.size))
    turn = np.arange(1, first.size + 1, dtype=np.int32)
    turn -= np.repeat(starts.astype(np.int32), lengths)
    times = draft.submitted_at
    if times is not None and not np.isfinite(times).any():
        draft.evidence.append("no row carries a usable time")
        times = None
    columns = {
        "conversation": np.repeat(np.arange(starts.size, dtype=np.int32), lengths),
        "turn": turn,
        "submitted_at": np.full(first.size, np.nan) if times is None else times,
        "history_tokens": history,
        "new_prompt_tokens": new,
        "response_tokens": response,
        "kind": np.zeros(first.size, dtype=np.int8) if draft.kind is None else draft.kind,
        "context": context,
        "source_row": draft.source_row,
    }
    trace = Trace.from_columns(
        columns,
        block_hashes=draft.block_hashes,
        format=draft.format,
        clock="none" if times is None else draft.clock,
        origin=origin,
        hash_block_tokens=draft.hash_block_tokens,
        hash_scope=draft.hash_scope,
        rejections=draft.rejections,
        evidence=draft.evidence,
        treatments=draft.treatments,
        sensitivity=sensitivity,
    )
    _count_treatments(trace, draft, parent)
    return trace


def _count_treatments(trace: Trace, draft: Draft, parent: np.ndarray | None) -> None:
    """Say what was done to awkward rows, and to how many."""
    counts = trace.treatments
    context = np.bincount(trace.context, minlength=len(CONTEXTS))
    counts["prompts that shrank (compaction): a new conversation for the cache"] = int(context[SHRUNK])
    counts["prompts that rewrote the context: a new conversation for the cache"] = int(context[REWRITTEN])
    counts["prompts that keep only part of the last response: the rest is not counted"] = int(
        context[SHORTENED]
    )
    if parent is not None:
        children = np.bincount(parent[parent >= 0], minlength=1)
        counts["parents that branch (two or more continuations)"] = int((children > 1).sum())
        counts["branches: continue an older turn, a new conversation for the cache"] = int(context[BRANCH])
    counts["responses of 0 tokens, kept"] = int(np.count_nonzero(trace.column("response_tokens") == 0))
    if draft.new_prompt_tokens is not None:
        opens = (trace.turn == 1) & (trace.column("new_prompt_tokens") == 0)
        counts["conversations that begin with a response: left out of resampling"] = int(opens.sum())
    if trace.clock != "none":
        back, same = np.sum(on_cores(lambda part: _falls_and_ties(trace, part), chunks(len(trace))), axis=0)
        counts["turns whose number contradicts their time: no gap is taken"] = int(back)
        counts["gaps of exactly 0, kept"] = int(same)


def _falls_and_ties(trace: Trace, part: slice) -> tuple[int, int]:
    """Later turns of these rows that come before, or together with, the row before."""
    begin = max(part.start, 1)
    now, last = trace.submitted_at[begin : part.stop], trace.submitted_at[begin - 1 : part.stop - 1]
    later = trace.turn[begin : part.stop] > 1
    return int(np.count_nonzero((now < last) & later)), int(np.count_nonzero((now == last) & later))


def _sort_by_time(draft: Draft) -> None:
    """Put the draft's rows in time order, in which parents come earlier; without times the file's order holds."""
    if draft.submitted_at is None:
        return
    back = np.diff(draft.submitted_at) < 0
    if back.any():
        draft.treatments["rows out of time order: sorted"] = int(back.sum())
        draft.take(np.argsort(draft.submitted_at, kind="stable"))


def _parents_by_ids(draft: Draft) -> np.ndarray:
    """The row that each row continues by `chat` and `parent`, or -1."""
    import pyarrow as pa

    n = len(draft)
    _sort_by_time(draft)
    both = pa.concat_arrays(
        [draft.chat.cast(pa.string()), draft.parent.cast(pa.string())]
    ).dictionary_encode()
    codes = both.indices.fill_null(-1).to_numpy().astype(np.int64)
    chat, above = codes[:n], codes[n:]
    row_of = np.full(len(both.dictionary) + 1, -1)
    row_of[chat[chat >= 0]] = np.flatnonzero(chat >= 0)
    root_mark = np.isin(
        above, np.flatnonzero(np.isin(both.dictionary.to_numpy(zero_copy_only=False), ["-1"]))
    )
    named = (above >= 0) & ~root_mark
    parent = np.where(named, row_of[above], -1)
    orphan = named & (parent < 0)
    late = parent >= np.arange(n)
    parent[late] = -1
    draft.treatments["rows whose parent is not in the file: begin a conversation"] = int(orphan.sum())
    draft.treatments["rows whose parent comes later: begin a conversation"] = int(late.sum())
    return parent
