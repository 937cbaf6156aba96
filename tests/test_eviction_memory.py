"""What a time-out needs in memory, what LRU hits in as much, and what an eviction does to later steps."""

from __future__ import annotations

import gzip
import json
import math
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfmc.errors import InputError
from mfmc.eviction import (
    Steps,
    cascade,
    lru_hit_rates,
    steps_from_arrays,
    steps_from_csv,
    sweep,
    timeout_memory,
)
from mfmc.eviction.cascade import longest_gap_so_far
from mfmc.eviction.memory import reused
from mfmc.eviction.replay import _one_lap, _unroll

NAN = math.nan


def _growing(seed: int, sessions: int = 60, mean_gap: float = 20.0) -> Steps:
    """Append-only sessions of geometric length with exponential gaps."""
    rng = np.random.default_rng(seed)
    session, total, output, gap = [], [], [], []
    for number in range(sessions):
        size = 0
        for step in range(rng.geometric(0.2)):
            size += (output[-1] if step else 0) + int(rng.integers(1, 20))
            session.append(number)
            total.append(size)
            output.append(int(rng.integers(0, 10)))
            gap.append(rng.exponential(mean_gap) if step else NAN)
    return steps_from_arrays(session, total, output, gap, prefix=np.zeros(len(total)))


# Memory


def test_memory_is_the_mean_displacement_of_the_theory() -> None:
    """d(t) = rate (E[B] t + A_H I(t)): lifetime size, reusable tokens, mean capped gap (15), B2."""
    steps, rate, timeouts = _growing(1), 0.5, np.array([0.0, 1.0, 10.0, 50.0, 1e6])
    last = np.append(steps.first[1:], True)
    lifetime = steps.held[last].sum() / steps.sessions
    later = np.flatnonzero(~steps.first)
    capped = np.minimum(steps.gap[later][:, None], timeouts)
    reusable = (steps.held[later - 1][:, None] * capped).sum(axis=0) / steps.sessions
    memory = timeout_memory(steps, timeouts, rate)
    assert np.allclose(memory.idle, rate * (lifetime * timeouts + reusable), rtol=1e-12)
    assert np.allclose(memory.finished, rate * lifetime * timeouts, rtol=1e-12)
    assert memory.decoding == 0.0


def test_memory_by_hand() -> None:
    """A compacted context leaves orphans, which stay for the whole time-out."""
    steps = steps_from_arrays(
        ["s"] * 3, total=[100, 30, 45], output=[10, 5, 0], gap=[NAN, 4.0, 50.0], generation=[2.0, NAN, 1.0]
    )
    # after step 0: 110 tokens, of which step 1 reuses 30; after step 1: 35, all reused; after step 2: 45
    expected = 30 * 4 + 80 * 10 + 35 * 10 + 45 * 10
    memory = timeout_memory(steps, np.array([10.0]), session_rate=0.1)
    assert memory.idle[0] == pytest.approx(0.1 * expected)
    assert memory.finished[0] == pytest.approx(0.1 * 450)
    assert memory.decoding == pytest.approx(0.1 * (200 + 45))
    assert memory.tokens[0] == pytest.approx(memory.idle[0] + memory.decoding)
    with pytest.raises(InputError, match="session_rate is 0"):
        timeout_memory(steps, np.array([10.0]), 0)


# Replay


def test_stream_carries_the_gaps_of_the_table() -> None:
    """Every covered step counts once a copy, and a time-out on the stream hits exactly as the sweep says."""
    steps, period = _growing(2), 300.0  # shorter than the longest session: those go round
    starts = np.random.default_rng(0).uniform(0, period, (3, steps.sessions))
    timeouts = np.array([1.0, 7.0, 30.0, 90.0])
    stream, step = _unroll(steps, _one_lap(steps, starts, period), period, warm_up=2 * timeouts[-1])
    counted = np.flatnonzero((stream.time >= 0) & steps.covered[step])
    assert np.array_equal(np.bincount(step[counted], minlength=len(steps)), 3 * steps.covered)
    before = stream.previous[counted]
    idle = np.where(before >= 0, stream.time[counted] - stream.time[before], np.inf)
    hits = [(reused(steps)[step[counted]] * (idle <= tau)).sum() for tau in timeouts]
    expected = sweep(steps, timeouts)[0].hit_rate * 3 * steps.total[steps.covered].sum()
    assert np.allclose(hits, expected, rtol=1e-12)
    assert (idle <= 1e-9).sum() == 0 and (step[before[before >= 0]] == step[counted][before >= 0] - 1).all()


