"""Any CSV or Parquet with one row per turn: columns by the user's map, or by the names that people commonly
use.
"""

from __future__ import annotations

from collections.abc import Mapping

from mfmc.errors import InputError
from mfmc.traces.readers.format import Format, Options
from mfmc.traces.source import Source
from mfmc.traces.staging import ROLES, Draft
from mfmc.traces.tabular import csv_header, parquet_columns, stage_csv, stage_parquet

ROLE_NAMES = tuple(role for role in ROLES if role != "block_hashes")
#: Names that are taken for a role where the user gives no map; compared in lower case with _ for blanks and
#: dashes.
COMMON_NAMES: Mapping[str, tuple[str, ...]] = {
    role: tuple(names.split())
    for role, names in {
        "conversation": "conversation conversation_id conv conv_id session session_id trace trace_id",
        "turn": "turn turn_index turn_id step round round_index",
        "submitted_at": "submitted_at timestamp time ts arrived_at arrival_time t t_s",
        "input_tokens": "input_tokens input_length prompt_length context_tokens contexttokens in_tokens"
        " num_prefill_tokens request_tokens",
        "new_prompt_tokens": "new_prompt_tokens prompt_tokens new_tokens",
        "response_tokens": "response_tokens output_tokens output_length completion_tokens generated_tokens"
        " generatedtokens out_tokens num_decode_tokens",
        "shared_tokens": "shared_tokens shared_prefix_tokens",
        "kind": "kind",
        "chat": "chat chat_id",
        "parent": "parent parent_id parent_chat_id",
    }.items()
}


def detect(source: Source) -> str | None:
    names = _names(source)
    if names is None:
        return None
    found = _common(names)
    if "response_tokens" not in found or not {"input_tokens", "new_prompt_tokens"} & found.keys():
        return None
    return "columns by their common names: " + ", ".join(f"{role}={name}" for role, name in found.items())


def read(source: Source, options: Options) -> Draft:
    names = _names(source)
    if names is None:
        raise InputError(f"{source.path}: format generic reads CSV and Parquet, this is {source.container}")
    columns = _checked(source, options.columns, names) if options.columns else _common(names)
    lengths = {"input_tokens", "new_prompt_tokens"} & columns.keys()
    if len(lengths) == 2:
        del columns["new_prompt_tokens"]
        lengths = {"input_tokens"}
    if not lengths or "response_tokens" not in columns:
        raise InputError(
            f"{source.path}: columns needed are response_tokens and input_tokens (the whole prompt) or"
            " new_prompt_tokens"
            f" (what the turn adds); found {', '.join(f'{r}={n}' for r, n in columns.items()) or 'none'}"
            " among"
            f" {', '.join(names)}: say columns={{input_tokens: NAME, ..}}"
        )
    if ("chat" in columns) != ("parent" in columns):
        columns = {role: name for role, name in columns.items() if role not in ("chat", "parent")}
    zero = "new_prompt_tokens" in columns
    if zero and not {"conversation", "chat"} & columns.keys():
        raise InputError(
            f"{source.path}: new_prompt_tokens needs a conversation column: say"
            f" columns={{conversation: NAME}}"
        )
    if "chat" in columns:
        columns.pop("conversation", None)
    stage = stage_parquet if source.container == "parquet" else stage_csv
    draft = stage(source, columns, "generic", zero_prompts=zero)
    draft.seconds_per_unit = None
    draft.evidence.append("columns: " + ", ".join(f"{role}={name}" for role, name in columns.items()))
    return draft


def _names(source: Source) -> list[str] | None:
    if source.container == "parquet":
        return list(parquet_columns(source))
    if source.container != "text" or source.head.lstrip().startswith((b"{", b"[")):
        return None
    return csv_header(source)


def _common(names: list[str]) -> dict[str, str]:
    plain = {name.strip().lower().replace(" ", "_").replace("-", "_"): name for name in reversed(names)}
    return {
        role: plain[usual]
        for role, usuals in COMMON_NAMES.items()
        if (usual := next((u for u in usuals if u in plain), None)) is not None
    }


def _checked(source: Source, columns: Mapping[str, str], names: list[str]) -> dict[str, str]:
    from difflib import get_close_matches

    for role, name in columns.items():
        if role not in ROLE_NAMES:
            near = get_close_matches(role, ROLE_NAMES, 1, cutoff=0.5)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InputError(f"columns.{role} is no role: choose of {', '.join(ROLE_NAMES)}{hint}")
        if name not in names:
            near = get_close_matches(str(name), names, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InputError(
                f"{source.path}: no column {name!r} (columns.{role}) among {', '.join(names)}{hint}"
            )
    return dict(columns)


FORMAT = Format("generic", detect, read)
