"""Gap laws: calculus among their functions, an independent library, gradients, sampling, and refusals."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from mfmc.errors import InputError
from mfmc.laws.gaps import (
    EmpiricalGaps,
    ExponentialGaps,
    GammaGaps,
    HyperexponentialGaps,
    LognormalGaps,
    LomaxGaps,
    UniformGaps,
    WeibullGaps,
)

RECORDED = np.random.default_rng(7).lognormal(0.0, 1.0, 60).round(1)  # with ties and a zero
LAWS = [
    ExponentialGaps(mean=2.0),
    GammaGaps(shape=0.3, mean=2.0),
    GammaGaps(shape=5.0, mean=0.5),
    LognormalGaps(sigma=1.0, mean=1.0),
    LognormalGaps(sigma=2.0, mean=135.0),
    WeibullGaps(shape=0.3, mean=1.0),
    WeibullGaps(shape=3.0, mean=1.0),
    HyperexponentialGaps(weights=[0.9, 0.1], means=[0.1, 20.0]),
    UniformGaps(low=1.0, high=3.0),
    UniformGaps(low=0.0, high=3.0),
    LomaxGaps(shape=1.5, mean=2.0),
    EmpiricalGaps(RECORDED),
]
SMOOTH = [law for law in LAWS if not law.breakpoints]


def name(law) -> str:
    values = [value for value in vars(law).values() if np.ndim(value) == 0]
    return "-".join([type(law).__name__, *map(str, values)])


ONE_OF_EACH = list({type(law): law for law in LAWS}.values())  # for what compiles slowly


every_law = pytest.mark.parametrize("law", LAWS, ids=name)
one_of_each = pytest.mark.parametrize("law", ONE_OF_EACH, ids=name)
smooth_law = pytest.mark.parametrize("law", SMOOTH, ids=name)


def pieces(law) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ends of short intervals that no breakpoint crosses, and a function integrated over each by Gauss."""
    share = np.concatenate([np.geomspace(1e-4, 0.5, 60), 1 - np.geomspace(0.5, 1e-4, 60)])
    cuts = np.unique(np.concatenate([law.quantile(share), law.breakpoints]))
    fine = np.exp(np.linspace(np.log(cuts[:-1]), np.log(cuts[1:]), 9)).T
    return fine[:, :-1].ravel(), fine[:, 1:].ravel(), cuts


