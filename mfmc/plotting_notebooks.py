"""Figures of the notebooks: each fills an empty figure from plain arrays.

Titles state the finding, and where a finding is a number the number is computed from what is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mfmc.plotting import COLORS, band, label, look, plain_log_scale, power_law_line, reference, series
from mfmc.statistics import clopper_pearson, power_law

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Confidence of every band and bar.
LEVEL = 0.95
_SIGMAS = 1.96


def finding(figure: Figure, words: str) -> None:
    """The title of a figure of several panels."""
    figure.suptitle(words, x=0.02, ha="left", fontsize=10.5)


def draw_mean_curve(figure: Figure, time: Any, mean: Any, new: Any, characteristic_time: float) -> None:
    """d(t) in memories, split into new blocks and blocks that come back, and T_C where it is 1."""
    axes = figure.subplots()
    axes.fill_between(time, 0, new, color=COLORS[0], alpha=0.25, label="new blocks, $\\lambda_0 E[B]\\,t$")
    axes.fill_between(
        time, new, mean, color=COLORS[1], alpha=0.25, hatch="//", edgecolor=COLORS[1],
        label="old blocks that move to the front, $\\lambda_0 A_H I(t)$",
    )  # fmt: skip
    axes.plot(time, mean, color="black", label="d(t), both")
    axes.plot([characteristic_time] * 2, [0, 1], color="0.35", linestyle=":")
    axes.plot([0, characteristic_time], [1, 1], color="0.35", linestyle=":")
    axes.set(xlim=(0, time[-1]), ylim=(0, None))
    label(
        axes, f"One memory of blocks has passed after $T_C$ = {characteristic_time:.1f} s",
        "time since the conversation was last used (s)", "mean displacement d(t) (memories)",
    )  # fmt: skip
    axes.legend(loc="upper left")


def draw_fans(figure: Figure, time: Any, mean: Any, paths: Mapping[int, np.ndarray], shown: int = 40) -> None:
    """Displacement paths D_N(t)/N around d(t), one panel for each N."""
    axes = np.atleast_1d(figure.subplots(1, len(paths), sharey=True))
    for axis, (capacity, values) in zip(axes, paths.items()):
        share = values / capacity
        axis.plot(time, share[:shown].T, color=COLORS[0], alpha=0.25, linewidth=0.6)
        low, high = np.quantile(share, [0.025, 0.975], axis=0)
        axis.plot(time, np.transpose([low, high]), color=COLORS[1], linestyle="--", linewidth=1)
        axis.plot(time, mean, color="black", linewidth=1.4)
        axis.axhline(1, color="0.35", linestyle=":", linewidth=1)
        axis.set_title(f"N = {capacity:,}")
        axis.set_xlabel("time (s)")
    axes[0].set(ylabel="displacement $D_N(t)/N$ (memories)", ylim=(0, 1.5 * mean[-1]))
    axes[0].plot([], [], color="black", label="mean d(t)")
    axes[0].plot([], [], color=COLORS[0], linewidth=1.2, label="paths")
    axes[0].plot([], [], color=COLORS[1], linestyle="--", label="95% of all paths")
    axes[0].legend(loc="upper left")
    finding(figure, "The larger the memory, the closer every displacement path stays to the same curve d(t)")


def draw_collapse(figure: Figure, sups: Mapping[int, np.ndarray], limit: np.ndarray) -> None:
    """Left: laws of sup|D_N/N - d|; right: the same times sqrt(N), against the sup of the Gaussian limit."""
    left, right = figure.subplots(1, 2, sharey=True)
    for i, (capacity, sample) in enumerate(sups.items()):
        empirical_cdf(left, sample, f"N = {capacity:,}", i)
        empirical_cdf(right, np.sqrt(capacity) * sample, f"N = {capacity:,}", i)
    reference(right, np.sort(limit), np.linspace(0, 1, limit.size), "Gaussian limit")
    left.set(xscale="log")
    right.set_xlim(0, np.quantile(limit, 0.999))
    label(left, "The sup shrinks with N", "$\\sup_t |D_N(t)/N - d(t)|$ (memories)", "cumulative probability")
    label(right, "Times $\\sqrt{N}$ it has one law", "$\\sqrt{N}\\;\\sup_t |D_N(t)/N - d(t)|$", "")
    right.legend(loc="lower right")
    finding(figure, "Multiplied by $\\sqrt{N}$, the largest deviation has nearly the same law for every N")


def empirical_cdf(axes: Axes, sample: np.ndarray, name: str, index: int) -> None:
    """A sample's distribution function with a band that holds the true one whole, 95% of the time."""
    half = np.sqrt(np.log(2 / (1 - LEVEL)) / (2 * sample.size))  # Dvoretzky, Kiefer and Wolfowitz
    x, height = np.sort(sample), np.arange(1, sample.size + 1) / sample.size
    axes.plot(x, height, label=name, **look(index, marker=False))
    band(axes, x, np.maximum(height - half, 0), np.minimum(height + half, 1), index)


