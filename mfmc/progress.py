"""Progress bars on the terminal, for work longer than two seconds; silent where nobody watches."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_SECONDS = 2.0


@contextmanager
def progress(description: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """A bar that appears once the work has taken two seconds; the value `advance(step=1)` moves it.

    Without a `total` it only says that work goes on. On anything but a terminal it prints nothing.

        with progress("replications", 4096) as advance:
            for chunk in chunks:
                ...
                advance(len(chunk))
    """
    if not sys.stderr.isatty():
        yield lambda step=1: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bars.add_task(description, total=total)
    timer = threading.Timer(PATIENCE_SECONDS, bars.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda step=1: bars.advance(task, step)
    finally:
        timer.cancel()
        timer.join()
        bars.stop()
