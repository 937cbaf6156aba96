"""What every checkpoint store shares: byte budget, scopes, owned copies, order of use, counters.

A design (designs.py) says what one entry is, how a query finds the entries it can reuse, and what is worth
keeping.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from mfmc.checkpoints.bookkeeping import LengthCache
from mfmc.checkpoints.decoder import DecoderShape, KVCache, Tokens
from mfmc.errors import InputError

Cache = KVCache | LengthCache
Key = tuple[bytes, str, Any]  # weights and sizes, scope, and the token prefix as bytes (or the conversation)


@dataclass(frozen=True)
class Query:
    """One validated request, under one decoder."""

    signature: bytes
    scope: str
    conversation: int
    tokens: Tokens

    def prefix(self, length: int) -> Key:
        """The key of the first `length` tokens: the tokens themselves, so two prefixes never collide."""
        return self.signature, self.scope, self.tokens[:length].tobytes()


@dataclass(frozen=True)
class Match:
    """What a query can reuse: the entries, and how many of its tokens they cover (0: a miss)."""

    keys: tuple[Key, ...] = ()
    length: int = 0


@dataclass
class Entry:
    cache: Cache
    nbytes: int
    tokens: Tokens | None = None  # kept by the whole-conversation design, whose key does not hold them


@dataclass
class Turnover:
    """What one query did to the store: lengths admitted, keys evicted or superseded, lengths not admitted."""

    admitted: list[int] = field(default_factory=list)
    evicted: list[Key] = field(default_factory=list)
    superseded: list[Key] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    copy_bytes: int = 0
    copy_ns: int = 0


class Store:
    """A byte budget for persistent checkpoint arrays. A budget of zero is allowed, and keeps nothing.

    `boundaries`: increasing prefix lengths, in tokens, at which checkpoints may be cut. Python objects, keys,
    weights and the active query's own arrays are outside the budget.
    """

    def __init__(
        self, budget: int, boundaries: Sequence[int], scopes: Sequence[str], shape: DecoderShape | None = None
    ) -> None:
        if not isinstance(budget, int | np.integer) or isinstance(budget, bool) or budget < 0:
            raise InputError(f"checkpoint budget {budget!r}: expected a whole number of bytes, zero or more")
        if not boundaries or boundaries[0] < 1 or any(b <= a for a, b in pairwise(boundaries)):
            raise InputError(
                f"checkpoint boundaries {boundaries!r}: expected increasing lengths of at least 1 token"
            )
        self.budget = int(budget)
        self.boundaries = boundaries
        self.scopes = frozenset(scopes)
        self.shape = shape or DecoderShape()
        self.entries: OrderedDict[Key, Entry] = OrderedDict()  # least recently used first
        self.resident_bytes = 0
        self.turnover = Turnover()

    # What a design decides

    def find(self, query: Query) -> Match:
        """The longest resident prefix of the query, in its scope, that is strictly shorter than the query."""
        for length in reversed(self.boundaries_within(0, len(query.tokens) - 1)):
            if (key := query.prefix(length)) in self.entries:
                return Match((key,), length)
        return Match()

    def stops(self, start: int, end: int) -> list[int]:
        """Lengths at which computation pauses for `admit`; the last one is the query's own length."""
        return [end]

    def admit(self, query: Query, match: Match, cache: Cache) -> None:
        """Offer the active cache (all tokens up to the present stop) to the store."""
        raise NotImplementedError

    # What all designs share

    def check_scope(self, scope: str) -> str:
        if scope not in self.scopes:
            raise InputError(f"scope {scope!r} is unknown: expected one of {', '.join(sorted(self.scopes))}")
        return scope

    def boundaries_within(self, above: int, upto: int) -> Sequence[int]:
        """Boundaries b with above < b <= upto."""
        return self.boundaries[bisect_right(self.boundaries, above) : bisect_right(self.boundaries, upto)]

    def is_boundary(self, length: int) -> bool:
        place = bisect_left(self.boundaries, length)
        return place < len(self.boundaries) and self.boundaries[place] == length

    def retrieve(self, match: Match) -> Cache:
        """An owned copy of the matched entries for the active query; they become the most recently used."""
        for key in reversed(match.keys):  # the shortest prefix last, so that suffixes are evicted first
            self.entries.move_to_end(key)
        return self.owned(*(self.entries[key].cache for key in match.keys))

    def owned(self, *parts: Cache) -> Cache:
        """Copy parts into arrays that nobody else holds, and charge the bytes and the time."""
        began = time.perf_counter_ns()
        copy = parts[0].copy() if len(parts) == 1 else type(parts[0]).join(parts)  # type: ignore[arg-type]
        self.turnover.copy_ns += time.perf_counter_ns() - began
        self.turnover.copy_bytes += copy.nbytes
        return copy

    def make_room(self, nbytes: int) -> None:
        """Evict the least recently used until `nbytes` more fit."""
        while self.resident_bytes + nbytes > self.budget:
            self.evict(next(iter(self.entries)))

    def evict(self, key: Key) -> None:
        self.resident_bytes -= self.entries.pop(key).nbytes
        self.turnover.evicted.append(key)

    def supersede(self, key: Key) -> None:
        """Remove an entry because a longer one takes its place: not an eviction."""
        self.resident_bytes -= self.entries.pop(key).nbytes
        self.turnover.superseded.append(key)

    def save(self, key: Key, view: Cache, length: int, tokens: Tokens | None = None) -> None:
        """Keep an owned copy as the most recently used entry; the room must have been made."""
        self.entries[key] = Entry(self.owned(view), view.nbytes, tokens)
        self.resident_bytes += view.nbytes
        self.turnover.admitted.append(length)