def _literal_lru(steps: Steps, capacity: int, rate: float, seed: int, skew: float = 1.0) -> float:
    """LRU in an ordered dictionary over Poisson starts on a line; `skew` spoils the draw."""
    rng = np.random.default_rng(seed)
    horizon, warm = 6000.0, 1500.0
    count = rng.poisson(rate * horizon)
    starts = rng.uniform(0, horizon, count) ** skew * horizon ** (1 - skew)
    bounds = np.append(np.flatnonzero(steps.first), len(steps))
    events = []
    for instance, (start, chosen) in enumerate(zip(starts, rng.integers(0, steps.sessions, count))):
        time = start
        for i in range(bounds[chosen], bounds[chosen + 1]):
            time += 0.0 if steps.first[i] else steps.gap[i]
            events.append((time, instance, i))
    cache: OrderedDict[int, int] = OrderedDict()
    occupied, served, looked_up = 0, 0, 0
    for time, instance, i in sorted(events):
        found = cache.pop(instance, 0)
        occupied -= found
        if time > warm and time < horizon and steps.covered[i]:
            served += steps.cacheable[i] if found else 0
            looked_up += steps.total[i]
        cache[instance] = int(steps.held[i])
        occupied += cache[instance]
        while occupied > capacity:
            occupied -= cache.popitem(last=False)[1]
    return served / looked_up


def test_replay_agrees_with_a_literal_lru_over_poisson_arrivals() -> None:
    steps, rate = _growing(3, sessions=200), 0.5
    capacity = int(timeout_memory(steps, np.array([15.0]), rate).idle[0])
    replay = lru_hit_rates(steps, np.array([capacity]), rate, warm_up=60.0, replications=8, seed=1)
    literal = np.array([_literal_lru(steps, capacity, rate, seed) for seed in range(6)])
    error = math.hypot(replay.standard_error[0], literal.std(ddof=1) / math.sqrt(len(literal)))
    assert abs(replay.hit_rate[0] - literal.mean()) < 5 * error
    assert error < 0.01
    # mutant: starts that crowd together load the cache unevenly, and the band is narrow enough to see it
    crowded = np.array([_literal_lru(steps, capacity, rate, seed, skew=4.0) for seed in range(6)])
    spread = math.hypot(replay.standard_error[0], crowded.std(ddof=1) / math.sqrt(len(crowded)))
    assert abs(replay.hit_rate[0] - crowded.mean()) > 5 * spread


def test_lru_becomes_the_timeout_as_the_system_grows() -> None:
    """B2: LRU of d(tau) and a time-out tau are the same cache in the limit of a high session rate."""
    steps, timeouts = _growing(4, sessions=300), np.array([5.0, 20.0, 60.0])
    binary = sweep(steps, timeouts)[0].hit_rate
    errors = []
    for rate in (0.05, 1.0, 20.0):
        memory = timeout_memory(steps, timeouts, rate)
        replay = lru_hit_rates(steps, memory.idle, rate, warm_up=120.0, replications=2)
        errors.append(np.abs(replay.hit_rate - binary).max())
    assert errors[0] > 0.1 > 5 * errors[1] > 10 * errors[2]
    assert errors[2] < 0.003  # not 0: LRU blurs the steps of the empirical gap law


def test_a_memory_for_everything_hits_everything_reusable() -> None:
    steps = _growing(5)
    replay = lru_hit_rates(steps, np.array([0, 10**6]), 1.0, warm_up=10.0)
    assert replay.hit_rate[0] == 0.0
    assert replay.hit_rate[1] == pytest.approx(
        sweep(steps)[0].optimal_hit_rate
    )  # the warm-up grew to fill it
    assert replay.standard_error[1] < 1e-12
    with pytest.raises(InputError, match="replications is 1"):
        lru_hit_rates(steps, np.array([5]), 1.0, warm_up=1.0, replications=1)


