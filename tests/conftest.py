"""Loads the fault kit's fixtures for every test; see `kit/fixtures.py` for what there is.

INCUMBENT_TEST_LOOP=uvloop runs every asynchronous test on that event loop.
"""

import asyncio
import functools
import gc
import os
import signal
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext

import pytest
import redis.utils
import uvloop
from hypothesis import settings

from kit.binaries import KINDS

LoopFactories = Mapping[str, Callable[[], asyncio.AbstractEventLoop]]

# A shell that runs us in the background lets them be ignored, and our children with us.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

pytest_plugins = ["kit.fixtures"]

# For each connection redis-py reads from the disk which release it is: a tenth of a test's time.
redis.utils.get_lib_version = functools.cache(redis.utils.get_lib_version)

# An example that takes long on a busy machine is no failure.
settings.register_profile("kit", deadline=None)
settings.load_profile("kit")

LONGEST = ("test_workers.py", "test_line_model.py", "test_demo.py")
UNCOUNTED = (
    *("tests/cancellation/*", "tests/topology/test_cancelled.py"),
    *("tests/cli/test_completion.py", "tests/cli/test_orphans.py", "tests/web/test_workers.py"),
    *("tests/blocking/test_greenlets.py", "tests/docs/test_stopping.py"),
    *("tests/field/test_h_groups.py", "tests/strategic/test_churn.py"),
    *("tests/contract/test_line_model.py", "tests/promises/test_wrong_kinds.py"),
    *("tests/test_kit_*", "tests/test_bench_smoke.py", "tests/test_lanes.py"),
    *("tests/test_model.py", "tests/test_packaging.py", "tests/docs/test_types.py"),
    *("tests/pure/test_bash_line.py", "tests/pure/test_strategy_properties.py"),
)
"""What runs long through what other tests run through, too, or through nothing of ours.

Coverage, which doubles the time that Python takes, does not look there."""
PROCESSES_COUNT = (
    *("tests/blocking/*", "tests/cli/test_demo.py", "tests/cli/test_jobs.py"),
    *("tests/cli/test_main.py", "tests/cli/test_watch.py"),
)
"""Where processes run through what no test itself runs through: only there are they counted."""
OTHER_SERVERS = KINDS[1:]
"""Tests on them run through what the same tests on the first kind of server do."""


def pytest_configure(config: pytest.Config) -> None:
    """Count nothing where tests are only handed out to workers."""
    if config.getoption("numprocesses", None) and _counted():  # a worker has no such option
        sys.settrace(None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without garbage collections, and count in one worker: all run through the same."""
    gc.disable()
    first = os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0"
    try:
        with nullcontext() if first else _uncounted():
            return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that no worker has one of them to itself when all is done."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


def pytest_collection_finish() -> None:
    """Keep the thousands of collected tests out of each garbage collection from now on."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Leave out what coverage need not see, and the processes that are started there."""
    uncounted = _is_in(item, UNCOUNTED) or any(kind in item.name for kind in OTHER_SERVERS)
    processes_count = _is_in(item, PROCESSES_COUNT)
    with (
        _uncounted() if uncounted else nullcontext(),
        nullcontext() if processes_count else _uncounted_processes(),
    ):
        return (yield)


def _is_in(item: pytest.Item, places: Sequence[str]) -> bool:
    return any(item.path.match(place) for place in places)


def _counted() -> bool:
    """Whether it is coverage that traces, no debugger."""
    return type(sys.gettrace()).__module__.partition(".")[0] == "coverage"


@contextmanager
def _uncounted() -> Generator[None]:
    if not _counted():
        yield
        return
    counting = sys.gettrace()
    sys.settrace(None)
    try:
        with _uncounted_processes():
            yield
    finally:
        sys.settrace(counting)


@contextmanager
def _uncounted_processes() -> Generator[None]:
    kept = os.environ.pop("COVERAGE_PROCESS_CONFIG", None)
    try:
        yield
    finally:
        if kept is not None:
            os.environ["COVERAGE_PROCESS_CONFIG"] = kept


if os.environ.get("INCUMBENT_TEST_LOOP") == "uvloop":

    def pytest_asyncio_loop_factories() -> LoopFactories:
        """The one event loop of this run."""
        return {"uvloop": uvloop.new_event_loop}
