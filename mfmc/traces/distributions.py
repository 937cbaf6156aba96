"""Distribution tables of long columns, exact and in a few passes."""

from __future__ import annotations

from typing import Any

import numpy as np

LEVELS = (0.01, 0.05, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999)
COUNTABLE = 1 << 22  # whole numbers up to here are counted instead of sorted
GRID = np.linspace(0, 1, 1001)


def distribution(values: np.ndarray) -> dict[str, Any]:
    """count, mean, sd, min, p1 .. p99.9, max of finite values; quantiles are order statistics (no
    interpolation).
    """
    if values.size == 0:
        return {"count": 0}
    found = {"count": int(values.size), "mean": float(values.mean()), "sd": float(values.std())}
    levels = quantiles(values, np.array([0.0, *LEVELS, 1.0]))
    names = ["min", *(f"p{100 * level:g}" for level in LEVELS), "max"]
    return found | dict(zip(names, map(float, levels)))


def quantiles(values: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """The smallest values that at least the share `levels` does not exceed."""
    n = values.size
    ranks = np.clip(np.ceil(levels * n).astype(np.int64), 1, n)
    if values.dtype.kind in "iu" and values.min() >= 0 and values.max() < COUNTABLE:
        return np.searchsorted(np.cumsum(np.bincount(values)), ranks)
    return np.sort(values)[ranks - 1]


def correlation(x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Pearson correlation with the standard error that independence would give; None without spread."""
    n = int(x.size)
    if n < 3:
        return {"value": None, "standard_error": None, "pairs": n}
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.sqrt(np.dot(x, x) * np.dot(y, y)))
    value = float(np.dot(x, y)) / scale if scale > 0 else None
    return {"value": value, "standard_error": 1 / np.sqrt(n), "pairs": n}


def mean_excess(
    values: np.ndarray, levels: tuple[float, ...] = (0.5, 0.9, 0.99, 0.999)
) -> list[dict[str, float]]:
    """E[X - q | X > q] at quantiles q with 20 values or more beyond: flat if the tail is exponential."""
    ordered = np.sort(values).astype(np.float64)
    rows = []
    for level in levels:
        beyond = ordered[int(np.ceil(level * ordered.size)) :]
        if beyond.size >= 20:
            threshold = ordered[int(np.ceil(level * ordered.size)) - 1]
            rows.append(
                {
                    "level": level,
                    "threshold": float(threshold),
                    "mean_excess": float(beyond.mean() - threshold),
                    "values_beyond": int(beyond.size),
                }
            )
    return rows


def hill_index(values: np.ndarray, share: float = 0.01) -> float | None:
    """Tail index alpha of the largest `share` of positive values (Hill); below 2 the variance is infinite."""
    largest = np.sort(values[values > 0])[::-1]
    count = int(share * largest.size)
    if count < 50 or largest[count] == largest[0]:
        return None
    return float(1 / np.mean(np.log(largest[:count] / largest[count])))
