"""The memory at which another gigabyte costs as much as the prefill that it saves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scipy.optimize import minimize_scalar

from mfmc.models import GIB
from mfmc.theory.mean_field import capacity_for, hit_ratio
from mfmc.workload import Workload

HOUR = 3600.0
#: Reuse beyond this share of the ceiling is not searched for: heavy-tailed gaps would take boundless memory.
MOST = 0.9999


@dataclass(frozen=True)
class Economics:
    """Prices in any currency: `memory_price` per GiB and hour, `prefill_price` per million prompt tokens
    computed.

    bytes_of: of a cache full with so many blocks. accessed_tokens: tokens that a conversation's prompts hold
    in all. token_share: tokens served over looked up, for one block served over looked up.
    """

    memory_price: float
    prefill_price: float
    bytes_of: Callable[[float], float]
    accessed_tokens: float
    token_share: float = 1.0

    def hourly(self, workload: Workload, capacity: float, accounting: str) -> dict[str, float]:
        """Cost per hour of memory and prefill, and both; times of the workload in seconds."""
        served = float(hit_ratio(workload, capacity, accounting)) * self.token_share
        memory = self.memory_price * self.bytes_of(capacity) / GIB
        tokens = float(workload.arrival_rate) * HOUR * self.accessed_tokens * (1 - served)
        prefill = self.prefill_price * tokens / 1e6
        return {"memory_cost": memory, "prefill_cost": prefill, "cost": memory + prefill}


def best_capacity(workload: Any, economics: Economics, accounting: str = "whole") -> float:
    """The capacity in blocks of least hourly cost: the knee. 0 where no memory pays for itself."""
    top = capacity_for(workload, MOST * workload.profile(accounting).reuse_ceiling, accounting)

    def cost(logarithm: float) -> float:
        return economics.hourly(workload, math.exp(logarithm), accounting)["cost"]

    # The hit ratio is S-shaped in N where short gaps are rare, so the cost has several valleys: look for the
    # lowest.
    points = [math.log(top) * i / 60 for i in range(61)]
    values = [cost(point) for point in points]
    lowest = min(range(61), key=values.__getitem__)
    bracket = points[max(lowest - 1, 0)], points[min(lowest + 1, 60)]
    found = minimize_scalar(cost, bounds=bracket, method="bounded", options={"xatol": 1e-6})
    nothing = economics.prefill_price * float(workload.arrival_rate) * HOUR * economics.accessed_tokens / 1e6
    return math.exp(found.x) if found.fun < nothing else 0.0
