"""Figures of `study=validate`: those of its parts, and the hit ratio against the memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfmc.plotting import COLORS, label, level, look
from mfmc.plotting_characteristic_time import FIGURES as PASSAGES
from mfmc.plotting_displacement import FIGURES as DISPLACEMENT


def draw_hit_ratio(figure: Any, result: Any) -> None:
    """h(N) exactly, by Monte Carlo and in the limit, for every accounting."""
    axes = figure.subplots()
    rows = result.summary["hit_ratio"]
    accountings = list(dict.fromkeys(row["accounting"] for row in rows))
    for i, accounting in enumerate(accountings):
        chosen = sorted((r for r in rows if r["accounting"] == accounting), key=lambda r: r["capacity"])
        capacity = [r["capacity"] for r in chosen]
        axes.plot(capacity, [r["exact"] for r in chosen], label=f"{accounting}: exact", **look(i, marker=False))
        axes.errorbar(
            capacity, [r["conditional"]["estimate"] for r in chosen],
            yerr=1.96 * np.array([r["conditional"]["standard_error"] for r in chosen]),
            fmt=look(i)["marker"], color=COLORS[i], capsize=3, label=f"{accounting}: Monte Carlo, 95%",
        )
        axes.axhline(chosen[-1]["mean_field"], color=COLORS[i], linestyle=":", linewidth=1)
        if i == 0:
            level(axes, chosen[-1]["mean_field"], "limits: dotted")
    axes.set(xscale="log")
    axes.set_ylim(bottom=0)
    first = sorted((r for r in rows if r["accounting"] == accountings[0]), key=lambda r: r["capacity"])
    finding = (
        f"The hit ratio tends to its limit: {first[0]['exact']:.3f} at N = {first[0]['capacity']:,}, "
        f"{first[-1]['exact']:.4f} at {first[-1]['capacity']:,}, limit {first[-1]['mean_field']:.4f}"
    )
    label(axes, finding, "memory N (blocks), arrival rate in proportion", "hit ratio h(N)")
    axes.legend(loc="lower right")


FIGURES = {**DISPLACEMENT, **PASSAGES, "hit_ratio": draw_hit_ratio}
