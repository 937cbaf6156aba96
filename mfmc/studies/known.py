"""What is known beforehand, or better than a trace tells it: load, pace, and means of conversations."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Annotated, Any

from mfmc.config.convert import convert
from mfmc.config.known import read_mapping
from mfmc.config.ranges import Range
from mfmc.config.trace import TraceSection, load_trace
from mfmc.config.workload import GapsSection, build_law
from mfmc.errors import InputError
from mfmc.estimator import NoGaps, TraceEstimator
from mfmc.laws.gaps import ExponentialGaps
from mfmc.studies.context import Context


@dataclass(kw_only=True)
class PriorSection:
    """What is known of load and pace beforehand, or better than the trace does."""

    arrival_rate: Annotated[float | None, Range(above=0)] = None
    gap_mean: Annotated[float | None, Range(above=0)] = None
    gaps: GapsSection = field(default_factory=GapsSection)


@dataclass(kw_only=True)
class KnownSection(PriorSection):
    """Means that are known without a trace (Appendix C.2.2); also the keys of `estimate.file`."""

    accessed_blocks: Annotated[float | None, Range(above=0)] = None
    hashable_blocks: Annotated[float | None, Range(low=0)] = None
    mean_lifetime_blocks: Annotated[float | None, Range(above=0)] = None
    mean_turns: Annotated[float | None, Range(low=1)] = None


def known_means(section: KnownSection, file: str | None) -> KnownSection:
    """The command line's values over those of `estimate.file`."""
    if file is None:
        return section
    known = convert(KnownSection, read_mapping(file, "estimate.file"), "")
    for entry in fields(KnownSection):
        value = getattr(section, entry.name)
        if value is not None and not (entry.name == "gaps" and value.kind is None):
            setattr(known, entry.name, value)
    return known


def prior_law(known: PriorSection, key: str = "estimate") -> Any:
    """The gap law that is given, or None; `key` is the section's place, for messages."""
    if known.gaps.kind is not None:
        if known.gap_mean is not None:
            raise InputError(f"{key}.gap_mean and {key}.gaps.kind are both set: give one of them")
        return build_law(known.gaps, f"{key}.gaps")
    return None if known.gap_mean is None else ExponentialGaps(known.gap_mean)


def trace_estimator(
    section: TraceSection, known: PriorSection, replicates: int, context: Context, key: str
) -> TraceEstimator:
    """The estimator of a trace with what is `known` beforehand; `key` is the place of `known`, for
    messages.
    """
    trace = load_trace(section)
    context.notes.extend(trace.describe())
    if trace.clock != "shared" and known.arrival_rate is None:
        raise InputError(
            f"{section.path} has no common clock, so no arrival process can be read from it: give {key}.arrival_rate"
        )
    try:
        return TraceEstimator(
            trace,
            section.block_tokens,
            minimum_turns=section.minimum_turns,
            arrival_rate=known.arrival_rate,
            prior=prior_law(known, key),
            replicates=replicates,
            seed=context.settings.runtime.seed,
        )
    except NoGaps as error:
        raise InputError(f"{section.path}: {error}: give a gap law, {key}.gap_mean=SECONDS or {key}.gaps") from error
