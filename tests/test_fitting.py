"""Maximum likelihood: parameters of simulated gaps and turns within 5 standard errors, censored or not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mfmc.errors import InputError
from mfmc.estimator import ConversationSums
from mfmc.fitting import compare_gaps, fit_blocks, fit_gaps, fit_turns
from mfmc.laws.blocks import LognormalBlocks
from mfmc.laws.gaps import (
    ExponentialGaps,
    GammaGaps,
    HyperexponentialGaps,
    LognormalGaps,
    LomaxGaps,
    WeibullGaps,
)
from mfmc.laws.turns import FixedTurns, GeometricTurns, NegativeBinomialTurns, PoissonTurns
from mfmc.traces.table import ConversationTable

TRUTHS = {
    "exponential": (ExponentialGaps(135.0), {"mean": 135.0}),
    "gamma": (GammaGaps(0.6, 40.0), {"shape": 0.6, "mean": 40.0}),
    "lognormal": (LognormalGaps(1.3, 60.0), {"sigma": 1.3, "mean": 60.0}),
    "weibull": (WeibullGaps(0.7, 0.02), {"shape": 0.7, "mean": 0.02}),
    "lomax": (LomaxGaps(2.5, 100.0), {"shape": 2.5, "mean": 100.0}),
    "hyperexponential_2": (
        HyperexponentialGaps((0.7, 0.3), (5.0, 200.0)),
        {"weight_1": 0.7, "weight_2": 0.3, "mean_1": 5.0, "mean_2": 200.0},
    ),
    "hyperexponential_3": (
        HyperexponentialGaps((0.5, 0.35, 0.15), (2.0, 40.0, 900.0)),
        {"weight_1": 0.5, "weight_2": 0.35, "weight_3": 0.15, "mean_1": 2.0, "mean_2": 40.0, "mean_3": 900.0},
    ),
    "hyperexponential_4": (
        HyperexponentialGaps((0.4, 0.3, 0.2, 0.1), (1.0, 20.0, 400.0, 9000.0)),
        {"weight_1": 0.4, "weight_3": 0.2, "mean_1": 1.0, "mean_2": 20.0, "mean_3": 400.0, "mean_4": 9000.0},
    ),
}
COUNT = 1500


def draw(law, count: int = COUNT, seed: int = 1) -> np.ndarray:
    return law.quantile(np.random.default_rng(seed).uniform(size=count))


def agrees(fit, truth: dict[str, float]) -> bool:
    return all(
        abs(fit.parameters[name] - value) < 5 * fit.standard_errors[name] for name, value in truth.items()
    )


@pytest.mark.parametrize(
    ("kind", "cut"), [*((kind, True) for kind in TRUTHS), ("exponential", False)]
)
def test_parameters_are_recovered(kind, cut):
    law, truth = TRUTHS[kind]
    gaps = draw(law)
    limits = (
        np.random.default_rng(2).exponential(2 * float(law.mean), COUNT) if cut else np.full(COUNT, np.inf)
    )
    censored = gaps > limits
    fit = fit_gaps(kind, np.minimum(gaps, limits), censored if cut else None)
    assert fit.converged and agrees(fit, truth)
    assert fit.ks < 0.04
    if kind in ("exponential", "weibull"):  # the mutant: cut waits taken for gaps
        naive = fit_gaps(kind, np.minimum(gaps, limits))
        assert agrees(naive, truth) == (not cut)


def test_waits_without_end_are_told_from_long_gaps():
    law, follows = WeibullGaps(0.8, 50.0), 0.6
    rng = np.random.default_rng(3)
    gaps = np.where(rng.uniform(size=COUNT) < follows, draw(law), np.inf)
    limits = rng.uniform(0, 400, COUNT)
    censored = gaps > limits
    fit = fit_gaps("weibull", np.minimum(gaps, limits), censored, may_end=True)
    assert agrees(fit, {"shape": 0.8, "mean": 50.0})
    assert fit.continues == pytest.approx(follows, abs=0.05)
    assert (~censored).mean() < follows - 0.05


def test_the_likelihood_and_the_criteria_are_scipys():
    gaps = draw(GammaGaps(2.0, 10.0), 500)
    fit = fit_gaps("gamma", gaps)
    shape, _, scale = stats.gamma.fit(gaps, floc=0)
    expected = stats.gamma.logpdf(gaps, shape, scale=scale).sum()
    assert fit.log_likelihood == pytest.approx(expected, abs=1e-3)
    assert fit.aic == pytest.approx(4 - 2 * expected, abs=1e-2)
    assert fit.bic == pytest.approx(2 * np.log(500) - 2 * expected, abs=1e-2)
    assert fit.ks == pytest.approx(
        stats.kstest(gaps, stats.gamma(shape, scale=scale).cdf).statistic, abs=1e-4
    )
    assert fit.parameters["shape"] == pytest.approx(shape, rel=1e-4)


def test_the_true_kind_wins():
    fits = compare_gaps(draw(LognormalGaps(1.0, 30.0), 3000), kinds=("exponential", "lognormal", "weibull"))
    assert fits[0].kind == "lognormal" and fits[0].ks == min(fit.ks for fit in fits)


def test_block_sizes_of_the_true_kind_win():
    rng = np.random.default_rng(5)
    law = LognormalBlocks(6.0, 3.0, sigma=1.2)
    lengths = rng.geometric(0.3, 800)
    first = np.diff(np.repeat(np.arange(800), lengths), prepend=-1) != 0
    pmfs = {True: law.increment_pmf(1, 2), False: law.increment_pmf(2, 2)}
    blocks = np.where(first, *(rng.choice(pmf.size, first.size, p=pmf) for pmf in (pmfs[True], pmfs[False])))
    table = ConversationTable(np.cumsum(first) - 1, 16 * blocks, np.zeros(first.size, dtype=np.int64), 16)
    sums = ConversationSums.of(table)
    fits = fit_blocks(table, sums, np.bincount(lengths) / 800)
    assert [fit.settings["kind"] for fit in fits] == ["lognormal", "geometric", "poisson"]
    assert fits[0].ks == min(fit.ks for fit in fits) and fits[0].ks < 0.05
    assert fits[0].settings["sigma"] == pytest.approx(1.2, rel=0.1)
    assert all(fit.lifetime == pytest.approx(sums.moments("whole").allocated) for fit in fits)


@pytest.mark.parametrize(
    ("law", "kind", "truth"),
    [
        (GeometricTurns(0.7), "geometric", {"continuation": 0.7}),
        (PoissonTurns(3.0, 2), "poisson", {"mean": 3.0}),
        (NegativeBinomialTurns(4.5, 8.0, 2), "negative_binomial", {"mean": 4.5, "variance": 8.0}),
    ],
)
def test_turn_laws_are_recovered(law, kind, truth):
    pmf = law.pmf()
    turns = np.random.default_rng(4).choice(pmf.size, COUNT, p=pmf)
    fits = {fit.kind: fit for fit in fit_turns(turns)}
    assert agrees(fits[kind], truth)
    assert (
        fits[kind].aic <= min(fit.aic for fit in fits.values()) + 2.5
    )  # a richer law may win by its one parameter


def test_equal_turns_are_fixed():
    (fit,) = fit_turns(np.full(10, 3))
    assert fit.law == FixedTurns(3)


@pytest.mark.parametrize("gaps", [[], [1.0, 1.0], [1.0, -1.0, 2.0, 3.0, 4.0, 5.0], [np.nan] * 6])
def test_what_cannot_be_fitted_is_one_line(gaps):
    with pytest.raises(InputError) as refused:
        fit_gaps("exponential", np.array(gaps))
    assert "\n" not in str(refused.value)
    with pytest.raises(InputError, match="choose one of"):
        fit_gaps("cauchy", np.array([1.0]))
