"""The command `mfmc`: Hydra composes the configuration, a study runs, a folder of results appears.

Exit status: 0 done; 1 a check of the study failed; 2 the input was refused (one line says why); 3 it broke.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from mfmc import studies
from mfmc.config.compose import (
    NAME,
    check_form,
    explain,
    load_workload_files,
    options,
    override_key,
    settings_from,
    store_schema,
)
from mfmc.config.sweeps import PLAN, sweep_folder
from mfmc.defaults import conf_folder
from mfmc.errors import BufferOverflow, InputError

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from mfmc.results import Folder

DONE, CHECK_FAILED, REFUSED, BROKE = 0, 1, 2, 3

#: Below `output`: finished chunks of runs that are not finished.
UNFINISHED = ".unfinished"

# Statuses of the runs of this launch, and the folders of its sweeps. A sweep's statuses are read from its
# jobs' folders, since a launcher may run them in other processes.
_statuses: list[int] = []
_sweeps: list[Path] = []


def main(argv: list[str] | None = None) -> int:
    """Run the command line `argv` (default: the process's own) and return its exit status."""
    if argv is None:
        argv = sys.argv[1:]
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="replace")  # a terminal need not know every sign
    argv = list(argv)
    _statuses.clear()
    _sweeps.clear()
    try:
        if "--help" in argv or "-h" in argv:
            print(_help())
            return DONE
        if "--version" in argv:
            from mfmc.provenance import versions

            print("  ".join(f"{name} {version}" for name, version in versions().items()))
            return DONE
        try:
            _launch(argv)
        finally:
            _statuses.extend(status for sweep in _sweeps for status in _finish(sweep))
        return max(_statuses, default=DONE)
    except KeyboardInterrupt:
        _complain("interrupted")
        return 130
    except SystemExit as leaving:  # Hydra's own flags
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except Exception as error:
        if (refusal := _refusal(error)) is None:
            traceback.print_exc()
            return BROKE
        _complain(refusal)
        return REFUSED


def _launch(argv: list[str]) -> None:
    """Hand the command line to Hydra. Raises InputError for whatever Hydra refuses."""
    import hydra
    from hydra._internal.utils import get_args_parser
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    parser = get_args_parser()
    parser.error = _refuse_flag  # type: ignore[assignment,method-assign]
    given = parser.parse_intermixed_args(argv).overrides
    for override in given:
        check_form(override)
    flags = [word for word in argv if word not in given]
    if not any(override_key(text) == "hydra.sweep.dir" for text in given):
        flags.append(sweep_folder(given))
    store_schema()
    try:
        with _command_line([*flags, *load_workload_files(given)]):  # Hydra wants its flags first
            hydra.main(version_base="1.3", config_path=str(conf_folder()), config_name=NAME)(job)()
    except (HydraException, OmegaConfBaseException) as error:
        raise InputError(explain(error, given)) from error
    except OSError as error:
        if error.filename is None:
            raise
        raise InputError(
            f"{error.filename}: {(error.strerror or str(error)).lower()} (set output=FOLDER)"
        ) from error


def _refuse_flag(message: str) -> NoReturn:
    raise InputError(f"{message} (see mfmc --help)")


@contextmanager
def _command_line(argv: list[str]) -> Iterator[None]:
    """Hydra reads sys.argv, and reports errors itself unless told to raise them."""
    before = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv = [sys.argv[0], *argv]
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    finally:
        sys.argv = before[0]
        if before[1] is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = before[1]


def job(cfg: DictConfig) -> int:
    """One run, in whatever process a launcher chose. It returns a status: a bad one harms no other."""
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import OmegaConf

    from mfmc.results import Folder

    hydra_cfg = HydraConfig.get()
    number = OmegaConf.select(OmegaConf.create({"job": hydra_cfg.job}), "job.num")  # None outside a multirun
    overrides: list[str] = OmegaConf.to_container(hydra_cfg.overrides.task)  # type: ignore[assignment]
    extra = {
        ".hydra/config.yaml": OmegaConf.to_yaml(cfg),
        ".hydra/hydra.yaml": OmegaConf.to_yaml(OmegaConf.create({"hydra": hydra_cfg})),
        ".hydra/overrides.yaml": OmegaConf.to_yaml(hydra_cfg.overrides.task),
    }
    where = "" if number is None else f"job {number} ({' '.join(overrides)}): "
    path, folder = Path(hydra_cfg.runtime.output_dir), None
    try:
        folder = Folder(path)
        status = _run_study(cfg, overrides, folder, extra, where)
    except Exception as error:
        refusal = _refusal(error)
        message, status = refusal or f"{type(error).__name__}: {_one_line(error)}", REFUSED if refusal else BROKE
        if not refusal:
            traceback.print_exc()
        _complain(where + (refusal or "broke; this is a defect of mfmc"))
    except BaseException:
        if folder is not None:
            folder.discard()
        raise
    if status >= REFUSED and folder is not None:
        if number is None:
            folder.discard()
        else:
            folder.write_failure(message, status, extra)
    if number is None:
        _statuses.append(status)
    return status


