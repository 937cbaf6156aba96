"""A draft from rows that Python collected (nested formats)."""

from __future__ import annotations

from typing import Any

import numpy as np

from mfmc.traces.rejections import Rejections
from mfmc.traces.staging import TEXTS, Draft

_TYPES = {"submitted_at": np.float64, "kind": np.int8, "source_row": np.int64}


def draft_of_rows(format: str, rejections: Rejections, rows: dict[str, list[Any]]) -> Draft:
    """Columns by role, every list of the same length, as a Draft."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for role, values in rows.items():
        if role == "block_hashes":
            columns[role] = pa.array(values, type=pa.list_(pa.int64()))
        elif role in TEXTS:
            columns[role] = pa.array(list(map(encodable, values)), type=None if values else pa.int64())
        else:
            columns[role] = np.array(values, dtype=_TYPES.get(role, np.int32))
    return Draft(format, rejections, **columns)


def encodable(identifier: Any) -> Any:
    """Half a surrogate pair, which JSON can name but no text hold, as its escape."""
    return identifier.encode(errors="backslashreplace").decode() if isinstance(identifier, str) else identifier
