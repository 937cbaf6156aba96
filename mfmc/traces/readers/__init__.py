"""Readers, one file a format, and the one door to them: `read_trace`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

from mfmc.errors import InputError
from mfmc.traces.json_text import object_keys
from mfmc.traces.readers import (
    agentic_steps,
    azure,
    burstgpt,
    generic,
    kv_cache_tester,
    lmcache_agent,
    mooncake,
    qwen_bailian,
    ragpulse,
    sharegpt,
    sharegpt_turns,
    tracelab,
    vidur,
    vllm_multi_turn,
)
from mfmc.traces.readers.format import Format, Options
from mfmc.traces.sessions import assemble
from mfmc.traces.source import Source
from mfmc.traces.table import Trace, is_trace_file

#: In the order in which they are tried: the first that recognises a file reads it.
FORMATS: Mapping[str, Format] = {
    module.FORMAT.name: module.FORMAT
    for module in (
        kv_cache_tester, tracelab, qwen_bailian, ragpulse, mooncake, sharegpt, vllm_multi_turn, lmcache_agent,
        agentic_steps, burstgpt, azure, vidur, sharegpt_turns, generic,
    )
}  # fmt: skip
OWN_FORMAT = "mfmc"


def read_trace(
    path: str | Path,
    format: str | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    time_unit: str | None = None,
    tokenizer: str | Callable[[str], int] | None = None,
    characters_per_token: float | None = None,
    fan_out_limit: int = 16,
    hash_block_tokens: int | None = None,
) -> Trace:
    """Read a trace file or folder: plain, gzip or zstd.

    `format`: one of FORMATS; by default it is recognised from the content, and `Trace.evidence` says by what.
    `columns`: role -> column name, for CSV and Parquet of other people's making (roles as in
    `generic.ROLE_NAMES`). `time_unit`: s, ms, us or ns where the format's own (or the guess) is wrong.
    `tokenizer`, `characters_per_token`: lengths of texts, see `lengths.token_counter`. `fan_out_limit`,
    `hash_block_tokens`: sessions from block hashes, see `prefix_chain`. Raises InputError, in one line, for
    whatever cannot be read.
    """
    _check_packages()
    _check(columns, fan_out_limit, hash_block_tokens)
    source = Source.open(path)
    if source.container == "parquet" and format in (None, OWN_FORMAT) and not columns and is_trace_file(path):
        return Trace.from_parquet(path)
    chosen, evidence = _choose(source, format, columns)
    options = Options(columns, tokenizer, characters_per_token, hash_block_tokens)
    draft = chosen.read(source, options)
    draft.evidence = [f"format {chosen.name}: {evidence}", *source.evidence, *draft.evidence, *source.notes()]
    try:
        return assemble(draft, time_unit, fan_out_limit)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _choose(source: Source, format: str | None, columns: Mapping[str, str] | None) -> tuple[Format, str]:
    if format is not None:
        if format not in FORMATS:
            near = get_close_matches(str(format), FORMATS, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InputError(f"trace.format={format} is unknown: choose one of {', '.join(FORMATS)}{hint}")
        if source.container == "text":
            source.head  # noqa: B018  (refuses what is no text)
        return FORMATS[format], "as asked"
    if columns:
        return FORMATS["generic"], "a map of columns was given"
    for candidate in FORMATS.values():
        evidence = candidate.detect(source)
        if evidence is not None:
            return candidate, evidence
    raise InputError(
        f"{source.path}: no known format ({_impression(source)}); name it with trace.format="
        f"{'|'.join(FORMATS)}, or give trace.columns for a CSV or Parquet file"
    )


def _impression(source: Source) -> str:
    """What the file looks like, for the message."""
    if source.container == "folder":
        return "a folder without JSON files"
    if source.container != "text":
        return source.container
    if source.head.lstrip().startswith((b"{", b"[")):
        keys = object_keys(source)
        return f"JSON with keys {', '.join(list(keys)[:12])}" if keys else "JSON without an object"
    first = source.head.lstrip().split(b"\n", 1)[0][:80].decode(errors="replace").strip()
    return f"the first line is {first!r}"


def _check_packages() -> None:
    missing = [name for name in ("duckdb", "pyarrow", "zstandard") if find_spec(name) is None]
    if missing:
        raise InputError(f"reading traces needs {', '.join(missing)}: pip install 'mfmc[traces]'")


def _check(columns: Mapping[str, str] | None, fan_out_limit: int, hash_block_tokens: int | None) -> None:
    if columns is not None and not all(isinstance(text, str) for pair in columns.items() for text in pair):
        raise InputError(f"columns is {columns!r}: expected a map of role names to column names")
    if fan_out_limit < 1:
        raise InputError(f"fan_out_limit is {fan_out_limit}: expected at least 1")
    if hash_block_tokens is not None and hash_block_tokens < 1:
        raise InputError(f"hash_block_tokens is {hash_block_tokens}: expected at least 1")
