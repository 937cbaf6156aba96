"""Request traces: the three fixed ones of twelve requests, and long ones from a conversation workload."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mfmc.checkpoints.session import Request
from mfmc.errors import InputError
from mfmc.lru.accesses import AccessStream, accesses_from_arrays

REQUESTS = 12
TOKENS = 12
PREFIX = (
    8  # the tokens that a trace repeats; then three constant ones, and a last one that changes every time
)
BOUNDARIES = (4, 8)
SCOPES = ("A", "B", "C")


def hot_prefix(seed: int, vocabulary: int = 32) -> list[Request]:
    """The same first eight tokens in one scope: can a working set that fits stay hot?"""
    return fixed_trace(seed, vocabulary, branches=[0], scopes=["A"])


def alternating_branches(seed: int, vocabulary: int = 32) -> list[Request]:
    """Two prefixes, different from the first token on, take turns: does the working set fit?"""
    return fixed_trace(seed, vocabulary, branches=[0, 1], scopes=["A"])


def three_scopes(seed: int, vocabulary: int = 32) -> list[Request]:
    """The same tokens in scopes A, B, C in turn: what does isolation do to capacity?"""
    return fixed_trace(seed, vocabulary, branches=[0], scopes=list(SCOPES))


TRACES: dict[str, Callable[..., list[Request]]] = {
    "hot": hot_prefix,
    "alternating": alternating_branches,
    "scopes": three_scopes,
}


def fixed_trace(seed: int, vocabulary: int, branches: list[int], scopes: list[str]) -> list[Request]:
    """Twelve requests that go round branches and scopes; the seed changes token values, not their reuse."""
    needed = 2 * PREFIX + (TOKENS - PREFIX - 1) + REQUESTS
    if vocabulary < needed:
        raise InputError(f"vocabulary={vocabulary}: the fixed traces need {needed} different tokens")
    values = np.random.default_rng(seed).permutation(vocabulary)
    prefixes = values[:PREFIX], values[PREFIX : 2 * PREFIX]
    middle = values[2 * PREFIX : 2 * PREFIX + TOKENS - PREFIX - 1]
    last = values[2 * PREFIX + len(middle) :]
    requests = []
    for i in range(REQUESTS):
        branch, scope = branches[i % len(branches)], i % len(scopes)
        tokens = np.concatenate([prefixes[branch], middle, last[i : i + 1]])
        requests.append(Request(scopes[scope], branch * len(scopes) + scope, tokens))
    return requests


def conversation_trace(
    stream: AccessStream, block_tokens: int = 4, vocabulary: int = 32, seed: int = 0
) -> list[Request]:
    """Requests for an access stream, in its order: access i asks for history[i] blocks of its conversation.

    Every conversation has its own random tokens, so that prefixes are shared within a conversation only.
    """
    longest = np.zeros(int(stream.conversation.max()) + 1, dtype=np.int64)
    np.maximum.at(longest, stream.conversation, stream.history)
    draw = np.random.default_rng(seed)
    texts = [draw.integers(vocabulary, size=int(blocks) * block_tokens) for blocks in longest]
    return [
        Request("A", int(owner), texts[owner][: int(blocks) * block_tokens])
        for owner, blocks in zip(stream.conversation, stream.history)
    ]


def thinned(stream: AccessStream, every: int) -> AccessStream:
    """The accesses of every `every`-th conversation: a workload with that fraction of the arrivals."""
    kept = stream.conversation % every == 0
    return accesses_from_arrays(stream.time[kept], stream.conversation[kept], history=stream.history[kept])
