"""The hit-ratio estimator (35)-(39) on a trace: three accountings, several laws of the gap, an interval.

The token-exact accounting is the default: the practical model (33) counts one unhashable tail block a turn
that no list of blocks can have (THEORY B9), and on ShareGPT lengths is 7 to 12 % off a literal replay where
the token-exact one, from the same data, is about 1 % off. The default law of the gap weighs every gap with the
blocks that wait for its end, so that it holds where gaps and sizes depend on each other, and is corrected for
the waits that the file's end cuts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mfmc.cores import on_cores
from mfmc.errors import InputError
from mfmc.estimator.bootstrap import GRID, Replicates, Units, interval
from mfmc.estimator.gap_laws import KaplanMeier, SeenGaps, condensed, size_weighted, usable_gaps
from mfmc.estimator.moments import ConversationSums, Moments, PartialWorkload, with_unseen_turns
from mfmc.laws.gaps import EmpiricalGaps, ExponentialGaps
from mfmc.laws.recorded import RecordedConversations
from mfmc.theory.mean_field import characteristic_time, hit_ratio
from mfmc.traces.table import Trace
from mfmc.workload import Workload

LAWS = ("size_weighted", "kaplan_meier", "empirical", "posterior", "prior")
DEFAULT_ACCOUNTING = "token"
FEWEST_CONTINUED = 5e-4  # of the conversations; below, there is nothing to estimate
#: The exact law is computed where the most turns times the most blocks of a conversation are no more: one
#: value takes some ten seconds and a gigabyte there.
EXACT_CELLS, EXACT_KNOTS, EXACT_CONVERSATIONS = 4_000_000, 128, 20_000


class NoGaps(InputError):
    """A trace without gaps to take a law from, and no law given."""


@dataclass(frozen=True)
class Estimate:
    """One estimate with its 95% bootstrap interval (None without resamples).

    hit_ratio: blocks served over blocks looked up, mean field (39); exact: the same at this finite N
    (THEORY B4), None where not computed. Units: blocks, and the trace's seconds.
    """

    capacity: float
    accounting: str
    law: str
    characteristic_time: float
    hit_ratio: float
    low: float | None = None
    high: float | None = None
    exact: float | None = None


class TraceEstimator:
    """All that is estimated from one trace; every figure is computed when asked for, once.

    trace: canonical turns. block_tokens: tokens of a block. minimum_turns: leave out shorter conversations
    (the paper takes 2). arrival_rate: conversations of the file per second, by default its own. prior: a gap law
    that is believed beforehand, beside those that the trace gives. replicates: bootstrap resamples, 0 for
    none.
    """

    def __init__(
        self,
        trace: Trace,
        block_tokens: int = 128,
        *,
        minimum_turns: int = 1,
        arrival_rate: float | None = None,
        prior: Any = None,
        replicates: int = 400,
        seed: int = 0,
    ) -> None:
        self.trace, self.minimum_turns = trace, minimum_turns
        self.block_tokens = block_tokens
        self.measured_rate = arrival_rate is None
        if arrival_rate is None and trace.clock != "shared":
            trace.window  # noqa: B018  (refused, with the reason)
        self.conversation_rate = arrival_rate
        self.arrival_rate = cache_arrival_rate(trace, arrival_rate, minimum_turns)
        self.gaps = usable_gaps(trace.gaps())
        self.prior = prior
        self.replicates = replicates
        self._seed = seed
        on_cores(lambda name: getattr(self, name), ("sums", "seen", "weighted"))
        continued, conversations = np.count_nonzero(self.sums.turns > 1), self.sums.turns.size
        if continued < FEWEST_CONTINUED * conversations:
            raise InputError(
                f"{trace.format}: {continued:,} of {conversations:,} prompts are continued by a later one that keeps"
                " them, so there is nothing to reuse within conversations and the hit ratio is 0 in every memory"
            )
        if not self.laws:
            raise NoGaps(f"{trace.format} has no gap above 0 s before a turn that keeps the one before")

    @cached_property
    def sums(self) -> ConversationSums:
        """Blocks of the trace's conversations, under every accounting."""
        prompts, lengths = self.trace.prompts(self.block_tokens, self.minimum_turns)
        return ConversationSums.of_prompts(prompts, lengths, self.block_tokens)

    @cached_property
    def seen(self) -> SeenGaps | None:
        """The trace's gaps; None where none is above 0."""
        ended = ~self.gaps.censored
        positive = ended.any() and self.gaps.seconds.max(where=ended, initial=0) > 0
        return SeenGaps.of(self.gaps.seconds, self.gaps.censored) if positive else None

    @cached_property
    def kaplan_meier(self) -> KaplanMeier | None:
        """F corrected for gaps cut by the end of the file; None where nothing is cut."""
        return self.seen.kaplan_meier() if self.seen is not None and self.gaps.censored.any() else None

    @cached_property
    def weighted(self) -> KaplanMeier | None:
        """F of a reusable block's gap, with the same correction; None where no gap above 0 follows a block."""
        return size_weighted(self.gaps, self.block_tokens)

    @cached_property
    def laws(self) -> dict[str, Any]:
        """Name -> law of the gap, the recommended one first: of LAWS, those that there are."""
        found: dict[str, Any] = {}
        if self.weighted is not None:
            found["size_weighted"] = self.weighted.law
        if self.kaplan_meier is not None:
            found["kaplan_meier"] = self.kaplan_meier.law
        if self.seen is not None:
            found["empirical"] = self.seen.empirical()
            found["posterior"] = ExponentialGaps(self.seen.mean)
        if self.prior is not None:
            found["prior"] = self.prior
        return found

    @property
    def default_law(self) -> str:
        """The law to use unless told otherwise."""
        return next(iter(self.laws))

    def workload(self, law: str | None = None) -> PartialWorkload:
        """The means of the trace's conversations with one of its laws: all that the mean field needs.

        With a law that is corrected for the file's end, so are the means: a gap that is longer than was seen
        takes nothing from the shorter ones, it adds a turn.
        """
        factor, first = self._unseen(law), self.sums.first_blocks
        known = tuple(
            (
                name,
                Moments(*map(float, with_unseen_turns(found.allocated, found.reusable, found.content, factor, first))),
            )
            for name, found in self.sums.known
        )
        return PartialWorkload(self.arrival_rate, self._law(law), known=known)

    def _unseen(self, law: str | None) -> float:
        corrected = {"size_weighted": self.weighted, "kaplan_meier": self.kaplan_meier}.get(law or self.default_law)
        return 1.0 if corrected is None else corrected.unseen

    def _law(self, law: str | None) -> Any:
        name = law or self.default_law
        if name not in self.laws:
            raise InputError(f"law {name!r}: this trace has {', '.join(self.laws)}")
        return self.laws[name]

    def condensed_law(self, law: str | None, most: int) -> Any:
        """A law of the gap; of recorded gaps at most `most` points of F."""
        gaps = self._law(law)
        return condensed(gaps, most) if isinstance(gaps, EmpiricalGaps) else gaps

    def estimate(
        self,
        capacity: float,
        accounting: str = DEFAULT_ACCOUNTING,
        law: str | None = None,
        *,
        exact: bool = False,
    ) -> Estimate:
        """The estimate for a memory of `capacity` blocks."""
        name = law or self.default_law
        workload = self.workload(name)
        value = float(hit_ratio(workload, capacity, accounting))
        low = high = None
        if self.replicates:
            low, high = interval(value, self.resampled(accounting, name).hit_ratio(capacity))
            low, high = max(low, 0.0), min(high, 1.0)
        return Estimate(
            capacity,
            accounting,
            name,
            float(characteristic_time(workload, capacity, accounting)),
            value,
            low,
            high,
            value + self.finite_size_correction(capacity, accounting, name) if exact else None,
        )

    @cached_property
    def _units(self) -> Units:
        rng = np.random.default_rng(self._seed)
        grid = np.ones(1) if self.seen is None else self.seen.quantiles(np.linspace(0, 1, GRID))
        grid = np.unique(np.append(0.0, grid))
        return Units.of(self.trace.owners(self.minimum_turns), self.sums.blocks, self.gaps, grid, rng)

    def resampled(self, accounting: str = DEFAULT_ACCOUNTING, law: str | None = None) -> Replicates:
        """The mean field on every bootstrap resample (row 0: the trace itself).

        Where the arrival rate is the trace's own, it varies as the count of Poisson arrivals does.
        """
        name = law or self.default_law
        if (accounting, name) not in self._resampled:
            rng = np.random.default_rng((self._seed, 1))
            weights = self._units.weights(self.replicates, rng)
            count = self.sums.turns.size
            arrivals = rng.poisson(count, self.replicates) / count if self.measured_rate else np.ones(self.replicates)
            rate = self.arrival_rate * np.append(1.0, np.maximum(arrivals, 1 / count))
            chosen = self.laws[name] if name == "prior" else name
            self._resampled[accounting, name] = Replicates.of(
                self._units, weights, accounting, rate, chosen, self._unseen(name), self.sums.first_blocks
            )
        return self._resampled[accounting, name]

    @cached_property
    def _resampled(self) -> dict[tuple[str, str], Replicates]:
        return {}

    # The exact law, and resampling

    @cached_property
    def conversations(self) -> RecordedConversations:
        """The trace's conversations as a law, drawn whole; the first of a large trace."""
        table = self.trace.conversations(self.block_tokens, self.minimum_turns)
        use = table.conversation < EXACT_CONVERSATIONS
        return RecordedConversations.from_tokens(
            table.conversation[use], table.prompt_tokens[use], table.response_tokens[use], table.block_tokens
        )

    @property
    def exact_refused(self) -> str | None:
        """Why the exact law is not computed for this trace, or None."""
        most_turns = int(self.sums.turns.max())
        largest = int(self.sums.blocks["whole"][0].max())
        if most_turns * largest > EXACT_CELLS:
            return f"conversations of up to {most_turns:,} turns and {largest:,} blocks (too much to compute)"
        return None

    def exact_workload(self, law: str | None = None) -> Workload:
        """The trace's conversations with at most EXACT_KNOTS points of a law: what the exact law is computed of."""
        name = law or self.default_law
        if name not in self._exact:
            gaps = self.condensed_law(name, EXACT_KNOTS)
            self._exact[name] = Workload(self.arrival_rate, gaps, conversations=self.conversations)
        return self._exact[name]

    @cached_property
    def _exact(self) -> dict[str, Workload]:
        return {}

    def finite_size_correction(self, capacity: float, accounting: str, law: str | None = None) -> float:
        """h(N) - h_inf: what the mean field misses at this N (THEORY B4). Blocks of a content leave one by one, the
        deepest first, as a cache of blocks has it.

        Raises InputError where `exact_refused` says why not.
        """
        from mfmc.theory.compound_poisson import hit_ratio_exact

        if self.exact_refused:
            raise InputError(f"the exact law is not computed for {self.exact_refused}")
        workload = self.exact_workload(law)
        exact = hit_ratio_exact(workload, capacity, accounting, eviction="block")
        return float(exact - hit_ratio(workload, capacity, accounting))


