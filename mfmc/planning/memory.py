"""Bytes that a full cache holds, where a block's cost depends on how long its conversation is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mfmc.models import KVModel
from mfmc.theory.mean_field import characteristic_time
from mfmc.workload import Workload


def resident_sizes(workload: Workload, time: float) -> tuple[np.ndarray, np.ndarray]:
    """(blocks, how many conversations of that size a cache of characteristic time `time` holds), mean field.

    By THEORY B2 the cache holds every conversation whose last access lies within `time`: at rate
    arrival_rate * (b(r) time + a(r) I(time)) it has r blocks.
    """
    histories = workload.profile("whole").histories
    ended, waiting = histories.terminal, histories.reuse
    rate, inside = float(workload.arrival_rate), float(workload.gaps.residence(time))
    blocks = np.concatenate((ended.support, waiting.support))
    return blocks, rate * np.concatenate((ended.weight * time, waiting.weight * inside))


def cache_bytes(
    model: KVModel, block_tokens: int, workload: Workload, moments: Any, accounting: str
) -> Callable[[float], float]:
    """Bytes of a cache that is full with N blocks, as a function of N.

    N block sizes for a model whose layers all keep every token. For others the conversations in the cache
    decide: the mean cost of a block over the law of `workload`, at the characteristic time that `moments` (a
    workload of which only means need be known) has at N.
    """
    if not model.depends_on_length:
        return lambda capacity: capacity * model.block_bytes(block_tokens)

    def held(capacity: float) -> float:
        time = float(characteristic_time(moments, capacity, accounting))
        blocks, count = resident_sizes(workload, time)
        return capacity * float(count @ model.sequence_bytes(blocks * block_tokens) / (count @ blocks))

    return held
