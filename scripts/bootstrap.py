"""Make the virtual environment that a script needs, or reuse it, and run the script's tool in it.

The scripts beside this come here once they have found a Python. Environments live in
`.envs/`, keyed by all that they were made from, so that a change makes a new one and a second run
finds its own. A stamp written last tells a finished environment from an interrupted one; a file
lock lets two first runs at once make it only once. Standard library only.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parent.parent
ENVS = ROOT / ".envs"
STAMP = "ready"
INDEX = "index"  # holds the package index that pip is set to use, if any
OLDEST = (3, 11)
UV = "uv>=0.8"
PACKAGES = {
    "test": ["nox>=2025.10.14"],
    "demo": ["--editable", f"{ROOT}[cli,embedded]"],
    "clocks": ["--editable", f"{ROOT}[cron]", "tzdata"],
    "shake": [
        "--editable",
        f"{ROOT}[cli,cron,embedded,fastapi]",
        "--group",
        f"{ROOT}/pyproject.toml:test",
    ],
    "bench": ["--editable", f"{ROOT}[embedded]", "python-redis-lock>=4", "redis-fifo-lock>=0.3"],
}
SHARED = {"breakages": "shake", "chaos": "demo"}
"""Scripts that run in the environment of another one."""
TESTS = str(ROOT / "tests")
MODULES = {
    "bench": ("bench", [str(ROOT), TESTS]),
    "breakages": ("breakages", [str(ROOT / "scripts")]),
    "chaos": ("kit.chaos", [TESTS]),
    "clocks": ("kit.clockchanges", [TESTS]),
    "shake": ("kit.shake", [TESTS]),
}
"""What the other scripts run: a module of the repository, and where it and its likes are found."""
# The caller's own Python settings, which would leak into what we run.
FOREIGN = {
    "CONDA_PREFIX",
    "NOXSESSION",
    "PYTHONDONTWRITEBYTECODE",  # compiling everything anew makes each start slow
    "PYTHONHOME",
    "PYTHONPATH",
    "UV_PYTHON",
    "VIRTUAL_ENV",
}


def key(purpose: str) -> str:
    """Name the environment after everything that it depends on."""
    parts = [str(ROOT), sys.base_prefix, sys.version, UV, *PACKAGES[purpose]]
    digest = hashlib.sha256("\0".join(parts).encode())
    digest.update((ROOT / "pyproject.toml").read_bytes())
    return f"{purpose}-{digest.hexdigest()[:12]}"


def open_lock(env: Path) -> TextIO:
    """Open the lock file of `env`. A lock taken on it is held until it is closed."""
    return env.with_suffix(".lock").open("w", encoding="utf-8")


def prepare(purpose: str) -> tuple[Path, TextIO]:
    """Return the finished environment for `purpose`, and its lock, held as a user of it."""
    ENVS.mkdir(exist_ok=True)
    env = ENVS / key(purpose)
    lock = open_lock(env)
    while True:
        fcntl.flock(lock, fcntl.LOCK_SH)
        if (env / STAMP).exists():
            return env, lock
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (env / STAMP).exists():  # nobody has made it while we waited
            build(env, PACKAGES[purpose])
            remove_others(purpose, env)


def build(env: Path, packages: list[str]) -> None:
    """Make `env` from nothing and install `packages`; the stamp comes last."""
    print(f"first run: setting up {env}", file=sys.stderr, flush=True)
    venv.create(env, clear=True, with_pip=True, symlinks=True)
    python = str(env / "bin/python")
    pip = [python, "-I", "-m", "pip", "--disable-pip-version-check"]
    # Progress goes to stderr: stdout belongs to the tool.
    subprocess.run([*pip, "install", "--quiet", UV], check=True, stdout=sys.stderr)
    index = subprocess.run(
        [*pip, "config", "get", "global.index-url"], check=False, capture_output=True, text=True
    )
    (env / INDEX).touch(mode=0o600)  # an address may hold a password
    (env / INDEX).write_text(index.stdout.strip(), encoding="utf-8")
    subprocess.run(
        [str(env / "bin/uv"), "pip", "install", "--quiet", "--python", python, *packages],
        check=True,
        stdout=sys.stderr,
        env=environment(env),
    )
    (env / STAMP).touch()


def remove_others(purpose: str, env: Path) -> None:
    """Remove environments made from an older state, unless somebody runs in them."""
    for old in ENVS.glob(f"{purpose}-*/"):
        if old == env:
            continue
        with open_lock(old) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            shutil.rmtree(old, ignore_errors=True)


def pyenv_pythons() -> dict[str, Path]:
    """Find pyenv's newest Python of each minor version: its shims answer for chosen ones only."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found: dict[tuple[int, ...], Path] = {}
    for python in (root / "versions").glob("3.*.*/bin/python3.*[0-9]"):
        parts = python.parent.parent.name.split(".")
        if all(part.isdigit() for part in parts):
            found[tuple(map(int, parts))] = python
    return {path.name: path for number, path in sorted(found.items()) if number >= OLDEST}


