"""Probability mass functions that users write down: P(X = 1), P(X = 2), .. as a list."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from mfmc.errors import InputError


def checked_probabilities(key: str, probabilities: Iterable[float]) -> tuple[float, ...]:
    """The list as floats; InputError unless they are non-negative with a positive sum. `key` names it in messages."""
    values = tuple(float(p) for p in probabilities)
    if not (values and all(p >= 0 and math.isfinite(p) for p in values) and sum(values) > 0):
        raise InputError(f"{key}={list(values)!r}: expected non-negative numbers with a positive sum")
    return values


def pmf_from_one(probabilities: tuple[float, ...]) -> np.ndarray:
    """P(X = x) at index x, renormalised; index 0 is 0 and trailing zeros are left out."""
    p = np.trim_zeros(np.array((0.0, *probabilities)), "b")
    return p / p.sum()
