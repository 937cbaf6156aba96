"""Figures of `study=mean_field`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mfmc.plotting import label, level, series
from mfmc.studies.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def hit_ratio(figure: Figure, result: Result) -> None:
    """Limit hit ratio against capacity, one curve per accounting, with the ceiling."""
    axes = figure.subplots()
    for i, accounting in enumerate(result.summary["workload"]):
        rows = [row for row in result.tables["table"] if row["accounting"] == accounting]
        rows.sort(key=lambda row: row["capacity"])
        series(axes, [r["capacity"] for r in rows], [r["hit_ratio"] for r in rows], accounting, i)
    ceilings = {name: entry["reuse_ceiling"] for name, entry in result.summary["workload"].items()}
    first = next(iter(ceilings))
    level(axes, ceilings[first], f"reuse ceiling of {first} content, {ceilings[first]:.3f}")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    best = max(result.tables["table"], key=lambda row: row["hit_ratio"])
    label(
        axes,
        f"{best['capacity']:,} blocks serve {best['hit_ratio']:.1%} of accessed blocks"
        f" ({best['accounting']} accounting)",
        "cache capacity N (blocks)",
        "mean-field hit ratio",
    )
    axes.legend()


def characteristic_time(figure: Figure, result: Result) -> None:
    """Characteristic time against capacity, one curve per accounting."""
    axes = figure.subplots()
    for i, accounting in enumerate(result.summary["workload"]):
        rows = [row for row in result.tables["table"] if row["accounting"] == accounting]
        rows.sort(key=lambda row: row["capacity"])
        series(axes, [r["capacity"] for r in rows], [r["characteristic_time"] for r in rows], accounting, i)
    axes.set_xscale("log")
    axes.set_yscale("log")
    label(
        axes,
        "Content stays for the characteristic time, which grows with the cache",
        "cache capacity N (blocks)",
        "characteristic time T_C (unit of time of the workload)",
    )
    axes.legend()


FIGURES = {"hit_ratio": hit_ratio, "characteristic_time": characteristic_time}
