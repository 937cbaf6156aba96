"""Policies beside LRU against literal lists, and their order."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfmc.errors import InputError
from mfmc.laws.blocks import PoissonBlocks
from mfmc.laws.gaps import ExponentialGaps
from mfmc.laws.turns import GeometricTurns
from mfmc.lru import accesses_from_arrays, compare_policies, replay_lru, replay_policy, sample_accesses
from mfmc.lru.policies import timeout_for
from mfmc.theory.mean_field import characteristic_time, hit_ratio
from mfmc.workload import Workload


@st.composite
def streams(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    owner = rng.integers(0, draw(st.sampled_from((1, 3, 8))), 40)
    return accesses_from_arrays(np.sort(rng.random(40)), owner, history=rng.integers(1, 9, 40))


def literal(stream, capacity, refresh, keep_last):
    """A list of conversations from the newest to the oldest; LRU moves a hit to the front, FIFO does not."""
    held: list[int] = []
    size: dict[int, int] = {}
    hits = []
    for theta, history, final in zip(stream.conversation, stream.history, stream.final, strict=True):
        hits.append(theta in held)
        if theta in held and refresh:
            held.remove(theta)
        if theta not in held:
            held.insert(0, theta)
        size[theta] = history if keep_last or not final else 0
        while sum(size[i] for i in held) > capacity:
            held.pop()
    return np.array(hits)


@given(streams(), st.sampled_from((0, 1, 6, 15, 30, 1000)))
@settings(max_examples=60)
def test_fifo_and_clairvoyant_are_their_lists(stream, capacity):
    lists = (("lru", True, True), ("fifo", False, True), ("clairvoyant", True, False))
    for policy, refresh, keep_last in lists:
        expected = literal(stream, capacity, refresh, keep_last)
        np.testing.assert_array_equal(replay_policy(stream, capacity, policy).hit, expected, err_msg=policy)


@given(streams(), st.integers(1, 40))
@settings(max_examples=40)
def test_a_time_out_holds_the_capacity_on_average(stream, capacity):
    limit = timeout_for(stream, capacity)
    span = stream.time[-1] - stream.time[0]
    lengths = np.full(len(stream), limit)
    returns = stream.next < len(stream)
    lengths[returns] = np.minimum(limit, stream.time[stream.next[returns]] - stream.time[returns])
    if np.all(stream.sizes().moved <= stream.sizes().held[stream.previous]):
        assert lengths @ stream.history / span == pytest.approx(capacity)
    hits = replay_policy(stream, capacity, "timeout").hit
    gaps = stream.time - stream.time[stream.previous]
    np.testing.assert_array_equal(hits, (stream.previous >= 0) & (gaps < limit))


def test_on_a_stationary_stream_time_out_and_lru_agree_and_foresight_gains():
    rate, capacity = 400.0, 8000
    workload = Workload(rate, ExponentialGaps(1.0), GeometricTurns(0.7), PoissonBlocks(1.0, 3.0))
    stream = sample_accesses(jax.random.key(3), workload, capacity, 20_000)
    row = {r.policy: r.hit_ratio for r in compare_policies(stream, [capacity])}
    assert row["lru"] == replay_lru(stream, capacity).hit_ratio
    assert row["lru"] == pytest.approx(hit_ratio(workload, capacity), abs=0.01)
    assert timeout_for(stream, capacity) == pytest.approx(characteristic_time(workload, capacity), rel=0.02)
    assert row["timeout"] == pytest.approx(row["lru"], abs=0.01)
    assert row["fifo"] < row["lru"] < row["clairvoyant"]


def test_unknown_policies_are_refused():
    stream = accesses_from_arrays([0.0], [0], new=[1])
    with pytest.raises(InputError, match="policy 'random' is unknown: choose one of lru, fifo"):
        replay_policy(stream, 1, "random")
