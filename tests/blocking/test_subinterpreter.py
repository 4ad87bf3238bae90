"""P4: in a subinterpreter, where CPython itself leaves things out, seats are given back as well."""

import subprocess
import sys

from kit.servers import Server

INSIDE = """
import asyncio
import sys
sys.path[:] = {path!r}
from incumbent import LeaderElector, MemoryStore, current_lease
from incumbent.blocking import LeaderElector as Blocking
from incumbent.blocking import portal


async def act():
    return current_lease() is not None


async def main():
    elector = LeaderElector(MemoryStore())
    print(await elector.run_if_leader("one", act), elector.leases, current_lease())


asyncio.run(main())
with Blocking({url!r}) as elector:
    print(elector.run_if_leader("one", lambda: 7), elector.state("one").leaders)
portal.current().close()  # or Python 3.11 refuses to end an interpreter with two threads
sys.stdout.flush()
"""

OUTSIDE = """
import sys
code = {code!r}
if sys.version_info >= (3, 13):
    import _interpreters
    interpreter = _interpreters.create("legacy")
    failed = _interpreters.exec(interpreter, code)
    assert failed is None, failed
    _interpreters.destroy(interpreter)
else:
    import _xxsubinterpreters
    interpreter = _xxsubinterpreters.create(isolated=False)
    _xxsubinterpreters.run_string(interpreter, code)
    _xxsubinterpreters.destroy(interpreter)
"""


def test_p4_a_seat_is_given_back_in_a_subinterpreter(valkey: Server) -> None:
    """For coroutines and for threads; there is no `Token.MISSING` on Python 3.12 and 3.13."""
    inside = INSIDE.format(path=sys.path, url=valkey.url)
    ended = subprocess.run(
        [sys.executable, "-c", OUTSIDE.format(code=inside)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == ["True () None", "7 ()"]
