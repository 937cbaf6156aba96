"""Conversations from chained block hashes, where a file has no session id.

Hash i of a request names its first i blocks, so two requests with the same hash at a place share everything
before it. A request continues an earlier one whose **last full block** it contains, if its prompt holds at
least the earlier prompt and response, and if that block is not a common beginning: at most `fan_out_limit`
different blocks may follow it in the file (a system prompt is followed by thousands). Of the earlier requests
that end in one block the latest is taken, and of the blocks the deepest that gives a parent.
"""

from __future__ import annotations

import numpy as np

from mfmc.traces.staging import Draft
from mfmc.traces.tabular import connect

FAN_OUT_LIMITS = (1, 2, 4, 8, 16, 32, 64, 128, 1024, 1_000_000_000)


def parents_by_hashes(
    draft: Draft, fan_out_limit: int, limits: tuple[int, ...] = FAN_OUT_LIMITS
) -> tuple[np.ndarray, list[dict[str, int]]]:
    """(the row that each row continues, or -1; one row of the sensitivity table per fan-out limit).

    Rows are in time order: "earlier" means above. Both come from the same list of candidates, so the table
    costs no second pass over the blocks.
    """
    import pyarrow as pa

    full = draft.input_tokens // draft.hash_block_tokens
    lengths = draft.block_hashes.value_lengths().to_numpy()
    rows = pa.table(
        {
            "id": np.arange(len(draft)),
            "prompt": draft.input_tokens,
            "content": draft.input_tokens + draft.response_tokens,
            "full_blocks": np.minimum(full, lengths),
            "hashes": draft.block_hashes,
        }
    )
    with connect() as connection:
        connection.register("requests", rows)
        connection.execute(_CANDIDATES)
        candidates = connection.sql("FROM candidates ORDER BY id, place").fetchnumpy()
    table = [_sensitivity(candidates, limit, len(draft)) for limit in sorted({*limits, fan_out_limit})]
    return _parents(candidates, fan_out_limit, len(draft)), table


def _parents(candidates: dict[str, np.ndarray], limit: int, requests: int) -> np.ndarray:
    """The deepest candidate whose block has at most `limit` followers; -1 where there is none."""
    chosen = candidates["children"] <= limit
    parent = np.full(requests, -1, dtype=np.int64)
    parent[candidates["id"][chosen]] = candidates["parent"][chosen]  # in order of depth: the last one stays
    return parent


# One candidate per request and place: the latest earlier request whose last full block stands there.
_CANDIDATES = """
    CREATE TEMP TABLE blocks AS
        SELECT id, prompt, content, full_blocks,
               unnest(hashes) AS hash, generate_subscripts(hashes, 1) AS place
        FROM requests;
    CREATE TEMP TABLE fan_out AS
        SELECT hash, count(DISTINCT following) AS children FROM (
            SELECT hash, lead(hash) OVER (PARTITION BY id ORDER BY place) AS following FROM blocks
        ) GROUP BY hash;
    CREATE TEMP TABLE ends AS
        SELECT id AS parent, content AS parent_content, hash, place FROM blocks WHERE place = full_blocks;
    CREATE TEMP TABLE candidates AS
        SELECT b.id, b.place, e.parent, f.children
        FROM (SELECT * FROM blocks WHERE place <= full_blocks AND hash IN (SELECT hash FROM ends)) b
        ASOF JOIN ends e ON b.hash = e.hash AND b.place = e.place AND b.id > e.parent
        JOIN fan_out f ON f.hash = b.hash
        WHERE b.prompt >= e.parent_content;
"""


def _sensitivity(candidates: dict[str, np.ndarray], limit: int, requests: int) -> dict[str, int]:
    """Sessions, branching parents and the largest session at one fan-out limit."""
    parent = _parents(candidates, limit, requests)
    roots = root_of(parent)
    _, sizes = np.unique(roots, return_counts=True)
    return {
        "fan_out_limit": limit,
        "sessions": int(sizes.size),
        "branching_parents": int((np.bincount(parent[parent >= 0], minlength=1) > 1).sum()),
        "largest_session": int(sizes.max(initial=0)),
        "single_turn_sessions": int((sizes == 1).sum()),
    }


def root_of(parent: np.ndarray) -> np.ndarray:
    """The first ancestor of every row, by pointer jumping; -1 marks a root. `parent` has no cycles."""
    root = np.where(parent < 0, np.arange(parent.size), parent)
    while True:
        above = root[root]
        if np.array_equal(above, root):
            return root
        root = above
