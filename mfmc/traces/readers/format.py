"""What a reader is: a name, how to recognise its files, and how to read one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from mfmc.traces.json_text import object_keys
from mfmc.traces.source import Source
from mfmc.traces.staging import Draft
from mfmc.traces.tabular import csv_header


@dataclass(frozen=True)
class Options:
    """What the user may say about a file. `columns`: role -> name in the file (generic formats)."""

    columns: Mapping[str, str] | None = None
    tokenizer: str | Callable[[str], int] | None = None
    characters_per_token: float | None = None
    hash_block_tokens: int | None = None


@dataclass(frozen=True)
class Format:
    """`detect` gives the sentence that says why a file is of this format, or None."""

    name: str
    detect: Callable[[Source], str | None]
    read: Callable[[Source, Options], Draft]


def has_keys(source: Source, needed: set[str], without: set[str] = frozenset()) -> str | None:  # type: ignore[assignment]
    """Evidence that the file's JSON objects have these keys and none of those."""
    if source.container != "text" or not source.head.lstrip().startswith((b"{", b"[")):
        return None
    keys = object_keys(source)
    if needed <= keys.keys() and not without & keys.keys():
        return f"JSON objects have {', '.join(sorted(needed))}"
    return None


def has_columns(source: Source, needed: set[str]) -> str | None:
    """Evidence that the file is a CSV with these columns."""
    if source.container != "text" or source.head.lstrip().startswith((b"{", b"[")):
        return None
    if needed <= set(csv_header(source)):
        return f"the CSV header has {', '.join(sorted(needed))}"
    return None


def block_hashes(raw: str, missing: str) -> str:
    """SQL for the hashes in a JSON array, given as text; what is no array of whole numbers holds a NULL (`stage`
    rejects it, where a cast would round 1.5 and take true for 1). `missing`: SQL for an array that is not there.
    """
    return (
        f"""CASE WHEN {raw} IS NULL THEN {missing} WHEN regexp_matches({raw}, '[^][0-9,"\\s-]') THEN [NULL]"""
        f""" ELSE COALESCE(TRY(from_json({raw}, '["BIGINT"]')), [NULL]) END"""
    )


def settle_hash_block(draft: Draft, usual: int, asked: int | None, candidates: tuple[int, ...]) -> None:
    """Set `draft.hash_block_tokens`: as asked, or the size that explains most list lengths (usual first)."""
    if asked is not None:
        draft.hash_block_tokens = asked
        draft.evidence.append(f"{asked} tokens a block hash, as asked")
        return
    if not len(draft):
        draft.hash_block_tokens = usual
        return
    lengths = draft.block_hashes.value_lengths().to_numpy()
    prompt = draft.input_tokens
    fits = {k: np.mean((lengths == -(-prompt // k)) | (lengths == prompt // k)) for k in (usual, *candidates)}
    best = usual if fits[usual] >= 0.9 else max(fits, key=lambda k: fits[k])
    draft.hash_block_tokens = best
    draft.evidence.append(
        f"{best} tokens a block hash: explains the number of hashes in {fits[best]:.2%} of the rows"
        " (hash_block_tokens overrules)"
    )
