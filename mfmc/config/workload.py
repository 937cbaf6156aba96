"""The `workload` node: its schema, and the `mfmc.workload.Workload` that it describes."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

from mfmc.config.ranges import Count, Range
from mfmc.config.trace import TraceFileSection, load_trace
from mfmc.errors import InputError

if TYPE_CHECKING:
    from mfmc.workload import Workload

#: Points of F that are kept of recorded gaps, between each two of which the exact law integrates.
SIMULATION_KNOTS = 256

# kind -> class in the module of mfmc.laws that has the same name
TURNS = {
    "geometric": "GeometricTurns",
    "negative_binomial": "NegativeBinomialTurns",
    "fixed": "FixedTurns",
    "poisson": "PoissonTurns",
    "empirical": "EmpiricalTurns",
}
BLOCKS = {
    "constant": "ConstantBlocks",
    "poisson": "PoissonBlocks",
    "geometric": "GeometricBlocks",
    "lognormal": "LognormalBlocks",
    "empirical": "EmpiricalBlocks",
}
TOKENS = {
    "lognormal": "LognormalTokens",
    "geometric": "GeometricTokens",
    "constant": "ConstantTokens",
    "empirical": "EmpiricalTokens",
}
GAPS = {
    "exponential": "ExponentialGaps",
    "gamma": "GammaGaps",
    "lognormal": "LognormalGaps",
    "weibull": "WeibullGaps",
    "hyperexponential": "HyperexponentialGaps",
    "uniform": "UniformGaps",
    "lomax": "LomaxGaps",
    "empirical": "EmpiricalGaps",
}
# key of the section -> parameter of the class, where the two differ (a list of probabilities is no number)
RENAMED = {"EmpiricalBlocks": {"first_probabilities": "first", "later_probabilities": "later"}}


@dataclass(kw_only=True)
class TurnsSection:
    """Law of the number of turns M of a conversation."""

    kind: Annotated[str | None, Range(choices=tuple(TURNS))] = None
    continuation: float | None = None
    mean: float | None = None
    variance: float | None = None
    minimum: int | None = None
    maximum: int | None = None
    count: int | None = None
    probabilities: list[float] | None = None


@dataclass(kw_only=True)
class BlocksSection:
    """Law of the block increments Z_1, Z_2, ... (blocks)."""

    kind: Annotated[str | None, Range(choices=tuple(BLOCKS))] = None
    first: float | None = None
    later: float | None = None
    first_minimum: int | None = None
    later_minimum: int | None = None
    first_probabilities: list[float] | None = None
    later_probabilities: list[float] | None = None
    sigma: float | None = None
    maximum: int | None = None
    trend: float | None = None
    length_power: float | None = None


@dataclass(kw_only=True)
class TokenLawSection:
    """Law of the tokens of a prompt or of a response."""

    kind: Annotated[str | None, Range(choices=tuple(TOKENS))] = None
    mean: float | None = None
    sigma: float | None = None
    maximum: int | None = None
    count: int | None = None
    probabilities: list[float] | None = None


@dataclass(kw_only=True)
class TokensSection:
    """Token laws of prompts and responses; with `block_tokens` they replace `blocks`."""

    prompt: TokenLawSection = field(default_factory=TokenLawSection)
    response: TokenLawSection = field(default_factory=TokenLawSection)


@dataclass(kw_only=True)
class GapsSection:
    """Law of the gaps W between the prompts of a conversation (unit of time of `arrival_rate`)."""

    kind: Annotated[str | None, Range(choices=tuple(GAPS))] = None
    mean: float | None = None
    shape: float | None = None
    sigma: float | None = None
    weights: list[float] | None = None
    means: list[float] | None = None
    low: float | None = None
    high: float | None = None
    samples: list[float] | None = None


_HOME: dict[type, tuple[str, dict[str, str]]] = {
    TurnsSection: ("turns", TURNS),
    BlocksSection: ("blocks", BLOCKS),
    TokenLawSection: ("tokens", TOKENS),
    GapsSection: ("gaps", GAPS),
}


@dataclass(kw_only=True)
class ColumnsSection:
    """Column names of a turns CSV."""

    conversation: str = "conv"
    turn: str = "turn"
    prompt_tokens: str = "prompt_tokens"
    response_tokens: str = "response_tokens"


@dataclass(kw_only=True)
class WorkloadSection:
    """Arrivals, conversations and gaps. Conversations come from laws (`turns` with `blocks` or `tokens`),
    from a CSV of real ones (`path`), or from a trace (`trace.path`), which may give gaps and arrivals as
    well.
    """

    name: str | None = None
    arrival_rate: Annotated[float | None, Range(above=0)] = None
    capacity: Count
    block_tokens: Annotated[int | None, Range(low=1)] = None
    turns: TurnsSection = field(default_factory=TurnsSection)
    blocks: BlocksSection = field(default_factory=BlocksSection)
    tokens: TokensSection = field(default_factory=TokensSection)
    gaps: GapsSection = field(default_factory=GapsSection)
    path: str | None = None
    columns: ColumnsSection = field(default_factory=ColumnsSection)
    minimum_turns: Count = 2
    trace: TraceFileSection = field(default_factory=TraceFileSection)

    def laws(self) -> dict[str, Any]:
        """The law sections by their key below `workload`."""
        return {
            "turns": self.turns,
            "blocks": self.blocks,
            "tokens.prompt": self.tokens.prompt,
            "tokens.response": self.tokens.response,
            "gaps": self.gaps,
        }


def _class_of(section: Any) -> type:
    """The law class of a section with a kind (imported here: the laws need jax)."""
    module, kinds = _HOME[type(section)]
    return getattr(import_module(f"mfmc.laws.{module}"), kinds[section.kind])


def _parameters(law: type) -> dict[str, inspect.Parameter]:
    """Key of the section -> parameter of the law's constructor."""
    keys = {name: key for key, name in RENAMED.get(law.__name__, {}).items()}
    return {keys.get(name, name): p for name, p in inspect.signature(law).parameters.items()}