def test_replay_repeats_itself() -> None:
    steps, capacities = _growing(6), np.array([100, 1000])
    one, same, other = (lru_hit_rates(steps, capacities, 0.5, warm_up=60.0, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.hit_rate, same.hit_rate) and not np.array_equal(one.hit_rate, other.hit_rate)


# Cascade


def test_a_branch_that_comes_back_by_hand() -> None:
    """Step 2 goes back to what step 0 left: 40 of its tokens were idle since then, whatever its gap."""
    steps = steps_from_arrays(
        ["s"] * 3,
        total=[100, 50, 110],
        prefix=[0, 50, 100],
        output=[0, 10, 0],
        gap=[NAN, 30.0, 2.0],
        generation=[0.0, 7.0, 1.0],
    )
    assert steps.cacheable.tolist() == [0, 50, 100]
    effect = cascade(steps, np.array([1.0, 10.0, 35.0, 39.0]))
    assert effect.far_reaching_steps == 1
    # step 1: 50 after 30 s; step 2: 60 after 2 s, the 40 beyond after 2 + 7 + 30 s
    assert np.allclose(effect.written_back * 160, [0, 60, 110, 150])
    assert np.allclose(effect.binary * 160, [0, 100, 150, 150])
    assert np.allclose(effect.not_written_back * 160, [0, 0, 150, 150])


@settings(max_examples=50)
@given(st.integers(0, 2**32))
def test_cascade_is_a_cache_of_positions(seed: int) -> None:
    """Against a cache that remembers, position by position, when each was last touched."""
    rng = np.random.default_rng(seed)
    count = 40
    total = rng.integers(1, 40, count)
    steps = steps_from_arrays(
        rng.integers(0, 3, count),
        total,
        rng.integers(0, 8, count),
        rng.integers(0, 20, count).astype(float),
        prefix=rng.integers(0, total + 1),
        generation=rng.integers(0, 5, count).astype(float),
    )
    timeouts = np.array([0.5, 3.5, 10.5, 50.5, 1e3])
    served = np.zeros(len(timeouts))
    lost = np.zeros(len(timeouts))
    for i in range(count):
        if steps.first[i]:
            now, touched = 0.0, np.full(100, -np.inf)
            evicted = np.zeros(len(timeouts), bool)
        else:
            now += steps.gap[i]
            age = now - touched[: steps.cacheable[i]]
            served += [(np.cumprod(age <= tau)).sum() for tau in timeouts]
            evicted |= steps.gap[i] > timeouts
            lost += np.where(evicted, 0, steps.cacheable[i])
        now += steps.generation[i]
        touched[: steps.held[i]] = now
    looked_up = steps.total[steps.covered].sum()
    effect = cascade(steps, timeouts)
    assert np.allclose(effect.written_back * looked_up, served)
    assert np.allclose(effect.not_written_back * looked_up, lost)
    assert np.allclose(effect.binary, sweep(steps, timeouts)[0].hit_rate)


def test_longest_gap_so_far() -> None:
    steps = steps_from_arrays(
        ["a", "a", "a", "b", "b"], total=[1] * 5, output=[0] * 5, gap=[9.0, 2.0, 1.0, NAN, NAN]
    )
    assert longest_gap_so_far(steps).tolist() == [0.0, 2.0, 2.0, 0.0, 0.0]


def test_real_sessions_lose_nothing_to_a_cascade(shared: Path) -> None:
    """By content: the blocks of the original sessions, and when each was last touched, against the rule."""
    timeouts = np.array([10.0, 60.0, 300.0, 1800.0])
    by_block, by_rule, blocks = np.zeros(4), np.zeros(4), 0
    for path in (shared / "traces" / "kv_cache_tester").glob("*.json.gz"):
        touched: dict[int, float] = {}
        end = None
        for request in json.loads(gzip.decompress(path.read_bytes()))["requests"]:
            if "in" not in request:
                continue
            age = np.array([request["t"] - touched.get(block, -np.inf) for block in request["hash_ids"]])
            known = np.cumprod(np.isfinite(age)).sum()
            if end is not None:
                blocks += len(age)
                by_block += [np.cumprod(age <= tau).sum() for tau in timeouts]
                by_rule += known * (request["t"] - end <= timeouts)
            end = request["t"] + (request.get("api_time") or 0)
            touched.update(dict.fromkeys(request["hash_ids"], end))
    assert blocks > 500_000 and by_rule[-1] > 0.9 * blocks
    assert np.array_equal(by_block, by_rule)


def test_cascade_of_the_coding_agent_trace(shared: Path) -> None:
    effect = cascade(steps_from_csv(shared / "traces" / "agentic_steps.csv.gz"), np.array([60.0, 300.0]))
    assert effect.far_reaching_steps == 3
    assert (effect.binary - effect.written_back > 0).all() and (
        effect.binary - effect.written_back < 1e-4
    ).all()
