"""Port numbers for listeners that must come back on the same port after a restart.

They are drawn from below the kernel's ephemeral range: while a server is down, a client that
retries an ephemeral port may be given that very port as its own end, connect to itself, and
keep the server from coming back. Each test worker has ports of its own, and draws none again soon:
while a test's server is down, no other server may answer in its place.
"""

import os
import random
import socket
from collections import deque

LOWEST, HIGHEST = 15_000, 32_000
EACH = 1000
"""Ports of one worker; an eighteenth has those of the first."""
TRIES = 200

_draw = random.SystemRandom()
_drawn: deque[int] = deque(maxlen=EACH // 4)


def ports_of(worker: str) -> range:
    """The ports of a worker, which pytest-xdist calls ``gw3``; '' where there are no workers."""
    number = int(worker.removeprefix("gw") or 0)
    lowest = LOWEST + number * EACH % (HIGHEST - LOWEST)
    return range(lowest, lowest + EACH)


def free_port(host: str = "127.0.0.1") -> int:
    """A port that was free a moment ago; whoever binds it must be ready to ask again."""
    ports = ports_of(os.environ.get("PYTEST_XDIST_WORKER", ""))
    for _ in range(TRIES):
        port = _draw.choice(ports)
        if port in _drawn:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            _drawn.append(port)
            return port
    raise RuntimeError(f"no free port from {ports[0]} to {ports[-1]} after {TRIES} tries")
