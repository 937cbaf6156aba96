"""Times in seconds: which unit a file counts in, and from which moment."""

from __future__ import annotations

import numpy as np

from mfmc.errors import InputError
from mfmc.traces.staging import Draft

SECONDS_PER_UNIT = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
LAST_SECOND = 1e11  # the year 5138
EPOCH_SECONDS = 1e8  # 1973: numbers of seconds above this are dates, not times since the start of a trace


def to_seconds(draft: Draft, time_unit: str | None) -> float | None:
    """Turn `draft.submitted_at` into seconds since the trace's first second; returns that moment's Unix time.

    `time_unit` overrules; otherwise the format's own unit holds, and where it has none, the size of the
    numbers tells: today is 1.8e9 in seconds, 1.8e12 in milliseconds, 1.8e15 in microseconds, 1.8e18 in
    nanoseconds. The sentence that says so goes to `draft.evidence`. None is returned for clocks that are no
    dates.
    """
    times = draft.submitted_at
    if time_unit is not None and time_unit not in SECONDS_PER_UNIT:
        raise InputError(f"time_unit is {time_unit!r}: choose one of {', '.join(SECONDS_PER_UNIT)}")
    if times is None or not np.isfinite(times).any():
        return None
    if time_unit is not None:
        factor = SECONDS_PER_UNIT[time_unit]
        draft.evidence.append(f"times are in {time_unit}, as asked")
    elif draft.seconds_per_unit is not None:
        factor = draft.seconds_per_unit
    else:
        factor = _guess(float(np.nanmedian(times[: 1 << 16])), draft.evidence)
    draft.keep(~(times >= LAST_SECOND / factor), "time beyond any clock")
    times = draft.submitted_at
    if not np.isfinite(times).any():
        return None
    origin = float(np.floor(np.nanmin(times) * factor))
    if origin < EPOCH_SECONDS:
        draft.submitted_at = times * factor
        return None
    # Subtract first: whole milliseconds stay exact, sums of seconds since 1970 would not.
    draft.submitted_at = (times - origin * round(1 / factor)) * factor
    return origin


def _guess(typical: float, evidence: list[str]) -> float:
    for unit, factor in (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)):
        if typical * factor >= EPOCH_SECONDS:
            evidence.append(
                f"times near {typical:.4g}: dates counted in {unit} since 1970 (time_unit overrules)"
            )
            return factor
    evidence.append(f"times near {typical:.4g} are no dates: taken as seconds (time_unit overrules)")
    return 1.0
