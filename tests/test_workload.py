"""Laws of conversations: moments against the oracle, spectra by hand, and bad parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest
from reference_workloads import LAWS, reference_workload

from mfmc.accounting import prompt_totals, sequences
from mfmc.assumptions import assumptions
from mfmc.errors import InputError
from mfmc.laws.blocks import ConstantBlocks, EmpiricalBlocks, GeometricBlocks, LognormalBlocks, PoissonBlocks
from mfmc.laws.gaps import ExponentialGaps, WeibullGaps
from mfmc.laws.recorded import RecordedConversations
from mfmc.laws.tokens import ConstantTokens, EmpiricalTokens, GeometricTokens, LognormalTokens, TokenBlocks
from mfmc.laws.turns import EmpiricalTurns, FixedTurns, GeometricTurns, NegativeBinomialTurns, PoissonTurns
from mfmc.workload import Workload

GAPS = ExponentialGaps(1.0)
TOKENS = TokenBlocks(EmpiricalTokens((0.2, 0.3, 0.5)), EmpiricalTokens((0.4, 0.6)), 2)


@pytest.mark.parametrize("name", LAWS)
def test_moments_match_the_oracle(name, oracle):
    case = oracle[name]
    workload = reference_workload(name, case["lambda0"], 1024)
    whole, practical = workload.profile("whole"), workload.profile("practical")
    expected = {
        "EB": whole.allocated,
        "AR": whole.content,
        "AH": whole.reusable,
        "h_max": whole.reuse_ceiling,
        "EB2": whole.histories.terminal.moment(2),
        "AH2": whole.reuse.moment(2),
        "EM1": whole.mean_turns - 1,
        "A_H_hash": practical.reusable,
    }
    for key, value in expected.items():
        assert value == pytest.approx(case[key], rel=1e-9), key
    assert whole.content == pytest.approx(whole.reusable + whole.allocated, rel=1e-12)


def test_closed_forms_of_the_scm():
    """THEORY A: A_R = (k + p m) / q^2 and A_H = p A_R."""
    p, k, m = 0.6, 3.0, 4.0
    profile = Workload(1.0, GAPS, GeometricTurns(p), PoissonBlocks(k - 1, k + m - 2, later_minimum=2)).profile()
    assert profile.content == pytest.approx((k + p * m) / (1 - p) ** 2, rel=1e-10)
    assert profile.reusable == pytest.approx(p * profile.content, rel=1e-10)
    assert profile.reuse_ceiling == pytest.approx(p, rel=1e-10)


@pytest.mark.parametrize(
    ("law", "mean", "variance"),
    [
        (GeometricTurns(0.7), 1 / 0.3, 0.7 / 0.09),
        (NegativeBinomialTurns(5.0, 9.0, 2), 5.0, 9.0),
        (PoissonTurns(3.5, 2), 3.5, 1.5),
        (FixedTurns(4), 4.0, 0.0),
        (EmpiricalTurns((1.0, 0.0, 3.0)), 2.5, 0.75),
    ],
)
def test_turn_laws_have_their_moments(law, mean, variance):
    pmf = law.pmf()
    assert pmf[0] == 0 and pmf.sum() == pytest.approx(1, abs=1e-14) and np.all(pmf >= 0)
    assert law.mean == pytest.approx(mean, rel=1e-11)
    assert law.variance == pytest.approx(variance, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("law", "first", "later"),
    [
        (ConstantBlocks(2, 5), 2.0, 5.0),
        (PoissonBlocks(0.5, 3.0, later_minimum=2), 1.5, 5.0),
        (GeometricBlocks(4, 6), 4.0, 6.0),
        (LognormalBlocks(4, 6, sigma=1.0), 4.0, 6.0),
        (EmpiricalBlocks((1, 1), (0, 0, 2)), 1.5, 3.0),
    ],
)
def test_block_laws_have_their_means_and_start_at_one(law, first, later):
    for turn, mean in ((1, first), (2, later)):
        pmf = law.increment_pmf(turn, 2)
        assert pmf[0] == 0 and pmf.sum() == pytest.approx(1, abs=1e-14)
        assert pmf @ np.arange(pmf.size) == pytest.approx(mean, rel=1e-6)


def test_trend_and_length_move_the_means():
    law = GeometricBlocks(4, 6, trend=0.5, length_power=-1.0)
    assert [law.parameter(j, 4) for j in (1, 2, 3)] == [4, 3.0, 1.5]
    assert law.depends_on_length and not GeometricBlocks(4, 6, trend=0.5).depends_on_length


def test_sharegpt_reproduces_the_printed_constants():
    """The five constants of the paper's Appendix E, through the laws of conf/workload/sharegpt.yaml."""
    from pathlib import Path

    from omegaconf import OmegaConf

    import mfmc.laws.blocks
    import mfmc.laws.turns
    from mfmc.config.workload import BLOCKS, TURNS

    section = OmegaConf.to_container(OmegaConf.load(Path(__file__).parents[1] / "conf" / "workload" / "sharegpt.yaml"))
    turns, blocks = section["turns"], section["blocks"]
    workload = Workload(
        section["arrival_rate"],
        GAPS,
        getattr(mfmc.laws.turns, TURNS[turns.pop("kind")])(**turns),
        getattr(mfmc.laws.blocks, BLOCKS[blocks.pop("kind")])(**blocks),
    )
    whole, practical = workload.profile("whole"), workload.profile("practical")
    printed = {
        4.4694: whole.mean_turns,
        7.9659: whole.variance_turns,
        12.9220: whole.allocated,
        38.9092: whole.content,
        22.5178: practical.reusable,
    }
    for constant, value in printed.items():
        assert value == pytest.approx(constant, rel=5e-4)
    support = np.flatnonzero(workload.law.turn_pmf())
    assert support.min() == 2 and support.max() == 37


