"""Chunk after chunk gives what one pass gives, in memory bounded by the largest capacity."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from mfmc.errors import InputError
from mfmc.lru import accesses_from_arrays, hit_ratio_curve, hit_ratio_curve_of_chunks, long_streams
from mfmc.lru.long_streams import slices


def table(rows, seed=0):
    """Conversations that come and go: times, ids, histories and new blocks."""
    rng = np.random.default_rng(seed)
    owner = np.arange(rows) // 3 + rng.integers(0, 200, rows)
    new = rng.integers(1, 9, rows)
    stream = accesses_from_arrays(np.arange(rows, dtype=float), owner, new=new)
    return stream.time, owner, stream.history, new


@pytest.mark.parametrize("max_capacity", [None, 900])
@pytest.mark.parametrize(("accounting", "ids"), [("whole", int), ("practical", str)])
def test_chunks_made_from_arrays_equal_one_pass(accounting, ids, max_capacity):
    time, owner, *blocks = table(20_000)
    columns = time, owner.astype(ids), *blocks
    whole = hit_ratio_curve(accesses_from_arrays(*columns), accounting, max_capacity=max_capacity, backend="numba")
    chunks = (accesses_from_arrays(*(c[i : i + 3000] for c in columns)) for i in range(0, 20_000, 3000))
    parts = hit_ratio_curve_of_chunks(chunks, max_capacity, accounting, backend="numba")
    for name in ("served", "hits"):
        np.testing.assert_array_equal(getattr(parts, name).at, getattr(whole, name).at)
        np.testing.assert_array_equal(getattr(parts, name).value, getattr(whole, name).value)
    assert (parts.looked_up, parts.accesses) == (whole.looked_up, whole.accesses)


def test_what_is_carried_is_bounded_by_the_capacity(monkeypatch):
    carried = []
    step = long_streams._step

    def watched(*arguments):
        result = step(*arguments)
        carried.append(len(result[0].conversation))
        return result

    monkeypatch.setattr(long_streams, "_step", watched)
    for rows in (20_000, 80_000):
        chunks = slices(accesses_from_arrays(*table(rows)), 4000)
        curve = hit_ratio_curve_of_chunks(chunks, 500, backend="numba")
        assert max(carried) <= 501
        assert len(curve.served.at) <= 501


def test_large_capacities_take_the_memory_of_the_accesses():
    """Few large contents, as blocks of one token make them: no array of all capacities."""
    rng = np.random.default_rng(4)
    owner, history = rng.integers(0, 50, 4000), rng.integers(10**6, 2 * 10**6, 4000)
    stream = accesses_from_arrays(np.arange(4000), owner, history=history)
    every = hit_ratio_curve(stream, "practical", backend="numba")
    tracemalloc.start()
    limited = hit_ratio_curve(stream, "practical", max_capacity=10**9, backend="numba")
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()
    capacities = np.linspace(0, 10**9, 400).astype(int)
    np.testing.assert_array_equal(limited.served(capacities), every.served(capacities))


def test_shrinking_contents_remember_their_peak_across_chunks():
    # a (2 blocks) lies under b (6): gone at N = 7, even though b shrinks to 1 before a returns in the next
    # chunk.
    stream = accesses_from_arrays(np.arange(4.0), [0, 1, 1, 0], history=[2, 6, 1, 2])
    for rows in (1, 2, 3, 4):
        curve = hit_ratio_curve_of_chunks(slices(stream, rows), None, backend="numba")
        np.testing.assert_array_equal(curve.hits([5, 6, 7, 8]), [0, 1, 1, 2])


def test_chunks_out_of_order_are_refused():
    early, late = (accesses_from_arrays([t], [0], history=[2], new=[1]) for t in (1.0, 2.0))
    with pytest.raises(InputError, match="a chunk begins at time 1"):
        hit_ratio_curve_of_chunks([late, early], 10)
    with pytest.raises(InputError, match="no chunk"):
        hit_ratio_curve_of_chunks([], 10)
