"""Which configurations compute the same numbers: finished jobs and finished chunks are recognised by this."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from mfmc.provenance import versions

#: Settings that say where, with what and how fast a run computes, but not what.
WITHOUT_EFFECT = frozenset(
    {
        "output",
        "runtime.platform",
        "runtime.devices",
        "runtime.threads",
        "runtime.memory_gib",
        "runtime.chunk",
        "runtime.resume",
    }
)

#: Source that shows results and computes none: a better figure is no reason to repeat a week's sweep.
_ONLY_SHOWS = ("plotting*.py", "report.py", "progress.py", "collect.py")


def fingerprint(config: dict[str, Any]) -> str:
    """A name, 16 hexadecimal digits, of a resolved configuration, the files that it names, and this code."""
    facts = [_effective(config), versions(), _code()]
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _effective(value: Any, key: str = "") -> Any:
    """The settings that matter; a file that a text names is told by its size and time as well."""
    if isinstance(value, dict):
        inner = {name: f"{key}.{name}".lstrip(".") for name in value}
        return {name: _effective(value[name], inner[name]) for name in value if inner[name] not in WITHOUT_EFFECT}
    if isinstance(value, list):
        return [_effective(item, key) for item in value]
    if isinstance(value, str):
        try:
            status = Path(value).stat()
        except (OSError, ValueError):
            return value
        return [value, status.st_size, status.st_mtime_ns] if Path(value).is_file() else value
    return value


@lru_cache(maxsize=1)
def _code() -> str:
    return digest_of(Path(__file__).parent)


def digest_of(package: Path) -> str:
    """Digest of the source of a package that may compute a number: between two releases no version tells it."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        if not any(path.match(pattern) for pattern in _ONLY_SHOWS):
            digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
