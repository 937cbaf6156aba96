"""Answer one request with a store: validate, look up, copy, compute the rest in segments, admit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mfmc.checkpoints.bookkeeping import CountingDecoder
from mfmc.checkpoints.decoder import Decoder, Floats, check_tokens
from mfmc.checkpoints.store import Query, Store, Turnover


@dataclass(frozen=True)
class Request:
    """One prompt: a cache-key scope (synthetic, not authentication), its conversation, and its tokens [n]."""

    scope: str
    conversation: int
    tokens: Sequence[int] | np.ndarray


@dataclass(frozen=True)
class Answer:
    """Outputs [n - reused, width] of the suffix, its cost in rows and bytes, and where the time went (ns).

    `lookup` is validation and the search, `copy` every explicit copy between the store and the query,
    `compute` the decoder, `bookkeeping` the rest of admission and eviction.
    """

    outputs: Floats | None
    reused: int
    rows: int
    turnover: Turnover
    resident_bytes: int
    lookup_ns: int
    copy_ns: int
    compute_ns: int
    bookkeeping_ns: int


def answer(decoder: Decoder | CountingDecoder, store: Store, request: Request) -> Answer:
    """Serve one request. At least the last token is always computed, so there is always a new output."""
    began = time.perf_counter_ns()
    tokens = check_tokens(request.tokens, decoder.shape.vocabulary)
    query = Query(decoder.signature, store.check_scope(request.scope), request.conversation, tokens)
    match = store.find(query)
    lookup_ns = time.perf_counter_ns() - began
    store.turnover = turnover = Turnover()
    cache = store.retrieve(match) if match.length else decoder.empty()
    outputs = []
    compute_ns = 0
    start = match.length
    for stop in store.stops(start, len(tokens)):
        segment_began = time.perf_counter_ns()
        segment, cache = decoder.extend(tokens[start:stop], cache)  # type: ignore[arg-type]
        compute_ns += time.perf_counter_ns() - segment_began
        if segment is not None:
            outputs.append(segment)
        store.admit(query, match, cache)
        start = stop
    total_ns = time.perf_counter_ns() - began
    return Answer(
        outputs=np.concatenate(outputs) if outputs else None,
        reused=match.length,
        rows=decoder.shape.projected_rows(len(tokens) - match.length),
        turnover=turnover,
        resident_bytes=store.resident_bytes,
        lookup_ns=lookup_ns,
        copy_ns=turnover.copy_ns,
        compute_ns=compute_ns,
        bookkeeping_ns=total_ns - lookup_ns - turnover.copy_ns - compute_ns,
    )
