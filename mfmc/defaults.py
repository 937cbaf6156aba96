"""Where the folder conf/ is: the defaults of every study, and the layers of named models."""

from __future__ import annotations

from pathlib import Path

from mfmc.errors import InputError


def conf_folder() -> Path:
    """The folder conf/: inside the package after an install, beside it in a checkout."""
    package = Path(__file__).resolve().parent
    for folder in (package / "conf", package.parent / "conf"):
        if (folder / "config.yaml").is_file():
            return folder
    raise InputError("mfmc is installed without its conf/ folder; install it again with pip")
