"""Real traces: readers of public formats, one canonical turn table, and what it can be trusted with."""

from __future__ import annotations

from mfmc.traces.readers import FORMATS, read_trace
from mfmc.traces.table import ConversationTable, Gaps, Trace
from mfmc.traces.validation import validate_trace

__all__ = ["FORMATS", "ConversationTable", "Gaps", "Trace", "read_trace", "validate_trace"]
