"""Figures of collected sweeps, by experiment: `draw(figure, tables)`, tables as in `mfmc.collect.Collected`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from mfmc.plotting import COLORS, MARKERS, Drawing, label, look, plain_log_scale, reference, series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Tables = dict[str, list[dict[str, Any]]]

_SMALLEST = 1e-13  # differences below this are rounding


def drawings(experiment: str | None, tables: Tables) -> dict[str, Drawing]:
    """The figures of an experiment for which there are rows."""
    found = FIGURES.get(experiment or "", {})
    return {name: draw for name, (table, draw) in found.items() if tables.get(table)}


def _groups(rows: Iterable[dict], key: str) -> dict[Any, list[dict]]:
    """Rows by the value of a column, in order of appearance."""
    found: dict[Any, list[dict]] = {}
    for row in rows:
        found.setdefault(row.get(key), []).append(row)
    return found


def _column(rows: list[dict], key: str) -> np.ndarray:
    return np.array([row[key] for row in rows], dtype=float)


def errors_of_the_limit(figure: Figure, tables: Tables) -> None:
    """|h_inf - h(N)| of the mean field and, where it applies, of the refinement, against N."""
    figure.set_size_inches(6.4, 4.8)
    axes = figure.subplots()
    groups = _groups(tables["table"], "workload")
    middle = sorted({row["capacity"] for row in tables["table"]})[len({r["capacity"] for r in tables["table"]}) // 2]
    gains, highest = [], 0.0
    for i, (workload, rows) in enumerate(groups.items()):
        rows = sorted(rows, key=lambda row: row["capacity"])
        capacity, exact = _column(rows, "capacity"), _column(rows, "exact")
        known = [kind for kind in ("mean_field", "refined") if rows[0].get(kind) is not None]
        errors = {kind: np.abs(_column(rows, kind) - exact) for kind in known}
        for kind, error in errors.items():
            shown = np.where(error > _SMALLEST, error, np.nan)
            style = {"linestyle": "-"} if kind == "mean_field" else {"linestyle": "--", "mfc": "white"}
            axes.plot(capacity, shown, **(look(i) | style), label=f"{workload}: {kind.replace('_', ' ')}")
        highest = max(highest, float(errors["mean_field"][0] * capacity[0]))
        if "refined" in errors and middle in capacity:
            at = list(capacity).index(middle)
            gains.append(errors["mean_field"][at] / max(errors["refined"][at], _SMALLEST))
        axes.plot(capacity, _column(rows, "conditional_standard_error"), color=COLORS[i], linestyle=":", linewidth=1)
    axes.plot([], [], color="0.35", linestyle=":", linewidth=1, label="standard error of Monte Carlo")
    ends = np.array([min(r["capacity"] for r in tables["table"]), max(r["capacity"] for r in tables["table"])])
    reference(axes, ends, 1.5 * highest / ends, "1/N")
    axes.set(xscale="log", yscale="log")
    finding = "The limit is off by c/N"
    if gains:
        least, most = _rounded(min(gains)), _rounded(max(gains))
        times = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        finding = f"The refined formula is {times} times closer than the limit at N = {middle:,}"
    figure.suptitle(finding, x=0.02, ha="left", fontsize=10.5)
    label(axes, "", "memory N (blocks), arrival rate in proportion", "distance from the exact hit ratio h(N)")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)


def _rounded(value: float) -> int:
    """To one significant digit, for words."""
    return int(float(f"{value:.0e}"))


def agreement(figure: Figure, tables: Tables) -> None:
    """Monte Carlo and LRU replay minus the exact h(N), in standard errors, beside the range that holds 95%."""
    panels = figure.subplots(1, 2, sharey=True)
    figure.set_size_inches(8.4, 3.8)
    worst = 0.0
    groups = _groups(tables["table"], "workload")
    for axes, (kind, words) in zip(panels, (("conditional", "Monte Carlo"), ("replay", "LRU replay"))):
        axes.axhspan(-1.96, 1.96, color="0.85", linewidth=0, label="95% of the time")
        axes.axhline(0, color="0.35", linewidth=0.8)
        for i, (workload, rows) in enumerate(groups.items()):
            distance = _column(rows, f"{kind}_estimate") - _column(rows, "exact")
            deviation = distance / _column(rows, f"{kind}_standard_error")
            worst = max(worst, float(np.abs(deviation).max()))
            shift = 1.15 ** (i - (len(groups) - 1) / 2)  # so that no marker hides another
            fill = "white" if i % 2 else COLORS[i]
            capacity = shift * _column(rows, "capacity")
            axes.plot(capacity, deviation, MARKERS[i], color=COLORS[i], mfc=fill, label=workload)
        axes.set(xscale="log")
        label(axes, words, "memory N (blocks), arrival rate in proportion", "")
    limit = max(3.0, 1.2 * worst)
    panels[0].set_ylim(-limit, limit)
    panels[0].set_ylabel("estimate - exact h(N) (standard errors)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(groups) + 1)
    count = 2 * len(tables["table"])
    finding = "Simulation agrees with the exact law" if worst < 4 else "Simulation departs from the exact law"
    finding += f": the worst of {count} estimates is {worst:.1f} standard errors off"
    figure.suptitle(finding, x=0.02, ha="left", fontsize=10.5)


def fitted_rates(figure: Figure, tables: Tables) -> None:
    """Fitted exponents of the displacement against N, with intervals, beside those that the paper proves."""
    figure.set_size_inches(7.2, 3.8)
    axes = figure.subplots()
    rows = sorted(tables["rates"], key=lambda row: row["quantity"] != "mean sup")
    kinds = list(dict.fromkeys(row["quantity"] for row in rows))
    for place, row in enumerate(rows):
        i = kinds.index(row["quantity"])
        below, above = row["slope"] - row["low"], row["high"] - row["slope"]
        axes.errorbar(row["slope"], -place, xerr=[[below], [above]], fmt=MARKERS[i], color=COLORS[i], capsize=3)
    names = [f"{row['quantity']}, {row.get('workload', '')}".rstrip(", ") for row in rows]
    axes.set_yticks([-place for place in range(len(rows))], names)
    for slope, name in ((-1 / 2, "$-1/2$"), (-1 / 3, "$-1/3$, proven for the sup (20)")):
        axes.axvline(slope, color="0.35", linestyle=":")
        axes.annotate(name, (slope, 1.0), (3, -3), xycoords=("data", "axes fraction"), textcoords="offset points",
                      va="top", fontsize=8.5)  # fmt: skip
    axes.set_ylim(-len(rows) + 0.3, 1.2)
    axes.set_xlim(right=max(-0.2, axes.get_xlim()[1]))
    axes.locator_params(axis="x", nbins=6)
    sups = [row for row in rows if row["quantity"] == "mean sup"]
    steeper = bool(sups) and all(row["high"] < -1 / 3 for row in sups)
    slopes = [row["slope"] for row in sups or rows]
    span = " to ".join(dict.fromkeys(f"{slope:.2f}" for slope in (min(slopes), max(slopes))))
    finding = f"The {(sups or rows)[0]['quantity']} falls as N to the power {span}"
    finding += ", faster than proven" if steeper else ""
    label(axes, "", "fitted exponent of N, with its 95% interval", "")
    figure.suptitle(finding, x=0.02, ha="left", fontsize=10.5)


def looseness(figure: Figure, tables: Tables) -> None:
    """Bound (16) over the exact probability, against epsilon, for every N: one panel a workload."""
    figure.set_size_inches(8.4, 4.2)
    rows = [row for row in tables["table"] if row["exact"] > _SMALLEST and row["bound"] is not None]
    groups = _groups(rows, "workload")
    panels = np.atleast_1d(figure.subplots(1, len(groups), sharey=True))
    for axes, (workload, rows) in zip(panels, groups.items()):
        for i, (capacity, chosen) in enumerate(_groups(rows, "capacity").items()):
            ratio = [_times_too_large(row) for row in chosen]
            series(axes, _column(chosen, "epsilon"), ratio, f"N = {capacity:,}", i)
        axes.set(yscale="log")
        plain_log_scale(axes)
        label(axes, str(workload), _EPSILON, "bound (16), at most 1, over exact probability")
        axes.label_outer()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    worst = max(rows, key=_times_too_large)
    where = f"{worst['workload']}, N = {worst['capacity']:,}, $\\varepsilon$ = {worst['epsilon']:g}"
    power = math.floor(math.log10(_times_too_large(worst)))
    finding = f"Bound (16) is over $10^{{{power}}}$ times too large at {where} (probabilities above $10^{{-13}}$)"
    figure.suptitle(finding, x=0.02, ha="left", fontsize=10.5)


_EPSILON = "deviation $\\varepsilon$ (share of N)"


def _times_too_large(row: dict) -> float:
    return min(row["bound"], 1.0) / row["exact"]


def sup_looseness(figure: Figure, tables: Tables) -> None:
    """P(sup > epsilon) by simulation, with its 95% interval, beside bound (17), against epsilon for every N."""
    figure.set_size_inches(8.4, 4.2)
    groups = _groups(tables["displacement_sup"], "workload")
    panels = np.atleast_1d(figure.subplots(1, len(groups), sharey=True))
    speaking = []
    for axes, (workload, rows) in zip(panels, groups.items()):
        for i, (capacity, chosen) in enumerate(_groups(rows, "capacity").items()):
            seen = [row for row in chosen if row["estimate"] > 0]
            series(
                axes, _column(seen, "epsilon"), _column(seen, "estimate"), f"N = {capacity:,}", i,
                low=_column(seen, "low"), high=_column(seen, "high"),
            )  # fmt: skip
            below = [row for row in chosen if row["bound"] is not None and row["bound"] < 1]
            speaking += below
            axes.plot(
                _column(below, "epsilon"), _column(below, "bound"), color=COLORS[i], linestyle=":",
                marker=MARKERS[i], mfc="white",
            )  # fmt: skip
        axes.set(yscale="log")
        plain_log_scale(axes)
        label(axes, str(workload), _EPSILON, "P(sup of the deviation > $\\varepsilon$)")
        axes.label_outer()
    panels[0].plot([], [], color="0.35", linestyle=":", marker="o", mfc="white", label="bound (17), where below 1")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    total = len(tables["displacement_sup"])
    finding = f"Bound (17) is below 1 in {len(speaking)} of {total} cases"
    if speaking:
        most = max(row["estimate"] for row in speaking)
        finding += f"; there {f'at most {most:.2%}' if most else 'none'} of the simulated paths deviate that far"
    figure.suptitle(finding, x=0.02, ha="left", fontsize=10.5)


def gap_laws(figure: Figure, tables: Tables) -> None:
    """T_C and h_inf at one memory for every law of the gap: one line a law, least served at the bottom."""
    rows = [row for row in tables["table"] if row["accounting"] == tables["table"][0]["accounting"]]
    sizes = sorted({row["capacity"] for row in rows})
    middle = sizes[(len(sizes) - 1) // 2]
    chosen = sorted((row for row in rows if row["capacity"] == middle), key=lambda row: row["hit_ratio"])
    figure.set_size_inches(8.4, 4.2)
    left, right = figure.subplots(1, 2, sharey=True)
    places = range(len(chosen))
    left.plot(_column(chosen, "characteristic_time"), places, MARKERS[0], color=COLORS[0], markersize=6)
    right.plot(_column(chosen, "hit_ratio"), places, MARKERS[1], color=COLORS[1], markersize=6)
    left.set_yticks(places, [_law(row["workload.gaps"]) for row in chosen])
    right.set_xlim(left=0)
    label(left, "", "$T_C$ (the gaps' unit of time)", "")
    label(right, "", f"hit ratio ({rows[0]['accounting']} accounting)", "")
    least, most = chosen[0]["hit_ratio"], chosen[-1]["hit_ratio"]
    finding = f"One mean gap, {len(chosen)} laws: {middle:,} blocks serve from {least:.0%} to {most:.0%}"
    figure.suptitle(finding, x=0.02, ha="left", fontsize=10.5)


def _law(text: str) -> str:
    """{kind:hyperexponential,mean:null,weights:[0.8,0.2],means:[30,555]} in words: no braces, nothing that is unset."""
    entries = re.findall(r"(\w+):\s*(\[[^\]]*\]|[^,}]+)", text)
    return ", ".join(
        value if key == "kind" else f"{key} {value.strip('[]').replace(',', '/')}"
        for key, value in entries
        if value != "null"
    )


def _hit_ratio_against(column: str, finding: str, x: str, scale: str) -> Callable[[Figure, Tables], None]:
    def draw(figure: Figure, tables: Tables) -> None:
        axes = figure.subplots()
        rows = [row for row in tables["table"] if row["accounting"] == tables["table"][0]["accounting"]]
        for i, (capacity, chosen) in enumerate(_groups(rows, "capacity").items()):
            chosen = sorted(chosen, key=lambda row: row[column])
            series(axes, _column(chosen, column), _column(chosen, "hit_ratio"), f"{capacity:,} blocks", i)
        ceiling = sorted(next(iter(_groups(rows, "capacity").values())), key=lambda row: row[column])
        reference(axes, _column(ceiling, column), _column(ceiling, "reuse_ceiling"), "ceiling: all that returns")
        if scale == "log":
            plain_log_scale(axes)
        axes.set_ylim(bottom=0)
        label(axes, finding, x, f"hit ratio ({rows[0]['accounting']} accounting)")
        axes.legend()

    return draw


def block_sizes(figure: Figure, tables: Tables) -> None:
    """Hit ratio against the memory in tokens, one curve per block size, at memories that all sizes have in common;
    practical accounting and whole content.
    """
    figure.set_size_inches(8.4, 4.2)
    groups = _groups([r for r in tables["table"] if r["accounting"] != "token"], "accounting")
    panels = np.atleast_1d(figure.subplots(1, len(groups), sharey=True))
    finding = "Large blocks need more memory"
    for axes, (accounting, rows) in zip(panels, groups.items()):
        curves = {
            size: {row["capacity"] * size: row["hit_ratio"] for row in chosen}
            for size, chosen in sorted(_groups(rows, "workload.block_tokens").items())
        }
        memories = sorted(set.intersection(*map(set, curves.values())))
        for i, (size, curve) in enumerate(curves.items()):
            shown = memories or sorted(curve)
            series(axes, np.array(shown) / 1e6, [curve[memory] for memory in shown], f"{size} tokens", i)
        if accounting == "practical" and memories:
            most = {size: curve[memories[-1]] for size, curve in curves.items()}
            small, large = min(most), max(most)
            finding = (
                f"Tails without a hash: blocks of {large} tokens serve {most[large]:.0%} at best, blocks of {small}"
                f" serve {most[small]:.0%}"
            )
        plain_log_scale(axes)
        label(axes, f"{accounting} accounting", "memory (million tokens)", "hit ratio")
        axes.label_outer()
    panels[0].legend(title="a block has")
    figure.suptitle(finding, x=0.02, ha="left", fontsize=10.5)


#: experiment -> figure -> the table that it needs, and what draws it
FIGURES: dict[str, dict[str, tuple[str, Drawing]]] = {
    "scaling": {
        "errors": ("table", errors_of_the_limit),
        "agreement": ("table", agreement),
        "rates": ("rates", fitted_rates),
    },
    "bounds": {"looseness": ("table", looseness), "sup": ("displacement_sup", sup_looseness)},
    "gap_laws": {"gap_laws": ("table", gap_laws)},
    "load": {
        "hit_ratio": (
            "table",
            _hit_ratio_against(
                "workload.arrival_rate", "Twice the load takes twice the memory to serve as much",
                "arrival rate (conversations per unit time)", "log",
            ),
        )
    },
    "turns": {
        "hit_ratio": (
            "table",
            _hit_ratio_against(
                "workload.turns.continuation", "Longer conversations raise the ceiling, and ask for more memory",
                "probability that a conversation goes on", "linear",
            ),
        )
    },
    "practical": {"block_sizes": ("table", block_sizes)},
}
