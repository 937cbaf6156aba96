"""Figures of `study=cache_budget`."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from mfmc.plotting import COLORS, label, level, look, plain_log_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mfmc.studies.result import Result

DESIGN_NAMES = {
    "every_checkpoint": "every checkpoint (as published)",
    "keep_longest": "keep longest only",
    "value_per_byte": "value per byte",
    "shared_blocks": "prefix sharing by blocks",
    "whole_conversation": "whole-conversation LRU",
    "no_cache": "no cache",
}
BRANCHES = {"A": COLORS[0], "B": COLORS[4]}


def why_larger_evicts_more(figure: Figure, result: Result) -> None:
    """What each budget holds in the alternating trace: bars are checkpoints, from admission to eviction."""
    stays = result.tables["residence"]
    outcome = {row["budget"]: row for row in result.tables["table"] if row["trace"] == "alternating"}
    budgets = sorted(outcome)
    working_set = max((stay["bottom"] + stay["nbytes"] for stay in stays), default=1)
    figure.set_size_inches(8.6, 6.4)
    rows = figure.subplots(len(budgets), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    for axes, budget in zip(rows, budgets):
        requests = int(outcome[budget]["requests"])
        draw_stays(axes, [stay for stay in stays if stay["budget"] == budget], requests)
        if budget < 1.2 * working_set:
            axes.axhline(budget, color="black", linewidth=1.6)
            axes.annotate(
                f"budget {budget:,} B",
                (0.05, budget),
                xytext=(0, 2),
                textcoords="offset points",
                fontsize=8.5,
            )
        axes.axhline(working_set, color="0.4", linestyle=":", linewidth=1.2)
        row = outcome[budget]
        axes.text(
            1.015,
            0.5,
            f"{budget / 1024:g} KiB\n{row['evictions']} evictions\n{row['hits']} hits in {requests}\n"
            f"{row['projected_rows']} rows computed",
            transform=axes.transAxes,
            va="center",
            fontsize=9.5,
            fontweight="bold" if row["hits"] else "normal",
        )
        axes.grid(False)
        axes.set_ylim(0, 1.18 * working_set)
        axes.set_yticks([0, 4000, 8000, 12000], ["0", "4,000", "8,000", "12,000"])
        axes.set_ylabel("resident (bytes)")
    rows[0].annotate(
        f"both branches, complete: {working_set:,} B",
        (requests, working_set),
        xytext=(0, 2),
        textcoords="offset points",
        ha="right",
        fontsize=8.5,
        color="0.3",
    )
    rows[-1].set_xticks(np.arange(requests) + 0.5, [f"{i + 1}\n{'AB'[i % 2]}" for i in range(requests)])
    rows[-1].tick_params(axis="x", length=0)
    rows[-1].set_xlabel(
        "request, and its branch   (✓ hit   × eviction   B8: checkpoint of branch B after 8 tokens)"
    )
    rows[0].set_title(eviction_finding([outcome[budget] for budget in budgets]))


def eviction_finding(outcome: list[dict[str, Any]]) -> str:
    """The title: the first step to a larger budget that evicts more and serves no more hits."""
    for few, more in pairwise(outcome):
        if more["evictions"] > few["evictions"] and more["hits"] == few["hits"]:
            return (
                f"{more['budget'] / 1024:g} KiB keep two checkpoints of one branch where"
                f" {few['budget'] / 1024:g} KiB keep one,\nso each switch of branch evicts two:"
                f" {more['evictions']} evictions against {few['evictions']},"
                f" and still {more['hits'] or 'no'} hits"
            )
    return "What each budget holds while two branches alternate"


def draw_stays(axes: Axes, stays: list[dict[str, Any]], requests: int) -> None:
    """Checkpoints as bars; a cross where one is evicted, a tick above a request that reuses."""
    for stay in stays:
        left = stay["left"] if stay["left"] is not None else requests
        axes.barh(
            stay["bottom"] + stay["nbytes"] / 2,
            left - stay["entered"],
            height=0.93 * stay["nbytes"],
            left=stay["entered"],
            color=BRANCHES[stay["prefix"]],
            edgecolor="white",
            linewidth=0.8,
        )
        if left - stay["entered"] > 0.4:
            axes.text(
                stay["entered"] + 0.12,
                stay["bottom"] + stay["nbytes"] / 2,
                f"{stay['prefix']}{stay['length']}",
                color="white" if stay["prefix"] == "A" else "black",
                fontsize=8,
                va="center",
            )
        if stay["left"] is not None:
            axes.plot(
                left,
                stay["bottom"] + stay["nbytes"] / 2,
                "x",
                color="black",
                markersize=6,
                markeredgewidth=1.6,
            )
    admitting = {int(stay["entered"]) for stay in stays}
    for request in set(range(requests)) - admitting:
        axes.text(request + 0.5, 0.93, "✓", transform=axes.get_xaxis_transform(), ha="center", size=12)
    axes.set_xlim(0, requests)


def fixed_budgets(figure: Figure, result: Result) -> None:
    """Projected rows (above) and evictions (below) against the budget, for each fixed trace and design."""
    figure.set_size_inches(10.2, 5.6)
    sweep = result.tables["fixed_sweep"]
    thresholds = {(row["design"], row["trace"]): row for row in result.tables["fixed_thresholds"]}
    titles = {
        "hot": "Hot prefix",
        "alternating": "Two alternating branches",
        "scopes": "Three scopes in turn",
    }
    panels = figure.subplots(2, len(titles), sharex=True, sharey="row")
    largest = max(row["predicted_bytes"] or 0 for row in thresholds.values()) * 1.15
    for column, (trace, title) in enumerate(titles.items()):
        for i, (design, name) in enumerate((d, n) for d, n in DESIGN_NAMES.items() if d != "no_cache"):
            rows = [row for row in sweep if row["design"] == design and row["trace"] == trace]
            rows = sorted((row for row in rows if row["budget"] <= largest), key=lambda row: row["budget"])
            budget = [row["budget"] for row in rows]
            style = {**look(i, marker=False), "drawstyle": "steps-post", "alpha": 0.9}
            panels[0, column].plot(budget, [row["projected_rows"] for row in rows], label=name, **style)
            panels[1, column].plot(budget, [row["evictions"] for row in rows], **style)
        wanted = thresholds["every_checkpoint", trace]["predicted_bytes"]
        for axes in panels[:, column]:
            axes.axvline(wanted, color=COLORS[0], linewidth=0.9, linestyle=":")
        panels[0, column].set_title(title)
        panels[1, column].set_xlabel("budget (bytes)")
        panels[1, column].xaxis.set_major_formatter("{x:,.0f}")
        panels[1, column].set_xticks([0, 4096, 8192, 12288, 16384])
    panels[0, 0].set_ylim(0, 900)
    panels[0, 0].set_ylabel("projected rows, 12 requests")
    panels[1, 0].set_ylabel("evictions, 12 requests")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    found = thresholds["every_checkpoint", "alternating"]["begins_to_pay_bytes"]
    value = thresholds["value_per_byte", "alternating"]["begins_to_pay_bytes"]
    figure.suptitle(
        f"With a checkpoint at every boundary, alternating branches save nothing below {found:,} B,"
        f" as predicted (dotted);\nadmission by value saves from {value:,} B on",
        x=0.01,
        ha="left",
    )


def conversation_budgets(figure: Figure, result: Result) -> None:
    """Hit ratio against the budget on the long trace: found (markers) and predicted from T_C (lines)."""
    figure.set_size_inches(8.6, 5.0)
    axes = figure.subplots()
    sweep = result.tables["conversation_sweep"]
    block = result.summary["block_bytes"]
    ceiling = result.summary["reuse_ceiling"]
    for i, (design, name) in enumerate((d, n) for d, n in DESIGN_NAMES.items() if d != "no_cache"):
        rows = sorted((row for row in sweep if row["design"] == design), key=lambda row: row["budget"])
        style = {**look(i), "linestyle": "none", "markerfacecolor": "none" if i else None}
        axes.plot(
            [row["budget"] / 1e6 for row in rows], [row["hit_ratio"] for row in rows], label=name, **style
        )
    for curve, name, i in (
        ("displacement_every_checkpoint", "$T_C$: every checkpoint", 0),
        ("displacement_once", "$T_C$: every block once", 1),
    ):
        filled = np.maximum.accumulate(result.arrays[curve]) * block / 1e6
        hits = ceiling * result.arrays["displacement_cdf"]
        axes.plot([*filled, 2 * filled[-1]], [*hits, hits[-1]], label=name, **look(i, marker=False))
    axes.plot(
        result.arrays["exact_capacity"] * block / 1e6,
        result.arrays["exact_hit_ratio"],
        color="black",
        linestyle=":",
        linewidth=1.4,
        label="exact law, every block once",
    )
    level(axes, ceiling, "reuse ceiling")
    half = {
        row["design"]: row["found_bytes"] / 1e6
        for row in result.tables["conversation_thresholds"]
        if row["share_of_ceiling"] == 0.5
    }
    plain_log_scale(axes)
    axes.set_xlim(min(row["budget"] for row in sweep) / 1e6, max(row["budget"] for row in sweep) / 1e6)
    axes.set_ylim(0, 1.12 * ceiling)
    label(
        axes,
        f"Full-prefix checkpoints need {half['every_checkpoint'] / half['keep_longest']:.1f} times the memory"
        " of a design that holds every block once,\nand then jump: memory pays where $T_C$ reaches the gaps",
        "budget (MB)",
        "share of prompt tokens reused",
    )
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)


def bistability(figure: Figure, result: Result) -> None:
    """Left: d(t) of both kinds of design, and a budget with several roots. Right: cold and warm starts."""
    figure.set_size_inches(9.6, 4.2)
    curve, outcome = figure.subplots(1, 2)
    block = result.summary["block_bytes"] / 1e6
    times = result.arrays["displacement_time"]
    every = result.arrays["displacement_every_checkpoint"] * block
    once = result.arrays["displacement_once"] * block
    curve.plot(times, every, label="every checkpoint", **look(0, marker=False))
    curve.plot(times, once, label="every block once", **look(1, marker=False))
    starts = sorted(result.tables["starts"], key=lambda row: row["budget"])
    apart = max(starts, key=lambda row: row["after_plenty_hit_ratio"] - row["cold_hit_ratio"])
    budget = apart["budget"] / 1e6
    curve.axhline(budget, color="black", linewidth=1)
    curve.annotate(
        f"budget {budget:.1f} MB", (0, budget), xytext=(0, 3), textcoords="offset points", fontsize=8.5
    )
    roots = np.flatnonzero(np.diff(np.sign(every - budget)))
    curve.plot(times[roots], np.full(len(roots), budget), "o", color="black")
    for root, name, shift, side in ((roots[0], "cold", -7, "right"), (roots[-1], "had more", 7, "left")):
        curve.annotate(
            name,
            (times[root], budget),
            xytext=(shift, -12),
            textcoords="offset points",
            ha=side,
            fontsize=8.5,
        )
    label(
        curve,
        f"Full prefixes: {apart['roots']} characteristic times at one budget",
        "time t since the last use (unit of the gaps)",
        "displaced d(t) (MB)",
    )
    curve.set_ylim(bottom=0)
    curve.legend(loc="lower right")
    x = [row["budget"] / 1e6 for row in starts]
    outcome.plot(x, [row["cold_hit_ratio"] for row in starts], label="cold cache", **look(0))
    outcome.plot(
        x, [row["after_plenty_hit_ratio"] for row in starts], label="once had more memory", **look(1)
    )
    outcome.set_ylim(bottom=-0.02)
    label(
        outcome,
        f"At {budget:.1f} MB the same trace reuses {apart['cold_hit_ratio']:.0%}"
        f" or {apart['after_plenty_hit_ratio']:.0%}",
        "budget (MB)",
        "share of prompt tokens reused",
    )
    outcome.legend(loc="upper left")


def times(figure: Figure, result: Result) -> None:
    """Time of a request by stage, for every design, in each case measured."""
    rows = result.tables["times"]
    cases = list(dict.fromkeys((row["block_tokens"], row["width"]) for row in rows))
    figure.set_size_inches(9.6, 1.2 + 2.6 * len(cases))
    stages = ("compute", "copy", "lookup", "bookkeeping")
    for axes, case in zip(figure.subplots(len(cases), 1, squeeze=False)[:, 0], cases):
        chosen = [row for row in rows if (row["block_tokens"], row["width"]) == case]
        left = np.zeros(len(chosen))
        for stage, color, hatch in zip(stages, (COLORS[0], COLORS[4], COLORS[2], COLORS[3]), ("", "//", "xx", "..")):
            values = np.array([row[f"{stage}_us"] for row in chosen])
            axes.barh(range(len(chosen)), values, left=left, color=color, hatch=hatch, label=stage, height=0.7)
            left += values
        for place, row in enumerate(chosen):
            axes.annotate(
                f"× {row['time_against_no_cache']:.2f}, {row['hit_ratio']:.0%} reused",
                (left[place], place),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=8.5,
            )
        axes.set_yticks(range(len(chosen)), [DESIGN_NAMES[row["design"]] for row in chosen])
        axes.invert_yaxis()
        axes.grid(False, axis="y")
        axes.set_xlim(0, 1.3 * left.max())
        best = min((row for row in chosen if row["design"] != "no_cache"), key=lambda row: row["total_us"])
        label(
            axes,
            f"Blocks of {case[0]} tokens, width {case[1]}: the best cache takes"
            f" {best['time_against_no_cache']:.2f} times as long as no cache",
            "time of a request (µs)",
            "",
        )
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=len(stages))


FIGURES = {
    "why_larger_evicts_more": why_larger_evicts_more,
    "fixed_budgets": fixed_budgets,
    "conversation_budgets": conversation_budgets,
    "bistability": bistability,
    "times": times,
}
