"""Whole conversations drawn from their joint law, on the host, in the units of an access stream."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from ..accounting import histories_from_tokens, running_sum
from ..errors import InputError
from ..laws.conversations import BlockConversations, ConversationLaw
from ..laws.recorded import RecordedConversations
from ..laws.tokens import TokenConversations
from .accesses import Integers


@dataclass(frozen=True, eq=False)
class Draws:
    """Turns of conversations laid end to end, int64 [rows]; ``lengths`` [conversations] counts each one's
    rows.

    ``new`` and ``new_tokens`` are what the conversation did not have one turn before, be that turn here or
    not.
    """

    lengths: Integers
    turn: Integers
    history: Integers
    new: Integers
    tokens: Integers | None = None
    new_tokens: Integers | None = None
    block_tokens: int | None = None

    @property
    def final(self) -> NDArray[np.bool_]:
        """Which rows are their conversation's last."""
        last = np.zeros(len(self.turn), bool)
        last[np.cumsum(self.lengths) - 1] = True
        return last

    def after(self, skipped: Integers) -> Draws:
        """Without the first ``skipped`` [conversations] turns of each."""
        kept = self.turn > np.repeat(skipped, self.lengths)
        rows = {
            field.name: values[kept]
            for field in fields(self)
            if field.name not in ("lengths", "block_tokens") and (values := getattr(self, field.name)) is not None
        }
        return replace(self, lengths=self.lengths - skipped, **rows)


def draw_conversations(rng: np.random.Generator, law: ConversationLaw, arriving: int, waiting: int) -> Draws:
    """``arriving`` conversations from their first turn on, then ``waiting`` ones from the turn they wait for.

    A conversation is met waiting in proportion to its gaps: with (M - 1) P(M), and in any of its gaps alike
    (THEORY B6: after turn l with rate mu_W P(M > l), and then by the law given M > l).
    """
    whole = _draw(law, rng, arriving, waiting)
    skipped = np.zeros(arriving + waiting, np.int64)
    skipped[arriving:] = 1 + np.floor(rng.random(waiting) * (whole.lengths[arriving:] - 1))
    return whole.after(skipped)


@singledispatch
def _draw(law: ConversationLaw, rng: np.random.Generator, arriving: int, waiting: int) -> Draws:
    """Whole conversations: ``arriving`` by the law, ``waiting`` by the law weighted with M - 1."""
    raise InputError(f"no access stream can be drawn from {type(law).__name__}")


@_draw.register
def _(law: BlockConversations, rng: np.random.Generator, arriving: int, waiting: int) -> Draws:
    lengths, turn = _turns(law, rng, arriving, waiting)
    blocks = law.blocks
    # Turns with one law of increments are drawn together: by turn, and by M where the law looks at it.
    kind = np.minimum(turn, 2) if blocks.trend == 1 else turn
    if blocks.depends_on_length:
        kind = kind * (lengths.max(initial=1) + 1) + np.repeat(lengths, lengths)
    new = np.empty(len(turn), np.int64)
    order = np.argsort(kind, kind="stable")
    edges = np.flatnonzero(np.diff(kind[order], prepend=-1))
    of_row = np.repeat(lengths, lengths)
    for rows in np.split(order, edges[1:]):
        if len(rows):
            pmf = blocks.increment_pmf(int(turn[rows[0]]), int(of_row[rows[0]]))
            new[rows] = _pick(rng, pmf, len(rows))
    return Draws(lengths, turn, running_sum(new, turn == 1), new)


@_draw.register
def _(law: TokenConversations, rng: np.random.Generator, arriving: int, waiting: int) -> Draws:
    lengths, turn = _turns(law, rng, arriving, waiting)
    first = turn == 1
    added = np.empty(len(turn), np.int64)
    added[first] = _pick(rng, law.blocks.prompt.pmf(), len(lengths))
    added[~first] = _pick(rng, law.blocks.increment_pmf(), len(turn) - len(lengths))
    tokens = running_sum(added, first)
    k = law.blocks.block_tokens
    history = histories_from_tokens(tokens, tokens - added, first, k)
    new = np.where(first, history, history - np.roll(history, 1))
    return Draws(lengths, turn, history, new, tokens, added, k)


@_draw.register
def _(law: RecordedConversations, rng: np.random.Generator, arriving: int, waiting: int) -> Draws:
    number = np.arange(len(law.lengths))
    chosen = np.concatenate(
        [rng.integers(0, len(number), arriving), _pick(rng, np.maximum(law.lengths - 1.0, 0), waiting)]
    )
    lengths = law.lengths[chosen]
    turn = _count_up(lengths)
    starts = np.cumsum(law.lengths) - law.lengths
    rows = np.repeat(starts[chosen], lengths) + turn - 1
    whole = law.sequences["whole"]
    drawn = Draws(lengths, turn, whole.content[rows], whole.new[rows])
    if law.tokens is None:
        return drawn
    before = np.where(law.turn == 1, 0, np.roll(law.tokens, 1))
    fresh = law.tokens - np.minimum(law.tokens, before)
    return replace(drawn, tokens=law.tokens[rows], new_tokens=fresh[rows], block_tokens=law.block_tokens)


def _turns(law: ConversationLaw, rng: np.random.Generator, arriving: int, waiting: int) -> tuple[Integers, Integers]:
    """M of every conversation, and 1, 2, .., M along each."""
    pmf = law.turn_pmf()
    gaps = np.maximum(np.arange(len(pmf)) - 1, 0)
    lengths = np.concatenate([_pick(rng, pmf, arriving), _pick(rng, gaps * pmf, waiting)])
    return lengths, _count_up(lengths)


def _count_up(lengths: Integers) -> Integers:
    """1, 2, .., length for each length, laid end to end."""
    ends = np.cumsum(lengths)
    return np.arange(1, ends[-1] + 1 if len(ends) else 1) - np.repeat(ends - lengths, lengths)


def _pick(rng: np.random.Generator, weights: NDArray[np.float64], count: int) -> Integers:
    """Indices with probability in proportion to their weights."""
    cumulative = np.cumsum(weights)
    place = np.searchsorted(cumulative, rng.random(count) * cumulative[-1], side="right")
    return np.minimum(place, np.flatnonzero(weights)[-1]) if count else np.zeros(0, np.int64)
