"""Figures of collected sweeps, by experiment: `draw(figure, tables)`, tables as in `mfmc.collect.Collected`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from mfmc.plotting import COLORS, MARKERS, Drawing, label, look, reference, series

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
    """|h_inf - h(N)| of the mean field and, where the study gives it, of the refinement, against N."""
    axes = figure.subplots()
    smallest, largest = np.inf, 0.0
    for i, (workload, rows) in enumerate(_groups(tables["table"], "workload").items()):
        rows = sorted(rows, key=lambda row: row["capacity"])
        capacity, exact = _column(rows, "capacity"), _column(rows, "exact")
        for kind, dash in (("mean_field", "-"), ("refined", "--")):
            if kind not in rows[0]:
                continue
            error = np.maximum(np.abs(_column(rows, kind) - exact), _SMALLEST)
            name = f"{workload}: {kind.replace('_', ' ')}"
            axes.plot(capacity, error, **(look(i) | {"linestyle": dash}), label=name)
            if kind == "mean_field":
                smallest, largest = min(smallest, capacity[0]), max(largest, error[0])
        noise = _column(rows, "conditional_standard_error")
        axes.plot(capacity, noise, color=COLORS[i], linestyle=":", linewidth=1)
    grid = np.geomspace(smallest, max(row["capacity"] for row in tables["table"]), 2)
    reference(axes, grid, 1.5 * largest * smallest / grid, "1/N")
    axes.set(xscale="log", yscale="log")
    label(
        axes, "The limit is off by c/N, and the refinement by less",
        "memory N (blocks), arrival rate in proportion", "|approximation - exact h(N)|  (dotted: Monte Carlo error)",
    )
    axes.legend()


def fitted_rates(figure: Figure, tables: Tables) -> None:
    """Fitted exponents of the displacement against N, with intervals, beside those that the paper proves."""
    axes = figure.subplots()
    rows = tables["rates"]
    for place, row in enumerate(rows):
        axes.errorbar(
            row["slope"], place, xerr=[[row["slope"] - row["low"]], [row["high"] - row["slope"]]], fmt="o",
            color=COLORS[0], capsize=3,
        )
    axes.set_yticks(range(len(rows)), [f"{row.get('workload', '')} {row['quantity']}" for row in rows])
    for slope, name in ((-1 / 2, "$N^{-1/2}$"), (-1 / 3, "$N^{-1/3}$")):
        axes.axvline(slope, color="0.35", linestyle=":")
        axes.annotate(name, (slope, 0.02), xycoords=("data", "axes fraction"), fontsize=8.5)
    axes.locator_params(axis="x", nbins=5)
    axes.set_ylim(-1, len(rows))
    label(axes, "Deviations fall as the square root of N, the sup too", "exponent of N (95% interval)", "")


def looseness(figure: Figure, tables: Tables) -> None:
    """Bound (16) over the exact probability, against epsilon, for every N: one panel a workload."""
    groups = _groups(tables["table"], "workload")
    panels = np.atleast_1d(figure.subplots(1, len(groups), sharey=True))
    for axes, (workload, rows) in zip(panels, groups.items()):
        for i, (capacity, chosen) in enumerate(_groups(rows, "capacity").items()):
            chosen = [row for row in chosen if row["exact"] > _SMALLEST and row["bound"] is not None]
            ratio = [min(row["bound"], 1.0) / row["exact"] for row in chosen]
            if chosen:
                series(axes, _column(chosen, "epsilon"), ratio, f"N = {capacity:,}", i)
        axes.set(yscale="log")
        label(axes, str(workload), "deviation epsilon", "bound (16), at most 1, over exact probability")
        axes.label_outer()
    panels[0].legend()
    figure.suptitle("How many times too large the bound is", x=0.02, ha="left", fontsize=10.5)


def sup_looseness(figure: Figure, tables: Tables) -> None:
    """P(sup > epsilon) by simulation beside bound (17), against N, for the epsilons that were seen."""
    groups = _groups(tables["displacement_sup"], "workload")
    panels = np.atleast_1d(figure.subplots(1, len(groups), sharey=True))
    for axes, (workload, rows) in zip(panels, groups.items()):
        for i, (epsilon, chosen) in enumerate(_groups(rows, "epsilon").items()):
            capacity = _column(chosen, "capacity")
            estimate = _column(chosen, "estimate")
            axes.plot(capacity, np.where(estimate > 0, estimate, np.nan), label=f"epsilon = {epsilon}", **look(i))
            bound = [np.nan if row["bound"] is None else min(row["bound"], 1.0) for row in chosen]
            axes.plot(capacity, bound, **(look(i, marker=False) | {"linestyle": ":"}))
        axes.set(xscale="log", yscale="log")
        label(axes, str(workload), "memory N (blocks)", "P(sup > epsilon); dotted: bound (17), at most 1")
        axes.label_outer()
    panels[0].legend()
    figure.suptitle("The bound on the sup says something only for large N", x=0.02, ha="left", fontsize=10.5)


def gap_laws(figure: Figure, tables: Tables) -> None:
    """T_C and h_inf at one memory for every law of the gap: one line a law."""
    rows = [row for row in tables["table"] if row["accounting"] == tables["table"][0]["accounting"]]
    groups = _groups(rows, "workload.gaps")
    middle = sorted({row["capacity"] for row in rows})[len({row["capacity"] for row in rows}) // 2 - 1]
    figure.set_size_inches(7.6, 4.2)
    left, right = figure.subplots(1, 2, sharey=True)
    for place, chosen in enumerate(groups.values()):
        row = next(row for row in chosen if row["capacity"] == middle)
        for axes, quantity in ((left, "characteristic_time"), (right, "hit_ratio")):
            axes.plot(row[quantity], place, MARKERS[0], color=COLORS[0], markersize=6)
    left.set_yticks(range(len(groups)), [_law(name) for name in groups])
    label(left, "", "characteristic time T_C", "")
    label(right, "", "hit ratio", "")
    finding = f"Gaps of one mean in a memory of {middle:,} blocks: the more they vary, the more is served"
    figure.suptitle(finding, x=0.02, ha="left", fontsize=10.5)


def _law(text: str) -> str:
    """{kind:gamma,shape:4,mean:null} as `gamma shape 4`."""
    parts = text.strip("{}").replace("kind:", "").split(",")
    return " ".join(part.replace(":", " ") for part in parts if not part.endswith("null"))


def _hit_ratio_against(column: str, finding: str, x: str, scale: str) -> Callable[[Figure, Tables], None]:
    def draw(figure: Figure, tables: Tables) -> None:
        axes = figure.subplots()
        rows = [row for row in tables["table"] if row["accounting"] == tables["table"][0]["accounting"]]
        for i, (capacity, chosen) in enumerate(_groups(rows, "capacity").items()):
            chosen = sorted(chosen, key=lambda row: row[column])
            series(axes, _column(chosen, column), _column(chosen, "hit_ratio"), f"{capacity:,} blocks", i)
        ceiling = sorted(next(iter(_groups(rows, "capacity").values())), key=lambda row: row[column])
        reference(axes, _column(ceiling, column), _column(ceiling, "reuse_ceiling"), "ceiling: all that returns")
        axes.set_xscale(scale)
        axes.set_ylim(bottom=0)
        label(axes, finding, x, f"hit ratio ({rows[0]['accounting']} accounting)")
        axes.legend()

    return draw


def block_sizes(figure: Figure, tables: Tables) -> None:
    """Hit ratio against the memory in tokens, one curve per block size; practical accounting and whole content."""
    groups = _groups([r for r in tables["table"] if r["accounting"] != "token"], "accounting")
    panels = np.atleast_1d(figure.subplots(1, len(groups), sharey=True))
    for axes, (accounting, rows) in zip(panels, groups.items()):
        for i, (size, chosen) in enumerate(_groups(rows, "workload.block_tokens").items()):
            series(axes, _column(chosen, "capacity") * size, _column(chosen, "hit_ratio"), f"{size} tokens", i)
        axes.set_xscale("log")
        label(axes, f"{accounting} accounting", "memory (tokens)", "hit ratio")
        axes.label_outer()
    panels[0].legend(title="a block has")
    figure.suptitle("Large blocks leave the tail of every turn without a hash", x=0.02, ha="left", fontsize=10.5)


#: experiment -> figure -> the table that it needs, and what draws it
FIGURES: dict[str, dict[str, tuple[str, Drawing]]] = {
    "scaling": {"errors": ("table", errors_of_the_limit), "rates": ("rates", fitted_rates)},
    "bounds": {"looseness": ("table", looseness), "sup": ("displacement_sup", sup_looseness)},
    "gap_laws": {"gap_laws": ("table", gap_laws)},
    "load": {
        "hit_ratio": (
            "table",
            _hit_ratio_against(
                "workload.arrival_rate", "Load shortens the time that content stays",
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
