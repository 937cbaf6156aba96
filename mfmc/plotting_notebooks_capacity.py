"""Figures of the notebooks on hit ratios and capacity planning: each fills an empty figure from plain arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mfmc.plotting import COLORS, MARKERS, label, level, look, plain_log_scale, power_law_line, series
from mfmc.plotting_notebooks import finding

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIGMAS = 1.96


def draw_residence(figure: Figure, time: Any, density: Any, resident: Mapping[int, np.ndarray], limit: float) -> None:
    """P(tau_C > t) for each N, the step at T_C, and the density of the gap that both are averaged over."""
    axes = figure.subplots()
    axes.fill_between(time, 0, density / density.max(), color="0.88", label="density f(t) of the gap (scaled)")
    for i, (capacity, curve) in enumerate(resident.items()):
        axes.plot(time, curve, label=f"N = {capacity:,}", **look(i, marker=False))
    axes.step([0, limit, time[-1]], [1, 0, 0], where="post", color="black", linewidth=1.2, label="limit")
    axes.set(xlim=(0, time[-1]), ylim=(0, 1.03))
    label(
        axes, f"At finite N the time-out at $T_C$ = {limit:.0f} s is not sharp", "time t since the turn (s)",
        "P(content still in memory)",
    )  # fmt: skip
    axes.legend(loc="upper right")


def draw_finite_size(
    figure: Figure,
    sizes: np.ndarray,
    exact: Mapping[str, np.ndarray],
    limits: Mapping[str, float],
    replays: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]],
) -> None:
    """h(N) exactly, its limit, and LRU replays (capacity, estimate, standard error), by accounting."""
    axes = figure.subplots()
    for i, (name, values) in enumerate(exact.items()):
        axes.plot(sizes, values, label=f"{name}: exact", **look(i, marker=False))
        axes.axhline(limits[name], color=COLORS[i], linestyle=":", linewidth=1)
        capacity, estimate, error = replays[name]
        axes.errorbar(
            capacity, estimate, yerr=_SIGMAS * error, fmt=MARKERS[i], color=COLORS[i], markersize=5, capsize=3,
            markerfacecolor="white", label=f"{name}: LRU replay, 95% interval",
        )  # fmt: skip
    axes.set(xscale="log")
    label(
        axes, "A small memory serves less than its limit (dotted), in every accounting",
        "memory N (blocks), arrival rate in proportion", "hit ratio h(N)",
    )  # fmt: skip
    axes.legend(loc="lower right")


def draw_errors(
    figure: Figure, sizes: np.ndarray, limit: np.ndarray, refined: np.ndarray, replay: tuple[Any, Any, Any]
) -> None:
    """Distances of the limit and of the refined value from the exact h(N), and what a replay resolves."""
    axes = figure.subplots()
    series(axes, sizes, limit, "limit (25)", 0)
    series(axes, sizes, refined, "refined, limit + c/N", 1)
    capacity, _, error = replay
    axes.plot(capacity, error, label="standard error of the replay", **look(2))
    power_law_line(axes, sizes, -1, 2 * limit[0], "$N^{-1}$")
    power_law_line(axes, sizes, -2, 3 * refined[0], "$N^{-2}$")
    axes.set(xscale="log", yscale="log", ylim=(1e-12, None))
    middle = np.argmin(np.abs(sizes - 1000))
    gain = limit[middle] / refined[middle]
    label(
        axes, f"At N = {sizes[middle]:,.0f} one correction term is worth a factor of {gain:,.0f}",
        "memory N (blocks), arrival rate in proportion", "distance from the exact h(N)",
    )  # fmt: skip
    axes.legend(loc="lower left")


def draw_kink(figure: Figure, sizes: np.ndarray, errors: Mapping[str, np.ndarray]) -> None:
    """|h(N) - h_inf| under gap laws that are smooth at T_C and that are not, with fitted slopes."""
    axes = figure.subplots()
    slopes = []
    for i, (name, values) in enumerate(errors.items()):
        slope = np.polyfit(np.log(sizes), np.log(values), 1)[0]
        slopes.append(slope)
        series(axes, sizes, values, f"{name}: slope {slope:.2f}", i)
    axes.set(xscale="log", yscale="log")
    label(
        axes, "Where the gap's density jumps at $T_C$, the error falls like $N^{-1/2}$ only",
        "memory N (blocks), arrival rate in proportion", "$|h(N) - h_\\infty|$",
    )  # fmt: skip
    axes.legend(loc="lower left")


def draw_accountings(
    figure: Figure, sizes: np.ndarray, predicted: Mapping[str, np.ndarray], replay: tuple[Any, Any, Any]
) -> None:
    """Left: hit ratio against the memory by accounting, and a replay of real blocks; right: their distances."""
    left, right = figure.subplots(1, 2)
    capacity, truth, error = replay
    for i, (name, values) in enumerate(predicted.items()):
        left.plot(sizes, values, label=name, **look(i, marker=False))
        off = 100 * (np.interp(np.log(capacity), np.log(sizes), values) / truth - 1)
        right.plot(capacity, off, label=name, **look(i))
    left.errorbar(
        capacity, truth, yerr=_SIGMAS * error, fmt="o", color="black", markersize=3.5, capsize=2,
        label="replay, block by block",
    )  # fmt: skip
    half = 100 * _SIGMAS * error / truth
    right.fill_between(capacity, -half, half, color="0.8", label="95% interval of the replay", zorder=0)
    for axes in (left, right):
        axes.set_xscale("log")
    label(left, "hit ratio", "memory N (blocks), arrival rate fixed", "blocks served / blocks looked up")
    label(right, "relative to the replay", "memory N (blocks), arrival rate fixed", "difference (%)")
    left.legend(loc="upper left")
    right.legend(loc="best")
    finding(figure, "Counting tokens exactly predicts what an engine measures; the other two count other blocks")


def draw_plan(
    figure: Figure,
    gib: np.ndarray,
    ratio: np.ndarray,
    ceiling: float,
    plan: Mapping[float, float],
    replay: tuple[Any, Any, Any],
    name: str,
) -> None:
    """Hit ratio against GiB, the memories planned for targets, and a replay at each."""
    axes = figure.subplots()
    axes.plot(gib, ratio, label="exact h(N)", **look(0, marker=False))
    axes.plot(list(plan.values()), list(plan), "D", color=COLORS[1], markersize=7, label="planned for a target")
    memory, estimate, error = replay
    axes.errorbar(
        memory, estimate, yerr=_SIGMAS * error, fmt="o", color="black", markersize=3, capsize=4,
        label="LRU replay, 95% interval",
    )  # fmt: skip
    for target, size in plan.items():
        axes.annotate(f"{size:.3g} GiB", (size, target), xytext=(8, -10), textcoords="offset points", fontsize=8.5)
    level(axes, ceiling, f"reuse ceiling {ceiling:.3f}: no memory serves more")
    plain_log_scale(axes)
    axes.set_ylim(0, 1.12 * ceiling)
    target, size = list(plan.items())[-1]
    first, least = next(iter(plan.items()))
    label(
        axes, f"From {first:.0%} to {target:.0%} takes {size / least:.1f} times the memory",
        f"memory for the KV cache of {name} (GiB)", "hit ratio (blocks served / blocks looked up)",
    )  # fmt: skip
    axes.legend(loc="upper left", bbox_to_anchor=(0, 0.9))


def draw_models(figure: Figure, rows: Mapping[str, Sequence[float]], targets: Sequence[float]) -> None:
    """GiB for each target and model, as grouped bars on a log scale."""
    axes = figure.subplots()
    place, width = np.arange(len(rows)), 0.8 / len(targets)
    for i, target in enumerate(targets):
        values = [row[i] for row in rows.values()]
        at = place + width * (i - (len(targets) - 1) / 2)
        bars = axes.bar(
            at, values, 0.92 * width, color=COLORS[i], hatch=("", "//", "..", "xx")[i % 4], edgecolor="white",
            label=f"hit ratio {target:.0%}",
        )  # fmt: skip
        axes.bar_label(bars, [f"{value:.3g}" for value in values], fontsize=7.5)
    axes.set_xticks(place, list(rows), fontsize=8.5)
    axes.set(yscale="log", ylim=(1, 2.5 * max(map(max, rows.values()))))
    axes.grid(axis="x", visible=False)
    last = {name: row[-1] for name, row in rows.items()}
    most, least = max(last, key=last.__getitem__), min(last, key=last.__getitem__)
    label(
        axes, f"The same blocks cost {last[most] / last[least]:.1f} times as much in {most}"
        f" as in {' '.join(least.split())}", "", "memory for the KV cache (GiB)",
    )  # fmt: skip
    axes.legend(ncols=len(targets), loc="upper right")


def draw_sensitivity(figure: Figure, gib: np.ndarray, changes: Mapping[str, np.ndarray]) -> None:
    """Change of the hit ratio, in percentage points, for 1% more of something, against the memory."""
    axes = figure.subplots()
    for i, (name, values) in enumerate(changes.items()):
        axes.plot(gib, 100 * values, label=f"1% more {name}", **look(i))
    axes.axhline(0, color="0.3", linewidth=0.8)
    plain_log_scale(axes)
    first = next(iter(changes.values()))
    best = int(np.argmax(first))
    label(
        axes, f"1% more memory is worth most near {gib[best]:.0f} GiB: {100 * first[best]:.2f} points",
        "memory (GiB)", "change of the hit ratio (percentage points)",
    )  # fmt: skip
    axes.legend()


def draw_costs(
    figure: Figure, gib: np.ndarray, costs: Mapping[float, np.ndarray], knees: Mapping[float, tuple[float, float]]
) -> None:
    """Cost of memory and prefill against GiB, one curve for each price of memory, and its least point, where
    that costs less than no cache.
    """
    axes = figure.subplots()
    for i, (price, values) in enumerate(costs.items()):
        pays = "" if price in knees else " (none pays)"
        axes.plot(gib, values, label=f"memory at {price:g} a GiB and hour{pays}", **look(i, marker=False))
        if not pays:
            _mark(axes, knees[price], COLORS[i])
    axes.axhline(1, color="0.35", linestyle=":", linewidth=1.1)
    plain_log_scale(axes)
    axes.set_ylim(0.3, 1.6)
    best = min(knees.values(), key=lambda knee: knee[1])
    label(
        axes, f"At the lowest price {best[0]:.0f} GiB save {1 - best[1]:.0%} of the cost",
        "memory (GiB)", "memory and prefill (share of the cost without a cache)",
    )  # fmt: skip
    axes.legend(loc="upper left")


def _mark(axes: Axes, place: tuple[float, float], color: str) -> None:
    """A point with its memory written below."""
    axes.plot(*place, marker="o", color=color, markersize=7)
    axes.annotate(f"{place[0]:.0f} GiB", place, xytext=(0, -14), textcoords="offset points", ha="center", fontsize=8.5)


def draw_curves(axes: Axes, gib: np.ndarray, curves: Mapping[str, np.ndarray]) -> None:
    """Hit ratios against the memory, one curve for each name."""
    for i, (name, values) in enumerate(curves.items()):
        axes.plot(gib, values, label=name, **look(i))
    plain_log_scale(axes)
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left")
