"""Files and figures of the idle time-out study, from its summary and tables alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mfmc.eviction.tradeoff import EvictionTradeoff, duration
from mfmc.plotting import COLORS, DASHES, band, label, look, save
from mfmc.results import write_table
from mfmc.studies.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

TICKS = {
    1: "1 s",
    10: "10 s",
    60: "1 min",
    300: "5 min",
    1800: "30 min",
    7200: "2 h",
    43200: "12 h",
    172800: "2 d",
}
MARKED = {60: "1 min", 300: "5 min", 600: "10 min", 1800: "30 min", 3600: "1 h", 14400: "4 h"}


STAR: dict[str, Any] = {"marker": "*", "color": "black", "markersize": 11, "linestyle": "none", "zorder": 5}


def write_outputs(outcome: EvictionTradeoff, folder: str | Path, *, plots: bool = True) -> list[Path]:
    """Write every table as <name>.csv and, with `plots`, every figure as .png and .pdf into a folder."""
    result = Result(summary=outcome.summary, tables=outcome.tables)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, rows in result.tables.items():
        written.append(folder / f"{name}.csv")
        write_table(written[-1], rows)
    for name, draw in FIGURES.items() if plots else ():
        save(draw, result, folder / name)
        written += [folder / f"{name}.png", folder / f"{name}.pdf"]
    return written


def by_timeout(figure: Figure, result: Result) -> None:
    """Hit rate, storage ratio and prefill amplification against the time-out, per scope; optima dotted."""
    figure.set_size_inches(6.4, 8.2)
    hits, storage, prefill = figure.subplots(3, 1, sharex=True)
    overview = {row["scope"]: row for row in result.tables["table"]}
    for i, (scope, column) in enumerate(_scopes(result).items()):
        style = _look(i)
        optimum = overview[scope]["optimal_hit_rate"], overview[scope]["unlimited_storage_ratio"], 1.0
        for axes, name, best in zip(
            (hits, storage, prefill), ("hit_rate", "storage_ratio", "prefill_amplification"), optimum
        ):
            axes.plot(column["timeout_s"], column[name], label=scope, **style)
            axes.axhline(best, color=style["color"], linestyle=":", linewidth=1)
    reached = result.summary["effective_eviction_time_s"]
    if reached:  # neither unknown nor beyond every gap
        _star(hits, reached, result.summary["deployed_hit_rate"], reached)
        prefill.plot(reached, result.summary["deployed_amplification"], **STAR)
    _percent(hits)
    _powers(storage.yaxis)
    _powers(prefill.yaxis)
    _time_axis(prefill, result.summary)
    label(hits, _hits_finding(result.summary), "", "hit rate (prompt tokens)")
    storage.set_ylabel("storage ratio R\n(suspended / active KV time)")
    prefill.set_ylabel("prefill amplification A\n(prefilled / fresh tokens)")
    prefill.set_xlabel("idle time-out")
    hits.legend(loc="lower right", title="dotted: no eviction")


def pareto(figure: Figure, result: Result) -> None:
    """Hit rate against storage ratio along the time-out, landmarks marked."""
    figure.set_size_inches(6.4, 4.6)
    axes = figure.subplots()
    for i, (scope, column) in enumerate(_scopes(result).items()):
        axes.plot(column["storage_ratio"], column["hit_rate"], label=scope, **_look(i))
        if i == 0:
            _landmarks(axes, column)
            axes.axhline(result.summary["optimal_hit_rate"], color=COLORS[0], linestyle=":", linewidth=1)
    reached = result.summary["effective_eviction_time_s"]
    if reached:
        first = next(iter(_scopes(result).values()))
        place = np.interp(reached, first["timeout_s"], first["storage_ratio"])
        _star(axes, place, result.summary["deployed_hit_rate"], reached)
    _powers(axes.xaxis)
    curves = [column["hit_rate"].max() for column in _scopes(result).values()]
    _misses(axes, max(*curves, result.summary["optimal_hit_rate"]))
    finding = _storage_finding(result.summary)
    label(axes, finding, "storage ratio R (suspended / active KV time)", "hit rate (prompt tokens)")
    axes.legend(loc="upper left")


def memory(figure: Figure, result: Result) -> None:
    """The memory that a time-out needs, and the hit rate of LRU in as much, against the time-out's own."""
    figure.set_size_inches(6.4, 8.2)
    need, hits, difference = figure.subplots(3, 1, sharex=True)
    column = _columns(result.tables["eviction_tradeoff_by_memory"])
    summary, timeout = result.summary, column["timeout_s"]
    gib = summary["kv_bytes_per_token"] / 2**30
    decoding = np.full(len(timeout), summary["decoding_tokens"])
    finished = column["finished_share"] * column["memory_tokens"]
    parts = np.array([decoding, column["idle_tokens"] - finished, finished]) * gib
    names = ("being decoded", "waiting for a next step", "session over, which the cache cannot know")
    need.stackplot(timeout, parts, labels=names, colors=[COLORS[0], COLORS[5], COLORS[4]], alpha=0.85)
    need.legend(loc="upper left")
    need.set_ylim(bottom=0)
    need.yaxis.set_major_formatter("{x:,.0f}")
    need.secondary_yaxis("right", functions=(lambda y: y / gib / 1e6, lambda x: x * gib * 1e6)).set_ylabel(
        "million tokens"
    )
    error = 2 * column["lru_standard_error"]
    hits.plot(timeout, column["hit_rate"], label="idle time-out", **look(0, marker=False))
    hits.plot(timeout, column["lru_hit_rate"], label="LRU of that memory", **look(1, marker=False))
    _percent(hits)
    hits.legend(loc="lower right")
    difference.axhline(0, color="0.35", linewidth=0.8)
    difference.plot(timeout, 100 * column["difference"], color=COLORS[1], linewidth=1.2)
    low, high = (100 * (column["difference"] + side * error) for side in (-1, 1))
    band(difference, timeout, low, high, 1)
    _time_axis(difference, summary)
    same = summary["lru_within_one_point_from_s"]
    finding = "LRU in the memory that a time-out needs on average\n" + (
        "hits another share than the time-out"
        if same is None
        else f"hits as much, within one point, from {duration(same)} up"
    )
    label(need, finding, "", f"memory (GiB, {summary['model']})")
    hits.set_ylabel("hit rate (prompt tokens)")
    difference.set_ylabel("LRU minus time-out (points)")
    difference.set_xlabel(
        f"idle time-out, at {summary['session_rate_per_s']:g} sessions/s; band: 2 standard errors"
    )