def by_hand(workload: Workload, conversations: list[list[int]], accounting: str, tokens: bool) -> None:
    """Compare a profile with sums over an explicit list of equally likely conversations."""
    turn = np.concatenate([np.arange(1, len(c) + 1) for c in conversations])
    values = np.concatenate(conversations)
    seq = (
        sequences(accounting, tokens=values, block_tokens=2, turn=turn)
        if tokens
        else sequences(accounting, values, turn=turn)
    )
    last = np.append(turn[1:] == 1, True)
    count = len(conversations)
    profile = workload.profile(accounting)
    assert profile.allocated == pytest.approx(seq.new.sum() / count)
    assert profile.content == pytest.approx(seq.content.sum() / count)
    assert profile.reusable == pytest.approx(seq.reuse[~last].sum() / count)


@pytest.mark.parametrize("accounting", ["whole", "practical"])
def test_recorded_blocks_by_hand(accounting):
    conversations = [[2, 3, 1], [4], [1, 1]]
    ids = np.repeat(np.arange(3), [3, 1, 2])
    law = RecordedConversations.from_blocks(ids, np.concatenate(conversations))
    by_hand(Workload(1.0, GAPS, conversations=law), conversations, accounting, tokens=False)


@pytest.mark.parametrize("accounting", ["whole", "practical", "token"])
def test_recorded_tokens_by_hand(accounting):
    prompts, responses = [[3, 1, 2], [4], [1, 1]], [[2, 2, 9], [5], [3, 7]]
    ids = np.repeat(np.arange(3), [3, 1, 2])
    law = RecordedConversations.from_tokens(ids, np.concatenate(prompts), np.concatenate(responses), 2)
    turn = np.array([1, 2, 3, 1, 1, 2])
    totals = prompt_totals(np.concatenate(prompts), np.concatenate(responses), turn=turn)
    by_hand(Workload(1.0, GAPS, conversations=law), np.split(totals, [3, 4]), accounting, tokens=True)


def _enumerated(turns: int) -> list[tuple[list[int], float]]:
    """All prompts T_1..T_turns of `TOKENS`, with their probabilities."""
    prompt, step = TOKENS.prompt.pmf(), TOKENS.increment_pmf()
    paths = [([x], prompt[x]) for x in np.flatnonzero(prompt)]
    for _ in range(turns - 1):
        paths = [(p + [p[-1] + u], q * step[u]) for p, q in paths for u in np.flatnonzero(step)]
    return paths


@pytest.mark.parametrize("accounting", ["whole", "practical", "token"])
def test_token_laws_against_enumeration(accounting):
    """Three turns, every sequence of lengths: moments and the jump measure of THEORY B3."""
    workload = Workload(1.0, GAPS, FixedTurns(3), TOKENS)
    paths = _enumerated(3)
    turn = np.tile([1, 2, 3], len(paths))
    seq = sequences(accounting, tokens=np.concatenate([p for p, _ in paths]), block_tokens=2, turn=turn)
    new, reuse, content = (np.reshape(x, (-1, 3)) for x in seq)
    weight = np.array([q for _, q in paths])
    profile = workload.profile(accounting)
    assert profile.allocated == pytest.approx(weight @ new.sum(axis=1))
    assert profile.content == pytest.approx(weight @ content.sum(axis=1))
    assert profile.reusable == pytest.approx(weight @ reuse[:, :2].sum(axis=1))

    dense = np.zeros((4, 40))
    for n in (1, 2, 3):
        over = n == 3
        for waited in range(n):
            start = 0 if waited == 0 else reuse[:, waited - 1]
            mass = start + new[:, waited:n].sum(axis=1)
            k = n - 1 if waited == 0 else n - waited - 1
            if waited == 0:
                orders = {k: 1.0} if over else {k: 1.0, k + 1: -1.0}
            else:
                orders = {k: 1.0, k + 1: -1.0} if over else {k: 1.0, k + 1: -2.0, k + 2: 1.0}
            for order, sign in orders.items():
                np.add.at(dense[order], mass, sign * weight)
    jumps = profile.jumps
    found = np.zeros_like(dense)
    found[: len(jumps.coefficients), jumps.support] = jumps.coefficients
    np.testing.assert_allclose(found, dense, atol=1e-12)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("accounting", ["whole", "practical"])
