"""The capacity axis: what memory a time-out needs.

A time-out tau keeps every context for tau after its last use. At a session rate its mean occupancy is the
mean displacement curve of the theory, `d(tau) = rate (E[sum new] tau + E[sum reuse min(gap, tau)])` (THEORY
B2, B3), plus what is being decoded now. LRU with `d(tau)` tokens keeps a context for about tau; the larger
the system, the less it deviates from that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from .steps import Steps


@dataclass(frozen=True, eq=False)
class TimeoutMemory:
    """Mean tokens in a time-out cache at a session rate, float64 [timeouts]."""

    timeouts: np.ndarray
    idle: np.ndarray  # contexts that wait for a next step: what an LRU memory has to hold
    finished: np.ndarray  # the part of `idle` whose session is over, which the cache cannot know
    decoding: float  # contexts of steps being generated, held whatever the time-out

    @property
    def tokens(self) -> np.ndarray:
        """Everything held."""
        return self.idle + self.decoding


def timeout_memory(steps: Steps, timeouts: np.ndarray, session_rate: float) -> TimeoutMemory:
    """Mean occupancy, in tokens, when sessions like those of the table start at `session_rate` per second.

    Little's law over the table: each step leaves its prompt and output behind; what the next step reuses
    stays for min(gap, tau), the rest (orphans, and everything of a last step) for tau. An unknown span counts
    as 0.
    """
    if not (0 < session_rate < np.inf):
        raise InputError(f"session_rate is {session_rate}: expected sessions per second, above 0")
    reuse, gap = reused(steps), np.nan_to_num(steps.gap)
    order = np.argsort(gap, kind="stable")
    gap, kept = gap[order], reuse[order]
    ended = np.searchsorted(gap, timeouts, side="right")
    token_seconds = np.concatenate([[0.0], np.cumsum(kept * gap)])[ended]
    still_waiting = kept.sum() - np.concatenate([[0], np.cumsum(kept)])[ended]
    orphaned = steps.held.sum() - reuse.sum()
    last = np.concatenate([steps.first[1:], [True]])
    decoding = float((steps.total * np.nan_to_num(steps.generation)).sum())
    per_session = session_rate / steps.sessions
    return TimeoutMemory(
        timeouts=timeouts,
        idle=per_session * (token_seconds + (still_waiting + orphaned) * timeouts),
        finished=per_session * steps.held[last].sum() * timeouts,
        decoding=per_session * decoding,
    )


def reused(steps: Steps) -> np.ndarray:
    """int64 [n]: tokens of the predecessor's context that a covered step can reuse; 0 for the others."""
    before = np.concatenate([[0], steps.held[:-1]])
    return np.where(steps.covered, np.minimum(steps.cacheable, before), 0)
