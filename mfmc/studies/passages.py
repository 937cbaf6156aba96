"""The turns whose characteristic time a study looks at."""

from __future__ import annotations

from mfmc.config.schema import Settings
from mfmc.errors import InputError
from mfmc.studies.context import Context


def turns_of(config: Settings, context: Context) -> tuple[int, ...]:
    """The turns asked for, as far as conversations reach them; the others are noted in the report."""
    longest = context.workload.profile().turn_pmf.size - 1
    turns = tuple(turn for turn in config.turns_of_interest if turn <= longest)
    if not turns:
        raise InputError(
            f"turns_of_interest={config.turns_of_interest}: no conversation has more than {longest} turns"
        )
    left = [turn for turn in config.turns_of_interest if turn > longest]
    note = f"turns {left} are left out: no conversation has more than {longest}"
    if left and note not in context.notes:
        context.notes.append(note)
    return turns