def link_pythons(folder: Path) -> None:
    """Make `folder` hold a link to each of pyenv's Pythons; others may do the same right now."""
    folder.mkdir(exist_ok=True)
    for name, python in pyenv_pythons().items():
        link = folder / name
        if not link.is_symlink() or link.readlink() != python:
            fresh = folder / f".{name}.{os.getpid()}"
            fresh.symlink_to(python)
            fresh.replace(link)
    for link in folder.iterdir():
        if not link.exists():
            link.unlink(missing_ok=True)


def environment(env: Path) -> dict[str, str]:
    """Return the variables that what is in `env` runs with."""
    variables = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    pythons = env / "pythons"
    link_pythons(pythons)
    path = [str(env / "bin"), str(pythons), variables.get("PATH", os.defpath)]
    variables["PATH"] = os.pathsep.join(path)
    variables["UV_PYTHON_DOWNLOADS"] = "never"
    index = variables.get("PIP_INDEX_URL") or (env / INDEX).read_text(encoding="utf-8")
    if index and not {"UV_DEFAULT_INDEX", "UV_INDEX_URL"} & variables.keys():
        variables["UV_DEFAULT_INDEX"] = index  # uv does not read pip's settings
    return variables


def command(purpose: str, env: Path, arguments: list[str]) -> list[str]:
    """Return what to run with the script's own arguments."""
    if purpose in MODULES:
        return [str(env / "bin/python"), "-m", MODULES[purpose][0], *arguments]
    if purpose == "demo":
        return [str(env / "bin/incumbent"), "demo", *arguments]
    nox = [
        str(env / "bin/nox"),
        "--noxfile",
        str(ROOT / "noxfile.py"),
        "--envdir",
        str(env / "nox"),
    ]
    if not arguments:
        return [str(env / "bin/python"), "-I", str(ROOT / "scripts/lanes.py"), *nox]
    names_sessions = bool(arguments) and not arguments[0].startswith("-")
    return [*nox, *(["--session"] if names_sessions else []), *arguments]


def main() -> None:
    """Become the tool that the first argument names; only a failed set-up ends here."""
    purpose, *arguments = sys.argv[1:]
    try:
        env, lock = prepare(SHARED.get(purpose, purpose))
    except subprocess.CalledProcessError as error:
        tool = Path(error.cmd[0]).name
        sys.exit(f"set-up failed ({tool} exited with {error.returncode}); the next run tries again")
    except OSError as error:
        sys.exit(f"set-up failed: {error}")
    except KeyboardInterrupt:
        sys.exit("set-up interrupted; the next run starts it again")
    os.set_inheritable(lock.fileno(), True)  # the environment is in use until the tool ends
    arguments, variables = command(purpose, env, arguments), environment(env)
    if purpose in MODULES:
        variables["PYTHONPATH"] = os.pathsep.join(MODULES[purpose][1])
    os.execve(arguments[0], arguments, variables)


if __name__ == "__main__":
    main()
