"""Multiruns as Hydra plans them: the folder that a command's sweep always goes to, and its jobs by number."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from mfmc.config.compose import override_key
from mfmc.defaults import conf_folder
from mfmc.errors import InputError
from mfmc.fingerprint import WITHOUT_EFFECT

PLAN = "multirun.yaml"  # Hydra writes it before the first job


def sweep_folder(overrides: Sequence[str]) -> str:
    """The override that sends the sweep of a command line to a folder of its own, the same every time.

    The name comes from the overrides that matter, in their order (it numbers the jobs), and from the files that they
    name, so that the command continues an interrupted sweep, and another command never lands in its folder.
    """
    mattering = [text for text in overrides if not _without_effect(override_key(text))]
    experiment = next((text.partition("=")[2] for text in mattering if override_key(text) == "experiment"), "")
    digest = hashlib.sha256("\0".join(mattering).encode())
    for path in (conf_folder() / "experiment" / f"{experiment}.yaml", *(Path(t.partition("=")[2]) for t in mattering)):
        if path.suffix in (".yaml", ".yml") and path.is_file():
            digest.update(path.read_bytes())
    name = experiment if experiment.isidentifier() else "sweep"
    return f"hydra.sweep.dir=${{output}}/multirun/{name}-{digest.hexdigest()[:8]}"


def _without_effect(key: str) -> bool:
    return key in WITHOUT_EFFECT or key.split(".")[0].split("/")[0] == "hydra"


def purpose(experiment: str) -> str:
    """What an experiment shows: the comment at the head of its file."""
    path = conf_folder() / "experiment" / f"{experiment}.yaml"
    if not path.is_file():
        return ""
    head = takewhile(lambda line: line.startswith("#"), path.read_text(encoding="utf-8").splitlines())
    return " ".join(line.lstrip("# ") for line in head if "@package" not in line)


def planned_jobs(sweep: Path) -> list[dict[str, str]]:
    """The overrides of every job of a sweep, finished or not: key -> value, in the order of their numbers.

    Raises InputError where the folder is none of a multirun.
    """
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from omegaconf import OmegaConf

    try:
        plan = OmegaConf.load(sweep / PLAN)
    except OSError as error:
        raise InputError(f"{sweep}: no folder of a multirun (it has no {PLAN})") from error
    params = plan.hydra.sweeper.get("params") or {}
    texts = [f"{key}={value}" for key, value in params.items()] + list(plan.hydra.overrides.task)
    batches = BasicSweeper.split_arguments(OverridesParser.create().parse_overrides(texts), None)
    jobs = [job for batch in batches for job in batch]
    return [dict(text.lstrip("+").partition("=")[::2] for text in job) for job in jobs]
