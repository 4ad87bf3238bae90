"""Loads the fault kit's fixtures for every test; see `kit/fixtures.py` for what there is.

INCUMBENT_TEST_LOOP=uvloop runs every asynchronous test on that event loop.
"""

import asyncio
import functools
import gc
import os
import signal
from collections.abc import Callable, Mapping

import pytest
import redis.utils
import uvloop
from hypothesis import settings

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that no worker has one of them to itself when all is done."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


def pytest_collection_finish() -> None:
    """Keep the thousands of collected tests out of each garbage collection from now on."""
    gc.collect()
    gc.freeze()


if os.environ.get("INCUMBENT_TEST_LOOP") == "uvloop":

    def pytest_asyncio_loop_factories() -> LoopFactories:
        """The one event loop of this run."""
        return {"uvloop": uvloop.new_event_loop}
