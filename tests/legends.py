"""What a reader in grey print can tell apart."""

from __future__ import annotations

from typing import Any


def told_apart_in_grey(figure: Any) -> bool:
    """Whether the lines in each legend of a figure differ in dashes, marker or its filling."""
    from matplotlib.lines import Line2D

    for axes in figure.axes:
        entries = [entry[0] if isinstance(entry, tuple) else entry for entry in axes.get_legend_handles_labels()[0]]
        looks = [
            (str(line._unscaled_dash_pattern), line.get_marker(), line.get_markerfacecolor() in ("none", "white"))
            for line in entries
            if isinstance(line, Line2D)
        ]
        if len(set(looks)) < len(looks):
            return False
    return True
