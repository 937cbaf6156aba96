"""Reference, numba and XLA agree access by access, and curves agree with replays, on nasty streams."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mfmc.errors import InputError
from mfmc.lru import (
    accesses_from_arrays,
    hit_ratio_curve,
    hit_ratio_curve_of_chunks,
    lanes,
    replay,
    replay_lru,
)
from mfmc.lru.accesses import NEVER
from mfmc.lru.displacement import displacements
from mfmc.lru.long_streams import slices
from mfmc.lru.partition import displacements as displacements_xla
from mfmc.lru.reference import algorithm_1, served_by_reference

ROWS = 48  # one length, so that XLA compiles once
CAPACITIES = (0, 1, 2, 5, 17, 40, 10**6)


@pytest.fixture(autouse=True)
def many_short_spans(monkeypatch):
    """Chunk borders everywhere: a thread per few accesses, a lane per few accesses."""
    monkeypatch.setattr(replay, "MIN_SPAN", 7)
    monkeypatch.setattr(lanes, "MIN_CHUNK", 5)
    monkeypatch.setattr(lanes, "MIN_LANES", 4)  # both ways of XLA


@st.composite
def streams(draw, kinds=("grows", "any", "tokens", "branches")):
    """One conversation or many, one time or many, contents that grow, stay, shrink or fit nowhere."""
    kind = draw(st.sampled_from(kinds))
    seed = draw(st.integers(0, 2**32 - 1))
    conversations = draw(st.sampled_from((1, 2, 5, 48)))
    times = draw(st.sampled_from((1, 6, 10**9)))
    largest = draw(st.sampled_from((1, 4, 30)))
    rng = np.random.default_rng(seed)
    owner = rng.integers(0, conversations, ROWS)
    time = rng.integers(0, times, ROWS).astype(float)
    if kind == "grows":
        new = rng.integers(0, largest + 1, ROWS)
        first = np.unique(np.asarray(owner)[np.argsort(time, kind="stable")], return_index=True)[1]
        new[np.argsort(time, kind="stable")[first]] += 1
        return accesses_from_arrays(time, owner, new=new)
    if kind == "any":
        return accesses_from_arrays(time, owner, history=rng.integers(1, largest + 1, ROWS))
    tokens = rng.integers(1, 8 * largest, ROWS)
    k = draw(st.sampled_from((1, 3, 8)))
    if kind == "tokens":
        return accesses_from_arrays(time, owner, tokens=tokens, block_tokens=k)
    plain = accesses_from_arrays(time, owner, tokens=tokens, block_tokens=k)
    shared = np.zeros(ROWS, np.int64)  # a part of the history that the two prompts have in common
    before = np.where(plain.previous < 0, plain.tokens, plain.shared_tokens)  # or that is from before the stream
    shared[plain.row] = rng.integers(0, before + 1)
    return accesses_from_arrays(time, owner, tokens=tokens, new_tokens=tokens - shared, block_tokens=k)


@given(streams(), st.sampled_from(CAPACITIES), st.sampled_from(replay.EVICTIONS))
@settings(max_examples=60, deadline=None)
def test_numba_and_xla_serve_what_the_reference_serves(stream, capacity, eviction):
    for accounting in stream.accountings:
        expected = served_by_reference(stream, capacity, accounting, eviction)
        for backend in replay.BACKENDS:
            got = replay_lru(stream, capacity, accounting, eviction=eviction, backend=backend)
            np.testing.assert_array_equal(got.served, expected, err_msg=f"{accounting} {backend}")
            np.testing.assert_array_equal(got.hit, (expected == stream.sizes(accounting).reuse) & (expected > 0))


@given(streams(), st.sampled_from(replay.EVICTIONS), st.sampled_from((None, 17, 300)))
@settings(max_examples=40, deadline=None)
def test_the_curve_is_the_replay_at_every_capacity(stream, eviction, max_capacity):
    top = 300 if max_capacity is None else max_capacity
    capacities = np.unique(np.minimum([0, 1, 2, 3, 5, 8, 13, 40, 100, 299], top))
    for accounting in stream.accountings:
        replays = [replay_lru(stream, n, accounting, eviction=eviction, backend="numba") for n in capacities]
        whole = dict(eviction=eviction, max_capacity=max_capacity)
        curves = [hit_ratio_curve(stream, accounting, backend=backend, **whole) for backend in replay.BACKENDS]
        options = dict(eviction=eviction, backend="numba")
        chunks = slices(stream, 11)
        curves.append(hit_ratio_curve_of_chunks(chunks, max_capacity, accounting, **options))
        for curve in curves:
            np.testing.assert_array_equal(curve.served(capacities), [r.served.sum() for r in replays])
            np.testing.assert_array_equal(curve.hits(capacities), [r.hit.sum() for r in replays])
            np.testing.assert_array_equal(curve.hit_ratio(capacities), [r.hit_ratio for r in replays])
            np.testing.assert_array_equal(curve.request_hit_ratio(capacities), [r.request_hit_ratio for r in replays])
            if accounting == "token":
                np.testing.assert_array_equal(curve.token_hit_ratio(capacities), [r.token_hit_ratio for r in replays])


@given(streams(kinds=("grows", "tokens")), st.integers(0, ROWS - 1), st.sampled_from((2**62, 9)))
@example(accesses_from_arrays(np.arange(3.0), [0, 1, 0], new=[1, 1, 1]), 2, 2**62)
@settings(max_examples=40, deadline=None)
def test_displacement_is_the_sum_of_theory_b8(stream, begin, limit):
    for accounting in stream.accountings:
        held, moved, _, _ = stream.sizes(accounting)
        if np.any(moved > held[stream.previous]):  # contents that shrink have no single displacement
            continue
        expected = np.full(len(stream), NEVER)
        for e, s in enumerate(stream.previous):
            if s >= 0:
                between = np.arange(s + 1, e)
                crossing = between[stream.previous[between] < s]
                expected[e] = (held - moved)[between].sum() + moved[crossing].sum()
        if not stream.shrinks(accounting):
            moves = stream.moves(accounting)
            np.testing.assert_array_equal(displacements_xla(moves), expected)
            pieces = [piece.copy() for _, piece in displacements(moves, begin, len(stream), limit)]
            wanted = np.where(expected <= limit, expected, NEVER)[begin:]
            np.testing.assert_array_equal(np.concatenate(pieces), wanted)


def test_algorithm_1_by_hand():
    # N = 10: a(4) b(5) fit; a grows to 6 and pushes b out; b comes back with 5 and pushes a out; c(11) fits
    # nothing.
    stream = accesses_from_arrays(np.arange(6.0), list("ababcb"), history=[4, 5, 6, 5, 11, 5])
    expected = [False, False, True, False, False, False]
    np.testing.assert_array_equal(algorithm_1(stream, 10), expected)
    for backend in replay.BACKENDS:
        np.testing.assert_array_equal(replay_lru(stream, 10, backend=backend).hit, expected)


def test_an_orphaned_tail_stays_where_it_was():
    # Blocks of 4 tokens, N = 4. a: 6 tokens = 1 full block + tail; b: 4 tokens; a again: reuses 1,
    # allocates 1. From the front the list is then a0 a1 b0 and the orphaned tail of a: b is still there,
    # and full.
    stream = accesses_from_arrays(np.arange(5.0), [0, 1, 0, 2, 1], tokens=[6, 4, 8, 4, 8], block_tokens=4)
    for n, served in ((3, 0), (4, 1)):
        for backend in replay.BACKENDS:
            assert replay_lru(stream, n, "token", backend=backend).served[-1] == served


def test_sizes_beyond_32_bits():
    rng = np.random.default_rng(5)
    owner, time = rng.integers(0, 4, ROWS), np.arange(ROWS, dtype=float)
    stream = accesses_from_arrays(time, owner, new=rng.integers(2**33, 2**34, ROWS))
    capacity = 2**36 + 2**35
    expected = served_by_reference(stream, capacity)
    assert 0 < np.count_nonzero(expected) < ROWS - 4
    for backend in replay.BACKENDS:
        np.testing.assert_array_equal(replay_lru(stream, capacity, backend=backend).served, expected)
        np.testing.assert_array_equal(hit_ratio_curve(stream, backend=backend).served(capacity), expected.sum())
    with jax.enable_x64(False):
        with pytest.raises(InputError, match="enable jax_enable_x64"):
            replay_lru(stream, capacity, backend="xla")
        with pytest.raises(InputError, match="enable jax_enable_x64"):
            hit_ratio_curve(stream, backend="xla")


def test_contents_from_before_the_stream_take_their_place():
    owner = np.arange(ROWS) % 4  # four contents of 9 blocks, all of them from before, and a cache of all four
    stream = accesses_from_arrays(np.arange(ROWS), owner, history=np.full(ROWS, 9), new=np.zeros(ROWS, int))
    for capacity, hits in ((35, 0), (36, ROWS - 4)):
        for backend in replay.BACKENDS:
            assert replay_lru(stream, capacity, backend=backend).hit.sum() == hits


def test_sums_that_wrap_around_32_bits_are_exact():
    # The accesses add up to more than 2^32 blocks, what any of them has in front does not: no 64 bits needed.
    owner = np.tile(np.arange(4), ROWS // 4)
    stream = accesses_from_arrays(np.arange(ROWS, dtype=float), owner, history=np.full(ROWS, 2**29))
    assert stream.history.sum() > 2**32
    with jax.enable_x64(False):
        curve = hit_ratio_curve(stream, backend="xla")
    for capacity in (2**31 - 1, 2**31):
        assert curve.served(capacity) == served_by_reference(stream, capacity).sum()


def test_capacities_out_of_reach_are_refused():
    stream = accesses_from_arrays([0.0, 1.0], [0, 0], new=[1, 1])
    with pytest.raises(InputError, match="from 0 to 5"):
        hit_ratio_curve(stream, max_capacity=5).hit_ratio(6)
    for capacity in (-1, 2.5, float("nan"), float("inf")):
        with pytest.raises(InputError, match=f"capacity is {capacity}"):
            replay_lru(stream, capacity)
        with pytest.raises(InputError, match=f"capacity {capacity}"):
            hit_ratio_curve(stream).hit_ratio(capacity)
    with pytest.raises(InputError, match="needs token counts"):
        hit_ratio_curve(stream, "token")
    with pytest.raises(InputError, match="eviction 'line'"):
        replay_lru(stream, 1, eviction="line")
