"""The sessions that judge the project: lint, types, tests per Python, coverage, package.

`scripts/test` runs them all, in three lanes (`scripts/lanes.py`). Environments are reused: each
carries a stamp with the hash of what was installed into it, written last, so that a second run
installs nothing and an interrupted set-up is done again.
"""

import fcntl
import hashlib
import os
import shutil
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
PYTHONS = ["3.11", "3.12", "3.13"]
LUA = ROOT / "src/incumbent/stores/redis/lua"
CHOSEN = {"INCUMBENT_TEST_SERVER", "INCUMBENT_TEST_URL"}  # the user knows better
IMAGES = {"INCUMBENT_TEST_IMAGE": os.environ.get("INCUMBENT_TEST_IMAGE", "valkey/valkey:9,redis:8")}
FOUND = [version for version in PYTHONS if shutil.which(f"python{version}")]
OLDEST, NEWEST = (FOUND[0], FOUND[-1]) if FOUND else (PYTHONS[0], PYTHONS[-1])
COVERAGE = ROOT / ".coverage-data"
ONCE = ["test_kit_*.py", "test_bench_smoke.py", "test_breakages.py", "test_lanes.py"]
ONCE += ["test_model.py", "field/test_h_groups.py", "strategic/test_churn.py"]
ONCE += [f"{folder}/*" for folder in ("cli", "docs", "durability", "topology", "web")]
"""What is of no Python in particular, and takes long."""
WIRE = ["tests/contract", "tests/promises"]
"""What shows how we get on with a server, a client, an event loop."""
REDIS_PY = ["5.2", "6.4", "7.4", "8.1"]
NOT_BETWEEN = ["blocking/*", "contract/*", "fencing/*", "field/*", "pure/*", "strategic/*"]
"""What no Python differs in when the one before it and the one after it do not."""
SIDE_BY_SIDE = ["--dist", "worksteal", "-n", "5"]
"""The tests wait more than they compute, hence more workers than two cores, in three lanes."""
LONGEST = ["--dist", "worksteal", "-n", "8"]
"""The oldest Python has most of the tests."""

nox.needs_version = ">=2025.10.14"
nox.options.default_venv_backend = "uv"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = False
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "types", "package", "tests", "clients", "coverage"]


def install(session: nox.Session, *args: str) -> None:
    """Install `args` into the session's environment, unless just that is in it already.

    If the tests' tools are among them, their bytecode and that of the tests is made at once:
    otherwise each worker would make all of it.
    """
    venv = Path(session.virtualenv.location)
    stamp = venv / "installed"
    recipe = [str(ROOT), (ROOT / "pyproject.toml").read_text(), *args]
    key = hashlib.sha256("\0".join(recipe).encode()).hexdigest()
    with venv.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs at once in one folder
        if stamp.exists() and stamp.read_text() == key:
            return
        session.virtualenv.reuse_existing = False  # whatever is there is old or half-made
        session.virtualenv.create()
        session.install(*args)
        if "test" in args and "types" not in args:
            collected = range(6)  # what is wrong with the tests is told when they are run
            session.run("pytest", "--collect-only", "-qq", silent=True, success_codes=collected)
        unfinished = stamp.with_suffix(".new")
        unfinished.write_text(key)
        unfinished.replace(stamp)


@nox.session
def lint(session: nox.Session) -> None:
    """Style, formatting, the rooms' import contracts, and the Lua scripts' syntax."""
    install(session, "--group", "lint")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports", "--no-logo", env={"PYTHONPATH": "src"})
    session.run("python", "scripts/luacheck.py")


