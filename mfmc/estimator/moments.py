"""What the estimator needs of conversations: three means per accounting, (35)-(37) and THEORY B3."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import jax
import numpy as np

from mfmc.accounting import ACCOUNTINGS, access_sizes, prompt_totals, running_sum
from mfmc.cores import chunks, on_cores
from mfmc.errors import InputError
from mfmc.traces.order import before
from mfmc.traces.table import ConversationTable
from mfmc.workload import Workload

CHUNK_TURNS = 1 << 15


@dataclass(frozen=True)
class Moments:
    """Means per conversation, in blocks.

    allocated: E[sum_j new_j], E[B] (37) for whole content; reusable: E[sum_{j<M} reuse_j], A_H_hash (36) for
    practical; content: E[sum_j content_j], A_R (35).
    """

    allocated: float
    reusable: float
    content: float

    def __post_init__(self) -> None:
        for name in ("allocated", "reusable", "content"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"{name} is {value}: expected a number of blocks per conversation, 0 or more")
        if not 0 < self.allocated <= self.content * (1 + 1e-9):
            raise InputError(
                f"a conversation allocates {self.allocated:g} blocks and looks up {self.content:g}: expected"
                " above 0, and no more allocated than looked up (E[B] <= A_R)"
            )
        if self.reusable > self.content:
            raise InputError(
                f"a conversation can reuse {self.reusable:g} of the {self.content:g} blocks that it looks up:"
                " expected no more than all of them (A_H_hash <= A_R)"
            )

    @property
    def reuse_ceiling(self) -> float:
        """h_max (11): no memory gives a higher hit ratio."""
        return self.reusable / self.content


def with_unseen_turns(
    allocated: Any, reusable: Any, content: Any, factor: float, first_blocks: float
) -> tuple[Any, Any, Any]:
    """The three with `factor` times the reuse seen: turns that a file's end cut off are taken to be as those seen.

    Numbers, or arrays [resamples]. `first_blocks`: of `allocated`, what first turns allocate. To first order: the
    turns after a cut turn may be followed by more.
    """
    added = (factor - 1) * np.maximum(allocated - first_blocks, 0)
    return allocated + added, factor * reusable, content + (factor - 1) * reusable + added


@dataclass(frozen=True, eq=False)
class PartialWorkload(Workload):
    """A workload of whose conversations only means are known: enough for the mean field, (38) and (39).

    Every function of `mfmc.theory.mean_field` takes it; what needs the law of conversations (the exact law,
    simulation) is refused. `known` holds (accounting, its moments).
    """

    known: tuple[tuple[str, Moments], ...] = ()

    def __post_init__(self) -> None:
        rate = self.arrival_rate
        if isinstance(rate, int | float) and not (rate > 0 and math.isfinite(rate)):
            raise InputError(f"arrival_rate={rate!r}: expected a positive number of conversations per unit time")

    @property
    def law(self) -> Any:
        raise InputError("only means of the conversations are known: this needs conversations, or laws of them")

    @property
    def accountings(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.known)

    def profile(self, accounting: str = "whole") -> Any:
        """The moments under one accounting."""
        for name, moments in self.known:
            if name == accounting:
                return moments
        raise InputError(f"accounting {accounting!r}: what is known gives only {', '.join(self.accountings)}")


jax.tree_util.register_dataclass(
    PartialWorkload,
    data_fields=["arrival_rate", "gaps"],
    meta_fields=["turns", "blocks", "conversations", "known"],
)


def partial_workload(
    arrival_rate: float,
    gaps: Any,
    accessed_blocks: float,
    hashable_blocks: float,
    mean_lifetime_blocks: float,
    mean_turns: float | None = None,
) -> PartialWorkload:
    """The estimator's input where no conversations are at hand: A_R, A_H_hash, E[B] and F (Appendix C.2.2).

    The practical accounting; with `mean_turns` E[M] whole content too, as A_H = A_H_hash + E[M] - 1.
    """
    practical = Moments(mean_lifetime_blocks, hashable_blocks, accessed_blocks)
    known = [("practical", practical)]
    if mean_turns is not None:
        if not mean_turns >= 1:
            raise InputError(f"mean_turns is {mean_turns}: expected at least 1")
        reusable = hashable_blocks + mean_turns - 1
        known.insert(0, ("whole", dataclasses.replace(practical, reusable=reusable)))
    return PartialWorkload(arrival_rate, gaps, known=tuple(known))


@dataclass(frozen=True, eq=False)
class ConversationSums:
    """Sums over the turns of each conversation: float64 [conversations] under each name.

    blocks[accounting]: [3, conversations] of new, reuse (but of the last turn) and content; `tokens` the
    prompts' tokens in all, `turns` M; `first_blocks`: mean blocks of a first prompt.
    """

    blocks: dict[str, np.ndarray]
    tokens: np.ndarray
    turns: np.ndarray
    block_tokens: int
    first_blocks: float

    @classmethod
    def of(cls, table: ConversationTable) -> ConversationSums:
        starts = np.flatnonzero(np.diff(table.conversation, prepend=-1))
        lengths = np.diff(np.append(starts, table.conversation.size))
        turn = np.arange(table.conversation.size) - np.repeat(starts, lengths) + 1
        total = prompt_totals(table.prompt_tokens, table.response_tokens, turn=turn)
        return cls.of_prompts(total, lengths, table.block_tokens)

    @classmethod
    def of_prompts(cls, total: np.ndarray, lengths: np.ndarray, block_tokens: int) -> ConversationSums:
        """`total` int64 [turns]: T_j, conversation after conversation, of `lengths` turns each."""
        ends = np.cumsum(lengths)
        cuts = np.searchsorted(ends, [part.stop for part in chunks(total.size, CHUNK_TURNS)])
        bounds = np.unique(np.append(0, cuts + 1).clip(max=lengths.size))
        tokens, blocks = np.empty(lengths.size), np.empty((len(ACCOUNTINGS), 3, lengths.size))

        def fill(low: int, high: int) -> None:
            turns = slice(ends[low] - lengths[low], ends[high - 1])
            tokens[low:high], blocks[..., low:high] = _sums(total[turns], lengths[low:high], block_tokens)

        on_cores(lambda place: fill(*place), pairwise(bounds))
        first = float(-np.mean(-total[ends - lengths] // block_tokens))
        return cls(dict(zip(ACCOUNTINGS, blocks)), tokens, lengths.astype(float), block_tokens, first)

    def moments(self, accounting: str) -> Moments:
        """Their means."""
        return Moments(*map(float, self.blocks[accounting].mean(axis=1)))

    @property
    def accessed_tokens(self) -> float:
        """E[sum_j T_j]: tokens that a conversation's prompts hold in all."""
        return float(self.tokens.mean())

    @cached_property
    def known(self) -> tuple[tuple[str, Moments], ...]:
        """The moments under every accounting."""
        return tuple((name, self.moments(name)) for name in self.blocks)


def _sums(total: np.ndarray, lengths: np.ndarray, block_tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens [conversations], and blocks [accountings, 3, conversations]."""
    starts = np.cumsum(lengths) - lengths
    first = np.zeros(total.size, dtype=bool)
    first[starts] = True
    in_tokens = access_sizes("token", total, before(total, first), block_tokens)
    history = running_sum(in_tokens[0], first)
    last_history = before(history, first)
    counted = [in_tokens if name == "token" else access_sizes(name, history, last_history) for name in ACCOUNTINGS]
    # What turn j + 1 reuses of turn j is nothing at turn 1, so these are new, reuse over j < M, content.
    blocks = np.array([[np.add.reduceat(column, starts) for column in columns] for columns in counted])
    return np.add.reduceat(total, starts), blocks
