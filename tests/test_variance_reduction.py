"""h(N) with control variates: unbiased, with the error it states, and worth hundreds of hit indicators."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from reference_workloads import reference_workload

from mfmc.errors import InputError
from mfmc.laws.gaps import ExponentialGaps
from mfmc.laws.tokens import GeometricTokens, TokenBlocks
from mfmc.laws.turns import GeometricTurns
from mfmc.theory.compound_poisson import hit_ratio_exact
from mfmc.variance_reduction import controlled_hit_ratio
from mfmc.workload import Workload

KEY = jax.random.key(13)
LAMBDA0 = 0.03509557478308677  # T_C = 0.8 mean gaps


def test_hundreds_of_indicators_at_a_thousand_blocks():
    workload = reference_workload("scm_poisson_blocks", LAMBDA0, 1000)
    found = controlled_hit_ratio(KEY, workload, 1000, 768)
    exact = hit_ratio_exact(workload, 1000)
    assert abs(found.estimate - exact) < 5 * found.standard_error
    assert found.standard_error < 1.5e-3 * exact
    assert found.controlled_variance < found.conditional_variance / 5 < found.indicator_variance / 50
    assert found.gain > 200


def test_unbiased_with_an_honest_error():
    """A dozen short runs of another accounting scatter about the exact value as their errors say."""
    law = TokenBlocks(GeometricTokens(12, 60), GeometricTokens(24, 120), 8)
    workload = Workload(8.0, ExponentialGaps(1.0), GeometricTurns(0.6, 12), law)
    exact = hit_ratio_exact(workload, 120, "token")
    errors = []
    for i in range(12):
        run = controlled_hit_ratio(jax.random.key(i), workload, 120, 128, accounting="token")
        errors.append((run.estimate - exact) / run.standard_error)
    assert abs(np.mean(errors)) < 5 / np.sqrt(len(errors))
    assert 0.4 < np.std(errors) < 2


def test_too_few_replications_are_refused():
    workload = reference_workload("scm_poisson_blocks", LAMBDA0, 100)
    with pytest.raises(InputError, match="replications=10"):
        controlled_hit_ratio(KEY, workload, 100, 10)
