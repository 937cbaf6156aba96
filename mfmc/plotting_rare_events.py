"""Figure of `study=rare_events`."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfmc.plotting import COLORS, DASHES, band, label, look


def draw_sup(figure: Any, result: Any) -> None:
    """P(sup > epsilon) with 95% intervals, between the exact bracket from below and from above."""
    axes = figure.subplots()
    rows = result.summary["sup"]
    for i, capacity in enumerate(sorted({row["capacity"] for row in rows})):
        chosen = sorted((row for row in rows if row["capacity"] == capacity), key=lambda row: row["epsilon"])
        epsilon = np.array([row["epsilon"] for row in chosen])
        estimate = np.array([row["estimate"] for row in chosen])
        error = 1.96 * np.array([row["standard_error"] for row in chosen])
        band(
            axes,
            epsilon,
            [r["lower"] for r in chosen],
            [min(r["upper"], 1) for r in chosen],
            i,
            "exact brackets" if i == 0 else None,
        )
        axes.errorbar(epsilon, estimate, yerr=error, capsize=3, label=f"N = {capacity:,}", **look(i))
    axes.axhline(1e-4, color=COLORS[6], linestyle=DASHES[3], linewidth=1)
    axes.annotate(
        "10,000 plain paths see nothing below",
        (0.99, 1e-4),
        xycoords=("axes fraction", "data"),
        ha="right",
        va="bottom",
        fontsize=8.5,
    )
    axes.set(yscale="log")
    rarest = min(rows, key=lambda row: row["estimate"])
    label(
        axes,
        f"Tilting reaches {rarest['estimate']:.1e} within {rarest['relative_error']:.1%}",
        "deviation $\\varepsilon$ (share of N)",
        "$P(\\sup |D_N/N - d| > \\varepsilon)$",
    )
    axes.legend(loc="lower left")


FIGURES = {"rare_sup": draw_sup}
