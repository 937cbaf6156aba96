"""Where the time of a request goes, measured together: lookup, copies, computation, bookkeeping.

The weights are hashed once per decoder; `rehash_us` is what hashing them again at every request would add.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mfmc.checkpoints.decoder import Decoder, DecoderShape
from mfmc.checkpoints.designs import DESIGNS
from mfmc.checkpoints.session import Request
from mfmc.checkpoints.sweep import STAGES, make_store, serve


def measure_times(
    requests: Sequence[Request],
    boundaries: Sequence[int],
    capacity_tokens: int,
    width: int = 16,
    repeats: int = 2,
) -> list[dict[str, Any]]:
    """Microseconds a request, by stage, for every design and for no cache; the fastest of `repeats` rounds.

    All designs have the same budget in tokens, and serve the same requests from cold on one thread of Python.
    """
    decoder = Decoder.untrained(7, DecoderShape(width=width))
    budget = capacity_tokens * decoder.shape.token_bytes
    best: dict[str, dict[str, Any]] = {}
    for _ in range(repeats):
        for design in ("no_cache", *DESIGNS):
            row = (
                measure_without(decoder, requests)
                if design == "no_cache"
                else measure_with(decoder, requests, boundaries, budget, design)
            )
            if design not in best or row["total_us"] < best[design]["total_us"]:
                best[design] = row
    plain = best["no_cache"]["total_us"]
    began = time.perf_counter_ns()
    replace(decoder).signature  # noqa: B018
    rehash = (time.perf_counter_ns() - began) / 1000
    return [
        {
            "design": design,
            "width": width,
            "budget": budget,
            **row,
            "time_against_no_cache": row["total_us"] / plain,
            "rehash_us": rehash,
        }
        for design, row in best.items()
    ]


def measure_with(
    decoder: Decoder, requests: Sequence[Request], boundaries: Sequence[int], budget: int, design: str
) -> dict[str, Any]:
    store = make_store(design, budget, boundaries, ("A",), shape=decoder.shape)
    tally = serve(decoder, store, requests)
    times = {f"{stage}_us": getattr(tally, f"{stage}_ns") / 1000 / tally.requests for stage in STAGES}
    return {
        "hit_ratio": tally.hit_ratio,
        "rows_per_request": tally.projected_rows / tally.requests,
        "copy_bytes_per_request": tally.copy_bytes / tally.requests,
        **times,
        "total_us": sum(times.values()),
    }


def measure_without(decoder: Decoder, requests: Sequence[Request]) -> dict[str, Any]:
    began = time.perf_counter_ns()
    for request in requests:
        decoder.extend(np.asarray(request.tokens), decoder.empty())
    each = (time.perf_counter_ns() - began) / 1000 / len(requests)
    tokens = sum(len(request.tokens) for request in requests)
    times = dict.fromkeys((f"{stage}_us" for stage in STAGES), 0.0) | {"compute_us": each}
    return {
        "hit_ratio": 0.0,
        "rows_per_request": decoder.shape.projected_rows(tokens) / len(requests),
        "copy_bytes_per_request": 0.0,
        **times,
        "total_us": each,
    }
