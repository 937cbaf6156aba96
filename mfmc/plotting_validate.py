"""Figures of `study=validate`: those of its parts, and the hit ratio against the memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfmc.plotting import COLORS, DASHES, MARKERS, label, look, power_law_line, series
from mfmc.plotting_characteristic_time import FIGURES as PASSAGES
from mfmc.plotting_displacement import FIGURES as DISPLACEMENT


def draw_hit_ratio(figure: Any, result: Any) -> None:
    """Left: h(N) exactly, by simulation and in the limit, per accounting. Right: errors of the limit and of the
    refined formula against the exact value, and the error bars of the simulation.
    """
    rows = result.summary["hit_ratio"]
    accountings = list(dict.fromkeys(row["accounting"] for row in rows))
    figure.set_size_inches(9.4, 4.0)
    left, right = figure.subplots(1, 2)
    for i, accounting in enumerate(accountings):
        chosen = sorted((r for r in rows if r["accounting"] == accounting), key=lambda r: r["capacity"])
        capacity = np.array([r["capacity"] for r in chosen], dtype=float)
        exact, limit = np.array([r["exact"] for r in chosen]), chosen[-1]["mean_field"]
        # Between the capacities N (h(N) - limit) is interpolated: it varies little, while h(N) bends.
        fine = np.geomspace(capacity[0], capacity[-1], 200)
        between = limit + np.interp(np.log(fine), np.log(capacity), capacity * (exact - limit)) / fine
        left.plot(fine, between, label=f"{accounting}: exact", **look(i, marker=capacity.size == 1))
        left.axhline(limit, color=COLORS[i], linestyle=":", linewidth=1)
        for j, (name, words) in enumerate((("conditional", "Monte Carlo"), ("replay", "LRU replay"))):
            found = [(r["capacity"], r[name]) for r in chosen if r.get(name)]
            if found:
                left.errorbar(
                    [c * (0.95 + 0.1 * j) for c, _ in found], [e["estimate"] for _, e in found],
                    yerr=1.96 * np.array([e["standard_error"] for _, e in found]),
                    fmt=MARKERS[i + 3 * j], color=COLORS[i], mfc="white" if j else None, capsize=3, linestyle="none",
                    label=f"{accounting}: {words}, 95%",
                )
    first = sorted((r for r in rows if r["accounting"] == accountings[0]), key=lambda r: r["capacity"])
    left.set(xscale="log", xlim=(0.6 * first[0]["capacity"], 1.6 * first[-1]["capacity"]))
    label(left, "h(N) tends to its limit (dotted)", "memory N (blocks), arrival rate in proportion", "hit ratio h(N)")
    left.legend(loc="lower right")

    capacity = np.array([r["capacity"] for r in first], dtype=float)
    off = {name: np.array([abs(r[name] - r["exact"]) for r in first]) for name in ("mean_field", "refined")}
    series(right, capacity, off["mean_field"], "mean field (25)", 0)
    finding = "The refined formula does not apply here"  # the exact value stands in its place
    applies = np.flatnonzero(off["refined"])
    if applies.size:
        series(right, capacity[applies], off["refined"][applies], "refined, + c/N", 1)
        gain = (off["mean_field"][applies] / off["refined"][applies])[0]
        finding = f"At N = {int(capacity[applies[0]]):,} the refined value is {gain:,.0f} times closer"
    right.plot(
        capacity, [r["conditional"]["standard_error"] for r in first], color=COLORS[2], linestyle=DASHES[3],
        marker=MARKERS[2], label="standard error of the simulation",
    )
    if capacity.size > 1:
        power_law_line(right, capacity, -1, 1.8 * off["mean_field"][0], "$N^{-1}$")
        if off["refined"][0] > 0:
            power_law_line(right, capacity, -2, 2.5 * off["refined"][0], "$N^{-2}$")
    right.set(xscale="log", yscale="log")
    distance = f"distance from the exact h(N), {accountings[0]}"
    label(right, finding, "memory N (blocks), arrival rate in proportion", distance)
    right.legend(loc="lower left")


FIGURES = {**DISPLACEMENT, **PASSAGES, "hit_ratio": draw_hit_ratio}
