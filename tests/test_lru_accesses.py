"""Access streams: order, links, sizes, and refusals that name the row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfmc.accounting import ACCOUNTINGS, sequences
from mfmc.errors import InputError
from mfmc.lru import accesses_from_arrays

rows = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4), st.integers(1, 99)), min_size=1, max_size=40)


@given(rows)
@settings(max_examples=60)
def test_order_and_links(table):
    time, owner, _ = (np.array(column) for column in zip(*table, strict=True))
    stream = accesses_from_arrays(time, owner, new=np.ones(len(table), int))
    by_hand = sorted(range(len(table)), key=lambda row: time[row])  # Python sorts stably
    np.testing.assert_array_equal(stream.row, by_hand)
    last: dict[int, int] = {}
    following = np.full(len(table), len(table))
    for e, conversation in enumerate(stream.conversation.tolist()):
        assert stream.previous[e] == last.get(conversation, -1)
        if conversation in last:
            following[last[conversation]] = e
        last[conversation] = e
    np.testing.assert_array_equal(stream.next, following)
    np.testing.assert_array_equal(stream.final, following == len(table))


@given(rows, st.integers(1, 16))
@settings(max_examples=60)
def test_sizes_are_the_sequences_of_the_accounting(table, k):
    time, owner, added = (np.array(column) for column in zip(*table, strict=True))
    order = np.lexsort((time, owner))
    turn = np.arange(len(table)) - np.searchsorted(owner[order], owner[order]) + 1
    tokens = np.cumsum(added[order])
    starts = np.flatnonzero(turn == 1)
    tokens -= np.repeat((tokens - added[order])[starts], np.diff(np.append(starts, len(turn))))
    scattered = np.empty_like(tokens)
    scattered[order] = tokens
    stream = accesses_from_arrays(time, owner, tokens=scattered, block_tokens=k)
    for accounting in ACCOUNTINGS:
        new, reuse, content = sequences(accounting, tokens=tokens, block_tokens=k, turn=turn)
        sizes = stream.sizes(accounting)
        place = np.empty(len(table), int)
        place[stream.row] = np.arange(len(table))
        mine = place[order]  # where the conversation's rows, turn by turn, lie in the stream
        np.testing.assert_array_equal((sizes.held - sizes.moved)[mine], new)
        np.testing.assert_array_equal(sizes.content[mine], content)
        np.testing.assert_array_equal(sizes.reuse[mine], np.where(turn == 1, 0, np.roll(reuse, 1)))


def test_ways_to_give_sizes_agree():
    time, owner = np.arange(5.0), [7, -3, 7, 7, -3]
    from_new = accesses_from_arrays(time, owner, new=[2, 4, 3, 1, 5])
    from_history = accesses_from_arrays(time, owner, history=[2, 4, 5, 6, 9])
    both = accesses_from_arrays(time, owner, history=[2, 4, 5, 6, 9], new=[2, 4, 3, 1, 5])
    for stream in (from_history, both):
        np.testing.assert_array_equal(stream.history, from_new.history)
        np.testing.assert_array_equal(stream.shared, from_new.shared)
    np.testing.assert_array_equal(from_new.conversation, owner)
    assert from_new.accountings == ("whole", "practical")


def test_shrunken_contents_reuse_what_is_left():
    stream = accesses_from_arrays(np.arange(3.0), [0, 0, 0], history=[9, 4, 6])
    whole, practical = stream.sizes("whole"), stream.sizes("practical")
    np.testing.assert_array_equal(whole.reuse, [0, 4, 4])
    np.testing.assert_array_equal(whole.moved, [0, 9, 4])  # Algorithm 1 frees the other five
    np.testing.assert_array_equal(practical.reuse, [0, 3, 3])
    assert practical.moved is practical.reuse


def test_a_history_from_before_the_stream_counts():
    stream = accesses_from_arrays([0.0, 1.0], [0, 0], history=[10, 12], new=[3, 2])
    np.testing.assert_array_equal(stream.sizes("whole").held, [10, 12])
    np.testing.assert_array_equal(stream.sizes("practical").held, [9, 11])
    np.testing.assert_array_equal(stream.sizes("practical").reuse, [6, 9])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(time=[0.0, np.nan], new=[1, 1]), "time row 1 is nan"),
        (dict(time=[[0.0]], new=[1]), "expected a time per access"),
        (dict(time=[], conversation=[], new=[]), "at least one access"),
        (dict(history=[3, 0]), "history row 1 is 0"),
        (dict(history=[3, 2.5]), "history row 1 is 2.5"),
        (dict(history=[3, -4]), "history row 1 is -4"),
        (dict(history=[3, np.inf]), "history row 1 is inf"),
        (dict(history=["a", "b"]), "expected whole numbers"),
        (dict(history=[3, 4], new=[3, 9]), "new row 1 is 9"),
        (dict(history=[3, 9], new=[3, 2]), "history row 1 is 9: without new it exceeds"),
        (dict(new=[0, 1]), "new row 0 is 0"),
        (dict(time=[1.0, 0.0], history=[3, 2], new=[0, 2]), "history row 0 is 3"),
        (dict(history=[3]), r"history has shape \(1,\)"),
        (dict(conversation=[0]), r"conversation has shape \(1,\)"),
        (dict(conversation=[0.5, 1], new=[1, 1]), "conversation row 0 is 0.5"),
        (dict(), "needs history or new"),
        (dict(tokens=[4, 5]), "tokens need block_tokens"),
        (dict(tokens=[4, 5], block_tokens=0), "block_tokens is 0"),
        (dict(history=[2**61, 2**61]), "2\\^62 blocks or more"),
        (dict(new=[1, 1], final=[True]), r"final has shape \(1,\)"),
        (dict(new=[1, 1], final=[True, True]), "final row 0 is True: its conversation has a later access"),
    ],
)
def test_refusals_name_the_row(arguments, message):
    with pytest.raises(InputError, match=message):
        accesses_from_arrays(**{"time": [0.0, 1.0], "conversation": [0, 0], **arguments})
