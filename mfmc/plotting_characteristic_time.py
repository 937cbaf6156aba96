"""Figure of `study=characteristic_time`: the law of tau_C narrows on T_C."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfmc.plotting import label, look
from mfmc.plotting_displacement import capacities


def draw_law(figure: Any, result: Any) -> None:
    """Empirical cdf of tau_C(j) / T_C for the first turn asked for, per capacity."""
    axes = figure.subplots()
    spreads = []
    for i, capacity in enumerate(capacities(result, "passage")):
        sample = np.sort(result.arrays[f"passage_{capacity}"][:, 0])
        level = np.arange(1, sample.size + 1) / sample.size
        axes.plot(sample, level, label=f"N = {capacity:,}", **look(i, marker=False))
        spreads.append((capacity, sample.std()))
    axes.axvline(1, color="0.35", linestyle=":", linewidth=1.1)
    axes.set_xlim(0, 2.5)
    (small, wide), (large, narrow) = spreads[0], spreads[-1]
    finding = f"Standard deviation of $\\tau_C$: {wide:.2f} $T_C$ at N = {small:,}"
    if large != small:
        finding += f", {narrow:.3f} $T_C$ at {large:,}"
    label(axes, finding, "characteristic time $\\tau_C / T_C$", "cumulative probability")
    axes.legend()


FIGURES = {"characteristic_time": draw_law}
