"""A law of whole conversations: one of a list of real ones, drawn with equal probability.

M and the sizes stay together, so nothing is assumed of their dependence (THEORY B1: real conversations violate
Assumption B.2).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from mfmc.accounting import Sequences, prompt_totals, running_sum, sequences
from mfmc.errors import InputError
from mfmc.laws.conversations import ConversationLaw, NodeTable, _practical_jumps, _whole_jumps
from mfmc.laws.spectrum import HistoryTable, JumpMeasure


class RecordedConversations(ConversationLaw):
    """Conversations laid end to end; build with `from_tokens` or `from_blocks`."""

    independent = None

    def __init__(
        self,
        turn: np.ndarray,
        sequences: dict[str, Sequences],
        tokens: np.ndarray | None = None,
        block_tokens: int | None = None,
    ):
        self.turn = np.asarray(turn)  # 1, 2, .. within each conversation, int [rows]
        self.accountings = tuple(sequences)
        self.sequences = sequences  # new, reuse and content in blocks, by accounting
        self.tokens, self.block_tokens = tokens, block_tokens  # T_j, all tokens of each prompt, int64 [rows]
        starts = np.flatnonzero(self.turn == 1)
        self.lengths = np.diff(np.append(starts, self.turn.size))
        self.row_length = np.repeat(self.lengths, self.lengths)
        if starts.size == 0:
            raise InputError("a recorded workload needs at least one conversation; none is left after the filters")

    @classmethod
    def from_tokens(
        cls, conversation: ArrayLike, prompt_tokens: ArrayLike, response_tokens: ArrayLike, block_tokens: int
    ) -> RecordedConversations:
        """Real turns in tokens: rows in turn order within each conversation id, blocks of `block_tokens`.

        All accountings are available. A turn that adds no token at all adds no block either.
        """
        conversation = np.asarray(conversation)
        order = np.argsort(conversation, kind="stable")
        turn = _turn_numbers(conversation[order])
        total = prompt_totals(np.asarray(prompt_tokens)[order], np.asarray(response_tokens)[order], turn=turn)
        if total.size and np.any(total[turn == 1] == 0):
            raise InputError("a conversation begins with a prompt of 0 tokens: expected at least 1; drop or merge it")
        kinds = {
            name: sequences(name, tokens=total, block_tokens=block_tokens, turn=turn)
            for name in ("whole", "practical", "token")
        }
        return cls(turn, kinds, total, block_tokens)

    @classmethod
    def from_blocks(cls, conversation: ArrayLike, new_blocks: ArrayLike) -> RecordedConversations:
        """Real turns in whole blocks: Z_j >= 1, rows in turn order within each conversation id."""
        conversation, blocks = np.asarray(conversation), np.asarray(new_blocks)
        order = np.argsort(conversation, kind="stable")
        turn = _turn_numbers(conversation[order])
        blocks = blocks[order]
        if np.any(blocks < 1):
            row = int(order[np.argmax(blocks < 1)])
            raise InputError(f"new_blocks row {row} is {blocks.min()}: expected at least 1 block a turn")
        return cls(turn, {name: sequences(name, blocks, turn=turn) for name in ("whole", "practical")})

    def turn_pmf(self) -> np.ndarray:
        return np.bincount(self.lengths) / self.lengths.size

    def histories(self, accounting: str) -> HistoryTable:
        self.check_accounting(accounting)
        reuse = self.sequences[accounting].reuse
        ends = np.zeros((self.lengths.max() + 1, int(reuse.max()) + 1))
        continues = np.zeros_like(ends)
        final = self.turn == self.row_length
        weight = 1 / self.lengths.size
        np.add.at(ends, (self.turn[final], reuse[final]), weight)
        np.add.at(continues, (self.turn[~final], reuse[~final]), weight)
        return HistoryTable.from_dense(ends, continues)

    def allocated(self, accounting: str) -> float:
        return float(self.sequences[accounting].new.sum() / self.lengths.size)

    def content(self, accounting: str) -> float:
        return float(self.sequences[accounting].content.sum() / self.lengths.size)

    def jumps(self, accounting: str) -> JumpMeasure:
        """THEORY B3, summed over every conversation and every pair of turns l < n."""
        self.check_accounting(accounting)
        whole = self.sequences[accounting]
        # Where mass follows from R_n alone the sums telescope (B2); histories that shrink break this.
        if accounting != "token" and np.all(whole.new >= 0) and self._grows:
            table = self.histories("whole")
            return _whole_jumps(table) if accounting == "whole" else _practical_jumps(table)
        return self._pairwise_jumps(whole)

    @cached_property
    def _grows(self) -> bool:
        """Whether R_n is the sum of all increments up to n in every conversation (nothing was compacted)."""
        whole = self.sequences["whole"]
        return bool(np.array_equal(whole.content, running_sum(whole.new, self.turn == 1)))

    def _pairwise_jumps(self, seq: Sequences) -> JumpMeasure:
        turns = int(self.lengths.max())
        cumulative = running_sum(seq.new, self.turn == 1)
        largest = int(np.max(cumulative + np.maximum(seq.reuse, 0)))
        dense = np.zeros((turns + 2, largest + 1))
        final = self.turn == self.row_length
        for steps in range(turns):
            # Rows n whose conversation waited after turn l = n - steps; steps = 0 stands for arrived after 0.
            if steps == 0:
                rows, mass, k = np.arange(self.turn.size), cumulative, self.turn - 1
                signs: tuple = ((0, 1.0, None), (1, -1.0, ~final))
            else:
                rows = np.flatnonzero(self.turn > steps)
                mass = seq.reuse[rows - steps] + cumulative[rows] - cumulative[rows - steps]
                k = np.full(rows.size, steps - 1)
                signs = ((0, 1.0, None), (1, -1.0, None), (1, -1.0, ~final[rows]), (2, 1.0, ~final[rows]))
            for shift, sign, where in signs:
                chosen = slice(None) if where is None else where
                np.add.at(dense, ((k + shift)[chosen], mass[chosen]), sign)
        return JumpMeasure.from_dense(dense / self.lengths.size)

    def nodes(self) -> NodeTable:
        """One node per recorded turn; every row is a single value. Columns: the accountings in order."""
        entry, advance = [], []
        for name in self.accountings:
            seq = self.sequences[name]
            before = np.where(self.turn == 1, 0, np.roll(seq.reuse, 1))
            entry.append(before + seq.new)
            advance.append(seq.new)
        values = np.concatenate((np.stack(entry, axis=1), np.stack(advance, axis=1)))
        distinct, row = np.unique(values, axis=0, return_inverse=True)
        row = row.reshape(-1).astype(np.int32)
        weight = 1 / self.lengths.size
        return NodeTable(
            last=self.turn == self.row_length,
            entry_row=row[: self.turn.size],
            advance_row=row[self.turn.size :],
            arrival=np.where(self.turn == 1, weight, 0.0),
            waiting=np.where(self.turn > 1, weight, 0.0),
            rows=[(value[None, :], np.ones(1)) for value in distinct],
        )

    def mgf_abscissa(self) -> tuple[float, str]:
        return np.inf, "a finite list of conversations is bounded; what lies beyond the list cannot be decided from it"

    def length_dependence(self) -> tuple[float, float]:
        """Rank correlation of M with the mean increment of the later turns, and its two-sided p-value."""
        from scipy.stats import spearmanr

        new = self.sequences["whole"].new
        later = self.turn > 1
        index = np.cumsum(self.turn == 1) - 1
        counts = np.bincount(index[later], minlength=self.lengths.size)
        sums = np.bincount(index[later], weights=new[later], minlength=self.lengths.size)
        several = counts > 0
        if np.unique(self.lengths[several]).size < 2:
            return 0.0, 1.0
        result = spearmanr(self.lengths[several], sums[several] / counts[several])
        return float(result.statistic), float(result.pvalue)


def _turn_numbers(sorted_conversation: np.ndarray) -> np.ndarray:
    """1, 2, .. within each run of equal ids."""
    rows = np.arange(sorted_conversation.size)
    starts = np.ones(sorted_conversation.size, dtype=bool)
    starts[1:] = sorted_conversation[1:] != sorted_conversation[:-1]
    return rows - np.maximum.accumulate(np.where(starts, rows, 0)) + 1
