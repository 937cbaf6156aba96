"""Hydra's side of the configuration: where conf/ is, workload files, and Hydra's complaints in one line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from mfmc import studies
from mfmc.config.convert import convert, keys_of, unknown_setting
from mfmc.config.schema import Settings
from mfmc.config.workload import WorkloadSection, settle_kinds
from mfmc.defaults import conf_folder
from mfmc.errors import InputError

NAME = "config"


def store_schema() -> None:
    """Tell Hydra every key that a workload may have, so that overrides of any of them are accepted."""
    from hydra.core.config_store import ConfigStore

    node = asdict(WorkloadSection(capacity=0)) | {"capacity": "???"}
    ConfigStore.instance().store(group="schema", name="workload", node=node)


def check_form(override: str) -> None:
    """Refuse what is no override at all, or chooses from a group by something else than a name."""
    key, equals, value = override.lstrip("+~").partition("=")
    if not key or not (equals or override.startswith("~")):
        raise InputError(
            f"'{override}' is not an override: write key=value, such as workload=scm (see mfmc --help)"
        )
    if equals and key in groups() and not re.match(r"['\"]?[./~]*[A-Za-z_]", value):
        raise InputError(f"{override}: expected one of {', '.join(options(key))}")


def groups() -> list[str]:
    """The groups of conf/ from which a command line chooses."""
    return sorted(folder.name for folder in conf_folder().iterdir() if folder.is_dir())


def options(group: str) -> list[str]:
    """The options of a group."""
    return sorted(file.stem for file in (conf_folder() / group).glob("*.yaml"))


def load_workload_files(overrides: Iterable[str]) -> list[str]:
    """Make `workload=some/path.yaml` an option of the group; overrides then name it by its absolute path."""
    return [_with_stored_files(text) if text.startswith("workload=") else text for text in overrides]


def _with_stored_files(override: str) -> str:
    outside_quotes = r""",(?=(?:[^'"]|'[^']*'|"[^"]*")*$)"""
    options = re.split(outside_quotes, override.removeprefix("workload="))
    return "workload=" + ",".join(_stored(option.strip().strip("'\"")) for option in options)


def _stored(option: str) -> str:
    """Put a file's content where Hydra looks for `workload/<absolute path>`; other options stay as is."""
    from hydra.core.config_store import ConfigStore

    if not option.endswith((".yaml", ".yml")):
        return option
    path = Path(option).resolve()
    group = "/".join(("workload", *path.parts[1:-1]))
    ConfigStore.instance().store(group=group, name=path.name, node=_read_yaml(option))
    return "'" + str(path).replace("'", r"\'") + "'"


def _read_yaml(path: str) -> dict[str, Any]:
    import yaml
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        content = OmegaConf.to_container(OmegaConf.load(path))
    except OSError as error:
        raise InputError(
            f"workload={path}: cannot be read ({(error.strerror or str(error)).lower()})"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError, OmegaConfBaseException) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise InputError(f"workload={path}: not a YAML file{where} ({_first_line(error)})") from error
    if not isinstance(content, dict):
        found = type(content).__name__
        raise InputError(
            f"workload={path}: expected settings such as arrival_rate and turns, found a {found}"
        )
    if isinstance(content.get("workload"), dict):
        raise InputError(
            f"workload={path}: put the settings at the top of the file, without 'workload:' above them"
        )
    for key in content:
        if key not in keys_of(WorkloadSection):
            raise InputError(f"workload={path}: {unknown_setting(str(key), keys_of(WorkloadSection))}")
    return {str(key): value for key, value in content.items()}


def settings_from(values: dict[str, Any], overrides: Iterable[str]) -> Settings:
    """Typed settings of the study that `values` names; `overrides` are those that the user gave."""
    name = values.get("study")
    module = studies.load(str(name))
    settings = convert(getattr(module, "Config", Settings), values)
    settle_kinds(settings.workload, {override_key(text) for text in overrides})
    return settings


def configured(overrides: Iterable[str] = ()) -> Settings:
    """Typed settings as the command line would have them, for notebooks and tests."""
    import hydra
    from omegaconf import OmegaConf

    overrides = list(overrides)
    store_schema()
    with hydra.initialize_config_dir(str(conf_folder()), version_base="1.3"):
        cfg = hydra.compose(NAME, load_workload_files(overrides))
    return settings_from(OmegaConf.to_container(cfg, resolve=True), overrides)  # type: ignore[arg-type]


def override_key(override: str) -> str:
    """The key of an override: `+a.b=1` -> `a.b`."""
    return override.split("=", 1)[0].lstrip("+~").split("@", 1)[0]


def explain(error: Exception, overrides: Iterable[str]) -> str:
    """One line for what Hydra or OmegaConf refused."""
    from hydra.errors import OverrideParseException

    text, cause = str(error), str(error.__cause__ or "")
    if isinstance(error, OverrideParseException):
        return (
            f"cannot read '{error.override}': {_first_line(text)} (a list is written 'capacities=[100,1000]')"
        )
    if found := re.search(r"Could not find '([^']*?)/([^'/]*)'", text):
        return _unknown_option(found[1], found[2])
    if found := re.search(r"Could not override '([^'=]*)", text):
        return unknown_setting(found[1], _known_keys(list(overrides)))
    if found := re.search(r"Ambiguous value for argument '(.*)'", text):
        return f"{found[1]}: several values are a sweep, which needs -m; a list is written key=[1,2], a text key='a,b'"
    if found := re.search(r"'hydra/launcher/(\w+)'.*Could not load 'hydra/launcher/([a-z]+)", text, re.DOTALL):
        return f"hydra/launcher={found[1]}: needs what pip install 'mfmc[parallel-{found[2]}]' installs"
    if found := re.search(r"Error merging override (.*)", text):
        return f"{found[1]}: {_first_line(cause)}"
    if found := re.search(r"Missing mandatory value: (\w+)", text):
        return f"{found[1]} is not set"
    key = getattr(error, "full_key", None)
    return f"{key}: {_first_line(text)}" if key else _first_line(text)


def _unknown_option(group: str, option: str) -> str:
    known = options(group)
    near = get_close_matches(option, known, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    also = ", or the path of a .yaml file" if group == "workload" else ""
    return f"{group}={option}: no such {group}; {hint}known are {', '.join(known)}{also}"


def _known_keys(overrides: list[str]) -> list[str]:
    """The keys of the study that the overrides name, as far as it can be told."""
    named = next((text.partition("=")[2] for text in overrides if text.startswith("study=")), "")
    schema = getattr(studies.load(named), "Config", Settings) if named in studies.STUDIES else Settings
    return list(dict.fromkeys(keys_of(schema) + groups()))


def _first_line(error: object) -> str:
    return (str(error).strip().splitlines() or ["refused"])[0].rstrip(".")
