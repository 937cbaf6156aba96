"""The five designs: invariants on random prompts, independent LRU models, and traces worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfmc.checkpoints.audit import replay
from mfmc.checkpoints.bookkeeping import CountingDecoder
from mfmc.checkpoints.decoder import Decoder
from mfmc.checkpoints.designs import DESIGNS, EveryCheckpoint, ValuePerByte
from mfmc.checkpoints.experiment import log_record
from mfmc.checkpoints.session import Request, answer
from mfmc.checkpoints.sweep import make_store, serve
from mfmc.checkpoints.traces import BOUNDARIES, SCOPES, TRACES, conversation_trace
from mfmc.lru.accesses import accesses_from_arrays

BOUNDS = (2, 4, 7, 8)
DECODER = Decoder.untrained(11)
TOKEN = DECODER.shape.token_bytes

prompts = st.lists(st.integers(0, 1), min_size=1, max_size=10)
requests = st.lists(
    st.builds(Request, scope=st.sampled_from("AB"), conversation=st.integers(0, 2), tokens=prompts),
    min_size=1,
    max_size=30,
)
budgets = st.integers(0, 30).map(lambda tokens: tokens * TOKEN + 100)


def served(design, decoder, budget, stream):
    store = make_store(design, budget, BOUNDS, SCOPES)
    return store, [answer(decoder, store, request) for request in stream]


@pytest.mark.parametrize("design", DESIGNS)
@settings(max_examples=40)
@given(stream=requests, budget=budgets)
def test_invariants_on_random_prompts(design, stream, budget):
    store = make_store(design, budget, BOUNDS, SCOPES)
    for request in stream:
        got = answer(DECODER, store, request)
        assert store.resident_bytes == sum(entry.cache.nbytes for entry in store.entries.values()) <= budget
        assert 0 <= got.reused < len(request.tokens)
        assert got.rows == 6 * (len(request.tokens) - got.reused)
        full = DECODER.extend(np.asarray(request.tokens), DECODER.empty())[0]
        np.testing.assert_allclose(got.outputs, full[got.reused :], atol=1e-12)
        assert min(got.lookup_ns, got.copy_ns, got.compute_ns, got.bookkeeping_ns) >= 0


@pytest.mark.parametrize("design", DESIGNS)
@settings(max_examples=25)
@given(stream=requests, budget=budgets)
def test_bookkeeping_decoder_gives_the_same_log(design, stream, budget):
    def log(decoder):
        return [
            (
                got.reused,
                got.rows,
                got.resident_bytes,
                got.turnover.admitted,
                [key[1:] for key in got.turnover.evicted],
                [key[1:] for key in got.turnover.superseded],
                got.turnover.skipped,
                got.turnover.copy_bytes,
            )
            for got in served(design, decoder, budget, stream)[1]
        ]

    assert log(DECODER) == log(CountingDecoder())


def disagreements(store_class, stream, budget):
    """How the audit's own LRU list differs from a store on any prompts."""
    store = store_class(budget, BOUNDS, SCOPES)
    records = [
        {
            "index": i,
            "scope": r.scope,
            "tokens": list(r.tokens),
            **log_record(answer(CountingDecoder(), store, r)),
        }
        for i, r in enumerate(stream)
    ]
    header = {"token_bytes": TOKEN, "decoder": {"layers": 2}, "boundaries": list(BOUNDS)}
    return replay(header, budget, records)[1]


@settings(max_examples=150)
@given(stream=requests, budget=budgets)
def test_every_checkpoint_is_the_lru_of_the_audit(stream, budget):
    assert disagreements(EveryCheckpoint, stream, budget) == []


class FirstInFirstOut(EveryCheckpoint):
    """A mutant: hits do not refresh."""

    def retrieve(self, match):
        return self.owned(*(self.entries[key].cache for key in match.keys))


class OneByteTooMany(EveryCheckpoint):
    """A mutant: it evicts where the new checkpoint would fit exactly."""

    def make_room(self, nbytes):
        super().make_room(min(nbytes + 1, self.budget))


@pytest.mark.parametrize("mutant", [FirstInFirstOut, OneByteTooMany])
def test_the_audit_catches_mutants(mutant):
    rng = np.random.default_rng(3)
    stream = [Request("A", 0, rng.integers(0, 2, size=9).tolist()) for _ in range(60)]
    exact = [tokens * TOKEN for tokens in range(8, 30)]
    assert not any(disagreements(EveryCheckpoint, stream, budget) for budget in exact)
    assert any(disagreements(mutant, stream, budget) for budget in exact)


