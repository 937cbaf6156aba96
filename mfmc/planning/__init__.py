"""Capacity planning: from a target to blocks, tokens, bytes and cost, and how sensitive the answer is."""

from __future__ import annotations

from mfmc.planning.capacity import exact_capacity
from mfmc.planning.cost import Economics, best_capacity
from mfmc.planning.memory import cache_bytes
from mfmc.planning.sensitivity import Sensitivities, sensitivities

__all__ = [
    "Economics",
    "Sensitivities",
    "best_capacity",
    "cache_bytes",
    "exact_capacity",
    "sensitivities",
]
