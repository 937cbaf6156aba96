"""The three block accountings against the paper's table and a loop per conversation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfmc.accounting import ACCOUNTINGS, prompt_totals, sequences
from mfmc.errors import InputError

conversations = st.lists(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 60)), min_size=1, max_size=6),
    min_size=1,
    max_size=8,
)


def flat(lists):
    return np.array([x for row in lists for x in row])


def turns_of(lists):
    return np.concatenate([np.arange(1, len(row) + 1) for row in lists])


@given(conversations, st.integers(1, 16))
@settings(max_examples=100)
def test_every_accounting_equals_the_table_turn_by_turn(talks, k):
    turn = turns_of(talks)
    prompt, response = flat([[p for p, _ in c] for c in talks]), flat([[r for _, r in c] for c in talks])
    tokens = prompt_totals(prompt, response, turn=turn)
    expected = {name: [] for name in ACCOUNTINGS}
    increments = []
    for talk in talks:
        total = previous_total = history = 0
        for j, (p, _) in enumerate(talk):
            arriving = p + (talk[j - 1][1] if j else 0)
            z = -(-(previous_total % k + arriving) // k)  # the paper's Appendix E
            total, history = total + arriving, history + z
            increments.append(z)
            expected["whole"].append((z, history, history))
            expected["practical"].append((z, history - 1, history))
            expected["token"].append((-(-total // k) - previous_total // k, total // k, -(-total // k)))
            previous_total = total
    for name in ACCOUNTINGS:
        np.testing.assert_array_equal(
            np.transpose(sequences(name, tokens=tokens, block_tokens=k, turn=turn)), expected[name]
        )
    for name in ("whole", "practical"):
        np.testing.assert_array_equal(np.transpose(sequences(name, increments, turn=turn)), expected[name])


def test_the_papers_example_of_definition_b5():
    # X = 2, 4, 3 and Y = 2, 5: R = 2, 8, 16, h = (0 + 2 + 8) / (2 + 8 + 16) when everything hits.
    new, reuse, content = sequences("whole", [2, 6, 8], turn=[1, 2, 3])
    assert reuse[:-1].sum() / content.sum() == 10 / 26
    assert new.sum() == content[-1] == 16


def test_blocks_are_conserved_when_prompts_shrink():
    tokens, turn = [100, 250, 40, 90, 64, 64], [1, 2, 3, 4, 1, 2]
    for name in ACCOUNTINGS:
        new, reuse, content = sequences(name, tokens=tokens, block_tokens=16, turn=turn)
        assert (new >= 0).all() and (reuse <= content).all()
        np.testing.assert_array_equal(reuse[1], {"whole": 3, "practical": 2, "token": 2}[name])
    _, _, content = sequences("whole", tokens=tokens, block_tokens=16, turn=turn)
    np.testing.assert_array_equal(content, [7, 17, 3, 7, 4, 4])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(accounting="tokens", increments=[1], turn=[1]), "unknown"),
        (dict(accounting="token", increments=[1], turn=[1]), "needs tokens and block_tokens"),
        (dict(accounting="whole", turn=[1]), "needs increments"),
        (dict(accounting="whole", increments=[1, -2], turn=[1, 2]), "row 1 is -2"),
        (dict(accounting="whole", increments=[1, 1.5], turn=[1, 2]), "row 1 is 1.5"),
        (dict(accounting="whole", increments=[1, 2], turn=[1, 3]), "turn row 1 is 3"),
        (dict(accounting="token", tokens=[5], block_tokens=0, turn=[1]), "block_tokens is 0"),
    ],
)
def test_refusals_name_the_row_and_the_cure(arguments, message):
    with pytest.raises(InputError, match=message):
        sequences(**arguments)