def settle_kinds(workload: WorkloadSection, overridden: set[str]) -> None:
    """Where an override changed a law's `kind`, forget the file's parameters that the new kind does not have.

    `mfmc workload.gaps.kind=uniform workload.gaps.low=0 workload.gaps.high=270` then works although the file
    says `mean: 135`, and `workload.gaps.kind=gamma workload.gaps.shape=2` keeps that mean. A parameter that
    the user named is kept, and refused by `build_law` if the kind has no such thing.
    """
    for key, section in workload.laws().items():
        path = f"workload.{key}"
        if f"{path}.kind" not in overridden or section.kind is None:
            continue
        known = _parameters(_class_of(section))
        for entry in fields(section):
            if entry.name != "kind" and entry.name not in known and f"{path}.{entry.name}" not in overridden:
                setattr(section, entry.name, None)


def build_law(section: Any, key: str) -> Any:
    """The law that a section describes; `key` is its place in the configuration, for messages.

    Raises InputError for a missing kind or parameter, one that the kind does not have, or one out of range.
    """
    if section.kind is None:
        raise InputError(f"{key}.kind is not set: choose one of {', '.join(_HOME[type(section)][1])}")
    law = _class_of(section)
    known = _parameters(law)
    given = {
        entry.name: getattr(section, entry.name)
        for entry in fields(section)
        if entry.name != "kind" and getattr(section, entry.name) is not None
    }
    for name, value in given.items():
        if name not in known:
            raise InputError(
                f"{key}.{name}={value}: kind {section.kind} has no {name}; it takes {', '.join(known)}"
                f" (set {key}.{name}=null, or another kind)"
            )
    for name, parameter in known.items():
        if parameter.default is parameter.empty and name not in given:
            raise InputError(
                f"{key}.{name} is not set: kind {section.kind} needs {', '.join(_required(known))}"
            )
    try:
        return law(**{known[name].name: _value(value) for name, value in given.items()})
    except InputError as error:
        raise InputError(_at(key, known, str(error))) from error


def _at(key: str, known: dict[str, inspect.Parameter], message: str) -> str:
    """A law's own message, `turns.mean=1: ...` or `GammaGaps: shape=-1 ...`, with the setting's full key."""
    rest = re.sub(r"^\w+(\.|: )", "", message)
    name = rest.partition("=")[0]
    keys = {parameter.name: key for key, parameter in known.items()}
    return f"{key}.{keys[name]}{rest.removeprefix(name)}" if name in keys else f"{key}: {rest}"


def _value(value: Any) -> Any:
    """Lists as tuples: laws are hashable."""
    return tuple(value) if isinstance(value, list) else value


def _required(known: dict[str, inspect.Parameter]) -> list[str]:
    return [name for name, p in known.items() if p.default is p.empty]


