"""Figure of `study=characteristic_time`: the law of tau_C narrows on T_C."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfmc.plotting import band, label, look
from mfmc.plotting_displacement import capacities
from mfmc.statistics import clopper_pearson


def draw_law(figure: Any, result: Any) -> None:
    """Law of tau_C(j) / T_C for the first turn asked for, per capacity: exact, and 95% intervals of the sampled one."""
    axes = figure.subplots()
    spreads = []
    for i, capacity in enumerate(capacities(result, "passage")):
        sample = np.sort(result.arrays[f"passage_{capacity}"][:, 0])
        time, exact = result.arrays["passage_time"], result.arrays[f"passage_exact_{capacity}"]
        _, low, high = clopper_pearson(np.searchsorted(sample, time, side="right"), sample.size)
        band(axes, time, low, high, i)
        axes.plot(time, exact, label=f"N = {capacity:,}", **look(i, marker=False))
        spreads.append((capacity, sample.std()))
    axes.axvline(1, color="0.35", linestyle=":", linewidth=1.1)
    axes.set_xlim(0, 2.5)
    (small, wide), (large, narrow) = spreads[0], spreads[-1]
    finding = f"Standard deviation of $\\tau_C$: {wide:.2f} $T_C$ at N = {small:,}"
    if large != small:
        finding += f", {narrow:.3f} $T_C$ at {large:,}"
    label(axes, finding, "characteristic time $\\tau_C / T_C$", "cumulative probability")
    axes.fill_between([], [], [], color="0.5", alpha=0.3, linewidth=0, label="simulated, 95%")
    axes.legend(title="exact law", loc="lower right")


FIGURES = {"characteristic_time": draw_law}
