"""A workload: Poisson arrivals of conversations, a law of conversations, and i.i.d. gaps between their turns."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import jax
import numpy as np

from mfmc.accounting import ACCOUNTINGS
from mfmc.errors import InputError
from mfmc.laws.blocks import BlockLaw
from mfmc.laws.conversations import BlockConversations, ConversationLaw
from mfmc.laws.spectrum import HistoryTable, JumpMeasure, Spectrum
from mfmc.laws.tokens import TokenBlocks, TokenConversations
from mfmc.laws.turns import TurnLaw


@dataclass(frozen=True, eq=False)
class Profile:
    """All that theory needs of a law of conversations under one accounting (THEORY B1, B3). Per conversation."""

    accounting: str
    turn_pmf: np.ndarray
    histories: HistoryTable  # of reuse_j
    allocated: float  # E[sum_{j<=M} new_j]; E[B] for whole content
    content: float  # E[sum_{j<=M} content_j]; A_R for whole content
    law: ConversationLaw

    @cached_property
    def reuse(self) -> Spectrum:
        """a(r) = E[#{j < M : reuse_j = r}]."""
        return self.histories.reuse

    @cached_property
    def reusable(self) -> float:
        """E[sum_{j<M} reuse_j]: A_H for whole content, A_H_hash for practical."""
        return self.reuse.moment(1)

    @property
    def reuse_ceiling(self) -> float:
        """h_max (11): no memory gives a higher hit ratio."""
        return self.reusable / self.content

    @cached_property
    def jumps(self) -> JumpMeasure:
        """The jump measure of D_N(t), per unit of arrival rate."""
        return self.law.jumps(self.accounting)

    def turn_reuse(self, turn: int) -> Spectrum:
        """The law of reuse_j given M >= j: what a conversation tagged at turn j can lose."""
        if not 1 <= turn < self.turn_pmf.size or self.survival(turn) == 0:
            raise InputError(f"turn={turn}: expected a turn that conversations reach, 1 to {self.turn_pmf.size - 1}")
        return self.histories.at_turn(turn)

    def survival(self, turn: int) -> float:
        """S_j = P(M >= j)."""
        return float(self.turn_pmf[turn:].sum())

    @property
    def mean_turns(self) -> float:
        return float(self.turn_pmf @ np.arange(self.turn_pmf.size))

    @property
    def variance_turns(self) -> float:
        return float(self.turn_pmf @ (np.arange(self.turn_pmf.size) - self.mean_turns) ** 2)


@lru_cache(maxsize=64)
def _profile(law: ConversationLaw, accounting: str) -> Profile:
    law.check_accounting(accounting)
    return Profile(
        accounting, law.turn_pmf(), law.histories(accounting), law.allocated(accounting), law.content(accounting), law
    )


@dataclass(frozen=True, eq=False)
class Workload:
    """Conversations arrive as a Poisson process of `arrival_rate` per unit time; gaps are i.i.d. from `gaps`.

    Give `turns` and `blocks` (M independent of the blocks unless the block law says otherwise; `blocks` may be a
    `TokenBlocks`), or `conversations`, a joint law such as `RecordedConversations`.

    A JAX pytree whose leaves are the arrival rate and the parameters of the gap law, so that derivatives with
    respect to them can be taken; the law of conversations is static.
    """

    arrival_rate: Any
    gaps: Any
    turns: TurnLaw | None = None
    blocks: BlockLaw | TokenBlocks | None = None
    conversations: ConversationLaw | None = None

    def __post_init__(self) -> None:
        if isinstance(self.arrival_rate, int | float) and not (
            self.arrival_rate > 0 and math.isfinite(self.arrival_rate)
        ):
            raise InputError(
                f"arrival_rate={self.arrival_rate!r}: expected a positive number of conversations per unit time"
            )
        if (self.conversations is None) == (self.turns is None or self.blocks is None):
            raise InputError("a workload takes either turns and blocks, or conversations")

    @property
    def law(self) -> ConversationLaw:
        """The joint law of M and the sizes."""
        if self.conversations is not None:
            return self.conversations
        assert self.turns is not None
        if isinstance(self.blocks, TokenBlocks):
            return TokenConversations(self.turns, self.blocks)
        assert self.blocks is not None
        return BlockConversations(self.turns, self.blocks)

    @property
    def accountings(self) -> tuple[str, ...]:
        """The accountings that this workload has, in the order of `mfmc.accounting.ACCOUNTINGS`."""
        return tuple(name for name in ACCOUNTINGS if name in self.law.accountings)

    def profile(self, accounting: str = "whole") -> Profile:
        """Moments and spectra under one accounting; computed once per law."""
        return _profile(self.law, accounting)

    def scaled(self, capacity_ratio: float) -> Workload:
        """The workload of a memory `capacity_ratio` times as large in the mean-field scaling (Remark B.6)."""
        return dataclasses.replace(self, arrival_rate=self.arrival_rate * capacity_ratio)


jax.tree_util.register_dataclass(
    Workload, data_fields=["arrival_rate", "gaps"], meta_fields=["turns", "blocks", "conversations"]
)
