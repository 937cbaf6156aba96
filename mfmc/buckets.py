"""Sizes of tables and buffers, rounded up to few: one compiled program then serves many workloads."""

from __future__ import annotations

import numpy as np


def round_up(size: int, bits: int = 3) -> int:
    """The next number of at most so many significant bits: 3 bits waste a quarter at worst, 1 bit a half."""
    step = 1 << max(int(size).bit_length() - bits, 0)
    return -(-int(size) // step) * step


def padded(table: np.ndarray) -> np.ndarray:
    """The table with its last entry repeated to the next power of two along the last axis."""
    more = round_up(table.shape[-1], 1) - table.shape[-1]
    return np.pad(table, [(0, 0)] * (table.ndim - 1) + [(0, more)], mode="edge")
