"""The published cache-budget experiment: its table, its byte formula, and its seven test subjects."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mfmc.checkpoints.decoder import Decoder, DecoderShape
from mfmc.checkpoints.designs import DESIGNS, EveryCheckpoint
from mfmc.checkpoints.experiment import PUBLISHED, run_experiment
from mfmc.checkpoints.session import Request, answer
from mfmc.checkpoints.sweep import make_store
from mfmc.checkpoints.traces import BOUNDARIES, SCOPES, TRACES
from mfmc.errors import InputError

PROMPT = list(range(12))


@pytest.fixture(scope="module")
def evidence():
    return run_experiment()


@pytest.fixture(scope="module")
def decoder():
    return Decoder.untrained(7)


def store_of(budget: int, design: str = "every_checkpoint"):
    return make_store(design, budget, BOUNDARIES, SCOPES)


def fresh(decoder: Decoder, tokens) -> np.ndarray:
    return decoder.extend(np.asarray(tokens), decoder.empty())[0]


def test_published_table_comes_out_exactly(evidence):
    found = {
        (row["budget"], row["trace"]): (
            row["hits"],
            row["projected_rows"],
            row["evictions"],
            row["copy_bytes"],
        )
        for row in evidence.results["table"]
    }
    assert found == PUBLISHED


def test_every_reused_suffix_equals_recomputation(evidence):
    assert len(evidence.results["requests"]) == 324
    assert len(evidence.arrays) == 648
    for record in evidence.results["requests"]:
        reused, full = (evidence.arrays[f"{record['name']}_{kind}"] for kind in ("reused", "fresh"))
        assert reused.shape == (12 - record["reused"], 16)
        assert np.abs(reused - full).max() < 1e-12
    assert 0 < evidence.results["max_abs_error"] < 1e-12  # a hit really takes another path through the floats


def test_seeds_change_values_only(evidence):
    outputs = [evidence.arrays[f"hot_8192_{seed}_00_fresh"] for seed in (7, 11, 23)]
    assert not np.allclose(outputs[0], outputs[1]) and not np.allclose(outputs[1], outputs[2])


def test_byte_formula_is_the_arrays_own_size(decoder):
    _, cache = decoder.extend(np.arange(12), decoder.empty())
    assert decoder.shape.token_bytes == 2 * (16 * 8 + 16 * 8 + 8) == 528
    assert cache.nbytes == 12 * 528
    assert cache.section(0, 4).nbytes == 2112 and cache.section(0, 8).nbytes == 4224
    assert all(array.dtype in (np.float64, np.int64) for layer in cache.layers for array in layer)


def test_projected_rows_of_a_prompt():
    assert DecoderShape().projected_rows(12) == 72
    assert 12 * DecoderShape().projected_rows(12) == 864


@pytest.mark.parametrize("design", DESIGNS)
def test_zero_budget_keeps_nothing_and_answers_correctly(decoder, design):
    store = store_of(0, design)
    for request in TRACES["hot"](7):
        given = answer(decoder, store, request)
        assert given.reused == 0 and given.rows == 72 and given.turnover.copy_bytes == 0
        np.testing.assert_allclose(given.outputs, fresh(decoder, request.tokens), atol=1e-12)
    assert not store.entries and store.resident_bytes == 0


@pytest.mark.parametrize("design", DESIGNS)
def test_scopes_do_not_share(decoder, design):
    store = store_of(32768, design)
    answer(decoder, store, Request("A", 0, PROMPT))
    assert answer(decoder, store, Request("B", 0, PROMPT)).reused == 0
    assert answer(decoder, store, Request("A", 0, PROMPT)).reused > 0


def test_unknown_scope_is_refused_and_leaves_the_store_alone(decoder):
    store = store_of(8192)
    with pytest.raises(InputError, match="scope 'D' is unknown: expected one of A, B, C"):
        answer(decoder, store, Request("D", 0, PROMPT))
    assert not store.entries


@pytest.mark.parametrize("design", DESIGNS)
def test_changed_weights_never_match(decoder, design):
    store = store_of(32768, design)
    answer(decoder, store, Request("A", 0, PROMPT))
    embedding = decoder.embedding.copy()
    embedding[0, 0] += 1e-9
    other = replace(decoder, embedding=embedding)
    given = answer(other, store, Request("A", 0, PROMPT))
    assert given.reused == 0
    np.testing.assert_allclose(given.outputs, fresh(other, PROMPT), atol=1e-12)


def test_weights_cannot_be_changed_behind_the_signature(decoder):
    with pytest.raises(ValueError, match="read-only"):
        decoder.layers[0].query[0, 0] = 0.0
    with pytest.raises(AttributeError):
        decoder.embedding = decoder.embedding


def test_equal_weights_of_another_shape_do_not_match(decoder):
    assert replace(decoder, shape=replace(decoder.shape, vocabulary=33)).signature != decoder.signature
    assert Decoder.untrained(7).signature == decoder.signature


@pytest.mark.parametrize("design", DESIGNS)
def test_checkpoints_are_owned_copies(decoder, design):
    store = store_of(32768, design)
    request = Request("A", 0, PROMPT)
    answer(decoder, store, request)
    match = store.find(_query(decoder, request))
    taken = store.retrieve(match)
    held = [array for entry in store.entries.values() for layer in entry.cache.layers for array in layer]
    for layer in taken.layers:
        for array in layer:
            assert array.base is None and not any(np.shares_memory(array, other) for other in held)
            array[...] = 0  # the active query may do what it likes with its own copy
    np.testing.assert_allclose(answer(decoder, store, request).outputs[-1], fresh(decoder, PROMPT)[-1])


def _query(decoder, request):
    from mfmc.checkpoints.store import Query

    return Query(decoder.signature, request.scope, request.conversation, np.asarray(request.tokens))


@pytest.mark.parametrize(("length", "reused"), [(1, 0), (4, 0), (5, 4), (8, 4), (9, 8), (12, 8)])
def test_only_strictly_shorter_prefixes_are_used(decoder, length, reused):
    store = store_of(32768)
    answer(decoder, store, Request("A", 0, PROMPT))
    before = store.resident_bytes
    given = answer(decoder, store, Request("A", 0, PROMPT[:length]))
    assert given.reused == reused and len(given.outputs) == length - reused
    np.testing.assert_allclose(given.outputs, fresh(decoder, PROMPT[:length])[reused:], atol=1e-12)
    assert store.resident_bytes == before  # what the query ends at is resident already, and not copied again


def test_a_hit_refreshes_only_what_it_uses(decoder):
    """After a hit on eight tokens the unused four-token checkpoint is still the first to go."""
    store = store_of(10560)
    answer(decoder, store, Request("A", 0, PROMPT))
    answer(decoder, store, Request("A", 0, PROMPT))
    given = answer(decoder, store, Request("A", 1, PROMPT[::-1]))
    assert [len(key[2]) // 8 for key in given.turnover.evicted] == [4]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([1.0, 2.0, 3.5], r"tokens of type float64 .*expected whole numbers"),
        ([True, False], r"tokens of type bool"),
        (["a", "b"], r"tokens of type <U1"),
        ([], r"at least one token"),
        ([[1, 2], [3, 4]], r"shape \(2, 2\)"),
        ([1, 32, 2], r"token 32 at position 1: expected 0 to 31"),
        ([1, -1], r"token -1 at position 1"),
    ],
)
def test_tokens_that_are_none_are_refused_in_one_line(decoder, tokens, message):
    store = store_of(8192)
    with pytest.raises(InputError, match=message) as caught:
        answer(decoder, store, Request("A", 0, tokens))
    assert "\n" not in str(caught.value)
    assert not store.entries


@pytest.mark.parametrize("budget", [-1, 4096.5, True, "4096"])
def test_impossible_budgets_are_refused(budget):
    with pytest.raises(InputError, match="whole number of bytes"):
        EveryCheckpoint(budget, BOUNDARIES, SCOPES)


@pytest.mark.parametrize("boundaries", [(), (0, 4), (8, 4), (4, 4)])
def test_impossible_boundaries_are_refused(boundaries):
    with pytest.raises(InputError, match="increasing lengths"):
        EveryCheckpoint(4096, boundaries, SCOPES)


def test_unknown_names_are_refused():
    with pytest.raises(
        InputError, match="trace 'warm' is unknown: expected some of hot, alternating, scopes"
    ):
        run_experiment(traces=["warm"])
    with pytest.raises(InputError, match="design 'fifo' is unknown"):
        make_store("fifo", 4096, BOUNDARIES, SCOPES)
    with pytest.raises(InputError, match="vocabulary=16"):
        run_experiment(shape=DecoderShape(vocabulary=16))
    with pytest.raises(InputError, match="decoder width=15"):
        DecoderShape(width=15)


def test_other_budgets_and_seeds_have_no_published_row():
    from mfmc.checkpoints.experiment import beside_published

    table = run_experiment(seeds=[1], budgets=[0, 12672], traces=["alternating"]).results["table"]
    assert [(row["hits"], row["projected_rows"], row["evictions"]) for row in table] == [
        (0, 864, 0),
        (10, 384, 0),
    ]
    assert all(row["published_hits"] is None for row in beside_published(table))
