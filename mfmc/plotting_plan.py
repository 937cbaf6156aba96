"""Figures of `study=plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mfmc.plotting import COLORS, DASHES, band, dots, label, level, look, plain_log_scale
from mfmc.studies.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def capacity(figure: Figure, result: Result) -> None:
    """Hit ratio against GiB: estimate, interval, replay, and the targets and budgets."""
    axes = figure.subplots()
    arrays, summary = result.arrays, result.summary
    gib = arrays["curve_gib"]
    if "curve_low" in arrays:
        band(axes, gib, arrays["curve_low"], arrays["curve_high"], 0, "95% interval")
    axes.plot(
        gib, arrays["curve_hit_ratio"], label=f"estimate, {summary['accounting']}", **look(0, marker=False)
    )
    if "curve_replayed" in arrays:
        dots(axes, gib, arrays["curve_replayed"], "replayed LRU")
    rows = summary["plan"]
    for i, kind in enumerate(("hit ratio", "prefill saving", "budget")):
        chosen = [row for row in rows if row["target"].startswith(kind)]
        if chosen:
            name = kind if kind == "budget" else f"target: {kind}"
            points = [row["gib"] for row in chosen], [row["hit_ratio"] for row in chosen]
            axes.plot(
                *points, color=COLORS[i + 1], marker="sD^"[i], linestyle="none", markersize=6, label=name
            )
    level(axes, summary["reuse_ceiling"], f"reuse ceiling {summary['reuse_ceiling']:.3f}")
    plain_log_scale(axes)
    axes.set_ylim(bottom=0)
    row = rows[-1]
    label(
        axes,
        f"{row['gib']:,.0f} GiB of {summary['model']} KV cache serve {row['hit_ratio']:.1%} of what is looked up",
        f"memory (GiB; {summary['block_bytes'] / 2**20:.3g} MiB a block of {summary['block_tokens']} tokens)",
        "hit ratio (blocks served / blocks looked up)",
    )
    axes.legend()


def cost(figure: Figure, result: Result) -> None:
    """Hourly cost against memory, one curve per price, with its knee."""
    axes = figure.subplots()
    knees = result.summary["knees"]
    for i, row in enumerate(knees):
        name = f"{row['memory_price']:g} per GiB-hour"
        axes.plot(
            result.arrays["curve_gib"],
            result.arrays[f"cost_{i}"] / row["cost_without_cache"],
            color=COLORS[i % 7],
            linestyle=DASHES[i % 7],
            label=name,
        )
        if row["capacity"] > 0:
            axes.plot(row["gib"], row["cost"] / row["cost_without_cache"], marker="o", color=COLORS[i % 7])
    axes.axhline(1, color="0.35", linestyle=":", linewidth=1.1)
    plain_log_scale(axes)
    axes.set_ylim(0, 2)
    paying = [row for row in knees if row["capacity"] > 0]
    if paying:
        best = min(paying, key=lambda row: row["cost"] / row["cost_without_cache"])
        saved = 1 - best["cost"] / best["cost_without_cache"]
        finding = (
            f"At {best['memory_price']:g} per GiB-hour, {best['gib']:.3g} GiB save {saved:.0%} of the cost"
        )
    else:
        finding = "At these prices no cache pays for itself"
    label(axes, finding, "memory (GiB)", "memory and prefill, share of the cost without a cache")
    axes.legend()


def sensitivity(figure: Figure, result: Result) -> None:
    """Change of the hit ratio for 1% more memory, load and gap."""
    axes = figure.subplots()
    rows = result.summary["sensitivities"]
    names = {
        "one_percent_capacity": "memory",
        "one_percent_arrival_rate": "arrival rate",
        "one_percent_mean_gap": "mean gap",
    }
    place = np.arange(len(rows))
    for i, (column, name) in enumerate(names.items()):
        values = [100 * row[column] for row in rows]
        axes.bar(
            place + 0.27 * (i - 1),
            values,
            0.25,
            color=COLORS[i],
            label=f"1% more {name}",
            hatch=("", "//", "..")[i],
        )
    axes.axhline(0, color="0.2", linewidth=0.8)
    axes.set_xticks(place, [row["target"] for row in rows], rotation=20, ha="right")
    steepest = max(rows, key=lambda row: row["one_percent_capacity"])
    label(
        axes,
        f"Memory matters most at {steepest['target']}: 1% more adds"
        f" {100 * steepest['one_percent_capacity']:.2g} points",
        "",
        "change of the hit ratio (percentage points)",
    )
    axes.margins(y=0.3)  # room for the legend
    axes.legend(loc="upper left", ncols=3)


FIGURES = {"capacity": capacity, "cost": cost, "sensitivity": sensitivity}
