"""Five designs of a checkpoint store: what is admitted, how it is laid out, and what is evicted.

| design | one entry | admission | eviction |
|---|---|---|---|
| every_checkpoint | a full-prefix copy at one boundary | at every boundary | LRU |
| keep_longest | a full-prefix copy | the longest boundary that fits; replaces the prefix it extends | LRU |
| value_per_byte | a full-prefix copy | the longest that is worth more than what it displaces | least value |
| shared_blocks | tokens between two boundaries, for all prefixes through them | every block | suffix first |
| whole_conversation | all tokens of a conversation (Algorithm 1) | always; replaces its own past | LRU |
"""

from __future__ import annotations

import heapq
from itertools import count

import numpy as np

from mfmc.checkpoints.store import Cache, Key, Match, Query, Store


class EveryCheckpoint(Store):
    """A full-prefix checkpoint at every boundary, each charged in full; oversized ones are skipped."""

    def stops(self, start: int, end: int) -> list[int]:
        pauses = list(self.boundaries_within(start, end))
        return pauses if pauses and pauses[-1] == end else [*pauses, end]

    def admit(self, query: Query, match: Match, cache: Cache) -> None:
        if not self.is_boundary(cache.length):
            return
        key = query.prefix(cache.length)
        if (
            key in self.entries
        ):  # only where the query ends at a boundary: resident, but not eligible for reuse
            self.entries.move_to_end(key)
        elif cache.nbytes > self.budget:
            self.turnover.skipped.append(cache.length)
        else:
            self.make_room(cache.nbytes)
            self.save(key, cache, cache.length)


class KeepLongest(Store):
    """One checkpoint a query: the longest boundary that fits the budget. What it extends is removed first."""

    def admit(self, query: Query, match: Match, cache: Cache) -> None:
        for length in reversed(self.boundaries_within(match.length, cache.length)):
            view = cache.section(0, length)
            key = query.prefix(length)
            if key in self.entries:
                self.entries.move_to_end(key)
                return
            if view.nbytes <= self.budget:
                for shorter in match.keys:
                    self.supersede(shorter)
                self.make_room(view.nbytes)
                self.save(key, view, length)
                return
            self.turnover.skipped.append(length)


class SharedBlocks(Store):
    """Blocks between boundaries, each held once and shared by every prefix that runs through it."""

    def find(self, query: Query) -> Match:
        keys: list[Key] = []
        length = 0
        for boundary in self.boundaries_within(0, len(query.tokens) - 1):
            if (key := query.prefix(boundary)) not in self.entries:
                break
            keys.append(key)
            length = boundary
        return Match(tuple(keys), length)

    def admit(self, query: Query, match: Match, cache: Cache) -> None:
        path = list(match.keys)  # just used, so the most recent of all: make_room reaches them last
        path_bytes = sum(self.entries[key].nbytes for key in path)
        start = match.length
        for boundary in self.boundaries_within(match.length, cache.length):
            key = query.prefix(boundary)
            view = cache.section(start, boundary)
            if key in self.entries:
                self.entries.move_to_end(key)
            elif path_bytes + view.nbytes > self.budget:  # never evict the blocks that this one hangs from
                self.turnover.skipped.append(boundary)
                break
            else:
                self.make_room(view.nbytes)
                self.save(key, view, boundary)
            path.append(key)
            path_bytes += view.nbytes
            start = boundary
        for key in reversed(path):  # the first block last: suffixes are evicted first
            self.entries.move_to_end(key)