@nox.session
def types(session: nox.Session) -> None:
    """What mypy says of sources and tests, pyright of sources, and of the public types."""
    install(session, "-e", ".[cli,cron,embedded,fastapi]", "--group", "types", "--group", "test")
    quiet = {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}  # do not ask the network for a newer one
    session.run("mypy")
    session.run("pyright", env=quiet)
    session.run("pyright", "--ignoreexternal", "--verifytypes", "incumbent", env=quiet)


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The tests on one Python; what follows `--` goes to pytest.

    The oldest Python has every server that there is, and counts what was run through; the others
    have the newest Valkey: what differs between servers does not differ between Pythons. What tests
    the test kit, or starts many processes, is run on the oldest only; what takes long, or would
    show on one of the two, on the oldest and the newest; who asks for tests gets just those.
    """
    install(session, "-e", ".[cli,cron,embedded,fastapi]", "--group", "test")
    run, env = ["pytest"], {}
    if session.python == OLDEST:
        shutil.rmtree(COVERAGE, ignore_errors=True)
        COVERAGE.mkdir()
        run = ["coverage", "run", "-m", "pytest"]
        env["COVERAGE_FILE"] = str(COVERAGE / ".coverage")
    elif not CHOSEN & os.environ.keys():
        env["INCUMBENT_TEST_SERVER"] = "valkey-9"
    left_out: list[str] = []
    if session.python != OLDEST and not session.posargs:
        left_out = ONCE if session.python == NEWEST else ONCE + NOT_BETWEEN
    run += [f"--ignore-glob=tests/{place}" for place in left_out]
    side_by_side = LONGEST if session.python == OLDEST else SIDE_BY_SIDE
    session.run(*run, *side_by_side, *session.posargs, env=env)


@nox.session
def coverage(session: nox.Session) -> None:
    """What the tests have run through."""
    install(session, "coverage>=7.11")
    if not any(COVERAGE.glob("*")):
        session.error("the tests have not been run: nothing to report")
    session.run("coverage", "combine", "--keep", "--quiet", str(COVERAGE))
    partial = ["--fail-under=0"] if session.posargs else []  # a selection of tests proves nothing
    session.run("coverage", "report", *partial)


@nox.session
def package(session: nox.Session) -> None:
    """Build the wheel (by way of the sdist) and use it far from the source tree."""
    work = Path(session.create_tmp()).resolve()
    shutil.rmtree(work / "dist", ignore_errors=True)
    session.run("uv", "build", "--quiet", "--out-dir", str(work / "dist"))
    (wheel,) = (work / "dist").glob("*.whl")
    python = str(work / "clean/bin/python")
    session.run("uv", "venv", "--quiet", "--clear", str(work / "clean"))
    session.run("uv", "pip", "install", "--quiet", "--python", python, str(wheel))
    scripts = sorted(path.name for path in LUA.glob("*.lua"))
    check = ROOT / "scripts/wheelcheck.py"
    with session.chdir(work):
        session.run(python, "-I", str(check), *scripts, external=True)


@nox.session(python=OLDEST)
def clients(session: nox.Session) -> None:
    """The short form of `matrix`: the oldest redis-py, its parser in Python, uvloop."""
    oldest_client = f"redis[hiredis]=={REDIS_PY[0]}.*"
    install(session, "-e", ".[cli,cron,embedded,fastapi]", "--group", "test", oldest_client)
    env = {"INCUMBENT_TEST_LOOP": "uvloop", "INCUMBENT_TEST_PARSER": "python"}
    if not CHOSEN & os.environ.keys():
        env["INCUMBENT_TEST_SERVER"] = "valkey-9"
    chosen = session.posargs or ["tests/contract", "tests/promises/test_p11_no_surprises.py"]
    session.run("pytest", *SIDE_BY_SIDE, *chosen, env=env)


@nox.session(python=PYTHONS, default=False)
@nox.parametrize("client", REDIS_PY)
def matrix(session: nox.Session, client: str) -> None:
    """Every server with each redis-py on each Python, and in these each event loop and parser.

    Any two of Python, redis-py, loop and parser meet; not all four, which takes hours and tells no
    more. RESP2 and RESP3, bytes and text, a user with the least rights: the tests go by these.
    """
    row, column = PYTHONS.index(str(session.python)), REDIS_PY.index(client)
    loop = ["asyncio", "uvloop"][(row + column) % 2]
    parser = ["hiredis", "python"][(row + column // 2) % 2]
    session.log(f"redis-py {client}, {loop}, the parser of {parser}")
    of_the_client = f"redis[hiredis]=={client}.*"
    install(session, "-e", ".[cli,cron,embedded,fastapi]", "--group", "test", of_the_client)
    env = {"INCUMBENT_TEST_LOOP": loop, "INCUMBENT_TEST_PARSER": parser}
    session.run("pytest", *SIDE_BY_SIDE, *(session.posargs or WIRE), env=env)


@nox.session(default=False)
def containers(session: nox.Session) -> None:
    """The contract and the promises on servers in containers; skipped where there is no Docker."""
    groups = ("--group", "test", "--group", "containers")
    install(session, "-e", ".[cli,cron,embedded,fastapi]", *groups)
    why = session.run("python", "-m", "kit.containers", env={"PYTHONPATH": "tests"}, silent=True)
    if reason := str(why).strip():
        session.skip(reason)
    chosen = session.posargs or [*WIRE, "tests/test_kit_servers.py"]
    session.run("pytest", *SIDE_BY_SIDE, *chosen, env=IMAGES)


@nox.session(default=False)
def oldest(session: nox.Session) -> None:
    """The tests with the oldest releases of what we depend on."""
    oldest_ones = ("--resolution", "lowest-direct")
    install(session, "-e", ".[cli,cron,embedded,fastapi]", "--group", "test", *oldest_ones)
    session.run("pytest", *session.posargs)
