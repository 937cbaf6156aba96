"""Prefix checkpoints under a byte budget: why a larger cache can evict more and save nothing; when it pays.

An untrained decoder (decoder.py) answers requests (session.py) with a store of key/value checkpoints
(store.py), in one of five designs (designs.py). experiment.py is the published experiment, audit.py checks
its evidence without sharing code; fixed.py and conversations.py compare designs, and working_set.py predicts
their thresholds from T_C.
"""

from mfmc.checkpoints.audit import audit_evidence
from mfmc.checkpoints.conversations import draw_stream
from mfmc.checkpoints.decoder import Decoder, DecoderShape
from mfmc.checkpoints.designs import DESIGNS
from mfmc.checkpoints.experiment import run_experiment, write_evidence
from mfmc.checkpoints.session import Answer, Request, answer
from mfmc.checkpoints.study import CacheBudget, run_cache_budget, write_cache_budget
from mfmc.checkpoints.working_set import working_set

__all__ = [
    "DESIGNS",
    "Answer",
    "CacheBudget",
    "Decoder",
    "DecoderShape",
    "Request",
    "answer",
    "audit_evidence",
    "draw_stream",
    "run_cache_budget",
    "run_experiment",
    "working_set",
    "write_cache_budget",
    "write_evidence",
]