def test_jump_measure_has_the_mean_displacement(name, accounting, oracle):
    """sum_r r coefficients[k, r] = E[sum new] + A_H at k = 0, -A_H at k = 1, 0 beyond (THEORY B3)."""
    profile = reference_workload(name, 1.0, 1.0).profile(accounting)
    first = profile.jumps.moments(1)
    assert first[0] == pytest.approx(profile.allocated + profile.reusable, rel=1e-12)
    assert first[1] == pytest.approx(-profile.reusable, rel=1e-12)
    np.testing.assert_allclose(first[2:], 0, atol=1e-9 * first[0])


def test_turn_reuse_is_the_law_given_that_the_turn_is_reached():
    profile = Workload(1.0, GAPS, GeometricTurns(0.5, 10), ConstantBlocks(2, 5)).profile("practical")
    spectrum = profile.turn_reuse(3)
    assert spectrum.support.tolist() == [11] and spectrum.weight.tolist() == [1.0]
    with pytest.raises(InputError, match="turn=11"):
        profile.turn_reuse(11)


def test_assumptions_hold_fail_or_cannot_be_decided():
    lognormal = Workload(1.0, WeibullGaps(0.5, 1.0), GeometricTurns(0.5), LognormalBlocks(4, 6, sigma=1.0))
    assert [a.holds for a in assumptions(lognormal)] == [True, False, False]
    dependent = Workload(1.0, GAPS, FixedTurns(3), PoissonBlocks(1, 2, length_power=-0.5))
    assert [a.holds for a in assumptions(dependent)] == [False, True, True]
    recorded = RecordedConversations.from_blocks([0, 0, 1, 1, 1], [1, 2, 2, 1, 1])
    assert [a.holds for a in assumptions(Workload(1.0, GAPS, conversations=recorded))] == [None, None, True]


def test_abscissa_of_geometric_blocks_and_turns():
    """B is geometric when Z_1 and Z_j are: E[e^{theta B}] is finite below -log(1 - q/mean)."""
    p, mean = 0.7, 6.0
    abscissa, _ = Workload(1.0, GAPS, GeometricTurns(p), GeometricBlocks(mean, mean)).law.mgf_abscissa()
    assert abscissa == pytest.approx(-math.log1p(-(1 - p) / mean), rel=1e-9)


@pytest.mark.parametrize(
    ("build", "line"),
    [
        (lambda: GeometricTurns(1.5), "turns.continuation=1.5: expected a probability in [0, 1)"),
        (lambda: NegativeBinomialTurns(4.0, 1.0, 2), "turns.variance=1.0: expected more than"),
        (lambda: FixedTurns(0), "turns.count=0: expected a whole number of at least 1"),
        (lambda: EmpiricalTurns(()), "turns.probabilities=[]: expected non-negative numbers"),
        (lambda: PoissonTurns(0.5), "turns.mean=0.5: expected at least the minimum"),
        (lambda: ConstantBlocks(0, 1), "blocks.first=0: expected a number of at least 1"),
        (lambda: ConstantBlocks(1.5, 1), "blocks.first=1.5: expected a whole number"),
        (lambda: PoissonBlocks(1, 2, trend=0), "blocks.trend=0: expected a positive number"),
        (lambda: EmpiricalBlocks((1,), (1,), trend=2.0), "blocks.trend=2.0: expected 1"),
        (lambda: ConstantTokens(0), "tokens.count=0: expected a whole number"),
        (lambda: GeometricTokens(0.5), "tokens.mean=0.5: expected at least 1"),
        (lambda: LognormalTokens(10, 0), "tokens.sigma=0: expected a positive number"),
        (lambda: Workload(-1.0, GAPS, FixedTurns(1), ConstantBlocks(1, 1)), "arrival_rate=-1.0: expected a positive"),
        (lambda: Workload(1.0, GAPS, FixedTurns(1)), "either turns and blocks, or conversations"),
        (lambda: RecordedConversations.from_blocks([0, 0], [1, 0]), "new_blocks row 1 is 0"),
        (
            lambda: Workload(1.0, GAPS, FixedTurns(1), ConstantBlocks(1, 1)).profile("token"),
            "needs a workload in tokens",
        ),
    ],
)
def test_bad_parameters_get_one_clear_line(build, line):
    with pytest.raises(InputError) as caught:
        build()
    assert line in str(caught.value) and "\n" not in str(caught.value)
