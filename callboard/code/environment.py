"""What code finds around it: environment variables, and the files that it may read."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

from .languages import Language

#: Variables of ours that code gets too. Everything else may be a secret.
PASSED_ON = ("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LC_NUMERIC", "LC_TIME", "TZ")
#: What programs of the system need. Of /etc only what holds no secret.
READABLE = (
    *(
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/lib32",
        "/lib64",
        "/libx32",
        "/nix/store",
        "/proc",
        "/sys/devices/system/cpu",
    ),
    *(
        f"/etc/{name}"
        for name in ("alternatives", "ca-certificates", "fonts", "ld.so.cache", "ld.so.conf", "locale.alias")
    ),
    *(
        f"/etc/{name}"
        for name in ("ld.so.conf.d", "localtime", "magic", "mime.types", "os-release", "pki", "ssl/certs")
    ),
    *(
        f"/etc/{name}"
        for name in ("group", "host.conf", "hosts", "nsswitch.conf", "passwd", "resolv.conf", "timezone")
    ),
    *("/etc/bash.bashrc", "/etc/profile", "/etc/terminfo", "/etc/ssl/openssl.cnf"),
)
#: Folder in the work folder for temporary files and what programs keep in a home.
HOME = ".home"
#: Folder in the work folder for what pip installs for functions.
PACKAGES = ".packages"


def python_of(virtual_env: SimpleNamespace | None) -> str:
    """The Python that runs code: that of a virtual environment, else ours."""
    return os.path.abspath(virtual_env.env_exe) if virtual_env else sys.executable  # noqa: PTH100 - links are kept


def environment(
    folder: Path, virtual_env: SimpleNamespace | None, added: Mapping[str, str]
) -> dict[str, str]:
    """The environment of code: nothing of ours but language and time zone, and where programs are.

    Args:
        folder: The work folder; homes and temporary files are in it.
        virtual_env: The virtual environment that is used.
        added: Variables that the user gives to the code.
    """
    home = str(folder / HOME)
    return {
        **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
        "PATH": search_path(virtual_env),
        "HOME": home,
        "TMPDIR": home,
        "TERM": "dumb",
        "PYTHONUNBUFFERED": "1",  # what was printed is there when the code is stopped
        "PYTHONIOENCODING": "utf-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(folder / PACKAGES),
        "PIP_QUIET": "3",  # as AutoGen, which adds -qqq
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        **added,
    }


def program_of(language: Language, virtual_env: SimpleNamespace | None) -> str | None:
    """The absolute path of the program that runs a language; None when it is not installed."""
    return language.find_program(search_path(virtual_env)) if language.programs else python_of(virtual_env)


def search_path(virtual_env: SimpleNamespace | None) -> str:
    """Folders of programs: first those beside the Python that runs code, so that `python` in a shell is the same."""
    first = os.path.dirname(python_of(virtual_env))  # noqa: PTH120 - links are kept
    return os.pathsep.join([first, os.environ.get("PATH", os.defpath)])


def readable_paths(virtual_env: SimpleNamespace | None, added: tuple[str, ...]) -> list[str]:
    """Files and folders outside of the work folder that code may read and execute.

    Args:
        virtual_env: The virtual environment that is used.
        added: What the user adds.
    """
    python = Path(python_of(virtual_env))
    return [
        *READABLE,
        sys.prefix,
        sys.base_prefix,
        str(python.parent.parent),
        str(python.resolve().parent),
        *added,
    ]
