"""Maximum-likelihood fits of gap and turn laws (optax), with censored gaps, compared by AIC, BIC and KS.

Gaps that the end of a file cut enter by their survival; a wait after a last turn may also have no end at
all, so that the likelihood of a wait of at least c is 1 - p + p Fbar(c), where p = P(a turn is followed by
another) is fitted along (the cure model of `estimator.gap_laws`). Parameters are optimised on the whole line
(logarithms, logits) by L-BFGS with a line search; standard errors are those of the observed information.
"""

from __future__ import annotations

from mfmc.fitting.families import FAMILIES
from mfmc.fitting.gaps import compare_gaps, fit_gaps
from mfmc.fitting.optimum import Fit
from mfmc.fitting.sizes import BlockFit, fit_blocks
from mfmc.fitting.turns import fit_turns

__all__ = ["FAMILIES", "BlockFit", "Fit", "compare_gaps", "fit_blocks", "fit_gaps", "fit_turns"]