def cascade(figure: Figure, result: Result) -> None:
    """What an eviction takes from later steps, with and without writing back what was prefilled again."""
    axes = figure.subplots()
    column = _columns(result.tables["eviction_tradeoff_cascade"])
    timeout = column["timeout_s"]
    axes.plot(timeout, column["hit_rate"], label="each step by its own gap", **look(0, marker=False))
    axes.plot(
        timeout, column["hit_rate_written_back"], label="tokens by their own idle time, written back",
        **look(1, marker=False),
    )  # fmt: skip
    axes.plot(
        timeout, column["hit_rate_not_written_back"], label="never written back after an eviction",
        **look(2, marker=False),
    )  # fmt: skip
    _percent(axes)
    _time_axis(axes, result.summary)
    loss, lost = (
        100 * result.summary[name]
        for name in ("cascade_largest_loss", "cascade_largest_loss_not_written_back")
    )
    label(
        axes,
        f"An eviction costs later steps at most {loss:.2g} points, because what is prefilled\n"
        f"again is cached again; were it not, they would lose up to {lost:.0f} points",
        "idle time-out",
        "hit rate (prompt tokens)",
    )
    axes.legend()


def _columns(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    return {
        name: np.array([row[name] for row in rows], float)
        for name in rows[0]
        if name not in ("scope", "timeout")
    }


def _scopes(result: Result) -> dict[str, dict[str, np.ndarray]]:
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in result.tables["eviction_tradeoff_by_scope"]:
        rows.setdefault(row["scope"], []).append(row)
    return {scope: _columns(members) for scope, members in rows.items()}


def _look(index: int) -> dict[str, Any]:
    dashes = [dash for dash in DASHES if dash != ":"]  # dotted lines are the optima
    style = {**look(index, marker=False), "linestyle": dashes[index % len(dashes)]}
    return {**style, "linewidth": 2.2 if index == 0 else 1.4}


def _hits_finding(summary: dict[str, Any]) -> str:
    optimum = f"{summary['optimal_hit_rate']:.1%}"
    if 300 not in summary["landmarks_s"]:
        return f"Without eviction {optimum} of prompt tokens would be hits"
    return (
        f"A time-out of 5 min serves {summary['hit_rate_300s']:.1%} of prompt tokens and prefills\n"
        f"{summary['amplification_300s']:.1f} times what is fresh; without eviction it would serve {optimum}"
    )


def _storage_finding(summary: dict[str, Any]) -> str:
    marks = [int(mark) for mark in summary["landmarks_s"] if mark in MARKED]
    if len(marks) < 2:
        return "Hit rate and storage along the time-out"
    low, high = marks[0], marks[-1]
    return (
        f"From {MARKED[low]} to {MARKED[high]} of time-out, hits rise from "
        f"{summary[f'hit_rate_{low}s']:.1%} to {summary[f'hit_rate_{high}s']:.1%}\nand suspended KV from "
        f"{summary[f'storage_ratio_{low}s']:.1f} to {summary[f'storage_ratio_{high}s']:.1f} times the active"
    )


def _time_axis(axes: Axes, summary: dict[str, Any]) -> None:
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xticks([tick for tick in TICKS if low <= tick <= high])
    axes.set_xticklabels([name for tick, name in TICKS.items() if low <= tick <= high])
    axes.minorticks_off()


def _percent(axes: Axes) -> None:
    axes.set_ylim(0, 1.03)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")


def _misses(axes: Axes, top: float) -> None:
    """A hit rate axis up to `top`, logarithmic in what is missed, so that 98% and 99% are apart."""
    ticks = (0, 0.2, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)
    top = min(1 - (1 - top) / 1.5, 0.9995)
    axes.set_yscale("function", functions=(_decades_missed, lambda decades: 1 - 10.0 ** -np.asarray(decades)))
    axes.set_ylim(0, top)
    axes.set_yticks([tick for tick in ticks if tick <= top])
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")


def _decades_missed(hit_rate: np.ndarray) -> np.ndarray:
    return -np.log10(np.maximum(1 - np.asarray(hit_rate), 1e-4))


def _powers(axis: Axis) -> None:
    """Make an axis logarithmic, with ticks at 1, 2, 5 and their powers of ten, written as plain numbers."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes = axis.axes
    if not np.isfinite(axis.get_minpos()):
        axes.text(
            0.5, 0.5, "unknown: no time of generation in the input", ha="center", transform=axes.transAxes
        )
        axis.set_ticks([])
        return
    (axes.set_xscale if axis is axes.xaxis else axes.set_yscale)("log")
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_locator(NullLocator())


def _landmarks(axes: Axes, column: dict[str, np.ndarray]) -> None:
    for mark, name in MARKED.items():
        for place in np.flatnonzero(column["timeout_s"] == mark):
            at = column["storage_ratio"][place], column["hit_rate"][place]
            axes.plot(*at, marker="o", color=COLORS[0], markersize=5, zorder=4)
            axes.annotate(name, at, xytext=(-6, 3), textcoords="offset points", ha="right", fontsize=8.5)


def _star(axes: Axes, x: float, y: float, reached: float) -> None:
    axes.plot(x, y, **STAR)
    name = f"deployed cache,\nas good as {duration(reached)}"
    axes.annotate(name, (x, y), xytext=(6, -8), textcoords="offset points", va="top", fontsize=8.5)


FIGURES = {
    "eviction_tradeoff_by_timeout": by_timeout,
    "eviction_tradeoff_pareto": pareto,
    "eviction_tradeoff_memory": memory,
    "eviction_tradeoff_cascade": cascade,
}
