"""One style for every figure, and the helpers that figures are made of.

Only this file and files called plotting_*.py import matplotlib. `mfmc/plotting_<study>.py` has
`FIGURES = {"name": draw}`; `draw(figure, result)` fills an empty figure from a `Result`, fresh or read from a
folder. Colours are Okabe and Ito's, which colour-blind readers tell apart; markers and dashes tell them apart
in grey print. A title states the finding, axes state the quantity and its unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mfmc.studies.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Drawing = Callable[["Figure", Any], None]

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 1)))

STYLE: Any = {
    "figure.figsize": (6.4, 4.2),
    "figure.dpi": 110,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 150,
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
}


@contextmanager
def style() -> Iterator[None]:
    """Draw the body in mfmc's style."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        yield


def look(index: int, *, marker: bool = True) -> dict[str, Any]:
    """Keywords of the `index`-th series: colour, dash and marker change together."""
    keywords = {"color": COLORS[index % len(COLORS)], "linestyle": DASHES[index % len(DASHES)]}
    return {**keywords, "marker": MARKERS[index % len(MARKERS)]} if marker else keywords


def label(axes: Axes, finding: str, x: str, y: str) -> None:
    """Title and axis labels; a quantity with a unit is written "gap (s)"."""
    axes.set_title(finding, wrap=True)
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def series(axes: Axes, x: Any, y: Any, name: str, index: int, *, low: Any = None, high: Any = None) -> None:
    """One line with its markers and, where given, the interval from `low` to `high` as bars."""
    (line,) = axes.plot(x, y, label=name, **look(index))
    if low is not None and high is not None:
        middle = np.asarray(y, dtype=float)
        below = np.maximum(middle - np.asarray(low, dtype=float), 0)
        above = np.maximum(np.asarray(high, dtype=float) - middle, 0)
        axes.errorbar(
            x, middle, yerr=[below, above], fmt="none", ecolor=line.get_color(), capsize=2, linewidth=1
        )


def nothing(axes: Axes, words: str) -> None:
    """A panel without data says so, and shows no axes."""
    axes.text(0.5, 0.5, words, ha="center", transform=axes.transAxes)
    axes.set_axis_off()


def dots(axes: Axes, x: Any, y: Any, name: str) -> None:
    """What was observed, to hold a curve against: black dots without a line."""
    axes.plot(x, y, color="0.1", linestyle="none", marker="o", markersize=3.5, label=name)


def reference(axes: Axes, x: Any, y: Any, name: str) -> None:
    """A theoretical curve to compare with: thin, black, dashed, without markers."""
    axes.plot(x, y, color="0.15", linestyle=(0, (6, 2)), linewidth=1.1, label=name, zorder=1)


def level(axes: Axes, y: float, name: str) -> None:
    """A horizontal reference with its name at the left end."""
    axes.axhline(y, color="0.35", linestyle=":", linewidth=1.1)
    axes.annotate(name, (0.01, y), xycoords=("axes fraction", "data"), va="bottom", fontsize=8.5)


def band(axes: Axes, x: Any, low: Any, high: Any, index: int, name: str | None = None) -> None:
    """The area between two curves, in the colour of a series."""
    axes.fill_between(x, low, high, color=COLORS[index % len(COLORS)], alpha=0.18, linewidth=0, label=name)


def power_law_line(axes: Axes, x: Any, exponent: float, start: float, name: str) -> None:
    """start (x/x_0)^exponent as a reference, with its name beside it: several such lines look alike in a legend."""
    x = np.asarray(x, dtype=float)
    reference(axes, x, start * (x / x[0]) ** exponent, "_")
    middle = x[0] ** 0.35 * x[-1] ** 0.65
    axes.annotate(
        name, (middle, start * (middle / x[0]) ** exponent), xytext=(4, 4), textcoords="offset points", fontsize=8.5
    )


def plain_log_scale(axes: Axes, which: str = "x") -> None:
    """A logarithmic axis of few decades, labelled 0.1, 0.2, 0.5, 1, .."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def drawings(study: str) -> dict[str, Drawing]:
    """The figures that a study has: those of mfmc/plotting_<study>.py, or none."""
    module = f"mfmc.plotting_{study}"
    return import_module(module).FIGURES if find_spec(module) else {}


def save(draw: Drawing, result: Any, path: Path) -> None:
    """Draw one figure to `path`.png and `path`.pdf."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with style():
        figure = Figure()
        FigureCanvasAgg(figure)
        draw(figure, result)
        for suffix in (".png", ".pdf"):
            # no creation date: equal results give equal files
            figure.savefig(
                path.with_suffix(suffix), metadata={"CreationDate": None} if suffix == ".pdf" else None
            )


def draw_all(study: str, result: Result, folder: Path) -> list[str]:
    """Draw every figure of a study into a folder; the names of those drawn."""
    found = drawings(study)
    if found:
        folder.mkdir(parents=True, exist_ok=True)
    for name, draw in found.items():
        save(draw, result, folder / name)
    return list(found)