def build_workload(section: WorkloadSection, notes: list[str] | None = None) -> Workload:
    """The workload at its own reference capacity (`workload.capacity`).

    `notes` collects lines for the report on what was read from a file and what was left out of it. Raises
    InputError naming the key that is missing, superfluous or out of range.
    """
    from mfmc.workload import Workload

    if section.trace.path is not None:
        return _from_trace(section, notes)
    if section.path is None and all(law.kind is None for key, law in section.laws().items() if key != "gaps"):
        raise InputError(
            "workload.path is not set: give a CSV of turns (workload.path=turns.csv.gz), a trace"
            " (workload.trace.path=FILE), or laws of turns and blocks"
        )
    if section.arrival_rate is None:
        raise InputError("workload.arrival_rate is not set: expected a number above 0")
    gaps = build_law(section.gaps, "workload.gaps")
    if section.path is not None:
        return Workload(section.arrival_rate, gaps, conversations=_recorded(section, section.path, notes))
    turns = build_law(section.turns, "workload.turns")
    return Workload(section.arrival_rate, gaps, turns=turns, blocks=_increments(section))


def _increments(section: WorkloadSection) -> Any:
    tokens = section.tokens
    if tokens.prompt.kind is None and tokens.response.kind is None:
        return build_law(section.blocks, "workload.blocks")
    if section.blocks.kind is not None:
        raise InputError(
            "workload.blocks and workload.tokens are both set: sizes come from one of them;"
            " set workload.blocks.kind=null or both workload.tokens.*.kind=null"
        )
    if section.block_tokens is None:
        raise InputError(
            "workload.block_tokens is not set: token laws need the tokens of one block, such as 128"
        )
    from mfmc.laws.tokens import TokenBlocks

    prompt = build_law(tokens.prompt, "workload.tokens.prompt")
    response = build_law(tokens.response, "workload.tokens.response")
    return TokenBlocks(prompt, response, section.block_tokens)


def _from_trace(section: WorkloadSection, notes: list[str] | None) -> Workload:
    """Conversations of a trace, resampled whole; gaps and arrival rate are its own unless they are given, and both are
    those of `study=estimate`.
    """
    from mfmc.estimator import NoGaps, TraceEstimator
    from mfmc.laws.recorded import RecordedConversations
    from mfmc.workload import Workload

    trace, given = load_trace(section.trace, "workload.trace"), section.gaps.kind is not None
    if section.path is not None:
        raise InputError(
            "workload.path and workload.trace.path are both set: conversations come from one of them"
        )
    _refuse_laws(section, f"workload.trace.path={section.trace.path}")
    if section.block_tokens is None:
        raise InputError(
            "workload.block_tokens is not set: a trace in tokens needs the tokens of a block, such as 128"
        )
    if trace.clock != "shared" and section.arrival_rate is None:
        raise InputError(
            f"workload.arrival_rate is not set, and {section.trace.path} has no common clock to read it"
            " from: give it"
        )
    try:
        estimator = TraceEstimator(
            trace,
            section.block_tokens,
            minimum_turns=section.minimum_turns,
            arrival_rate=section.arrival_rate,
            prior=build_law(section.gaps, "workload.gaps") if given else None,
            replicates=0,
        )
    except NoGaps as error:
        raise InputError(f"workload.gaps.kind is not set, and {error}: give a gap law") from error
    law = "prior" if given else estimator.default_law
    rate, gaps = float(estimator.arrival_rate), estimator.condensed_law(law, SIMULATION_KNOTS)
    if notes is not None:
        notes.extend(trace.describe())
        of_file = "" if section.arrival_rate is None else f" ({section.arrival_rate:g} of the file)"
        source = f"workload.gaps.kind={section.gaps.kind}" if given else f"the trace's {law.replace('_', '-')} law"
        notes.append(
            f"{rate:.6g} conversations a second for the cache{of_file}; gaps by {source}, mean {float(gaps.mean):.6g} s"
        )
    table = trace.conversations(section.block_tokens, section.minimum_turns)
    return Workload(rate, gaps, conversations=RecordedConversations.from_tokens(*table))


def _refuse_laws(section: WorkloadSection, source: str) -> None:
    """Sizes come from the file, or from laws."""
    for key, law in section.laws().items():
        if key != "gaps" and law.kind is not None:
            raise InputError(
                f"workload.{key}.kind={law.kind}: conversations come from {source};"
                f" set workload.{key}.kind=null, or {source.partition('=')[0]}=null"
            )


def _recorded(section: WorkloadSection, path: str, notes: list[str] | None) -> Any:
    """Real conversations of a file, to be resampled whole."""
    from mfmc.laws.recorded import RecordedConversations
    from mfmc.traces.turns_csv import read_turns

    if section.block_tokens is None:
        raise InputError(
            "workload.block_tokens is not set: a file in tokens needs the tokens of one block, such as 128"
        )
    _refuse_laws(section, f"workload.path={path}")
    table = read_turns(path, section.columns, minimum_turns=section.minimum_turns)
    if notes is not None:
        notes.extend(table.notes())
    return RecordedConversations.from_tokens(
        table.conversation, table.prompt_tokens, table.response_tokens, section.block_tokens
    )