def integral(function, low, high) -> np.ndarray:
    points, weights = np.polynomial.legendre.leggauss(20)
    t = (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * points
    return (function(t) * weights).sum(axis=1) * (high - low) / 2


@every_law
def test_density_integrates_to_the_cdf(law):
    low, high, _ = pieces(law)
    np.testing.assert_allclose(integral(law.density, low, high), law.cdf(high) - law.cdf(low), atol=2e-14)


@every_law
def test_survival_integrates_to_the_residence(law):
    low, high, _ = pieces(law)
    expected = (law.residence(high) - law.residence(low)) / law.mean
    np.testing.assert_allclose(integral(law.survival, low, high) / law.mean, expected, atol=2e-14)


@smooth_law
def test_density_derivative_integrates_to_the_density(law):
    low, high, _ = pieces(law)
    density = law.density(high)
    rise = density - law.density(low)
    np.testing.assert_allclose(
        integral(law.density_derivative, low, high) / density, rise / density, atol=1e-11
    )


@every_law
def test_complements_and_limits(law):
    t = law.quantile(np.linspace(0.001, 0.999, 50))
    np.testing.assert_allclose(law.cdf(t) + law.survival(t), 1, rtol=1e-14)
    np.testing.assert_allclose((law.residence(t) + law.excess(t)) / law.mean, 1, rtol=1e-14)
    assert law.residence(math.inf) == law.mean
    assert law.excess(math.inf) == law.survival(math.inf) == law.density(math.inf) == 0
    assert law.cdf(math.inf) == law.survival(0) == law.survival(-1) == 1
    assert law.cdf(0) == law.cdf(-1) == law.density(-1) == law.residence(0) == 0
    assert law.excess(0) == law.mean
    assert np.isnan(law.cdf(math.nan)) and np.isnan(law.residence(math.nan))
    assert np.isnan(law.quantile(-0.1)) and np.isnan(law.quantile(1.1))
    assert law.residual_quantile(0) == 0
    assert law.quantile(1) == law.residual_quantile(1)


@every_law
def test_mean_is_the_integral_of_the_survival(law):
    """E[W] = int_0^inf Fbar(t) dt, on a fine geometric grid up to where little is left."""
    last = law.upper_quantile(1e-18)
    edges = np.unique(np.concatenate([[0.0], np.geomspace(last * 1e-40, last, 1500), law.breakpoints]))
    left_out = law.excess(last) / law.mean
    assert integral(law.survival, edges[:-1], edges[1:]).sum() / law.mean == pytest.approx(
        1 - left_out, rel=1e-11
    )
    assert left_out < 1e-5


@every_law
def test_quantiles_invert_in_both_tails(law):
    small = np.concatenate([10.0 ** -np.arange(1, 25.0), np.linspace(0.02, 0.5, 25)])
    # With a support that starts at low > 0, a share below u * low / spread has fewer digits in the time.
    blur = 1e-15 * np.max(np.append(0.0, law.breakpoints)) * (law.lipschitz if law.breakpoints else 0)
    np.testing.assert_allclose(law.cdf(law.quantile(small)), small, rtol=1e-12, atol=blur)
    np.testing.assert_allclose(law.survival(law.upper_quantile(small)), small, rtol=1e-12, atol=blur)
    for inverse, function in (
        (law.residual_quantile, law.residence),
        (law.residual_upper_quantile, law.excess),
    ):
        np.testing.assert_allclose(function(inverse(small)) / law.mean, small, rtol=1e-12, atol=blur)
    np.testing.assert_allclose(law.quantile(1 - small[24:]), law.upper_quantile(small[24:]), rtol=1e-13)


@settings(max_examples=60)
@given(
    shape=st.floats(0.15, 50),
    mean=st.floats(1e-6, 1e6),
    u=st.floats(1e-12, 1 - 1e-12),
    kind=st.integers(0, 3),
)
def test_quantiles_invert_for_any_parameters(shape, mean, u, kind):
    law = [
        GammaGaps(shape, mean),
        WeibullGaps(shape, mean),
        LognormalGaps(shape / 10, mean),
        LomaxGaps(1 + shape, mean),
    ][kind]
    assert (
        min(abs(law.cdf(law.quantile(u)) / u - 1), abs(law.survival(law.quantile(u)) / (1 - u) - 1)) < 1e-12
    )
    r = law.residual_quantile(u)
    assert min(abs(law.residence(r) / law.mean / u - 1), abs(law.excess(r) / law.mean / (1 - u) - 1)) < 1e-12


@pytest.mark.parametrize(
    ("law", "reference"),
    [
        (GammaGaps(0.3, 2.0), scipy.stats.gamma(0.3, scale=2 / 0.3)),
        (LognormalGaps(1.5, 3.0), scipy.stats.lognorm(1.5, scale=3 * math.exp(-1.125))),
        (WeibullGaps(0.7, 2.0), scipy.stats.weibull_min(0.7, scale=2 / math.gamma(1 + 1 / 0.7))),
        (LomaxGaps(1.5, 2.0), scipy.stats.lomax(1.5, scale=1.0)),
        (UniformGaps(1.0, 4.0), scipy.stats.uniform(1, 3)),
        (ExponentialGaps(3.0), scipy.stats.expon(scale=3)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_against_scipy_stats(law, reference):
    t = np.geomspace(1e-3, 50, 40)
    assert law.mean == pytest.approx(reference.mean(), rel=1e-12)
    np.testing.assert_allclose(law.cdf(t), reference.cdf(t), rtol=1e-11)
    np.testing.assert_allclose(law.survival(t), reference.sf(t), rtol=1e-10)
    np.testing.assert_allclose(law.density(t), reference.pdf(t), rtol=1e-11)
    np.testing.assert_allclose(law.quantile([0.01, 0.5, 0.9]), reference.ppf([0.01, 0.5, 0.9]), rtol=1e-10)


@every_law
def test_lipschitz_constant_is_the_largest_density(law):
    share = np.concatenate([np.geomspace(1e-9, 0.5, 20_000), 1 - np.geomspace(0.5, 1e-9, 20_000)])
    largest = law.density(np.append(law.quantile(share), 0.0)).max()
    if math.isinf(law.lipschitz):
        assert largest > 1e3 / law.mean
    else:
        assert largest <= law.lipschitz * (1 + 1e-12)
        assert largest == pytest.approx(law.lipschitz, rel=1e-6)


def test_breakpoints_are_where_the_density_jumps():
    assert UniformGaps(1.0, 3.0).breakpoints == (1.0, 3.0)
    assert UniformGaps(0.0, 3.0).breakpoints == (3.0,)
    assert EmpiricalGaps([2.0, 1.0]).breakpoints == (1.0, 2.0)
    assert LognormalGaps(1.0, 1.0).breakpoints == ()


def test_recorded_gaps_with_ties_zeros_and_disorder():
    law = EmpiricalGaps([3.0, 0.0, 1.0, 3.0, 1.0, 1.0, 0.0, 4.0])
    np.testing.assert_array_equal(law.cdf([0.0, 1.0, 3.0, 4.0, 9.0]), [0, 5 / 8, 7 / 8, 1, 1])
    assert law.cdf(0.5) == pytest.approx(5 / 16)  # linear from 0: zeros share the first piece
    assert law.mean == pytest.approx(5 / 8 * 0.5 + 2 / 8 * 2 + 1 / 8 * 3.5)
    assert law.lipschitz == 5 / 8
    single = EmpiricalGaps([2.0])
    assert single.mean == 1.0 and single.cdf(1.0) == 0.5


def scalar_summary(law) -> jax.Array:
    """One number that every differentiable function of a law enters."""
    return law.residence(1.3) + law.cdf(0.7) + law.quantile(0.4) + law.residual_quantile(0.7) + law.mean


@one_of_each
def test_gradients_meet_finite_differences(law):
    gradient = jax.jit(jax.grad(scalar_summary))(law)
    leaves, tree = jax.tree.flatten(law)
    if isinstance(law, EmpiricalGaps):
        leaves, gradient = [leaves[0]], jax.tree.leaves(gradient)[:1]  # with respect to the knots
        step = 1e-6 * leaves[0]
        ends = [dataclasses_replace(law, knots=leaves[0] + sign * step) for sign in (1, -1)]
        slope = (scalar_summary(ends[0]) - scalar_summary(ends[1])) / 2e-6
        assert np.dot(gradient[0], leaves[0]) == pytest.approx(slope, rel=1e-6)
        return
    for i, value in enumerate(leaves):
        step = 1e-5 * max(value, 0.1)
        ends = [tree.unflatten([*leaves[:i], value + sign * step, *leaves[i + 1 :]]) for sign in (1, -1)]
        slope = (scalar_summary(ends[0]) - scalar_summary(ends[1])) / (2 * step)
        assert float(jax.tree.leaves(gradient)[i]) == pytest.approx(float(slope), rel=1e-6, abs=1e-9)


def dataclasses_replace(law, **changes):
    """A copy of a law with other leaves, past its constructor."""
    leaves = [changes.get(field.name, getattr(law, field.name)) for field in dataclasses.fields(law)]
    return jax.tree.unflatten(jax.tree.structure(law), leaves)


@one_of_each
def test_time_derivatives(law):
    for t in (0.35, 1.7):
        assert jax.grad(law.residence)(t) == pytest.approx(law.survival(t), rel=1e-12)
        assert jax.grad(law.cdf)(t) == pytest.approx(law.density(t), rel=1e-10)
    assert jax.grad(law.residence)(0.0) == 1


@one_of_each
def test_jax_and_numpy_agree(law):
    u = np.linspace(0.001, 0.999, 41)
    t = law.quantile(u)

    @jax.jit
    def through_jax(law, t, u):
        return [
            law.cdf(t), law.survival(t), law.density(t), law.density_derivative(t), law.residence(t),
            law.excess(t), law.quantile(u), law.residual_quantile(u), law.lipschitz,
        ]  # fmt: skip

    through_numpy = through_jax.__wrapped__(law, t, u)
    for ours, theirs in zip(through_jax(law, t, u), through_numpy):
        assert isinstance(ours, jax.Array) and not isinstance(theirs, jax.Array)
        np.testing.assert_allclose(ours, theirs, rtol=2e-12, atol=1e-300)


def test_laws_are_pytrees():
    law = GammaGaps(shape=2.0, mean=3.0)
    assert jax.tree.leaves(law) == [2.0, 3.0]
    assert hash(law) == hash(GammaGaps(2, 3)) and law == GammaGaps(2, 3)
    many = GammaGaps(shape=2.0, mean=jnp.float64(1.0))
    many = dataclasses_replace(many, mean=jnp.array([1.0, 2.0, 3.0]))
    means = jax.vmap(
        lambda law: law.residence(jnp.inf), in_axes=(dataclasses_replace(many, shape=None, mean=0),)
    )(many)
    np.testing.assert_allclose(means, [1, 2, 3])
    # A gradient has the type of the law and values that no law may have.
    gradient = jax.grad(lambda law: -law.mean)(law)
    assert jax.tree.map(np.asarray, gradient).mean == -1
    assert jax.tree.map(lambda _: None, law) == dataclasses_replace(law, shape=None, mean=None)


def test_numpy_path_keeps_double_precision_without_x64():
    with jax.enable_x64(False):
        law = HyperexponentialGaps(weights=[0.3, 0.7], means=[0.1, 2.0])
        t = law.quantile(np.array([1e-12, 0.3]))
        assert t.dtype == np.float64
        np.testing.assert_allclose(law.cdf(t), [1e-12, 0.3], rtol=1e-13)
        assert law.sample(jax.random.key(0), (3,)).dtype == jnp.float32
        assert law.cdf(jnp.float32(1.0)).dtype == jnp.float32


DRAWS = 20_000
KOLMOGOROV = 2.7  # P(sqrt(n) D > 2.7) is 1e-6, five sigma


def distance_from_uniform(u: np.ndarray) -> float:
    """sqrt(n) times the Kolmogorov-Smirnov distance."""
    u = np.sort(u)
    steps = np.arange(u.size + 1) / u.size
    return math.sqrt(u.size) * max(np.max(steps[1:] - u), np.max(u - steps[:-1]))


@every_law
def test_samples_follow_the_law(law):
    sample = np.asarray(law.sample(jax.random.key(3), (DRAWS,)))
    assert distance_from_uniform(law.cdf(sample)) < KOLMOGOROV
    # A 5-sigma band on the mean of the gap capped at its upper decile, an exact target with finite variance.
    cap = law.quantile(0.9)
    capped = np.minimum(sample, cap)
    assert abs(capped.mean() - law.residence(cap)) < 5 * capped.std() / math.sqrt(DRAWS)


@every_law
def test_residual_samples_follow_the_equilibrium_law(law):
    residual = np.asarray(law.sample_residual(jax.random.key(4), (DRAWS,)))
    assert distance_from_uniform(law.residence(residual) / law.mean) < KOLMOGOROV


@pytest.mark.parametrize("law", [law for law in LAWS if not isinstance(law, ExponentialGaps)], ids=name)
def test_the_residual_test_catches_fresh_gaps(law):
    """The mutant that samples gaps afresh at time 0 instead of residual ones."""
    mutant = np.asarray(law.sample(jax.random.key(4), (DRAWS,)))
    assert distance_from_uniform(law.residence(mutant) / law.mean) > KOLMOGOROV


def test_sampling_with_traced_parameters():
    sample = jax.jit(lambda law, key: law.sample_residual(key, (500,)))
    law, key = LognormalGaps(2.0, 3.0), jax.random.key(0)
    np.testing.assert_allclose(sample(law, key), law.sample_residual(key, (500,)), rtol=1e-9)
    assert law.sample(key).shape == ()


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: ExponentialGaps(mean=-1.0), ["ExponentialGaps", "mean=-1.0", "above 0"]),
        (lambda: ExponentialGaps(mean="fast"), ["mean='fast'", "number"]),
        (lambda: ExponentialGaps(mean=math.nan), ["mean=nan", "finite"]),
        (lambda: ExponentialGaps(mean=[1.0, 2.0]), ["mean=[1.0, 2.0]"]),
        (lambda: GammaGaps(shape=0.0, mean=1.0), ["GammaGaps", "shape=0.0", "above 0"]),
        (lambda: GammaGaps(shape=1.0, mean=jnp.array(-2.0)), ["GammaGaps", "mean=", "-2"]),
        (lambda: LognormalGaps(sigma=math.inf, mean=1.0), ["sigma=inf", "finite"]),
        (lambda: WeibullGaps(shape=1.0, mean=0.0), ["WeibullGaps", "mean=0.0"]),
        (lambda: LomaxGaps(shape=1.0, mean=1.0), ["LomaxGaps", "shape=1.0", "above 1"]),
        (lambda: UniformGaps(low=-1.0, high=2.0), ["low=-1.0", "0 or more"]),
        (lambda: UniformGaps(low=3.0, high=2.0), ["high=2.0", "above low=3.0"]),
        (lambda: HyperexponentialGaps([0.5, 0.6], [1.0, 2.0]), ["weights", "sum to 1.1"]),
        (lambda: HyperexponentialGaps([0.5, 0.5], [1.0, -2.0]), ["means", "above 0"]),
        (lambda: HyperexponentialGaps([0.5, 0.5], [1.0]), ["2 weights", "1 means"]),
        (lambda: EmpiricalGaps([]), ["empty"]),
        (lambda: EmpiricalGaps([0.0, 0.0]), ["2 samples are 0"]),
        (lambda: EmpiricalGaps([1.0, -2.0, math.nan]), ["samples[1]=-2.0", "2 such"]),
        (lambda: EmpiricalGaps("gaps"), ["not a list of numbers"]),
    ],
)
def test_bad_parameters_are_one_line(build, words):
    with pytest.raises(InputError) as error:
        build()
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)
