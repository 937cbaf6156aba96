"""Figure of `study=replay`: the curve of the stream and what was predicted of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfmc.plotting import label, look


def draw_curve(figure: Any, result: Any) -> None:
    """Replayed curve (line), and mean field or estimator (markers), against the capacity, per accounting."""
    axes = figure.subplots()
    capacity = result.arrays["capacity"]
    beside = "estimator" if result.summary["prediction"] == "estimator" else "mean field"
    names = [n.removeprefix("replayed_") for n in result.arrays if n.startswith("replayed_")]
    off = []
    for i, name in enumerate(names):
        replayed, predicted = result.arrays[f"replayed_{name}"], result.arrays[f"predicted_{name}"]
        axes.plot(capacity, replayed, label=f"{name}: replayed", **look(i, marker=False))
        axes.plot(capacity, predicted, label=f"{name}: {beside}", **(look(i) | {"linestyle": "none", "mfc": "white"}))
        off.append(np.max(np.abs(replayed - predicted)))
    axes.set(xscale="log")
    label(
        axes,
        f"{beside.capitalize()} and replay differ by at most {100 * max(off):.1f} points",
        "memory N (blocks)",
        "hit ratio, blocks served / blocks looked up",
    )
    axes.legend()


FIGURES = {"curve": draw_curve}