@settings(max_examples=60)
@given(stream=requests, budget=budgets)
def test_shared_blocks_never_leave_an_orphan(stream, budget):
    store = make_store("shared_blocks", budget, BOUNDS, SCOPES)
    for request in stream:
        answer(CountingDecoder(), store, request)
        for signature, scope, prefix in store.entries:
            shorter = [b for b in BOUNDS if b < len(prefix) // 8]
            assert all((signature, scope, prefix[: 8 * b]) in store.entries for b in shorter)


@settings(max_examples=60)
@given(stream=requests, budget=budgets)
def test_value_per_byte_tracks_exactly_what_is_resident(stream, budget):
    store = ValuePerByte(budget, BOUNDS, SCOPES)
    clock = 0.0
    for request in stream:
        answer(CountingDecoder(), store, request)
        assert store.stamps.keys() == store.entries.keys()
        live = {key for stamp, key in store.heap if store.stamps.get(key) == stamp}
        assert live == store.entries.keys()
        assert store.clock >= clock
        clock = store.clock


def test_keep_longest_holds_one_checkpoint_a_conversation():
    tokens = np.random.default_rng(0).integers(0, 32, size=40)
    store = make_store("keep_longest", 10**6, range(4, 41, 4), SCOPES)
    for length in (6, 13, 30, 40):
        answer(CountingDecoder(), store, Request("A", 0, tokens[:length]))
        assert [len(key[2]) // 8 for key in store.entries] == [length // 4 * 4]


def test_an_edited_history_is_reused_up_to_its_first_change():
    store = make_store("whole_conversation", 10**6, BOUNDARIES, SCOPES)
    answer(DECODER, store, Request("A", 0, [1, 2, 3, 4, 5, 6]))
    got = answer(DECODER, store, Request("A", 0, [1, 2, 3, 9, 5, 6, 7]))
    assert got.reused == 3
    assert answer(DECODER, store, Request("A", 0, [1, 2, 3, 9, 5])).reused == 4


# design, budget -> hits, projected rows, evictions on the alternating trace, worked out by hand:
# keep_longest: one 4,224 B checkpoint a branch; value_per_byte: B8 is worth no more than A8, so B4 goes
# beside it; shared_blocks: suffixes go first, so A4 and B4 stay; whole_conversation: 6,336 B a branch, 11 of
# 12 tokens reused.
ALTERNATING = {
    ("keep_longest", 8192): (0, 864, 11),
    ("keep_longest", 8448): (10, 384, 0),
    ("value_per_byte", 8192): (10, 2 * 72 + 5 * 24 + 5 * 48, 0),
    ("value_per_byte", 4096): (5, 7 * 72 + 5 * 48, 0),
    ("shared_blocks", 8192): (10, 2 * 72 + 10 * 48, 11),
    ("shared_blocks", 8448): (10, 384, 0),
    ("whole_conversation", 12671): (0, 864, 11),
    ("whole_conversation", 12672): (10, 2 * 72 + 10 * 6, 0),
    ("every_checkpoint", 10559): (0, 864, 22),
    ("every_checkpoint", 10560): (10, 384, 1),
}


@pytest.mark.parametrize(("case", "expected"), ALTERNATING.items())
def test_alternating_branches_by_hand(case, expected):
    design, budget = case
    tally = serve(CountingDecoder(), make_store(design, budget, BOUNDARIES, SCOPES), TRACES["alternating"](7))
    assert (tally.hits, tally.projected_rows, tally.evictions) == expected


def random_stream(seed: int, conversations: int = 60):
    """Interleaved growing conversations."""
    rng = np.random.default_rng(seed)
    turns = rng.integers(1, 6, size=conversations)
    owner = np.repeat(np.arange(conversations), turns)
    time = np.concatenate([rng.uniform(0, 20) + np.sort(rng.uniform(0, 8, size=n)) for n in turns])
    new = rng.integers(1, 4, size=len(owner))
    return accesses_from_arrays(time, owner, new=new)


@pytest.mark.parametrize("capacity", [20, 40, 80])
@pytest.mark.parametrize("design", ["whole_conversation", "keep_longest"])
def test_whole_content_designs_are_algorithm_1(design, capacity):
    from mfmc.lru.reference import algorithm_1

    stream = random_stream(1)
    assert stream.history.max() < capacity
    block = 4 * TOKEN
    store = make_store(design, capacity * block, range(4, 4 * int(stream.history.max()) + 1, 4), ("A",))
    reused = [answer(CountingDecoder(), store, request).reused for request in conversation_trace(stream)]
    served_blocks = np.asarray(algorithm_1(stream, capacity))
    sizes = stream.sizes("whole").reuse
    expected = np.where(served_blocks > 0, sizes, 0)
    np.testing.assert_array_equal(np.asarray(reused) // 4, expected)
