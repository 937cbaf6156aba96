"""Figures of the notebooks: each fills an empty figure from plain arrays.

Titles state the finding, and where a finding is a number the number is computed from what is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mfmc.plotting import COLORS, DASHES, band, fitted_slope, label, look, reference, series
from mfmc.statistics import clopper_pearson, power_law

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: How a bound is called and drawn, wherever it appears; theorem and equation numbers are the paper's.
LEVEL = 0.95


def _title(figure: Figure, finding: str) -> None:
    figure.suptitle(finding, x=0.02, ha="left", fontsize=10.5)


def draw_mean_curve(figure: Figure, time: Any, mean: Any, new: Any, characteristic_time: float) -> None:
    """d(t) in shares of the memory, split into new blocks and blocks that come back, and T_C where it is 1."""
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
    axes[0].plot([], [], color=COLORS[0], linewidth=0.8, label="paths")
    axes[0].plot([], [], color=COLORS[1], linestyle="--", label="95% of all paths")
    axes[0].legend(loc="upper left")
    _title(figure, "The larger the memory, the closer every displacement path stays to the same curve d(t)")


def draw_collapse(figure: Figure, sups: Mapping[int, np.ndarray], limit: np.ndarray) -> None:
    """Left: laws of sup|D_N/N - d|; right: the same times sqrt(N), against the sup of the Gaussian limit."""
    left, right = figure.subplots(1, 2, sharey=True)
    for i, (capacity, sample) in enumerate(sups.items()):
        empirical_cdf(left, sample, f"N = {capacity:,}", i)
        empirical_cdf(right, np.sqrt(capacity) * sample, f"N = {capacity:,}", i)
    reference(right, np.sort(limit), np.linspace(0, 1, limit.size), "Gaussian limit")
    left.set(xscale="log")
    right.set_xlim(0, np.quantile(limit, 0.999))
    label(left, "sup shrinks", "$\\sup_t |D_N(t)/N - d(t)|$ (memories)", "cumulative probability")
    label(right, "times $\\sqrt{N}$: one law", "$\\sqrt{N}\\;\\sup_t |D_N(t)/N - d(t)|$", "")
    right.legend(loc="lower right")
    _title(figure, "Multiplied by $\\sqrt{N}$, the largest deviation has nearly the same law for every N")


def empirical_cdf(axes: Axes, sample: np.ndarray, name: str, index: int) -> None:
    """A sample's distribution function with a band that holds the true one whole, 95% of the time."""
    half = np.sqrt(np.log(2 / (1 - LEVEL)) / (2 * sample.size))  # Dvoretzky, Kiefer and Wolfowitz
    x, height = np.sort(sample), np.arange(1, sample.size + 1) / sample.size
    axes.plot(x, height, label=name, **look(index, marker=False))
    band(axes, x, np.maximum(height - half, 0), np.minimum(height + half, 1), index)


def draw_passages(
    figure: Figure, time: Any, exact: Mapping[int, np.ndarray], simulated: Mapping[int, np.ndarray], limit: float
) -> None:
    """P(tau_C <= t): exact curves, and simulated ones with their bands."""
    axes = figure.subplots()
    for i, (capacity, curve) in enumerate(exact.items()):
        empirical_cdf(axes, simulated[capacity], f"N = {capacity:,}", i)
        reference(axes, time, curve, "exact law (dashed black)" if i == 0 else "_")
    axes.axvline(limit, color="0.35", linestyle=":")
    axes.annotate(f"$T_C$ = {limit:.1f} s", (limit, 0.02), xytext=(4, 0), textcoords="offset points")
    axes.set_xlim(time[0], time[-1])
    spread = {capacity: float(sample.std()) for capacity, sample in simulated.items()}
    least, most = min(spread), max(spread)
    label(
        axes,
        f"Standard deviation of $\\tau_C$: {spread[least]:.1f} s at N = {least:,}, {spread[most]:.2g} s at N = {most:,}",
        "time t until the content is evicted (s)", "$P(\\tau_C \\leq t)$",
    )  # fmt: skip
    axes.legend(loc="upper left")


def draw_rates(figure: Figure, rows: Mapping[str, Mapping[int, tuple[float, float]]], proven: Mapping[str, float]) -> None:
    """Mean deviations (value, standard error) against N on log-log axes, fitted slopes, and the proven rates."""
    axes = figure.subplots()
    slopes = []
    for i, (name, values) in enumerate(rows.items()):
        capacity = np.array(list(values), dtype=float)
        middle, error = np.transpose(list(values.values()))
        fit = power_law(capacity, middle, error)
        slopes.append(f"{fit.slope:.2f}")
        words = f"{name}: slope {fit.slope:.3f} [{fit.low:.3f}, {fit.high:.3f}]"
        series(axes, capacity, middle, words, i, low=middle - 1.96 * error, high=middle + 1.96 * error)
    top = max(values[min(values)][0] for values in rows.values())
    for name, exponent in proven.items():
        fitted_slope(axes, capacity, exponent, (capacity[0], 1.3 * top), name)
        axes.annotate(
            name, (capacity[-1], 1.3 * top * (capacity[-1] / capacity[0]) ** exponent),
            ha="right", va="bottom", fontsize=8.5,
        )  # fmt: skip
    axes.set(xscale="log", yscale="log")
    label(
        axes, f"Everything falls as $N^{{-1/2}}$: slopes {', '.join(slopes)}", "memory N (blocks)",
        "mean deviation (see legend)",
    )  # fmt: skip
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles[: len(rows)], names[: len(rows)], loc="lower left")
