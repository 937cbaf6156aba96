"""Laws of conversations as device tables: what a lane needs to draw the next turn of a conversation.

Two kinds answer one question, `draw(carried, goes_on, ...)`: which turn comes next, and what does it bring in front of
a tagged conversation. `NodeMarks` serve laws whose histories can be drawn at once; `TokenMarks` workloads in tokens,
where the tail of the last block depends on all turns before, so that the turns before the window are passed silently.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mfmc.buckets import padded
from mfmc.laws import alias
from mfmc.laws.alias import AliasTable, Leaf
from mfmc.laws.conversations import ConversationLaw
from mfmc.laws.tokens import TokenConversations

_LAST, _ARRIVAL = np.uint64(1), np.uint64(2)


class Turn(NamedTuple):
    """One turn in every lane."""

    carried: Any  # what the marks need to go on
    mass: tuple[jax.Array, ...]  # int32 by accounting
    first: jax.Array  # bool: the first access that the window sees of its conversation
    arrival: jax.Array  # bool: ... and the conversation arrived within the window
    silent: jax.Array  # bool: a turn before the window, no access in it
    last: jax.Array  # bool: the conversation ends with it


class Steps(NamedTuple):
    """Moments of the number of steps that a conversation may take: what buffers are sized from."""

    mean: float
    mean_square: float
    silent: float  # mean number of silent ones


class NodeMarks(NamedTuple):
    """Tables of a `mfmc.laws.conversations.NodeTable`; a lane carries its node."""

    start: AliasTable  # value: node
    start_address: Leaf  # uint32
    node: Leaf  # uint64: entry row address << 34 | advance row address << 4 | flags; addresses below 2^30
    rows: AliasTable  # values: mass under each accounting asked for

    def begin(self, width: int) -> jax.Array:
        return jnp.zeros(width, jnp.int32)

    def unseen(self, carried: jax.Array) -> jax.Array:
        """Lanes in the middle of the silent turns of a conversation."""
        return jnp.zeros(carried.shape, bool)

    def draw(self, carried: jax.Array, goes_on: jax.Array, for_start: jax.Array, for_mass: jax.Array) -> Turn:
        """The next turn of the lanes that go on, a first access in the others; from two random words."""
        started = alias.values(self.start, alias.pick(self.start, self.start_address, for_start))[0]
        node = jnp.where(goes_on, carried + 1, started)
        info = self.node.at[node].get(mode="promise_in_bounds")
        address = jnp.where(goes_on, info >> np.uint64(4), info >> np.uint64(34)) & np.uint64((1 << 30) - 1)
        mass = alias.values(self.rows, alias.pick(self.rows, address.astype(jnp.uint32), for_mass))
        return Turn(
            node, mass, ~goes_on, (info & _ARRIVAL) != 0, jnp.zeros(node.shape, bool), (info & _LAST) != 0
        )


class _Prompt(NamedTuple):
    """What a lane carries of a conversation in tokens."""

    turns_left: jax.Array  # after this one
    before: jax.Array  # silent turns still to pass; 0: the first access comes next; -1: it has been
    tokens: jax.Array  # T_j
    history: jax.Array  # R_j


class TokenMarks(NamedTuple):
    """Tables of `TokenConversations`."""

    start: AliasTable  # values: M, turns before the window
    start_address: Leaf
    tokens: AliasTable  # rows: the first prompt; a response and the next prompt
    first_address: Leaf
    later_address: Leaf
    block_tokens: Leaf  # int32
    kinds: Leaf  # int32 [accountings]: position in ("whole", "practical", "token")

    def begin(self, width: int) -> _Prompt:
        zero = jnp.zeros(width, jnp.int32)
        return _Prompt(zero, zero - 1, zero, zero)

    def unseen(self, carried: _Prompt) -> jax.Array:
        return carried.before >= 0

    def draw(self, carried: _Prompt, goes_on: jax.Array, for_start: jax.Array, for_mass: jax.Array) -> Turn:
        turns, waited = alias.values(self.start, alias.pick(self.start, self.start_address, for_start))
        turns_left = jnp.where(goes_on, carried.turns_left - 1, turns - 1)
        before = jnp.where(goes_on, carried.before, waited)
        previous = jnp.where(goes_on, carried.tokens, 0)
        address = jnp.where(goes_on, self.later_address, self.first_address)
        tokens = previous + alias.values(self.tokens, alias.pick(self.tokens, address, for_mass))[0]
        content = -(-tokens // self.block_tokens)
        new = content - previous // self.block_tokens
        history = jnp.where(goes_on, carried.history, 0) + new
        first = before == 0
        # At its first access a conversation brings reuse_l + new_{l+1}: R_{l+1}; R_{l+1} - 1 if it waited; all it has.
        entry = jnp.stack((history, history - goes_on, content))
        mass = tuple(jnp.where(first, entry[kind], new) for kind in self.kinds)
        following = _Prompt(turns_left, jnp.maximum(before - 1, -1), tokens, history)
        return Turn(following, mass, first, ~goes_on, before > 0, turns_left == 0)


Marks = NodeMarks | TokenMarks


@lru_cache(maxsize=32)
def marks(law: ConversationLaw, accountings: tuple[str, ...], residence_share: float) -> tuple[Marks, Steps]:
    """Tables for a window (0, T] with I(T) / T = residence_share: waiting conversations are that much as frequent."""
    if isinstance(law, TokenConversations):
        return _token_marks(law, accountings, residence_share)
    return _node_marks(law, accountings, residence_share)


def _node_marks(law: Any, accountings: tuple[str, ...], residence_share: float) -> tuple[NodeMarks, Steps]:
    nodes = law.nodes()
    columns = [law.accountings.index(name) for name in accountings]
    rows, address = alias.build([(values[:, columns], p) for values, p in nodes.rows])
    weight = nodes.arrival + residence_share * nodes.waiting
    start, start_address = alias.build([(np.arange(weight.size)[:, None], weight)])
    packed = (
        address[nodes.entry_row].astype(np.uint64) << np.uint64(34)
        | address[nodes.advance_row].astype(np.uint64) << np.uint64(4)
        | (nodes.last * _LAST | (nodes.arrival > 0) * _ARRIVAL).astype(np.uint64)
    )
    ends = np.flatnonzero(nodes.last)
    remaining = ends[np.searchsorted(ends, np.arange(nodes.last.size))] - np.arange(nodes.last.size) + 1.0
    p = weight / weight.sum()
    steps = Steps(float(p @ remaining), float(p @ remaining**2), 0.0)
    return NodeMarks(start, start_address[0], padded(packed), rows), steps


def _token_marks(
    law: TokenConversations, accountings: tuple[str, ...], residence_share: float
) -> tuple[TokenMarks, Steps]:
    pmf = law.turn_pmf()
    turns, waited = (grid.ravel() for grid in np.meshgrid(np.arange(pmf.size), np.arange(pmf.size), indexing="ij"))
    possible = (pmf[turns] > 0) & (waited < turns)
    turns, waited = turns[possible], waited[possible]
    weight = pmf[turns] * np.where(waited > 0, residence_share, 1.0)
    start, start_address = alias.build([(np.stack((turns, waited), axis=1), weight)])
    increments = (law.blocks.prompt.pmf(), law.blocks.increment_pmf())
    tokens, address = alias.build([(np.arange(p.size)[:, None], p) for p in increments])
    p = weight / weight.sum()
    steps = Steps(float(p @ turns), float(p @ turns**2.0), float(p @ waited))
    kinds = np.array([law.accountings.index(name) for name in accountings], dtype=np.int32)
    return (
        TokenMarks(start, start_address[0], tokens, address[0], address[1], np.int32(law.blocks.block_tokens), kinds),
        steps,
    )
