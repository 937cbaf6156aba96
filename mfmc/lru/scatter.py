"""What a tally adds with, compiled by numba: two to three times as fast as `np.add.at`."""

from __future__ import annotations

import numpy as np

from .compiled import compiled


@compiled
def add_at(sums, points, weights):
    for i in range(len(points)):
        sums[np.uint64(max(points[i], -1) + 1)] += weights[i]
