"""TraceLab rounds of coding agents: JSON lines, or the DuckDB file with tables rounds and timing_events.

Neither round_id nor (session_id, round_index) is unique: rounds are ordered by round_index, then by their
place in the file. A round is submitted at its last input event (a user message, or the results of tools).
"""

from __future__ import annotations

from mfmc.errors import InputError
from mfmc.traces.readers.format import Format, Options, has_keys
from mfmc.traces.source import Source
from mfmc.traces.staging import Draft, epoch_microseconds, stage
from mfmc.traces.tabular import stage_jsonl

_COUNTS = ("round_index", "input_tokens_total", "prefix_tokens", "newly_append_tokens", "output_tokens")
STRUCTURE = (
    '{"session_id":"VARCHAR","first_input_event_type":"VARCHAR",'
    + ",".join(f'"{name}":"VARCHAR"' for name in _COUNTS)
    + ',"timing_events":[{"event_type":"VARCHAR","timestamp":"VARCHAR"}]}'
)
_TOTAL = (
    "COALESCE(TRY_CAST({0}input_tokens_total AS DOUBLE),"
    " TRY_CAST({0}prefix_tokens AS DOUBLE) + TRY_CAST({0}newly_append_tokens AS DOUBLE))"
)
_STAMPS = (
    f"list_transform(list_filter(o.timing_events, lambda e: {{0}}), lambda e: {epoch_microseconds('e.timestamp')})"
)
_IS_INPUT = "{0}event_type IN ('user_message', 'tool_result')"
_SUBMITTED = (
    f"COALESCE(list_max({_STAMPS.format(_IS_INPUT.format('e.'))}), list_min({_STAMPS.format('true')})) / 1e6"
)


def _expressions(prefix: str, submitted: str | None) -> dict[str, str]:
    found = {
        "conversation": f"{prefix}session_id",
        "turn": f"{prefix}round_index",
        "input_tokens": _TOTAL.format(prefix),
        "response_tokens": f"{prefix}output_tokens",
        "shared_tokens": f"COALESCE(TRY_CAST({prefix}prefix_tokens AS DOUBLE), 0)",
        "kind": f"{prefix}first_input_event_type",
    }
    return found | ({"submitted_at": submitted} if submitted else {})


def detect(source: Source) -> str | None:
    if source.container == "duckdb":
        return "a DuckDB file: TraceLab ships its rounds as one"
    return has_keys(source, {"session_id", "round_index", "output_tokens"})


def read(source: Source, options: Options) -> Draft:
    if source.container == "duckdb":
        draft = _read_duckdb(source)
    else:
        draft = stage_jsonl(source, STRUCTURE, _expressions("o.", _SUBMITTED), "tracelab", optional_time=True)
    draft.unique_turns = False
    draft.evidence.append(
        "rounds are ordered by round_index, then by their place in the file; their ids are not unique"
    )
    if len(draft):
        served = draft.shared_tokens.sum() / draft.input_tokens.sum()
        draft.evidence.append(f"the provider served {served:.3%} of the prompt tokens from its own cache")
    # What the provider's cache happened to hold says nothing of what the prompts share.
    draft.shared_tokens = None
    return draft


def _read_duckdb(source: Source) -> Draft:
    import duckdb

    try:
        with duckdb.connect(str(source.path), read_only=True) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            tables = {
                name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
            }
            if "rounds" not in tables:
                raise InputError(
                    f"{source.path}: this DuckDB file has no table 'rounds' (it has"
                    f" {', '.join(sorted(tables)) or 'none'})"
                )
            timed = "timing_events" in tables
            return stage(
                connection,
                _ROUNDS_TIMED if timed else "(SELECT * FROM rounds ORDER BY ingest_seq)",
                _expressions("", "submitted_at" if timed else None),
                "tracelab",
                optional_time=True,
            )
    except duckdb.Error as error:
        raise InputError(
            f"{source.path}: not a readable TraceLab DuckDB file ({str(error).splitlines()[0]})"
        ) from error


_ROUNDS_TIMED = f"""(
    SELECT r.*, e.submitted_at FROM rounds r LEFT JOIN (
        SELECT round_pk, COALESCE(
            max(t) FILTER (event_type IN ('user_message', 'tool_result')), min(t)) / 1e6 AS submitted_at
        FROM (SELECT round_pk, event_type, {epoch_microseconds('CAST("timestamp" AS VARCHAR)')} AS t
              FROM timing_events)
        GROUP BY round_pk
    ) e USING (round_pk) ORDER BY r.ingest_seq)"""

FORMAT = Format("tracelab", detect, read)