def draw_passages(
    figure: Figure,
    time: Any,
    exact: Mapping[int, np.ndarray],
    simulated: Mapping[int, np.ndarray],
    limit: float,
) -> None:
    """P(tau_C <= t): exact curves, and simulated ones with their bands."""
    axes = figure.subplots()
    for i, capacity in enumerate(exact):
        empirical_cdf(axes, simulated[capacity], f"N = {capacity:,}", i)
    for i, curve in enumerate(exact.values()):
        reference(axes, time, curve, "_" if i else "exact law")
    axes.axvline(limit, color="0.35", linestyle=":")
    axes.annotate(f"$T_C$ = {limit:.1f} s", (limit, 0.02), xytext=(4, 0), textcoords="offset points")
    axes.set_xlim(time[0], time[-1])
    spread = {capacity: float(sample.std()) for capacity, sample in simulated.items()}
    least, most = min(spread), max(spread)
    label(
        axes,
        f"$\\tau_C$ has a standard deviation of {spread[least]:.0f} s at N = {least:,},"
        f" {spread[most]:.1f} s at {most:,}",
        "time t until the content is evicted (s)", "$P(\\tau_C \\leq t)$",
    )  # fmt: skip
    axes.legend(loc="upper left")


def draw_rates(
    figure: Figure, rows: Mapping[str, Mapping[int, tuple[float, float]]], proven: Mapping[str, float]
) -> None:
    """Mean deviations (value, standard error) against N, their fitted slopes, and the proven rates."""
    axes = figure.subplots()
    slopes = []
    for i, (name, values) in enumerate(rows.items()):
        capacity = np.array(list(values), dtype=float)
        middle, error = np.transpose(list(values.values()))
        fit = power_law(capacity, middle, error)
        slopes.append(f"{fit.slope:.2f}")
        words = f"{name}: slope {fit.slope:.3f} [{fit.low:.3f}, {fit.high:.3f}]"
        half = _SIGMAS * error
        series(axes, capacity, middle, words, i, low=middle - half, high=middle + half)
    top = 1.3 * max(values[min(values)][0] for values in rows.values())
    for name, exponent in proven.items():
        power_law_line(axes, capacity, exponent, top, name)
    axes.set_xscale("log")
    plain_log_scale(axes, "y")
    label(
        axes, f"Everything falls like $N^{{-1/2}}$: slopes {', '.join(slopes)}",
        "memory N (blocks), arrival rate in proportion", "mean deviation (memories; of $\\tau_C$: in $T_C$)",
    )  # fmt: skip
    axes.legend(loc="lower left")


def draw_variance(figure: Figure, time: Any, exact: Any, envelope: Any) -> None:
    """Var D_N(t) against what the paper's proof puts in its place."""
    axes = figure.subplots()
    axes.plot(time, envelope, label="envelope $N V_T$ with T = t (42)", **look(0, marker=False))
    axes.plot(time, exact, color="black", linewidth=2, label="exact $Var\\,D_N(t)$")
    axes.set(ylim=(0, None), xlim=(0, time[-1]))
    ratio = envelope[-1] / exact[-1]
    label(
        axes, f"The envelope is {ratio:.1f} times the variance at {time[-1]:.0f} s, and more before",
        "time t (s)", "variance of displacement (blocks$^2$)",
    )  # fmt: skip
    axes.legend()


