"""Figures of `study=displacement`: paths against d, deviation probabilities against their bounds, convergence."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfmc.plotting import COLORS, DASHES, MARKERS, band, label, power_law_line, series
from mfmc.statistics import clopper_pearson


def capacities(result: Any, prefix: str) -> list[int]:
    """The capacities for which the result has an array `prefix`_<capacity>, in increasing order."""
    names = (name.removeprefix(f"{prefix}_") for name in result.arrays if name.startswith(f"{prefix}_"))
    return sorted(int(name) for name in names if name.isdigit())


def draw_paths(figure: Any, result: Any) -> None:
    """A fan of paths per capacity around the mean displacement curve."""
    found = [c for c in capacities(result, "paths")][:4]
    time, mean = result.arrays["paths_time"], result.arrays["paths_mean"]
    figure.set_size_inches(2.1 * len(found) + 0.9, 3.2)
    axes = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
    for i, (axis, capacity) in enumerate(zip(axes, found)):
        paths = result.arrays[f"paths_{capacity}"]
        axis.plot(time, paths.T, color=COLORS[0], alpha=0.25, linewidth=0.6)
        axis.plot(time, mean, color="black", linewidth=1.6, label="mean d(t)")
        axis.axhline(1, color="0.35", linestyle=":", linewidth=1)
        axis.axvline(1, color="0.35", linestyle=":", linewidth=1)
        axis.set_title(f"N = {capacity:,}")
        axis.set_xlabel("time / $T_C$")
        if i == 0:
            axis.set_ylabel("displacement $D_N(t)/N$ (memories)")
            axis.legend(loc="upper left")
    axes[0].set_ylim(0, 1.15 * max(2 * mean[-1] / 1.5, mean[-1] * 1.25))
    figure.suptitle("Displacement paths narrow on their mean as the memory grows", x=0.02, ha="left", fontsize=10.5)


def draw_tails(figure: Any, result: Any) -> None:
    """P(deviation > epsilon) against epsilon with the bounds (16) and (17), one curve per capacity, log-log."""
    grid = result.arrays["epsilon_grid"]
    figure.set_size_inches(8.4, 4.3)
    left, right = figure.subplots(1, 2, sharey=True)
    found = capacities(result, "sup")
    for axis, kind, bound, what in (
        (left, "deviation", "pointwise_bound", "at the last time, bound (16)"),
        (right, "sup", "uniform_bound", "sup over the horizon, bound (17)"),
    ):
        for i, capacity in enumerate(found):
            sample = result.arrays[f"{kind}_{capacity}"]
            sample = sample[:, -1] if sample.ndim == 2 else sample
            probability, low, high = clopper_pearson(np.sum(sample[None, :] > grid[:, None], axis=1), len(sample))
            seen = probability > 0
            look = {"color": COLORS[i], "marker": MARKERS[i], "markevery": 6, "markersize": 4}
            axis.plot(grid[seen], probability[seen], linestyle="-", label=f"N = {capacity:,}", **look)
            band(axis, grid[seen], low[seen], high[seen], i)
            limit = result.arrays[f"{bound}_{capacity}"]
            axis.plot(grid[limit <= 3], limit[limit <= 3], linestyle=DASHES[1], linewidth=1, **look)
        axis.set(xscale="log", yscale="log", ylim=(0.3 / len(sample), 3))
        label(
            axis,
            what,
            "deviation $\\varepsilon$ (share of N)",
            "probability to exceed $\\varepsilon$" if axis is left else "",
        )
    left.plot([], [], color="0.3", linestyle="-", linewidth=1, label="simulated, with 95% band")
    left.plot([], [], color="0.3", linestyle=DASHES[1], linewidth=1, label="the paper's bound")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.suptitle("The bounds hold, and are loose by orders of magnitude", x=0.02, ha="left", fontsize=10.5)


def draw_convergence(figure: Any, result: Any) -> None:
    """Mean deviations against N with their fitted slopes and the proven rates."""
    axes = figure.subplots()
    found = np.array(capacities(result, "sup"), dtype=float)
    rates = {row["quantity"]: row for row in result.summary["rates"] if row.get("accounting") == _first(result)}
    kinds = {"mean sup": ("sup", lambda x: x), "mean deviation at a time": ("deviation", lambda x: x[:, -1])}
    words, as_square_root, highest = [], True, 0.0
    for i, (quantity, (kind, pick)) in enumerate(kinds.items()):
        samples = [pick(result.arrays[f"{kind}_{int(c)}"]) for c in found]
        mean = np.array([s.mean() for s in samples])
        error = 1.96 * np.array([s.std(ddof=1) / np.sqrt(s.size) for s in samples])
        row = rates.get(quantity)
        name = quantity + (f": slope {row['slope']:.3f} [{row['low']:.3f}, {row['high']:.3f}]" if row else "")
        series(axes, found, mean, name, i, low=mean - error, high=mean + error)
        highest = max(highest, mean[0])
        if row:
            words.append(f"{row['slope']:.3f}")
            as_square_root &= row["low"] <= -0.5 <= row["high"]
    power_law_line(axes, found, -1 / 2, 1.4 * highest, "$N^{-1/2}$ of (19)")
    power_law_line(axes, found, -1 / 3, 1.4 * highest, "$N^{-1/3}$ of (20)")
    axes.set(xscale="log", yscale="log")
    fall = "fall as" if as_square_root else "fall nearly as"
    finding = f"Both deviations {fall} $N^{{-1/2}}$: slopes {' and '.join(words)}" if words else "Mean deviations"
    label(axes, finding, "memory N (blocks)", "mean deviation of $D_N/N$ from d")
    axes.legend(loc="lower left")


def _first(result: Any) -> str:
    rates = result.summary["rates"]
    return rates[0]["accounting"] if rates else ""


FIGURES = {"paths": draw_paths, "tail_probabilities": draw_tails, "convergence": draw_convergence}
