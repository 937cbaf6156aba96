"""What each turn's prompt kept of the turn before: its history in tokens, and whether it only appended."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfmc.traces.order import Turns
from mfmc.traces.staging import Draft
from mfmc.traces.table import APPENDED, BRANCH, FIRST, REWRITTEN, SHORTENED, SHRUNK

LOST_BLOCKS = (
    2  # a prompt still continues the last one if fewer blocks than this are missing from the shared prefix
)
PAIRS_AT_ONCE = 1 << 22


def contexts(
    draft: Draft, turns: Turns, prompt: np.ndarray, response: np.ndarray, before: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(history tokens, context code) of every turn, from whole prompts."""
    begins = before < 0 if before is not None else turns.first
    begins = begins | turns.first
    source = np.where(begins, 0, before)
    last_prompt = np.where(begins, 0, prompt[source])
    content = np.where(begins, 0, last_prompt + response[source])
    context = np.where(prompt >= content, APPENDED, SHORTENED).astype(np.int8)
    shared, lost = _shared_prefix(draft, turns, source, begins, last_prompt)
    context[lost] = REWRITTEN
    context[prompt < last_prompt] = SHRUNK
    context[~begins & (source != np.arange(source.size) - 1)] = BRANCH
    context[begins] = FIRST
    history = np.minimum(content, prompt)
    broken = (context == REWRITTEN) | (context == SHRUNK)
    history[broken] = np.minimum(shared, prompt)[broken] if shared is not None else 0
    history[context == FIRST] = 0
    return history, context


def _shared_prefix(
    draft: Draft, turns: Turns, source: np.ndarray, begins: np.ndarray, last_prompt: np.ndarray
) -> tuple[np.ndarray | None, np.ndarray]:
    """(tokens that each prompt shares with the one before, None if unknown; where too much of that one is
    gone).
    """
    block = draft.hash_block_tokens
    none_lost = np.zeros(begins.size, dtype=bool)
    if draft.shared_tokens is not None:
        shared = draft.shared_tokens[turns.rows]
        return shared, ~begins & (last_prompt - shared >= LOST_BLOCKS * (block or 1))
    if draft.block_hashes is None:
        return None, none_lost
    pairs = np.flatnonzero(~begins)
    blocks = np.zeros(begins.size, dtype=np.int64)
    blocks[pairs] = common_prefix(draft.block_hashes, turns.rows[source[pairs]], turns.rows[pairs])
    if block is not None:
        shared = blocks * block
        return shared, ~begins & (last_prompt - shared >= LOST_BLOCKS * block)
    lengths = draft.block_hashes.value_lengths().to_numpy()[turns.rows]
    return None, ~begins & (lengths[source] - blocks >= LOST_BLOCKS)


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