def draw_bounds(
    axes: Axes,
    x: Any,
    bounds: Mapping[str, np.ndarray],
    truth: tuple[str, np.ndarray],
    *,
    floor: float,
    approximation: tuple[str, np.ndarray] | None = None,
) -> None:
    """Bounds of a probability, the probability itself in bold, and an approximation, on a log scale.

    What lies above 1 is shaded: there a bound says nothing.
    """
    for i, (name, values) in enumerate(bounds.items()):
        axes.plot(x, np.maximum(values, floor / 10), label=name, **look(i, marker=False))
    axes.plot(x, np.maximum(truth[1], floor / 10), color="black", linewidth=2.6, label=truth[0], zorder=1)
    if approximation:
        axes.plot(
            x, np.maximum(approximation[1], floor / 10), color="0.55", linewidth=1.2, linestyle=(0, (1, 1)),
            label=approximation[0], zorder=2,
        )  # fmt: skip
    top = 1e3
    axes.axhspan(1, top, color="0.92", zorder=0)
    axes.annotate(
        "says nothing", (0.99, 0.99), xycoords="axes fraction", ha="right", va="top", fontsize=8.5, color="0.35"
    )
    axes.set(yscale="log", ylim=(floor, top))


def draw_simulated_tail(axes: Axes, levels: Any, sample: np.ndarray) -> None:
    """P(sample > level) with its Clopper-Pearson bars, where it was seen at all."""
    seen = np.sum(sample[:, None] > np.asarray(levels)[None, :], axis=0)
    keep = seen > 0
    found = clopper_pearson(seen[keep], sample.size, LEVEL)
    bars = [found.estimate - found.low, found.high - found.estimate]
    axes.errorbar(
        np.asarray(levels)[keep], found.estimate, yerr=bars, fmt="o", color="black", markersize=3.5, capsize=2,
        linewidth=1, label=f"simulated, {LEVEL:.0%} interval",
    )  # fmt: skip


def draw_prices(figure: Figure, needed: Mapping[str, float], truth: str, goal: str) -> None:
    """The memory from which on each bound gives a guarantee, as bars on a log scale."""
    axes = figure.subplots()
    names = list(needed)
    place = np.arange(len(names))[::-1]
    values = np.array([needed[name] for name in names])
    colors = ["0.25" if name == truth else COLORS[0] for name in names]
    axes.barh(place, values, color=colors, height=0.55, hatch=["" if name == truth else "//" for name in names],
              edgecolor="white")  # fmt: skip
    for y, value in zip(place, values):
        axes.annotate(f"{value:,.0f} blocks", (value, y), xytext=(4, 0), textcoords="offset points", va="center")
    axes.set_yticks(place, names)
    axes.set(xscale="log", xlim=(values.min() / 5, values.max() * 30))
    axes.grid(axis="y", visible=False)
    label(axes, goal, "least memory N (blocks)", "")


def draw_hit_ratio_bound(
    figure: Figure, sizes: np.ndarray, bound: np.ndarray, tail: np.ndarray, error: np.ndarray
) -> None:
    """(26) at its best, with and without its tail term, and the error that it bounds (for the first sizes)."""
    axes = figure.subplots()
    known = sizes[: error.size]
    axes.plot(sizes, bound, label="bound (26), minimised", **look(0, marker=False))
    axes.plot(sizes, bound - tail, label="without its tail term", **look(1, marker=False))
    axes.plot(known, error, color="black", linewidth=2.6, label="exact $|h(N) - h_\\infty|$")
    axes.axhspan(1, 2 * bound.max(), color="0.92", zorder=0)
    axes.set(xscale="log", yscale="log", ylim=(error.min() / 3, 2 * bound.max()))
    for values, x in ((bound - tail, sizes), (error, known)):
        slope = np.polyfit(np.log(x[-5:]), np.log(values[-5:]), 1)[0]
        axes.annotate(
            f"slope {slope:.2f}", (x[-3], values[-3]), xytext=(6, 6), textcoords="offset points", fontsize=8.5
        )
    ratio = bound[error.size - 1] / error[-1]
    power = int(np.log10(ratio))
    label(
        axes, f"At N = {known[-1]:,.0f} the bound is over $10^{power}$ times the error",
        "memory N (blocks), arrival rate in proportion", "distance of the hit ratio from its limit",
    )  # fmt: skip
    axes.legend(loc="lower left")