def _run_study(
    cfg: DictConfig, overrides: list[str], folder: Folder, extra: dict[str, str], where: str
) -> int:
    """Check the settings, run the study under its runtime, write and show the result."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    from mfmc import report
    from mfmc.chunks import Chunks
    from mfmc.config.machine import prepared, processor
    from mfmc.fingerprint import fingerprint
    from mfmc.progress import progress
    from mfmc.provenance import provenance
    from mfmc.studies.context import Context

    start = time.perf_counter()
    try:
        values: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True)  # type: ignore[assignment]
    except OmegaConfBaseException as error:
        raise InputError(explain(error, overrides)) from error
    settings = settings_from(values, overrides)
    mark, resume = fingerprint(values), settings.runtime.resume
    chunks = Chunks(Path(settings.output) / UNFINISHED / f"{mark}-{processor()}")
    if where and resume and (finished := folder.status_of(mark)) is not None:
        chunks.clear()  # which a kill just after the result was written leaves
        _tell(f"{where}was done before")
        return finished
    with prepared(settings.runtime):
        if not resume:
            chunks.clear()
        context = Context(settings, progress, chunks, lambda line: _complain(where + line))
        result = studies.load(settings.study).run(settings, context)
        if context.notes:
            result.sections = {"Input": "\n".join(f"- {note}" for note in context.notes), **result.sections}
        seconds = time.perf_counter() - start
        facts = provenance(settings, values, overrides, seconds) | {"fingerprint": mark}
        folder.write(result, settings.study, facts, extra)
    chunks.clear()
    if where:
        _tell(f"{where}{report.tally(result)} in {seconds:.1f} s")
    else:
        report.show(settings.study, result, _relative(folder.path), seconds)
    return DONE if result.passed else CHECK_FAILED


class Multirun:
    """Hydra's callback (named in conf/config.yaml): remembers where sweeps go."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):  # the events that nothing is done at
            return lambda **_: None
        raise AttributeError(name)

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        _sweeps.append(Path(config.hydra.sweep.dir))


def _finish(sweep: Path) -> list[int]:
    """Collect a sweep, say how many jobs did what, and return their statuses.

    Not in Hydra's on_multirun_end, which does not come when a job, or its process, breaks. A sweep that was refused
    before its first job leaves nothing behind.
    """
    from mfmc.collect import collect

    if not os.path.isdir(sweep):  # nor where one may not look
        return []
    if {entry.name for entry in sweep.iterdir()} <= {PLAN}:
        shutil.rmtree(sweep, ignore_errors=True)
        return []
    collected = collect(sweep)
    collected.write()
    _tell(f"{collected.counts()}; results: {_relative(sweep)}")
    return [BROKE if job.status is None else job.status for job in collected.jobs]


def _complain(line: str) -> None:
    _tell(f"mfmc: {line}", sys.stderr)


def _tell(line: str, stream: TextIO | None = None) -> None:
    """Print a line. Where the reader has left (mfmc .. | head), the sweep goes on all the same."""
    stream = stream or sys.stdout
    try:
        print(line, file=stream, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _refusal(error: Exception) -> str | None:
    """The line for what is no defect of mfmc: bad input, buffers that do not suffice, a full disk."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"{os.strerror(error.errno).lower()}: make room and give the same command again, or set output=FOLDER"
    return _one_line(error) if isinstance(error, InputError | BufferOverflow) else None


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def _relative(path: Path) -> Path:
    """The path as seen from where the user stands, if it lies below."""
    path, here = path.absolute(), Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _help() -> str:
    width = max(map(len, studies.STUDIES))
    listed = "\n".join(f"  {name:<{width}}  {study.purpose}" for name, study in studies.STUDIES.items())
    return f"""\
mfmc: hit ratios of KV caches under LRU for multi-turn conversations, from theory to traces

usage: mfmc [study=NAME] [workload=NAME|FILE.yaml] [runtime=NAME] [key=value ...]
       mfmc -m key=value1,value2 ...      every combination of the listed values
       mfmc experiment=NAME               a sweep that is ready to run
       mfmc study=collect sweep=FOLDER    one table and one report of a sweep, finished or not

studies (study=)
{listed}

workloads (workload=)  {", ".join(options("workload"))}
runtimes (runtime=)    {", ".join(options("runtime"))}
experiments (experiment=)  {", ".join(options("experiment"))}

examples
  mfmc capacities=[1000,10000] workload=scm
  mfmc workload.gaps.kind=gamma workload.gaps.shape=2
  mfmc workload=trace workload.path=turns.csv.gz workload.block_tokens=128
  mfmc -m workload.arrival_rate=0.5,1.5 runtime=quick

mfmc study=NAME --cfg job   prints every setting and its value
mfmc --hydra-help           the flags of Hydra
Results go to outputs/<study>/<time>/ below the current folder (output=FOLDER to change it). The same command
continues an interrupted run or sweep (runtime.resume=false: start over).
Exit status: 0 done, 1 a check failed, 2 input refused, 3 broke.
    """
