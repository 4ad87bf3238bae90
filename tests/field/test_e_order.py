"""Section E of the field cases: who is next in line across processes, and what a dead one costs."""

import time

from field.platoon import Platoon
from incumbent import LeaderElector, LeaderOptions
from incumbent.stores.base import LONGEST_GRACE as GRACE
from kit.fixtures import MakeClient
from kit.leftovers import connections
from kit.servers import Server
from kit.waiting import wait_until
from promises.scene import in_line

LEASE = 3.0
SLACK = 2.5


async def test_fifty_waiters_of_five_processes_are_elected_in_order_of_arrival(
    own_server: Server, make_client: MakeClient
) -> None:
    """First come, first served, whichever process it is that comes."""
    with Platoon(own_server) as platoon:
        async with LeaderElector(make_client(own_server)) as holder:
            async with holder.lead("one"):
                for turn in range(50):
                    await platoon.stand(platoon.names[turn * 7 % 5])
                assert platoon.elected() == []
            await platoon.has_elected(list(range(50)), within=30)
        assert in_line(own_server, "one") == []


async def test_case_58_a_waiter_killed_before_its_turn_delays_nobody(
    own_server: Server, make_client: MakeClient
) -> None:
    """At the head, in the middle, at the end: nobody hears its wake-up, so the next is woken."""
    with Platoon(own_server) as platoon:
        async with LeaderElector(make_client(own_server)) as holder:
            async with holder.lead("one"):
                numbers = [(name, await platoon.stand(name)) for name in "abcbdaecbe" * 2]
                for name in "ab":
                    platoon.kill(name)
                await gone(own_server, processes=3)
                began = time.monotonic()
            left = [number for name, number in numbers if name not in "ab"]
            await platoon.has_elected(left, within=30)
            assert time.monotonic() - began < 5 * GRACE, "one for each of ten would take longer"


async def test_case_58_a_waiter_killed_with_its_wake_up_delays_by_the_bound_only(
    own_server: Server, make_client: MakeClient
) -> None:
    """It was woken and could not act: a touch of the next, and a grace, is what that costs."""
    with Platoon(own_server, lease_time=LEASE, size=3) as platoon:
        async with LeaderElector(
            make_client(own_server), LeaderOptions(lease_time=LEASE)
        ) as holder:
            async with holder.lead("one"):
                for name in "abcbc":
                    await platoon.stand(name)
                platoon.freeze("a")
            began = time.monotonic()
            assert len(in_line(own_server, "one")) == 5
            platoon.kill("a")
            await platoon.has_elected([1, 2, 3, 4], within=LEASE / 3 + GRACE + SLACK)
            assert time.monotonic() - began > GRACE / 2, "the wake-up had not reached the dead one"


async def test_case_58_a_frozen_crowd_costs_one_grace(
    own_server: Server, make_client: MakeClient
) -> None:
    """Thirty waiters of one process that hangs lose their places together."""
    with Platoon(own_server, lease_time=LEASE, size=2) as platoon:
        async with LeaderElector(
            make_client(own_server), LeaderOptions(lease_time=LEASE)
        ) as holder:
            async with holder.lead("one"):
                for _ in range(30):
                    await platoon.stand("a")
                last = await platoon.stand("b")
                platoon.freeze("a")
            await platoon.has_elected([last], within=LEASE / 3 + GRACE + SLACK)


async def gone(server: Server, *, processes: int) -> None:
    """Wait until the server has noticed that only so many processes listen to it."""

    def listening() -> int:
        return sum(int(each["sub"]) for each in connections(server))

    await wait_until(lambda: listening() == processes, what="the killed are gone")
