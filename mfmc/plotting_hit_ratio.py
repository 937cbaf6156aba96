"""Figure of `study=hit_ratio`: that of validate, and the policies."""

from __future__ import annotations

from typing import Any

from mfmc.plotting import label, plain_log_scale, reference, series
from mfmc.plotting_validate import draw_hit_ratio


def draw_policies(figure: Any, result: Any) -> None:
    """Hit ratio against the memory for every policy on one stream, and the mean field of LRU."""
    axes = figure.subplots()
    rows = result.summary["policies"]
    for i, policy in enumerate(dict.fromkeys(row["policy"] for row in rows)):
        chosen = [row for row in rows if row["policy"] == policy]
        series(axes, [r["capacity"] for r in chosen], [r["hit_ratio"] for r in chosen], policy, i)
    lru = [row for row in rows if row["policy"] == "lru"]
    reference(axes, [r["capacity"] for r in lru], [r["lru_mean_field"] for r in lru], "lru, mean field")
    middle = lru[len(lru) // 2]["capacity"]
    found = {row["policy"]: row["hit_ratio"] for row in rows if row["capacity"] == middle}
    gain = found["clairvoyant"] - found["lru"]
    plain_log_scale(axes)
    label(
        axes, f"Knowing each conversation's last turn would add {100 * gain:.1f} points at N = {middle:,}",
        "memory N (blocks), arrival rate fixed", "hit ratio, blocks served / blocks looked up",
    )
    axes.legend()


FIGURES = {"hit_ratio": draw_hit_ratio, "policies": draw_policies}
