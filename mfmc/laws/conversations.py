"""Joint laws of a whole conversation: its number of turns M and its block increments (THEORY B1).

A `ConversationLaw` is all that theory and Monte Carlo know of a workload beside gaps and arrivals. For every
accounting it offers supports (THEORY B1, B3), and for sampling a table of `nodes`: one node per turn of every class
of conversations with the same law, in turn order, so that the next turn of node i is node i + 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from mfmc.errors import InputError
from mfmc.laws.blocks import BlockLaw
from mfmc.laws.spectrum import HistoryTable, JumpMeasure
from mfmc.laws.turns import TurnLaw

#: Tail mass of a history size that its table may cut off.
_TAIL = 1e-16


@dataclass(frozen=True, eq=False)
class NodeTable:
    """What a sampler needs of a law: nodes (turns of classes of conversations) and rows (laws of masses).

    The first access that a window sees of a conversation brings an *entry* mass (history and all), every later
    access an *advance* mass. `rows[i] = (values [n, accountings], probabilities [n])`.
    """

    last: np.ndarray  # bool [nodes]: this turn ends the conversation
    entry_row: np.ndarray  # int32 [nodes]
    advance_row: np.ndarray  # int32 [nodes]
    arrival: np.ndarray  # float64 [nodes]: expected number of conversations whose turn 1 is this node
    waiting: np.ndarray  # float64 [nodes]: expected number of gaps that end in this node; 0 at turn 1
    rows: list[tuple[np.ndarray, np.ndarray]]


class ConversationLaw:
    """A law of (M, sizes). Accountings: see `mfmc.accounting`."""

    accountings: tuple[str, ...] = ("whole", "practical")
    #: Whether M is independent of the increments (Assumption B.2): True, False, or None where data cannot tell.
    independent: bool | None = None

    def turn_pmf(self) -> np.ndarray:
        """P(M = m) at index m."""
        raise NotImplementedError

    def histories(self, accounting: str) -> HistoryTable:
        """The joint law of M and reuse_j, by turn."""
        if accounting == "practical":
            return self.histories("whole").shifted(-1)
        raise NotImplementedError

    def allocated(self, accounting: str) -> float:
        """E[sum_{j<=M} new_j]; E[B] for whole content."""
        return self.histories("whole").terminal.moment(1)

    def content(self, accounting: str) -> float:
        """E[sum_{j<=M} content_j]; A_R for whole content."""
        table = self.histories("whole")
        return float((table.ends + table.continues).sum(axis=0) @ table.support)

    def jumps(self, accounting: str) -> JumpMeasure:
        """The jump measure of D_N(t) (THEORY B2, B3)."""
        table = self.histories("whole")
        if accounting == "whole":
            return _whole_jumps(table)
        if accounting == "practical":
            return _practical_jumps(table)
        raise NotImplementedError

    def mgf_abscissa(self) -> tuple[float, str]:
        """sup {theta : E[exp(theta B)] < infinity} of the law before truncation, and how it is known."""
        raise NotImplementedError

    def check_accounting(self, accounting: str) -> None:
        if accounting not in self.accountings:
            raise InputError(
                f"accounting={accounting!r}: this workload has {', '.join(self.accountings)}"
                + (" (the token-exact accounting needs a workload in tokens)" if accounting == "token" else "")
            )


def _whole_jumps(table: HistoryTable) -> JumpMeasure:
    """THEORY B2: jump measure t b(r) + I(t) a(r), with I = G_0 - G_1."""
    a, b = table.continues.sum(axis=0), table.ends.sum(axis=0)
    return JumpMeasure(table.support, np.stack((a + b, -a)))


def _practical_jumps(table: HistoryTable) -> JumpMeasure:
    """THEORY B3: a conversation that arrived after 0 brings R_n, one that waited at 0 brings R_n - 1.

    The total intensity is that of whole content; the arrived part of turn n is
    1{M=n} G_{n-1} + 1{M>n} (G_{n-1} - G_n), and the rest waited.
    """
    turns, size = table.ends.shape[0] - 1, int(table.support[-1])
    a, b = table.continues.sum(axis=0), table.ends.sum(axis=0)
    arrived = np.zeros((turns + 1, table.support.size))
    for n in range(1, turns + 1):
        arrived[n - 1] += table.ends[n] + table.continues[n]
        arrived[n] -= table.continues[n]
    waited = -arrived
    waited[0] += a + b
    waited[1] -= a
    dense = np.zeros((turns + 1, size + 1))
    dense[:, table.support] += arrived
    dense[:, table.support - 1] += waited
    return JumpMeasure.from_dense(dense)


def convolve(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The pmf of a sum; by FFT where the direct sum would be long, and with a negligible upper tail cut off."""
    if left.size * right.size < 2_000_000:
        out = np.convolve(left, right)
    else:
        from scipy.signal import fftconvolve  # takes longer to import than all of JAX

        out = np.maximum(fftconvolve(left, right), 0)
        out[: np.flatnonzero(left)[0] + np.flatnonzero(right)[0]] = 0  # rounding, where no sum can be
    tail = np.cumsum(out[::-1])
    out = out[: out.size - int(np.searchsorted(tail, _TAIL * tail[-1], side="right"))]
    return out / out.sum()


@lru_cache(maxsize=64)
def turn_pmf(law: TurnLaw) -> np.ndarray:
    """`law.pmf()`, computed once."""
    pmf = law.pmf()
    pmf.flags.writeable = False
    return pmf


