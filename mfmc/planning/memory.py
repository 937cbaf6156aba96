"""Bytes that a full cache holds, where a block's cost depends on how long its conversation is."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfmc.models import KVModel
from mfmc.workload import Workload


def resident_sizes(workload: Workload, time: float) -> tuple[np.ndarray, np.ndarray]:
    """(blocks, how many conversations of that size a cache of characteristic time `time` holds), mean field.

    By THEORY B2 the cache holds every conversation whose last access lies within `time`: at rate
    arrival_rate * (b(r) time + a(r) I(time)) it has r blocks.
    """
    profile = workload.profile("whole")
    histories = profile.histories
    ended = np.asarray(histories.ends).sum(axis=0) * time
    waiting = np.asarray(histories.continues).sum(axis=0) * float(workload.gaps.residence(time))
    return np.asarray(histories.support), float(workload.arrival_rate) * (ended + waiting)


def mean_block_bytes(model: KVModel, block_tokens: int, workload: Any = None, time: float | None = None) -> float:
    """Bytes of a block of a full cache, on average over the conversations that it holds.

    Models whose layers all keep every token need only the block's size. For others the workload's conversations and the
    characteristic time are needed; without them every token is taken to be kept.
    """
    if workload is None or time is None or not model.depends_on_length:
        return model.block_bytes(block_tokens)
    blocks, count = resident_sizes(workload, time)
    return float(count @ model.sequence_bytes(blocks * block_tokens) / (count @ blocks))
