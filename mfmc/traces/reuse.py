"""What an endless cache would serve of a trace with block hashes, under every definition in use.

The definitions differ by several points, so every figure carries its name: of all blocks, of full blocks
only, of the tokens, of the tokens request by request (mean), and of the tokens of the second half of the
requests (a warm cache).
"""

from __future__ import annotations

import numpy as np

from mfmc.traces.table import Trace
from mfmc.traces.tabular import connect


def endless_reuse(trace: Trace) -> dict[str, float] | None:
    """Shares by definition; None where the file has no hashes that conversations share (or their size is
    unknown).
    """
    block = trace.hash_block_tokens
    if "block_hashes" not in trace.table.column_names or trace.hash_scope != "global" or not block:
        return None
    import pyarrow as pa

    order = np.lexsort((trace.source_row, trace.submitted_at))
    rank = np.empty(len(trace), dtype=np.int64)
    rank[order] = np.arange(len(trace))
    rows = pa.table(
        {"id": rank, "prompt": trace.input_tokens, "hashes": trace.table["block_hashes"].combine_chunks()}
    )
    with connect() as connection:
        connection.register("requests", rows)
        found = connection.sql(_REUSE.format(block=block, half=len(trace) // 2))
        shares = dict(zip(found.columns, found.fetchall()[0]))
    return None if None in shares.values() else {name: float(share) for name, share in shares.items()}


_REUSE = """
    WITH blocks AS (
        SELECT id, unnest(hashes) AS hash, generate_subscripts(hashes, 1) AS place, prompt FROM requests
    ), marked AS (
        SELECT id, place * {block} <= prompt AS is_full,
               GREATEST(LEAST({block}, prompt - (place - 1) * {block}), 0) AS tokens,
               id > min(id) OVER (PARTITION BY hash) AS seen
        FROM blocks
    ), by_request AS (
        SELECT id, COALESCE(sum(tokens) FILTER (seen), 0) AS hits, sum(tokens) AS tokens
        FROM marked GROUP BY id
    )
    SELECT (SELECT avg(seen::INT) FROM marked) AS of_blocks,
           (SELECT sum(tokens) FILTER (seen) / sum(tokens) FROM marked) AS of_tokens,
           (SELECT avg(seen::INT) FILTER (is_full) FROM marked) AS of_full_blocks,
           (SELECT avg(hits / tokens) FROM by_request) AS of_tokens_mean_over_requests,
           (SELECT sum(hits) / sum(tokens) FROM by_request WHERE id >= {half}) AS of_tokens_in_the_second_half
"""
