"""What an eviction does to later steps, which the binary rule leaves out.

The rule asks only for a step's own gap. Two things can go further:

- A step may reuse tokens that its predecessor did not touch (a branch that comes back, a context that grows
  again after it shrank). They have been idle since the last step whose context reached them, longer than the
  gap, so that an eviction then shrinks what this step finds.
- Whether a step that was evicted is cached again. Engines write back what they prefill, so the next step
  finds all of it and the damage ends there. Where it is not written back, every later step of the session
  misses.

Both are the same sweep with another idle time in the place of the gap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .steps import Steps


@dataclass(frozen=True, eq=False)
class Cascade:
    """Hit rates over covered steps, float64 [timeouts]: the binary rule, and each effect of an eviction."""

    timeouts: np.ndarray
    binary: np.ndarray
    written_back: np.ndarray
    not_written_back: np.ndarray
    far_reaching_steps: int  # covered steps that reuse tokens their predecessor did not touch


def cascade(steps: Steps, timeouts: np.ndarray) -> Cascade:
    """Measure both effects; `written_back` is what a cache does, `not_written_back` the worst that could
    happen.

    The table gives lengths, so positions stand for content: position x of a context was last touched by the
    latest step of the session whose context (prompt and output) was longer than x.
    """
    covered = np.flatnonzero(steps.covered)
    total = steps.total[covered].sum()
    cacheable, gap = steps.cacheable[covered], steps.gap[covered]
    reachable = np.minimum(cacheable, steps.held[covered - 1])
    far = covered[cacheable > reachable]
    older = _older_reuse(steps, far)
    idle = np.concatenate([gap, [age for age, _ in older]])
    tokens = np.concatenate([reachable, np.array([count for _, count in older], np.int64)])
    return Cascade(
        timeouts=timeouts,
        binary=_served(gap, cacheable, timeouts) / total,
        written_back=_served(idle, tokens, timeouts) / total,
        not_written_back=_served(longest_gap_so_far(steps)[covered], cacheable, timeouts) / total,
        far_reaching_steps=len(far),
    )


def longest_gap_so_far(steps: Steps) -> np.ndarray:
    """float64 [n], s: the largest gap of the session up to and with this step (0 before there is one)."""
    gap = np.where(steps.first | ~np.isfinite(steps.gap), 0.0, steps.gap)
    # One running maximum for all sessions: rank the gaps, and lift each session above all before it.
    values, rank = np.unique(gap, return_inverse=True)
    lifted = rank + (np.cumsum(steps.first) - 1) * len(values)
    return values[np.maximum.accumulate(lifted) % len(values)]


def _older_reuse(steps: Steps, far: np.ndarray) -> list[tuple[float, int]]:
    """(idle seconds, tokens) of what the steps `far` reuse and their predecessors did not touch.

    Walks back through the session; each context longer than all since adds the positions it alone reached. A
    token that no step had reached was never cached, and counts as idle for ever.
    """
    # Lists, because the walk reads single numbers.
    held, first = steps.held.tolist(), steps.first.tolist()
    gap, generation = np.nan_to_num(steps.gap).tolist(), np.nan_to_num(steps.generation).tolist()
    older = []
    for step, wanted in zip(far.tolist(), steps.cacheable[far].tolist()):
        back, idle, reached = step - 1, gap[step], held[step - 1]
        while reached < wanted and not first[back]:
            idle += generation[back] + gap[back]
            back -= 1
            if held[back] > reached:
                longer = min(held[back], wanted)
                older.append((idle, longer - reached))
                reached = longer
        if reached < wanted:
            older.append((np.inf, wanted - reached))
    return older


def _served(idle: np.ndarray, tokens: np.ndarray, timeouts: np.ndarray) -> np.ndarray:
    """Tokens idle for at most each time-out."""
    order = np.argsort(idle, kind="stable")
    cumulative = np.concatenate([[0], np.cumsum(tokens[order])])
    return cumulative[np.searchsorted(idle[order], timeouts, side="right")]
