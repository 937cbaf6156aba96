"""Small YAML files: known means for the estimator, read; workloads, written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mfmc.errors import InputError


def read_mapping(path: str, key: str) -> dict[str, Any]:
    """The settings at the top of a YAML file; `key` is the setting that named it, for messages."""
    import yaml

    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"{key}={path}: cannot be read ({(error.strerror or str(error)).lower()})"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise InputError(f"{key}={path}: not a YAML file{where}") from error
    if not isinstance(content, dict):
        raise InputError(f"{key}={path}: expected settings, name: value, found a {type(content).__name__}")
    return {str(name): value for name, value in content.items()}


def write_mapping(settings: dict[str, Any], comment: str) -> str:
    """Settings as YAML text under comment lines."""
    import yaml

    head = "".join(f"# {line}\n" for line in comment.splitlines())
    return head + yaml.safe_dump(settings, sort_keys=False, default_flow_style=None, width=110)
