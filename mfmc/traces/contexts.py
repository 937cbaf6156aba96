"""What each turn's prompt kept of the turn before: its history in tokens, and whether it only appended."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfmc.traces.order import before
from mfmc.traces.staging import Draft
from mfmc.traces.table import APPENDED, BRANCH, FIRST, REWRITTEN, SHORTENED, SHRUNK

LOST_BLOCKS = 2  # a prompt that lacks fewer blocks than this of the one before still continues it
PAIRS_AT_ONCE = 1 << 22


def contexts(draft: Draft, first: np.ndarray, parent: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """(history tokens, context code) of every turn, from whole prompts. `parent`: the row it continues."""
    prompt, response = draft.input_tokens, draft.response_tokens
    if parent is None:
        source = None
        last_prompt, content = before(prompt, first), before(prompt + response, first)
    else:
        source = np.where(first, 0, parent)
        last_prompt = np.where(first, 0, prompt[source])
        content = np.where(first, 0, last_prompt + response[source])
    context = (prompt < content).view(np.int8) * np.int8(SHORTENED - APPENDED)
    context += np.int8(APPENDED)
    shared, lost = _shared_prefix(draft, first, source, last_prompt)
    if lost is not None:
        context[lost] = REWRITTEN
    context[prompt < last_prompt] = SHRUNK
    if source is not None:
        context[~first & (source != np.arange(source.size) - 1)] = BRANCH
    context[first] = FIRST
    history = np.minimum(content, prompt, out=content)
    broken = np.flatnonzero((context == REWRITTEN) | (context == SHRUNK))
    history[broken] = 0 if shared is None else np.minimum(shared[broken], prompt[broken])
    return history, context


def _shared_prefix(
    draft: Draft, first: np.ndarray, source: np.ndarray | None, last_prompt: np.ndarray
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """(tokens that prompts share with the one before, where too much of that is gone); None: unknown."""
    block = draft.hash_block_tokens
    if draft.shared_tokens is not None:
        shared = draft.shared_tokens
        return shared, ~first & (last_prompt - shared >= LOST_BLOCKS * (block or 1))
    if draft.block_hashes is None:
        return None, None
    pairs = np.flatnonzero(~first)
    left = pairs - 1 if source is None else source[pairs]
    blocks = common_prefix(draft.block_hashes, left, pairs)
    lost = np.zeros(first.size, dtype=bool)
    if block is None:
        lost[pairs] = draft.block_hashes.value_lengths().to_numpy()[left] - blocks >= LOST_BLOCKS
        return None, lost
    shared = np.zeros(first.size, dtype=np.int64)
    shared[pairs] = blocks * block
    lost[pairs] = last_prompt[pairs] - shared[pairs] >= LOST_BLOCKS * block
    return shared, lost


def common_prefix(hashes: Any, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """How many leading hashes the lists at rows `left` and `right` have in common, pair by pair."""
    offsets, values = hashes.offsets.to_numpy().astype(np.int64), hashes.values.to_numpy(zero_copy_only=False)
    lengths = np.diff(offsets)
    shortest = np.minimum(lengths[left], lengths[right])
    found = shortest.copy()
    chunks = np.searchsorted(np.cumsum(shortest), np.arange(PAIRS_AT_ONCE, shortest.sum() + 1, PAIRS_AT_ONCE))
    for part in np.split(np.arange(left.size), np.unique(chunks + 1)):
        part = part[shortest[part] > 0]
        count = shortest[part]
        begin = np.cumsum(count) - count
        place = np.arange(count.sum()) - np.repeat(begin, count)
        same = (
            values[np.repeat(offsets[left[part]], count) + place]
            == (values[np.repeat(offsets[right[part]], count) + place])
        )
        if part.size:
            found[part] = np.minimum.reduceat(np.where(same, np.repeat(count, count), place), begin)
    return found
