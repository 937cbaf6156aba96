"""What something else than LRU would serve from the same memory: policies side by side on one stream.

A policy is a function (stream, capacity, accounting) -> which accesses find all that they can reuse, bool
[n].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .accesses import AccessStream
from .replay import Replay, checked_capacity, replay_threads

Policy = Callable[[AccessStream, int, str], NDArray[np.bool_]]


class PolicyRow(NamedTuple):
    """One policy at one capacity: its block-weighted and its request-weighted hit ratio."""

    policy: str
    capacity: int
    hit_ratio: float
    request_hit_ratio: float


def lru(stream: AccessStream, capacity: int, accounting: str) -> NDArray[np.bool_]:
    """The conversation used longest ago leaves first (Algorithm 1)."""
    return replay_threads(stream.moves(accounting), capacity, by_block=False) > 0


def fifo(stream: AccessStream, capacity: int, accounting: str) -> NDArray[np.bool_]:
    """The conversation that came into memory first leaves first, used or not; it grows in its place."""
    from .first_in import first_in_first_out

    moves = stream.moves(accounting)
    hits = np.zeros(len(stream), np.bool_)
    first_in_first_out(moves.previous, moves.held, moves.moved, capacity, hits)
    return hits


def timeout(stream: AccessStream, capacity: int, accounting: str) -> NDArray[np.bool_]:
    """Every conversation is kept for one idle time-out, that which needs ``capacity`` blocks on average.

    In the mean-field limit this is LRU (THEORY B2); at a finite capacity its memory is only full on average.
    """
    gaps = _gaps_after(stream)
    limit = timeout_for(stream, capacity, accounting)
    back = stream.previous
    return (back >= 0) & (gaps[back] < limit)


def clairvoyant(stream: AccessStream, capacity: int, accounting: str) -> NDArray[np.bool_]:
    """LRU that keeps nothing of a conversation after its last turn: what knowing the end would be worth."""
    moves = stream.moves(accounting)
    forgetful = moves._replace(held=np.where(stream.final, 0, moves.held))
    return replay_threads(forgetful, capacity, by_block=False) > 0


POLICIES: dict[str, Policy] = {"lru": lru, "fifo": fifo, "timeout": timeout, "clairvoyant": clairvoyant}


def replay_policy(stream: AccessStream, capacity: int, policy: str = "lru", accounting: str = "whole") -> Replay:
    """The stream under a policy, as `replay_lru` gives it for LRU."""
    if policy not in POLICIES:
        raise InputError(f"policy {policy!r} is unknown: choose one of {', '.join(POLICIES)}")
    capacity = checked_capacity(capacity)
    hits = POLICIES[policy](stream, capacity, accounting)
    return Replay(stream, capacity, accounting, np.where(hits, stream.sizes(accounting).reuse, 0))


def compare_policies(
    stream: AccessStream,
    capacities: Iterable[int],
    accounting: str = "whole",
    policies: Iterable[str] = POLICIES,
) -> list[PolicyRow]:
    """A row for every policy and capacity, on the same stream."""
    rows = []
    for capacity in capacities:
        for policy in policies:
            replay = replay_policy(stream, capacity, policy, accounting)
            rows.append(PolicyRow(policy, capacity, replay.hit_ratio, replay.request_hit_ratio))
    return rows


def timeout_for(stream: AccessStream, capacity: int, accounting: str = "whole") -> float:
    """The idle time-out whose mean memory over the stream is ``capacity`` blocks: the stream's own T_C.

    An access holds its blocks until the time-out or the conversation's return, whichever is first, and what
    the return leaves behind until the time-out.
    """
    moves = stream.moves(accounting)
    gaps = _gaps_after(stream)
    returns = np.flatnonzero(moves.next < len(stream))
    returns = returns[np.argsort(gaps[returns])]
    ends, taken = gaps[returns], moves.taken[returns]
    # Block-time as a function of the time-out: slope = blocks not yet taken back; linear between the gaps'
    # ends.
    slopes = int(moves.held.sum()) - np.concatenate([[0], np.cumsum(taken)])
    knots = np.concatenate([[0.0], ends])
    memory = np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(knots))])
    wanted = capacity * float(stream.time[-1] - stream.time[0])
    piece = int(np.searchsorted(memory, wanted, side="right")) - 1
    if slopes[piece] <= 0:
        return float("inf")
    return float(knots[piece] + (wanted - memory[piece]) / slopes[piece])


def _gaps_after(stream: AccessStream) -> NDArray[np.float64]:
    """Time from each access to its conversation's next one; infinite after the last."""
    returns = stream.next < len(stream)
    gaps = np.full(len(stream), np.inf)
    gaps[returns] = stream.time[stream.next[returns]] - stream.time[returns]
    return gaps