class WholeConversation(Store):
    """One entry a conversation, with every token computed so far: whole-content LRU (Algorithm 1).

    The tokens are compared, so that an edited history is reused up to its first change.
    """

    def key(self, query: Query) -> Key:
        return query.signature, query.scope, query.conversation

    def find(self, query: Query) -> Match:
        key = self.key(query)
        if key not in self.entries:
            return Match()
        past = self.entries[key].tokens
        assert past is not None
        n = min(len(past), len(query.tokens) - 1)
        changed = np.flatnonzero(past[:n] != query.tokens[:n])
        length = int(changed[0]) if changed.size else n
        return Match((key,), length) if length else Match()

    def retrieve(self, match: Match) -> Cache:
        key = match.keys[0]
        self.entries.move_to_end(key)
        return self.owned(self.entries[key].cache.section(0, match.length))

    def admit(self, query: Query, match: Match, cache: Cache) -> None:
        if cache.nbytes > self.budget:
            self.turnover.skipped.append(cache.length)
            return
        key = self.key(query)
        if key in self.entries:
            self.supersede(key)
        self.make_room(cache.nbytes)
        self.save(key, cache, cache.length, query.tokens)


class ValuePerByte(Store):
    """Keep what saves most computation per byte, among what was used recently (GreedyDual with bypass).

    An entry's priority is the clock when it was last used plus the multiply-adds per byte that reusing it
    saves; the clock rises to every priority that loses. A candidate that is worth no more than what it would
    displace is refused, and a shorter one is tried: ties favour what is resident, which is what stops two
    branches from chasing each other out. A prefix covered by a longer admitted one is worth nothing more
    until a query uses it directly.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.clock = 0.0
        self.stamps: dict[Key, tuple[float, int]] = {}
        self.heap: list[tuple[tuple[float, int], Key]] = []  # with stale items, told by their stamp
        self.serial = count()

    def value(self, length: int) -> float:
        return self.shape.work(length) / (self.shape.token_bytes * length)

    def rank(self, key: Key, priority: float) -> None:
        self.stamps[key] = (priority, next(self.serial))
        heapq.heappush(self.heap, (self.stamps[key], key))

    def retrieve(self, match: Match) -> Cache:
        self.rank(match.keys[0], self.clock + self.value(match.length))
        return super().retrieve(match)

    def admit(self, query: Query, match: Match, cache: Cache) -> None:
        clock = self.clock
        for length in reversed(self.boundaries_within(match.length, cache.length)):
            view = cache.section(0, length)
            key = query.prefix(length)
            priority = clock + self.value(length)
            if key in self.entries:
                self.rank(key, priority)
                return
            if view.nbytes <= self.budget and self.displace(view.nbytes, priority, match.keys):
                for covered in match.keys:
                    if covered in self.entries:
                        self.rank(covered, clock)
                self.save(key, view, length)
                self.rank(key, priority)
                return
            self.turnover.skipped.append(length)
            if view.nbytes <= self.budget:
                self.clock = max(self.clock, priority)

    def displace(self, nbytes: int, priority: float, covered: tuple[Key, ...]) -> bool:
        """Make room by removing the least valuable; touch nothing, and say no, where it would cost too much.

        What the candidate covers goes first: the candidate takes over its value.
        """
        excess = self.resident_bytes + nbytes - self.budget
        replaced = [key for key in covered if excess > 0]
        excess -= sum(self.entries[key].nbytes for key in replaced)
        considered: list[tuple[tuple[float, int], Key]] = []
        victims: list[Key] = []
        while excess > 0:
            item = heapq.heappop(self.heap)
            stamp, key = item
            if self.stamps.get(key) != stamp:
                continue
            considered.append(item)
            if key in replaced:
                continue
            if stamp[0] >= priority:
                for item in considered:
                    heapq.heappush(self.heap, item)
                return False
            victims.append(key)
            excess -= self.entries[key].nbytes
        for key in replaced:
            del self.stamps[key]
            self.supersede(key)
        for key in victims:
            self.clock = max(self.clock, self.stamps.pop(key)[0])
            self.evict(key)
        return True


DESIGNS: dict[str, type[Store]] = {
    "every_checkpoint": EveryCheckpoint,
    "keep_longest": KeepLongest,
    "value_per_byte": ValuePerByte,
    "shared_blocks": SharedBlocks,
    "whole_conversation": WholeConversation,
}
