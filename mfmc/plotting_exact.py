"""Figures of `study=exact`: how loose every bound is, and the distance of h(N) from its limit."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfmc.plotting import label, series

_NAMES = {"bound": "the paper's", "chebyshev": "Chebyshev, exact variance", "chernoff": "Chernoff"}


def draw_looseness(figure: Any, result: Any) -> None:
    """Bound over exact probability against N: D_N at the last time, and tau_C of the first turn."""
    figure.set_size_inches(9.0, 4.0)
    left, right = figure.subplots(1, 2, sharey=True)
    rows = result.summary["displacement"]
    last = max(row["time"] for row in rows)
    _ratios(left, [row for row in rows if row["time"] == last], "epsilon", "$D_N(t)/N$ at the last time, (16)")
    rows = result.summary["characteristic_time"]
    first = min(row["turn"] for row in rows)
    chosen = [row for row in rows if row["turn"] == first]
    _ratios(right, chosen, "epsilon_relative", f"$\\tau_C({first})$, (22)")
    left.set_ylabel("bound / exact probability")
    figure.suptitle("Times by which every bound overstates the probability", x=0.02, ha="left", fontsize=10.5)


def _ratios(axes: Any, rows: list[dict], key: str, what: str) -> None:
    # The second smallest deviation: rare enough that bounds differ, not so rare that doubles underflow.
    values = sorted({row[key] for row in rows})
    epsilon = values[min(1, len(values) - 1)]
    chosen = sorted((row for row in rows if row[key] == epsilon and row["exact"] > 1e-290), key=lambda r: r["capacity"])
    for i, (kind, name) in enumerate(_NAMES.items()):
        found = [(row["capacity"], row[kind] / row["exact"]) for row in chosen if row.get(kind) is not None]
        if found:
            capacity, ratio = np.transpose(found)
            series(axes, capacity, ratio, name, i)
    axes.set(xscale="log", yscale="log")
    axes.set_ylim(0.5, 1e12)  # what lies above is no bound worth reading
    unit = " $T_C$" if key == "epsilon_relative" else ""
    label(axes, f"{what}, $\\varepsilon$ = {epsilon:g}{unit}", "memory N (blocks)", "")
    axes.legend()


def draw_hit_ratio_errors(figure: Any, result: Any) -> None:
    """|limit - exact|, |refined - exact| and the least of (26) or (33) against N, per accounting."""
    rows = result.summary["hit_ratio"]
    accountings = list(dict.fromkeys(row["accounting"] for row in rows))
    figure.set_size_inches(3.2 * len(accountings) + 1.4, 4.0)
    for axes, accounting in zip(np.atleast_1d(figure.subplots(1, len(accountings), sharey=True)), accountings):
        chosen = sorted((row for row in rows if row["accounting"] == accounting), key=lambda row: row["capacity"])
        capacity = [row["capacity"] for row in chosen]
        number = "(26)" if accounting == "whole" else "(33)"
        for i, (name, values) in enumerate(
            {
                f"least of {number}": [row["bound"] for row in chosen],
                "limit": [abs(row["mean_field"] - row["exact"]) for row in chosen],
                "refined": [abs(row["refined"] - row["exact"]) for row in chosen],
            }.items()
        ):
            shown = [(c, v) for c, v in zip(capacity, values) if v]
            if shown:
                series(axes, [c for c, _ in shown], [v for _, v in shown], name, i)
        axes.set(xscale="log", yscale="log")
        label(
            axes,
            accounting,
            "memory N (blocks)",
            "distance from the exact h(N)" if accounting == accountings[0] else "",
        )
        axes.legend()
    figure.suptitle("The limit is off by O(1/N), the refined value by O(1/N$^2$)", x=0.02, ha="left", fontsize=10.5)


FIGURES = {"looseness": draw_looseness, "hit_ratio_errors": draw_hit_ratio_errors}
