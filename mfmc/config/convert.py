"""From a composed configuration to typed settings, or one line that says what is wrong and what would be right."""

from __future__ import annotations

import math
import types
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from typing import Any, Union, get_args, get_origin, get_type_hints

from mfmc.errors import InputError


def convert(schema: type, values: Any, path: str = "") -> Any:
    """An instance of the dataclass `schema` from nested plain `values`; every type and range is checked.

    `path` is the place of `values` in the configuration, for messages. Raises InputError.
    """
    if not isinstance(values, dict):
        raise InputError(f"{path}={_show(values)}: expected a group of settings ({', '.join(_names(schema))})")
    hints = get_type_hints(schema)
    for key in values:
        if key not in hints:
            raise InputError(unknown_setting(_join(path, str(key)), keys_of(schema, path)))
    taken = {}
    for entry in fields(schema):
        key = _join(path, entry.name)
        if entry.name not in values:
            if entry.default is MISSING and entry.default_factory is MISSING:
                raise InputError(f"{key} is not set")
            continue
        taken[entry.name] = _value(hints[entry.name], values[entry.name], key, entry.metadata)
    return schema(**taken)


def unknown_setting(key: str, known: list[str]) -> str:
    """The line for a key that does not exist, with the nearest one that does."""
    near = get_close_matches(key, known, 1, 0.7)
    if not near:  # the right name in the wrong place
        leaf = key.rsplit(".", 1)[-1]
        near = [name for name in known if name.rsplit(".", 1)[-1] == leaf] or get_close_matches(key, known, 1, 0.5)
    if near:
        return f"unknown setting '{key}'; did you mean '{near[0]}'?"
    group = key.rpartition(".")[0]
    siblings = [name for name in known if name.rpartition(".")[0] == group] or [n for n in known if "." not in n]
    return f"unknown setting '{key}'; known are {', '.join(siblings)}"


def keys_of(schema: type, path: str = "") -> list[str]:
    """Every dotted key of a schema, groups included."""
    found = []
    for name, hint in get_type_hints(schema).items():
        key = _join(path, name)
        found.append(key)
        if is_dataclass(hint):
            found.extend(keys_of(hint, key))
    return found


def _value(hint: Any, value: Any, key: str, rules: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        if value is None:
            return None
        hint = next(arm for arm in get_args(hint) if arm is not type(None))
    if value is None or (isinstance(value, str) and value == "???"):
        raise InputError(f"{key} is not set: expected {_expected(hint, rules)}")
    if is_dataclass(hint):
        return convert(hint, value, key)
    if get_origin(hint) is list:
        return _list(hint, value, key, rules)
    taken = _scalar(hint, value)
    if taken is None or not _in_range(taken, rules):
        raise InputError(f"{key}={_show(value)}: expected {_expected(hint, rules)}{_nearest(value, rules)}")
    return taken


def _list(hint: Any, value: Any, key: str, rules: Any) -> list:
    (inner,) = get_args(hint)
    if not isinstance(value, list):
        raise InputError(f"{key}={_show(value)}: expected a list, such as {key}=[{_show(value)}]")
    if rules.get("nonempty") and not value:
        raise InputError(f"{key}=[]: expected at least one entry")
    return [_value(inner, item, f"{key}[{i}]", rules) for i, item in enumerate(value)]


def _scalar(hint: type, value: Any) -> Any:
    """The value as `hint`, or None. Whole floats (1e6) count as whole numbers; true and text never count as numbers."""
    if hint is bool:
        return value if isinstance(value, bool) else None
    if hint is str:
        return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if hint is float:
        return float(value) if math.isfinite(value) else None
    return int(value) if math.isfinite(value) and value == int(value) else None


def _in_range(value: Any, rules: Any) -> bool:
    return (
        ("above" not in rules or value > rules["above"])
        and ("below" not in rules or value < rules["below"])
        and ("low" not in rules or value >= rules["low"])
        and ("high" not in rules or value <= rules["high"])
        and ("choices" not in rules or value in rules["choices"])
    )


def _expected(hint: Any, rules: Any) -> str:
    """What would be right, in words."""
    if "choices" in rules:
        choices = ", ".join(rules["choices"])
        return f"a list of {choices}" if get_origin(hint) is list else f"one of {choices}"
    if get_origin(hint) is list:
        return f"a list, each entry {_expected(get_args(hint)[0], rules)}"
    if is_dataclass(hint):
        return f"a group of settings ({', '.join(_names(hint))})"
    noun = {bool: "true or false", str: "a text", int: "a whole number", float: "a number"}[hint]
    bounds = [
        f"{word} {rules[name]:g}" if abs(rules[name]) < 1e6 else f"{word} {rules[name]}"
        for name, word in (("above", "above"), ("low", "of at least"), ("below", "below"), ("high", "at most"))
        if name in rules
    ]
    return " ".join([noun, " and ".join(bounds)]).strip()


def _nearest(value: Any, rules: Any) -> str:
    near = get_close_matches(str(value), rules.get("choices", ()), 1)
    return f"; did you mean {near[0]}?" if near else ""


def _show(value: Any) -> str:
    text = str(value).replace("\n", " ")
    return text if len(text) <= 60 else text[:57] + "..."


def _names(schema: type) -> list[str]:
    return [entry.name for entry in fields(schema)]


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
