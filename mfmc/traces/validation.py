"""The validation report of a trace: what is in it, how far the model's assumptions hold, what to trust."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from mfmc.errors import InputError
from mfmc.traces import assumptions
from mfmc.traces.assumptions import Histories
from mfmc.traces.distributions import GRID, distribution, quantiles
from mfmc.traces.plain_words import plain_words
from mfmc.traces.reuse import endless_reuse
from mfmc.traces.table import FIRST, REWRITTEN, Trace

SAMPLE_TURNS = 500_000


def validate_trace(trace: Trace, block_tokens: int = 128) -> dict[str, Any]:
    """Distributions and tests of a trace as plain numbers.

    Keys: `plain_words` (sentences, the most important first), `rows` (read = kept + rejected by reason),
    `evidence`, `treatments`, `sensitivity` (sessions by fan-out limit), `shape`, `constants` (the paper's, in
    blocks of `block_tokens`), `distributions` (name -> table row), `assumptions` (name -> figures),
    `endless_cache` (reuse by definition, for files with block hashes) and `arrays` (numpy, for figures). In
    files of many turns, sizes, gaps and their tests come from every k-th conversation, about `SAMPLE_TURNS`
    turns (`shape.sample_every`); rows, turns, arrivals and treatments always count everything.
    """
    if block_tokens < 1:
        raise InputError(f"block_tokens is {block_tokens}: expected at least 1 token a block")
    every = max(1, round(len(trace) / SAMPLE_TURNS))
    sample = trace.thinned(every)
    gaps = sample.gaps()
    histories = Histories.of(sample, block_tokens)
    observed = gaps.observed
    found: dict[str, Any] = {
        "rows": trace.rejections.to_dict(),
        "evidence": list(trace.evidence),
        "treatments": dict(trace.treatments),
        "sensitivity": list(trace.sensitivity),
        "shape": _shape(trace)
        | {"block_tokens": block_tokens, "sample_every": every, "sample_turns": len(sample)},
        "constants": histories.constants(),
        "distributions": {
            "turns": distribution(trace.lengths),
            "turns_for_the_cache": distribution(histories.lengths),
            "prompt_tokens": distribution(sample.input_tokens),
            "new_prompt_tokens": distribution(sample.new_prompt_tokens),
            "response_tokens": distribution(sample.response_tokens),
            "lifetime_blocks": distribution(histories.lifetime),
            "gap_seconds": distribution(observed),
        },
        "assumptions": {
            "append_only": assumptions.append_only(sample),
            "size_independence": assumptions.size_independence(histories),
            "gap_independence": assumptions.gap_independence(sample, gaps),
            "arrivals": assumptions.arrivals(trace),
            "tails": assumptions.tails(histories, gaps),
            "censoring": assumptions.censoring(
                trace.window if trace.clock == "shared" else None, sample, gaps
            ),
        },
        "endless_cache": endless_reuse(trace),
        "arrays": {
            "turns_count": np.bincount(trace.lengths),
            "lifetime_blocks_quantiles": quantiles(histories.lifetime, GRID),
            "prompt_tokens_quantiles": quantiles(sample.input_tokens, GRID),
            "gap_seconds_quantiles": quantiles(observed, GRID) if observed.size else np.zeros(0),
            "quantile_levels": GRID,
        },
    }
    return {"plain_words": plain_words(found, trace.clock)} | found


def _shape(trace: Trace) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "format": trace.format,
        "clock": trace.clock,
        "turns": len(trace),
        "conversations": int(trace.lengths.size),
        "conversations_for_the_cache": int(
            np.count_nonzero(trace.context == FIRST) + np.count_nonzero(trace.context >= REWRITTEN)
        ),
        "arrival_rate": None,
        "window_seconds": None,
    }
    if trace.clock == "shared":
        begin, end = trace.window
        shape["window_seconds"] = end - begin
        with suppress(InputError):  # all conversations may start at one time
            shape["arrival_rate"] = trace.arrival_rate()
    return shape