@dataclass(frozen=True)
class BlockConversations(ConversationLaw):
    """M from a turn law, increments from a block law, independent given M."""

    turns: TurnLaw
    blocks: BlockLaw
    accountings: tuple[str, ...] = field(default=("whole", "practical"), repr=False)

    @property
    def independent(self) -> bool:  # type: ignore[override]
        return not self.blocks.depends_on_length

    def turn_pmf(self) -> np.ndarray:
        return turn_pmf(self.turns)

    def histories(self, accounting: str) -> HistoryTable:
        if accounting == "whole":
            return _block_histories(self)
        return super().histories(accounting)

    def history_pmfs(self, turns: int) -> list[np.ndarray]:
        """The pmfs of R_1 .. R_turns given M = turns (index 0: turn 1)."""
        pmf = self.blocks.increment_pmf(1, turns)
        out = [pmf]
        for turn in range(2, turns + 1):
            pmf = convolve(pmf, self.blocks.increment_pmf(turn, turns))
            out.append(pmf)
        return out

    def classes(self) -> list[tuple[int, list[np.ndarray]]]:
        """(M, its history pmfs) for every M of positive probability; one shared list where Z ignores M."""
        pmf = self.turn_pmf()
        lengths = np.flatnonzero(pmf)
        if self.independent:
            longest = self.history_pmfs(int(lengths[-1]))
            return [(int(m), longest[:m]) for m in lengths]
        return [(int(m), self.history_pmfs(int(m))) for m in lengths]

    def nodes(self) -> NodeTable:
        """Columns of the rows: whole, practical."""
        return _block_nodes(self)

    def mgf_abscissa(self) -> tuple[float, str]:
        return _block_abscissa(self)


@lru_cache(maxsize=64)
def _block_histories(law: BlockConversations) -> HistoryTable:
    pmf, classes = law.turn_pmf(), law.classes()
    size = max(history.size for _, histories in classes for history in histories)
    ends, continues = np.zeros((pmf.size, size)), np.zeros((pmf.size, size))
    for m, histories in classes:
        for n, history in enumerate(histories, start=1):
            table = ends if n == m else continues
            table[n, : history.size] += pmf[m] * history
    return HistoryTable.from_dense(ends, continues)


def _two_columns(pmf: np.ndarray, waited: bool) -> tuple[np.ndarray, np.ndarray]:
    kept = np.flatnonzero(pmf)
    return np.stack((kept, kept - waited), axis=1), pmf[kept]


@lru_cache(maxsize=16)
def _block_nodes(law: BlockConversations) -> NodeTable:
    pmf = law.turn_pmf()
    rows: list[tuple[np.ndarray, np.ndarray]] = []
    known: dict[tuple[int, int, bool], int] = {}

    def row(turn: int, m: int, values: np.ndarray, entry: bool) -> int:
        # Laws that ignore M are shared by all classes, so that the tables stay in cache.
        key = (turn, 0 if law.independent else m, entry)
        if key not in known:
            known[key] = len(rows)
            rows.append(_two_columns(values, waited=entry and turn > 1))
        return known[key]

    last, entry, advance, arrival, waiting = [], [], [], [], []
    for m, histories in law.classes():
        for turn in range(1, m + 1):
            last.append(turn == m)
            entry.append(row(turn, m, histories[turn - 1], entry=True))
            advance.append(row(turn, m, law.blocks.increment_pmf(turn, m), entry=False))
            arrival.append(pmf[m] if turn == 1 else 0.0)
            waiting.append(pmf[m] if turn > 1 else 0.0)
    return NodeTable(
        np.array(last),
        np.array(entry, np.int32),
        np.array(advance, np.int32),
        np.array(arrival),
        np.array(waiting),
        rows,
    )


@lru_cache(maxsize=64)
def _block_abscissa(law: BlockConversations) -> tuple[float, str]:
    """E[e^{theta B}] = sum_m P(M=m) prod_j E[e^{theta Z_j}]: finite while each factor is and the series converges."""
    radius = law.turns.generating_radius()
    lengths = np.flatnonzero(law.turn_pmf())
    longest = int(lengths[-1])
    each = min(law.blocks.mgf_abscissa(1, longest), *(law.blocks.mgf_abscissa(2, int(m)) for m in lengths))
    if each == 0:
        return 0.0, "the block law has no moment generating function (lognormal tail); set blocks.maximum to cut it"
    if np.isinf(radius):
        return each, "bounded number of turns"
    if not law.independent or law.blocks.trend != 1:
        # Later turns of longer conversations have another mean: bound it by the largest mean in the table.
        return _series_abscissa(
            law, radius, each, longest
        ), "unbounded number of turns, means of the longest conversation"
    return _series_abscissa(law, radius, each, 2), "unbounded number of turns: E[z^M] at z = E[exp(theta Z)]"


def _series_abscissa(law: BlockConversations, radius: float, each: float, turns: int) -> float:
    """The theta with E[exp(theta Z_turns)] = radius of convergence of E[z^M]."""
    low, high = 0.0, 1.0 if np.isinf(each) else each
    target = np.log(radius)
    while np.isinf(each) and law.blocks.log_mgf(high, turns, turns) < target:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        if middle < each and law.blocks.log_mgf(middle, turns, turns) < target:
            low = middle
        else:
            high = middle
    return low
