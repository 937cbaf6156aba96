"""Serve whole traces, from cold, under many designs and budgets, and count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mfmc.checkpoints.bookkeeping import CountingDecoder
from mfmc.checkpoints.decoder import Decoder
from mfmc.checkpoints.designs import DESIGNS
from mfmc.checkpoints.session import Request, answer
from mfmc.checkpoints.store import Store
from mfmc.errors import InputError


@dataclass
class Tally:
    """Totals over the requests that count; `hit_ratio` is the share of prompt tokens that were reused."""

    requests: int = 0
    hits: int = 0
    tokens: int = 0
    reused_tokens: int = 0
    projected_rows: int = 0
    admissions: int = 0
    evictions: int = 0
    copy_bytes: int = 0

    @property
    def hit_ratio(self) -> float:
        return self.reused_tokens / self.tokens

    def counts(self) -> dict[str, Any]:
        """The totals and the hit ratio, for a table."""
        return {**asdict(self), "hit_ratio": self.hit_ratio}


def serve(
    decoder: Decoder | CountingDecoder, store: Store, requests: Sequence[Request], uncounted: int = 0
) -> Tally:
    """Answer every request in order; the first `uncounted` ones warm the store and enter no total."""
    tally = Tally()
    for index, request in enumerate(requests):
        given = answer(decoder, store, request)
        if index < uncounted:
            continue
        tally.requests += 1
        tally.hits += given.reused > 0
        tally.tokens += len(request.tokens)
        tally.reused_tokens += given.reused
        tally.projected_rows += given.rows
        tally.admissions += len(given.turnover.admitted)
        tally.evictions += len(given.turnover.evicted)
        tally.copy_bytes += given.turnover.copy_bytes
    return tally


def make_store(
    design: str, budget: int, boundaries: Sequence[int], scopes: Sequence[str], **kwargs: Any
) -> Store:
    if design not in DESIGNS:
        raise InputError(f"design {design!r} is unknown: expected one of {', '.join(DESIGNS)}")
    return DESIGNS[design](budget, boundaries, scopes, **kwargs)


def budget_that_reaches(
    measure: Callable[[int], float], target: float, low: int, high: int, step: int
) -> int:
    """A budget at which `measure` reaches the target, to `step` bytes; it does at `high`, not at `low`."""
    while high - low > step:
        middle = (low + high) // 2
        if measure(middle) >= target:
            high = middle
        else:
            low = middle
    return high
