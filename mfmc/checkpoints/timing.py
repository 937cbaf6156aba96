"""Where the time of a request goes, measured together: lookup, copies, computation, bookkeeping.

The weights are hashed once per decoder; `rehash_us` is what hashing them again at every request would add.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfmc.checkpoints.decoder import Decoder, DecoderShape
from mfmc.checkpoints.designs import DESIGNS
from mfmc.checkpoints.session import Answer, Request, answer
from mfmc.checkpoints.sweep import make_store

STAGES = ("lookup", "copy", "compute", "bookkeeping")


def measure_times(
    requests: Sequence[Request],
    boundaries: Sequence[int],
    capacity_tokens: int,
    width: int = 16,
    repeats: int = 3,
) -> list[dict[str, Any]]:
    """Microseconds a request, by stage, for every design and for no cache at all.

    All designs have the same budget in tokens and serve the same requests from cold. Every round does the
    same work, so that the fastest of `repeats` rounds, taken request by request, keeps other programs out.
    """
    decoder = Decoder.untrained(7, DecoderShape(width=width))
    budget = capacity_tokens * decoder.shape.token_bytes
    fastest: dict[str, NDArray[np.int64]] = {}
    answers: dict[str, list[Answer]] = {"no_cache": []}
    for _ in range(repeats):
        rounds = {"no_cache": times_without(decoder, requests)}
        for design in DESIGNS:
            store = make_store(design, budget, boundaries, ("A",), shape=decoder.shape)
            answers[design] = [answer(decoder, store, request) for request in requests]
            rounds[design] = np.array(
                [[getattr(given, f"{stage}_ns") for stage in STAGES] for given in answers[design]]
            )
        fastest = {design: np.minimum(taken, fastest.get(design, taken)) for design, taken in rounds.items()}
    tokens = sum(len(request.tokens) for request in requests)
    plain = float(fastest["no_cache"].sum())
    rehash = rehash_time(decoder)
    rows = []
    for design, taken in fastest.items():
        reused = sum(given.reused for given in answers[design])
        copied = sum(given.turnover.copy_bytes for given in answers[design])
        rows.append(
            {
                "design": design,
                "width": width,
                "budget": budget,
                "hit_ratio": reused / tokens,
                "rows_per_request": decoder.shape.projected_rows(tokens - reused) / len(requests),
                "copy_bytes_per_request": copied / len(requests),
                **{f"{stage}_us": float(ns) / 1000 for stage, ns in zip(STAGES, taken.mean(axis=0))},
                "total_us": float(taken.sum()) / 1000 / len(requests),
                "time_against_no_cache": float(taken.sum()) / plain,
                "rehash_us": rehash,
            }
        )
    return rows


def times_without(decoder: Decoder, requests: Sequence[Request]) -> NDArray[np.int64]:
    """Nanoseconds [requests, stages] where every request is computed from nothing."""
    taken = np.zeros((len(requests), len(STAGES)), dtype=np.int64)
    for index, request in enumerate(requests):
        began = time.perf_counter_ns()
        decoder.extend(np.asarray(request.tokens), decoder.empty())
        taken[index, STAGES.index("compute")] = time.perf_counter_ns() - began
    return taken


def rehash_time(decoder: Decoder) -> float:
    """Microseconds to hash the weights of a decoder that has not been hashed."""
    fresh = replace(decoder)
    began = time.perf_counter_ns()
    _ = fresh.signature
    return (time.perf_counter_ns() - began) / 1000
