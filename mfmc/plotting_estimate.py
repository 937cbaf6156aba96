"""Figures of `study=estimate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mfmc.plotting import COLORS, DASHES, band, dots, label, look, nothing
from mfmc.studies.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACCOUNTINGS = ("token", "practical", "whole")
LAWS = {
    "size_weighted": "gaps by blocks",
    "kaplan_meier": "Kaplan-Meier",
    "empirical": "gaps seen",
    "posterior": "exponential of the mean seen",
    "prior": "prior",
}


def hit_ratio(figure: Figure, result: Result) -> None:
    """Estimate against capacity with its interval, beside the replay."""
    axes = figure.subplots()
    arrays, summary = result.arrays, result.summary
    capacity = arrays["curve_capacity"]
    if "curve_low" in arrays:
        band(
            axes,
            capacity,
            arrays["curve_low"],
            arrays["curve_high"],
            0,
            f"95% interval ({summary['accounting']})",
        )
    for i, name in enumerate(ACCOUNTINGS):
        if f"curve_{name}" in arrays:
            axes.plot(capacity, arrays[f"curve_{name}"], label=f"estimate, {name}", **look(i, marker=False))
    if "curve_replayed" in arrays:
        dots(axes, capacity, arrays["curve_replayed"], "replayed block LRU")
    exact = [row for row in summary["estimates"] if row.get("exact") is not None]
    if exact:
        points = [[row[name] for row in exact] for name in ("capacity", "exact")]
        axes.plot(*points, color=COLORS[3], linestyle="none", marker="s", fillstyle="none", label="finite-N law, token")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    label(axes, _finding(result), "memory N (blocks)", "hit ratio (blocks served / blocks looked up)")
    axes.legend()


def _finding(result: Result) -> str:
    rows = [row for row in result.summary["estimates"] if row.get("relative_error") is not None]
    if not rows:
        row = result.summary["estimates"][-1]
        return f"{row['capacity']:,} blocks will serve {row['hit_ratio']:.1%} of what is looked up"
    errors = [row["absolute_error"] for row in rows]
    if len(rows) == 1:
        return f"The estimate is within {errors[0]:.2g} of the replay at {rows[0]['capacity']:,} blocks"
    within = f"{max(errors):.2g} of the replay at {len(rows)} memories"
    return f"The estimate is within {within} (mean {np.mean(errors):.2g})"


def gap_laws(figure: Figure, result: Result) -> None:
    """Every law of the gap on one axis, with the characteristic times at which the estimate reads it."""
    axes = figure.subplots()
    arrays = result.arrays
    names = [name for name in LAWS if f"law_{name}" in arrays]
    if not names:
        nothing(axes, "known means: one gap law, no trace")
        return
    times = arrays["law_times"]
    for i, name in enumerate(names):
        axes.plot(times, arrays[f"law_{name}"], color=COLORS[i], linestyle=DASHES[i], label=LAWS[name])
    read = [row["characteristic_time"] for row in result.summary["estimates"]]
    inside = [t for t in read if times[0] <= t <= times[-1]]
    axes.plot(
        inside,
        np.zeros(len(inside)),
        "|",
        color="0.2",
        markersize=12,
        label="$T_C$ of the memories asked for",
    )
    axes.set_xscale("log")
    axes.set_ylim(0, 1.02)
    values = (
        np.array([np.interp(inside, times, arrays[f"law_{name}"]) for name in names])
        if inside
        else np.zeros((1, 1))
    )
    spread = float(np.ptp(values, axis=0).max())
    finding = f"The laws of the gap differ by up to {spread:.2f} where the estimate reads them"
    if len(names) == 1:
        finding = f"The estimate reads one law of the gap: {LAWS[names[0]]}"
    label(axes, finding, "time t (s)", "F(t): share of gaps no longer than t")
    axes.legend()


def errors(figure: Figure, result: Result) -> None:
    """Absolute error against the replay, by accounting and law."""
    axes = figure.subplots()
    rows = [row for row in result.tables.get("all", []) if row.get("absolute_error") is not None]
    if not rows:
        nothing(axes, "nothing was replayed")
        return
    pairs = list(dict.fromkeys((row["accounting"], row["law"]) for row in rows))
    worst = [max(r["absolute_error"] for r in rows if (r["accounting"], r["law"]) == pair) for pair in pairs]
    order = np.argsort(worst)[::-1]
    used = (result.summary["accounting"], result.summary["law"])
    colors = [COLORS[0] if pairs[i] == used else "0.7" for i in order]
    axes.barh([f"{pairs[i][0]}, {LAWS[pairs[i][1]]}" for i in order], [worst[i] for i in order], color=colors)
    axes.locator_params(axis="x", nbins=5)
    best = pairs[int(np.argmin(worst))]
    label(
        axes,
        f"Closest to the replay: {best[0]} accounting, {LAWS[best[1]]} (blue: recommended)",
        "largest absolute error of the hit ratio",
        "",
    )


FIGURES = {"hit_ratio": hit_ratio, "gap_laws": gap_laws, "errors": errors}
