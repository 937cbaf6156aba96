"""When each checkpoint was resident, and where it lies in a picture of the budget: from the log alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def residence_intervals(
    records: Sequence[dict[str, Any]], budget: int, token_bytes: int
) -> list[dict[str, Any]]:
    """One row per stay of a checkpoint, for the log of one cold store.

    Times count requests: request i occupies [i, i + 1) and its checkpoints are admitted at even steps within
    it. `bottom` (bytes) stacks what is resident at the same time, lowest free place first; `left` is None for
    what stayed.
    """
    stays: list[dict[str, Any]] = []
    resident: dict[tuple[str, tuple[int, ...]], dict[str, Any]] = {}
    names: dict[tuple[str, tuple[int, ...]], str] = {}
    first_boundary = min((length for record in records for length in record["admitted"]), default=0)
    for record in records:
        tokens = tuple(record["tokens"])
        opening = (record["scope"], tokens[:first_boundary])
        name = names.setdefault(opening, "ABCDEFGH"[len(names) % 8])
        waiting = [(item["scope"], tuple(item["tokens"])) for item in record["evicted"]]
        for order, length in enumerate(record["admitted"], start=1):
            now = record["index"] + order / (len(record["admitted"]) + 1)
            nbytes = length * token_bytes
            while sum(stay["nbytes"] for stay in resident.values()) + nbytes > budget:
                resident.pop(waiting.pop(0))["left"] = now
            stay = {
                "prefix": name,
                "length": length,
                "nbytes": nbytes,
                "bottom": lowest_gap(resident.values(), nbytes),
                "entered": now,
                "left": None,
            }
            resident[record["scope"], tokens[:length]] = stay
            stays.append(stay)
    return stays


def lowest_gap(resident: Any, nbytes: int) -> int:
    """The lowest offset at which `nbytes` fit between the places already taken."""
    bottom = 0
    for stay in sorted(resident, key=lambda stay: stay["bottom"]):
        if stay["bottom"] - bottom >= nbytes:
            break
        bottom = stay["bottom"] + stay["nbytes"]
    return bottom