def cache_arrival_rate(trace: Trace, given: float | None = None, minimum_turns: int = 1) -> float:
    """Conversations per second as the cache sees them: the trace's own, or at `given` conversations of the file, each
    of which is several for the cache where its prompts shrink.
    """
    if given is None:
        return trace.arrival_rate(minimum_turns)
    owners = trace.owners(minimum_turns)
    return given * owners.size / (int(np.count_nonzero(np.diff(owners))) + 1)


def estimate_hit_ratio(
    trace: Trace,
    capacity: float,
    *,
    arrival_rate: float | None = None,
    accounting: str = DEFAULT_ACCOUNTING,
    law: str | None = None,
    block_tokens: int = 128,
    prior: Any = None,
    minimum_turns: int = 1,
    replicates: int = 400,
) -> Estimate:
    """The hit ratio that a memory of `capacity` blocks will have on the trace's workload (35)-(39).

    See `TraceEstimator` for the arguments; `law` is one of LAWS. Raises InputError where the trace lacks
    what the estimate needs (arrivals, gaps) and it was not given.
    """
    estimator = TraceEstimator(
        trace,
        block_tokens,
        minimum_turns=minimum_turns,
        arrival_rate=arrival_rate,
        prior=prior,
        replicates=replicates,
    )
    return estimator.estimate(capacity, accounting, law)
