"""Port numbers for listeners that must come back on the same port after a restart.

They are drawn from below the kernel's ephemeral range: while a server is down, a client that
retries an ephemeral port may be given that very port as its own end, connect to itself, and
keep the server from coming back. Each process that draws has ports of its own, also beside another
test run on this machine, and draws none again soon: while a test's server is down, no other server
may answer in its place.
"""

import atexit
import functools
import random
import socket
from collections import deque

LOWEST, HIGHEST = 15_000, 31_800
EACH = 400
"""Ports of one process. It listens at the first of them, so that no other process takes them."""
TRIES = 200

_draw = random.SystemRandom()
_drawn: deque[int] = deque(maxlen=EACH // 4)


@functools.cache
def own_ports() -> range:
    """The ports of this process; when all are taken, those of some other one."""
    shares = [range(lowest, lowest + EACH) for lowest in range(LOWEST, HIGHEST, EACH)]
    for ports in shares:
        claim = socket.socket()
        try:
            claim.bind(("127.0.0.1", ports[0]))
            claim.listen()
        except OSError:
            claim.close()
            continue
        atexit.register(claim.close)
        return ports[1:]
    return _draw.choice(shares)[1:]


def free_port(host: str = "127.0.0.1") -> int:
    """A port that was free a moment ago; whoever binds it must be ready to ask again."""
    ports = own_ports()
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
