"""A worker without asyncio: each quarter of an hour one of its replicas computes.

It knows when it has to stop.

Run several of it: ``REDIS_URL=redis://localhost:6379 python examples/threads.py``
"""

import os

from incumbent import LeaderOptions, LeadershipLostError
from incumbent.blocking import LeaderElector, current_lease

url = os.environ.get("REDIS_URL", "redis://localhost:6379")
elector = LeaderElector(url, LeaderOptions(once_per="15m"))


@elector.leader_only("sum")
def add_up(numbers: range) -> int:
    """A long computation. Renewals go on meanwhile; before each step it asks if it still leads."""
    total = 0
    lease = current_lease()
    assert lease is not None
    for start in range(numbers.start, numbers.stop, 100_000):
        lease.ensure_held()
        total += sum(range(start, min(start + 100_000, numbers.stop)))
    return total


def main() -> None:
    try:
        total = add_up(range(2_000_000))
    except LeadershipLostError as error:
        print("had to stop:", error.reason)
    else:
        print(
            "another replica has computed it, or is on it"
            if total is None
            else f"the sum is {total}"
        )


if __name__ == "__main__":
    main()
