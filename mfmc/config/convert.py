"""From a composed configuration to typed settings, or one line: what is wrong and what would be right."""

from __future__ import annotations

import math
import types
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from mfmc.config.ranges import Range
from mfmc.errors import InputError


def convert(schema: Any, values: Any, path: str = "") -> Any:
    """An instance of the dataclass `schema` from nested plain `values`; every type and range is checked.

    `path` is the place of `values` in the configuration, for messages. Raises InputError.
    """
    if not isinstance(values, dict):
        raise InputError(
            f"{path}={_show(values)}: expected a group of settings ({', '.join(_names(schema))})"
        )
    hints = get_type_hints(schema, include_extras=True)
    for key in values:
        if key not in hints:
            raise InputError(unknown_setting(_join(path, str(key)), keys_of(schema, path)))
    taken = {}
    for entry in fields(schema):
        key = _join(path, entry.name)
        if entry.name in values:
            hint, limits = _split(hints[entry.name])
            taken[entry.name] = _value(hint, limits, values[entry.name], key)
        elif entry.default is MISSING and entry.default_factory is MISSING:
            raise InputError(f"{key} is not set")
    return schema(**taken)


def _split(hint: Any) -> tuple[Any, Range]:
    """A type and its range: Annotated[int, Range(low=1)] -> int, Range(low=1)."""
    if get_origin(hint) is not Annotated:
        return hint, Range()
    inner, *extras = get_args(hint)
    return inner, next((extra for extra in extras if isinstance(extra, Range)), Range())


def unknown_setting(key: str, known: list[str]) -> str:
    """The line for a key that does not exist, with the nearest one that does."""
    near = get_close_matches(key, known, 1, 0.7)
    if not near:  # the right name in the wrong place
        leaf = key.rsplit(".", 1)[-1]
        near = [name for name in known if name.rsplit(".", 1)[-1] == leaf] or get_close_matches(
            key, known, 1, 0.5
        )
    if near:
        return f"unknown setting '{key}'; did you mean '{near[0]}'?"
    group = key.rpartition(".")[0]
    siblings = [name for name in known if name.rpartition(".")[0] == group] or [
        n for n in known if "." not in n
    ]
    return f"unknown setting '{key}'; known are {', '.join(siblings)}"


def keys_of(schema: Any, path: str = "") -> list[str]:
    """Every dotted key of a schema, groups included."""
    found = []
    for name, hint in get_type_hints(schema).items():
        key = _join(path, name)
        found.append(key)
        if is_dataclass(hint):
            found.extend(keys_of(hint, key))
    return found


def _value(hint: Any, limits: Range, value: Any, key: str) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        if value is None:
            return None
        hint = next(arm for arm in get_args(hint) if arm is not type(None))
    if value is None or value == "???":
        raise InputError(f"{key} is not set: expected {_expected(hint, limits)}")
    if is_dataclass(hint):
        return convert(hint, value, key)
    if get_origin(hint) is list:
        return _list(hint, limits, value, key)
    taken = _scalar(hint, value)
    if taken is None or not limits.holds(taken):
        near = get_close_matches(str(value), limits.choices or (), 1)
        hint_at = f"; did you mean {near[0]}?" if near else ""
        raise InputError(f"{key}={_show(value)}: expected {_expected(hint, limits)}{hint_at}")
    return taken


def _list(hint: Any, limits: Range, value: Any, key: str) -> list:
    (inner,) = get_args(hint)
    if not isinstance(value, list):
        raise InputError(f"{key}={_show(value)}: expected a list, such as {key}=[{_show(value)}]")
    if limits.nonempty and not value:
        raise InputError(f"{key}=[]: expected at least one entry")
    return [_value(inner, limits, item, f"{key}[{i}]") for i, item in enumerate(value)]


def _scalar(hint: type, value: Any) -> Any:
    """The value as `hint`, or None. 1e6 is a whole number; true and texts are never numbers."""
    if hint is bool:
        return value if isinstance(value, bool) else None
    if hint is str:
        return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    if hint is float:
        return float(value)
    return int(value) if value == int(value) else None


def _expected(hint: Any, limits: Range) -> str:
    """What would be right, in words."""
    if is_dataclass(hint):
        return f"a group of settings ({', '.join(_names(hint))})"
    if get_origin(hint) is list:
        return f"a list, each entry {_expected(get_args(hint)[0], limits)}"
    if limits.choices:
        return f"one of {', '.join(limits.choices)}"
    noun = {bool: "true or false", str: "a text", int: "a whole number", float: "a number"}[hint]
    bounds = {"above": limits.above, "of at least": limits.low, "below": limits.below, "at most": limits.high}
    words = [f"{word} {bound}" for word, bound in bounds.items() if bound is not None]
    return f"{noun} {' and '.join(words)}".strip()


def _show(value: Any) -> str:
    text = str(value).replace("\n", " ")
    return text if len(text) <= 60 else text[:57] + "..."


def _names(schema: Any) -> list[str]:
    return [entry.name for entry in fields(schema)]


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
