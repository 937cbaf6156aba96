"""Figures of `study=fit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mfmc.plotting import COLORS, DASHES, label, look
from mfmc.studies.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 5


def gaps(figure: Figure, result: Result) -> None:
    """The data's gap law and the best fits."""
    axes = figure.subplots()
    arrays, fits = result.arrays, result.summary["gaps"]["fits"]
    name = "data (Kaplan-Meier)" if result.summary["gaps"]["censored"] else "data"
    axes.plot(arrays["times"], arrays["data"], color="0.1", linewidth=2.6, alpha=0.6, label=name)
    for i, fit in enumerate(fits[:SHOWN]):
        axes.plot(
            arrays["times"],
            arrays[f"fit_{fit['kind']}"],
            label=f"{_name(fit)}, KS {fit['ks']:.3f}",
            color=COLORS[i],
            linestyle=DASHES[i],
            linewidth=1.3,
        )
    axes.set_xscale("log")
    axes.set_ylim(0, 1.02)
    label(
        axes,
        f"Of {len(fits)} gap laws {_name(fits[0])} fits best (KS distance {fits[0]['ks']:.3f})",
        "gap between two turns (s)",
        "F(t): share of gaps no longer than t",
    )
    axes.legend()


def criteria(figure: Figure, result: Result) -> None:
    """AIC of every gap law above the best, per gap."""
    axes = figure.subplots()
    fits = result.summary["gaps"]["fits"][::-1]
    count = result.summary["gaps"]["count"]
    best = min(fit["aic"] for fit in fits)
    values = [(fit["aic"] - best) / count for fit in fits]
    axes.barh([_name(fit) for fit in fits], values, color=["0.7"] * (len(fits) - 1) + [COLORS[0]])
    second = sorted(values)[1] if len(values) > 1 else 0.0
    label(
        axes,
        f"{_name(fits[-1])} leads by {second * count:,.0f} in AIC over {count:,} gaps",
        "AIC above the best, per gap",
        "",
    )


def turns(figure: Figure, result: Result) -> None:
    """The number of turns seen, and the fitted laws."""
    axes = figure.subplots()
    fits = result.summary["turns"]
    data = result.arrays["turns"]
    seen = np.flatnonzero(data)
    axes.plot(seen, data[seen], "o", color="0.35", markersize=3.5, label="conversations seen")
    for i, fit in enumerate(fits):
        pmf = result.arrays[f"turns_{fit['kind']}"]
        support = np.flatnonzero(pmf > data[seen].min() / 10)
        axes.plot(support, pmf[support], label=f"{_name(fit)}, KS {fit['ks']:.3f}", **look(i, marker=False))
    axes.set_yscale("log")
    axes.set_xscale("log")
    label(
        axes,
        f"The number of turns is nearest to {_name(fits[0])} (KS distance {fits[0]['ks']:.3f})",
        "turns of a conversation M",
        "share of conversations",
    )
    axes.legend()


def _name(fit: dict) -> str:
    kind, _, phases = fit["kind"].rpartition("_")
    return f"{kind} of {phases} phases" if kind == "hyperexponential" else fit["kind"].replace("_", " ")


FIGURES = {"gaps": gaps, "criteria": criteria, "turns": turns}
