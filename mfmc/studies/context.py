"""What a study gets beside its settings: workload, keys, devices, progress, notes."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mfmc.config.schema import Settings
from mfmc.config.workload import build_workload
from mfmc.errors import InputError

if TYPE_CHECKING:
    import jax

    from mfmc.chunks import Chunks
    from mfmc.workload import Workload

ProgressBars = Callable[[str, int | None], AbstractContextManager[Callable[..., None]]]


def _silent(description: str, total: int | None) -> AbstractContextManager[Callable[..., None]]:
    return nullcontext(lambda step=1: None)


@dataclass
class Context:
    """Services for one run of a study.

    progress(description, total): a context manager whose value `advance(step=1)` moves a bar; silent where
    nobody watches. chunks: where finished replications are kept until the run is done. say: tells a line on the
    terminal. notes: lines for the section "Input" of the report.
    """

    settings: Settings
    progress: ProgressBars = _silent
    chunks: Chunks | None = None
    say: Callable[[str], Any] = warnings.warn
    notes: list[str] = field(default_factory=list)

    def notice(self, line: str) -> None:
        """Something that the user should know now and later: on the terminal and in the report."""
        self.say(line)
        self.notes.append(line)

    def once(self, function: Callable[..., Any], *arguments: Any, like: Any) -> Any:
        """`function(*arguments)`, a tree of arrays of the kind of `like`, not computed again after an interruption.

        What it computes may depend on the settings and the arguments (keys, numbers, texts) alone.
        """
        return self.chunks.once(function, *arguments, like=like) if self.chunks else function(*arguments)

    @cached_property
    def workload(self) -> Workload:
        """The configured workload at its own capacity, `settings.workload.capacity`."""
        return build_workload(self.settings.workload, self.notes)

    def workload_at(self, capacity: int) -> Workload:
        """The workload with its arrival rate scaled in proportion to the capacity (Remark B.6)."""
        return self.workload.scaled(capacity / self.settings.workload.capacity)

    @property
    def accountings(self) -> tuple[str, ...]:
        """The accountings asked for (InputError where the workload does not have one), or all that it has."""
        wanted = self.settings.accountings
        if wanted is None:
            return tuple(self.workload.accountings)
        for name in wanted:
            if name not in self.workload.accountings:
                raise InputError(
                    f"accountings=[{name}]: this workload has only {', '.join(self.workload.accountings)}"
                    " (token needs workload.tokens or workload.path)"
                )
        return tuple(wanted)

    def key(self, *names: Any) -> jax.Array:
        """The PRNG key of a named part of the study: a function of `runtime.seed` and the names only, so that
        parts do not change each other's draws.
        """
        import jax

        key = jax.random.key(self.settings.runtime.seed)
        for name in names:
            key = jax.random.fold_in(key, zlib.crc32(repr(name).encode()))
        return key

    @property
    def devices(self) -> list[jax.Device]:
        """The devices to share replications among: the first `runtime.devices`, or all."""
        import jax

        return jax.devices()[: self.settings.runtime.devices]
