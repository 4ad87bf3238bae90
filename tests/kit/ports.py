"""Port numbers for listeners that must come back on the same port after a restart.

They are drawn from below the kernel's ephemeral range: while a server is down, a client that
retries an ephemeral port may be given that very port as its own end, connect to itself, and
keep the server from coming back.
"""

import random
import socket

LOWEST, HIGHEST = 15_000, 32_000
TRIES = 200

_draw = random.SystemRandom()


def free_port(host: str = "127.0.0.1") -> int:
    """A port that was free a moment ago; whoever binds it must be ready to ask again."""
    for _ in range(TRIES):
        port = _draw.randrange(LOWEST, HIGHEST)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port between {LOWEST} and {HIGHEST} after {TRIES} tries")
