"""Figures of `study=trace`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mfmc.plotting import COLORS, label, level, nothing, plain_log_scale, reference, series
from mfmc.studies.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def turns(figure: Figure, result: Result) -> None:
    """P(M >= m) beside the geometric law of the same mean."""
    axes = figure.subplots()
    counts = result.arrays["turns_count"]
    if counts.size == 2:
        nothing(axes, "every conversation has one turn")
        return
    tail = counts[::-1].cumsum()[::-1] / counts.sum()
    support = np.arange(1, counts.size)
    mean = result.summary["distributions"]["turns"]["mean"]
    axes.step(support, tail[1:], where="mid", color=COLORS[0], label="conversations in the file")
    if mean > 1:
        reference(axes, support, (1 - 1 / mean) ** (support - 1.0), "geometric of the same mean")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(0.5 / counts.sum(), 1.4)
    largest = result.summary["distributions"]["turns"]["max"]
    label(
        axes,
        f"Conversations have {mean:.3g} turns on average, {largest:,.0f} at most",
        "turns m",
        "P(M >= m)",
    )
    axes.legend()


def sizes(figure: Figure, result: Result) -> None:
    """Share of conversations with more than so many blocks, of prompts with more than so many tokens."""
    left, right = figure.subplots(1, 2, sharey=True)
    rows, shape = result.summary["distributions"], result.summary["shape"]
    _exceedance(left, result, "lifetime_blocks_quantiles", 0)
    label(left, f"Lifetime size B: mean {rows['lifetime_blocks']['mean']:.4g}",
          f"blocks of {shape['block_tokens']} tokens", "share that is larger")  # fmt: skip
    _exceedance(right, result, "prompt_tokens_quantiles", 1)
    label(right, f"Whole prompts: median {rows['prompt_tokens']['p50']:,.0f}", "tokens", "")


def gaps(figure: Figure, result: Result) -> None:
    """Share of gaps longer than t, beside the exponential of the same mean."""
    axes = figure.subplots()
    quantiles = result.arrays["gap_seconds_quantiles"]
    if not quantiles.size:
        nothing(axes, "the file has no gaps between turns")
        return
    row = result.summary["distributions"]["gap_seconds"]
    _exceedance(axes, result, "gap_seconds_quantiles", 0, "gaps in the file")
    times = np.geomspace(max(row["p5"], row["max"] * 1e-5, 1e-6), row["max"], 200)
    reference(axes, times, np.exp(-times / row["mean"]), "exponential of the same mean")
    axes.set_ylim(0.5 / max(row["count"], 1), 1.4)
    heavier = row["sd"] / row["mean"] if row["mean"] else 0
    label(
        axes,
        f"Gaps: median {_plain(row['p50'])} s, mean {_plain(row['mean'])} s, standard deviation"
        f" {heavier:.2g} means",
        "gap between two turns (s)",
        "share that is longer",
    )
    axes.legend()


def dependence(figure: Figure, result: Result) -> None:
    """Mean increments by number of turns (Assumption B.2), and gaps by turn (B.4)."""
    figure.set_size_inches(8.4, 3.8)
    left, right = figure.subplots(1, 2)
    sizes_test = result.summary["assumptions"]["size_independence"]
    rows = [row for row in sizes_test.get("by_turns", []) if row["later_blocks"] is not None]
    names = [row["turns"] for row in sizes_test.get("by_turns", [])]
    if names:
        series(left, names, [row["first_blocks"] for row in sizes_test["by_turns"]], "first turn", 0)
    if rows:
        series(left, [row["turns"] for row in rows], [row["later_blocks"] for row in rows], "later turns", 1)
    ratio = sizes_test.get("ratio")
    measured = ratio is not None and sizes_test["reusable_blocks"] >= 0.1
    finding = f"Reusable: {ratio:.2f} times what independent sizes give" if measured else "Sizes by length"
    label(left, finding, "turns of the conversation", "blocks a turn")
    left.set_ylim(bottom=0)
    if names:
        left.legend()
    by_turn = result.summary["assumptions"]["gap_independence"].get("by_turn", [])
    if by_turn:
        series(right, [r["turn"] for r in by_turn], [r["mean"] for r in by_turn], "mean", 0)
        series(right, [r["turn"] for r in by_turn], [r["median"] for r in by_turn], "median", 1)
        plain_log_scale(right, "y")
        right.legend()
        spread = _spread(by_turn)
        finding = "Gaps by turn" if spread is None else f"The median gap varies {spread:.2g}-fold by turn"
        label(right, finding, "gap follows turn", "gap (s)")
    else:
        nothing(right, "no gaps in the file")


def arrivals(figure: Figure, result: Result) -> None:
    """Dispersion of arrival counts against the width of the bins: 1 for Poisson."""
    axes = figure.subplots()
    rows = result.summary["assumptions"]["arrivals"].get("dispersion", [])
    if not rows:
        nothing(axes, "no arrivals to test: no common clock, or too short a file")
        return
    widths = [row["width_seconds"] for row in rows]
    around = np.array([5 * np.sqrt(2 / (row["bins"] - 1)) for row in rows])[[0, *range(len(rows)), -1]]
    series(axes, widths, [row["dispersion"] for row in rows], "counts in the file", 0)
    ends = [widths[0] / 1.1, *widths, widths[-1] * 1.1]  # a band also where there is one width
    axes.fill_between(ends, np.maximum(1 - around, 0), 1 + around, color="0.85", label="Poisson, 5 sigma")
    level(axes, 1, "")  # the legend names the band around it
    axes.set_xscale("log")
    axes.set_xticks(widths, [f"{width:g}" for width in widths])
    axes.minorticks_off()
    axes.set_xlim(widths[0] / 2, widths[-1] * 2)
    axes.set_ylim(bottom=0)
    off = [row for row in rows if not row["poisson"]]
    tested = f"all {len(rows)} widths" if len(rows) > 1 else f"the one width tested, {widths[0]:g} s"
    finding = (
        f"Arrivals look like Poisson at {tested}"
        if not off
        else f"Arrivals are not Poisson at {len(off)} of {len(rows)} widths: dispersion up to"
        f" {max(row['dispersion'] for row in rows):.3g}"
    )
    label(axes, finding, "width of the bins (s)", "variance / mean of arrivals")
    axes.legend()


def _exceedance(axes: Axes, result: Result, name: str, index: int, words: str | None = None) -> None:
    values, levels = result.arrays[name], result.arrays["quantile_levels"]
    axes.plot(values[:-1], 1 - levels[:-1], color=COLORS[index], label=words)
    positive = values[values > 0]
    if (
        positive.size and positive[-1] > 20 * positive[positive.size // 20]
    ):  # less is read better on a plain axis
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter("")
    axes.set_yscale("log")
    axes.set_ylim(top=1.4)


def _plain(number: float) -> str:
    """Three digits without a power of ten."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _spread(rows: list[dict]) -> float | None:
    medians = [row["median"] for row in rows if row["gaps"] >= 30 and row["median"] > 0]
    return max(medians) / min(medians) if len(medians) > 1 else None


FIGURES = {"turns": turns, "sizes": sizes, "gaps": gaps, "dependence": dependence, "arrivals": arrivals}
