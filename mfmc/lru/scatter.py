"""`np.add.at` for the arrays of a tally, compiled by numba: two to three times as fast."""

from __future__ import annotations

import numpy as np

from .compiled import compiled


@compiled
def add_at(sums, places, weights):
    for i in range(len(places)):
        sums[np.uint64(places[i])] += weights[i]
