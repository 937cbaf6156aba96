"""The designs on a long trace of a conversation workload, against what the characteristic time predicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from mfmc.checkpoints.bookkeeping import CountingDecoder
from mfmc.checkpoints.designs import DESIGNS
from mfmc.checkpoints.session import Request
from mfmc.checkpoints.sweep import Tally, budget_that_reaches, make_store, serve
from mfmc.checkpoints.traces import conversation_trace
from mfmc.checkpoints.working_set import (
    WHOLE_CONTENT,
    WorkingSet,
    exact_threshold,
    working_set,
    written_blocks,
)
from mfmc.errors import InputError
from mfmc.lru.accesses import AccessStream
from mfmc.lru.sampling import filling_time, sample_accesses
from mfmc.theory.compound_poisson import hit_ratio_exact
from mfmc.workload import Workload

#: Capacities of a sweep, in units of the predicted capacity for half of the reuse ceiling.
RELATIVE_BUDGETS = (0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)
#: Shares of the reuse ceiling whose capacity is predicted and found: where reuse begins, and half of it.
SHARES = (0.05, 0.5)


def draw_stream(key: jax.Array, workload: Workload, conversations: float) -> AccessStream:
    """A stationary stream whose warm-up, from an empty cache, outlasts the gaps several times."""
    capacity = round(working_set(workload, WHOLE_CONTENT[0]).threshold(SHARES[-1]))
    warm_up = max(filling_time(workload, capacity), 4 * float(workload.gaps.quantile(0.9)))
    return sample_accesses(key, workload, capacity, conversations, warm_up)


@dataclass(frozen=True, eq=False)
class ConversationTrace:
    """Requests of a stream, and what sweeps over them share.

    The first `uncounted` requests, the stream's warm-up, enter no ratio.
    """

    workload: Workload
    requests: list[Request]
    boundaries: Sequence[int]
    block_bytes: int
    uncounted: int
    drawn_load: dict[str, float]  # design -> blocks it displaces, were all to miss, over their expectation

    @classmethod
    def from_stream(
        cls,
        workload: Workload,
        stream: AccessStream,
        block_tokens: int = 4,
        seed: int = 0,
    ) -> ConversationTrace:
        decoder = CountingDecoder()
        requests = conversation_trace(stream, block_tokens, decoder.shape.vocabulary, seed)
        return cls(
            workload,
            requests,
            range(block_tokens, int(stream.history.max()) * block_tokens + 1, block_tokens),
            block_tokens * decoder.shape.token_bytes,
            stream.counted.start or 0,
            {design: drawn_load(workload, stream, design) for design in DESIGNS},
        )

    def tally(self, design: str, budget: int) -> Tally:
        """Serve the trace from a cold store of `budget` bytes."""
        store = make_store(design, budget, self.boundaries, ("A",))
        return serve(CountingDecoder(), store, self.requests, self.uncounted)

    def tally_after_plenty(self, design: str, budget: int, plenty: int) -> Tally:
        """As `tally`, but with a budget of `plenty` for the first two thirds of the uncounted requests.

        That time must outlast the gaps, so that conversations have come back and been served.
        """
        decoder, rich = CountingDecoder(), 2 * self.uncounted // 3
        store = make_store(design, plenty, self.boundaries, ("A",))
        serve(decoder, store, self.requests[:rich])
        store.budget = budget
        store.make_room(0)
        return serve(decoder, store, self.requests[rich:], self.uncounted - rich)


def drawn_load(workload: Workload, stream: AccessStream, design: str) -> float:
    """How busy this draw happens to be: blocks written per unit time if every turn missed, over the mean."""
    table = workload.profile("whole").histories
    per_conversation = (table.ends + table.continues).sum(axis=0) @ written_blocks(design, table.support)
    per_time = float(written_blocks(design, stream.history).sum() / np.ptp(stream.time))
    return per_time / (float(workload.arrival_rate) * float(per_conversation))


def sweep_conversations(
    trace: ConversationTrace,
    designs: Sequence[str] = tuple(DESIGNS),
    relative: Sequence[float] = RELATIVE_BUDGETS,
) -> list[dict[str, Any]]:
    """One row per design and budget: counts, the hit ratio, and that of the mean field and the exact law."""
    rows = []
    for design in designs:
        predicted, whole = working_set(trace.workload, design), design in WHOLE_CONTENT
        for ratio in relative:
            budget = round(ratio * predicted.threshold(0.5) * trace.block_bytes)
            capacity = budget / trace.block_bytes
            rows.append(
                {
                    "design": design,
                    "budget": budget,
                    "share_of_threshold": ratio,
                    "capacity_blocks": capacity,
                    "characteristic_time": float(predicted.characteristic_time(capacity)),
                    "predicted_hit_ratio": float(predicted.hit_ratio(capacity)),
                    "exact_hit_ratio": hit_ratio_exact(trace.workload, capacity) if whole else None,
                    **trace.tally(design, budget).counts(),
                }
            )
    return rows


def conversation_thresholds(
    trace: ConversationTrace, swept: Sequence[dict[str, Any]], shares: Sequence[float] = SHARES
) -> list[dict[str, Any]]:
    """Per design and share of the reuse ceiling: the budget that T_C predicts and the one found, to 1%.

    Bisection begins between the two budgets of the sweep that enclose the first crossing.
    """
    rows = []
    exact = {share: round(exact_threshold(trace.workload, share) * trace.block_bytes) for share in shares}
    for design in dict.fromkeys(row["design"] for row in swept):
        predicted = working_set(trace.workload, design)
        ratios = sorted((row["budget"], row["hit_ratio"]) for row in swept if row["design"] == design)
        for share in shares:
            wanted = predicted.threshold(share) * trace.block_bytes
            target = share * predicted.reuse_ceiling
            high = next((budget for budget, ratio in ratios if ratio >= target), None)
            if high is None:
                raise InputError(
                    f"{design}: no budget of the sweep reaches a hit ratio of {target:.4g}; add larger ones"
                )
            found = budget_that_reaches(
                lambda budget, design=design: trace.tally(design, budget).hit_ratio,  # type: ignore[misc]
                target,
                low=max((budget for budget, _ in ratios if budget < high), default=0),
                high=high,
                step=max(1, round(0.01 * wanted)),
            )
            rows.append(
                {
                    "design": design,
                    "share_of_ceiling": share,
                    "hit_ratio": target,
                    "predicted_bytes": round(wanted),
                    "exact_bytes": exact[share] if design in WHOLE_CONTENT else None,
                    "found_bytes": found,
                    "found_over_predicted": found / wanted,
                    "found_over_predicted_at_drawn_load": found / (wanted * trace.drawn_load[design]),
                }
            )
    return rows


def compare_starts(
    trace: ConversationTrace,
    design: str = "every_checkpoint",
    relative: Sequence[float] = (0.6, 0.7, 0.8, 0.9, 1.0, 1.1),
) -> list[dict[str, Any]]:
    """The same budgets from a cold store and after plenty: they differ where d(t) = N has several roots."""
    predicted = working_set(trace.workload, design)
    peak = predicted.threshold(0.5) * trace.block_bytes
    rows = []
    for ratio in relative:
        budget = round(ratio * peak)
        rows.append(
            {
                "design": design,
                "budget": budget,
                "share_of_threshold": ratio,
                "roots": roots(predicted, budget / trace.block_bytes),
                "cold_hit_ratio": trace.tally(design, budget).hit_ratio,
                "after_plenty_hit_ratio": trace.tally_after_plenty(design, budget, round(3 * peak)).hit_ratio,
            }
        )
    return rows


def roots(curve: WorkingSet, capacity: float) -> int:
    """How many times d(t) crosses the capacity, beyond the table once more if it ends below it."""
    above = curve.displaced >= capacity
    crossings = int(np.count_nonzero(above[1:] != above[:-1]))
    return crossings if above[-1] else crossings + 1
