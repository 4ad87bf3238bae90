"""A mailbox: in order, bounded, and ended once."""

import asyncio

import pytest

from incumbent.results import LeaderState
from incumbent.stores.mailbox import MOST_UNREAD, Mailbox


def states(count: int, first: int = 0) -> list[LeaderState]:
    """So many different ones."""
    return [LeaderState("job", (), number) for number in range(first, first + count)]


class Teller:
    """Fills nothing, and keeps who has left."""

    outage = None

    def __init__(self) -> None:
        self.left: list[Mailbox] = []

    def present(self, mailbox: Mailbox) -> None:
        return None

    def leave(self, mailbox: Mailbox) -> None:
        self.left.append(mailbox)


async def test_states_come_in_order() -> None:
    """Those that are there, and those that somebody waits for."""
    mailbox = Mailbox()
    mailbox.put(states(2))
    assert [(await mailbox.take()).waiting for _ in range(2)] == [0, 1]
    waiting = asyncio.create_task(mailbox.take())
    await asyncio.sleep(0)
    mailbox.put([])
    await asyncio.sleep(0)
    assert not waiting.done()
    mailbox.put(states(1, 7))
    assert (await waiting).waiting == 7


async def test_a_slow_reader_gets_the_newest() -> None:
    """The buffer does not grow beyond its bound, whoever fills it."""
    mailbox = Mailbox()
    for first in range(0, 3 * MOST_UNREAD, 100):
        mailbox.put(states(100, first))
    read = [(await mailbox.take()).waiting for _ in range(MOST_UNREAD)]
    assert read == list(range(2 * MOST_UNREAD, 3 * MOST_UNREAD))


async def test_a_quiet_end_drops_what_is_unread() -> None:
    """Who has closed it wants no more."""
    mailbox = Mailbox()
    mailbox.put(states(2))
    mailbox.end()
    for _ in range(2):
        with pytest.raises(StopAsyncIteration):
            await mailbox.take()


async def test_an_error_comes_behind_what_is_unread_and_once() -> None:
    """Nothing that was told is lost by it; a second end changes nothing."""
    mailbox = Mailbox()
    mailbox.put(states(1))
    mailbox.end(ValueError("why"))
    mailbox.end()
    assert (await mailbox.take()).waiting == 0
    with pytest.raises(ValueError, match="why"):
        await mailbox.take()
    with pytest.raises(StopAsyncIteration):
        await mailbox.take()


async def test_who_fills_it_hears_of_its_end_once() -> None:
    """However often it is ended."""
    teller = Teller()
    mailbox = Mailbox()
    mailbox.joined(teller)
    mailbox.end()
    mailbox.end()
    assert teller.left == [mailbox]
    assert mailbox.teller is None


async def test_two_at_once_are_one_too_many() -> None:
    """A state goes to one reader only, so the second one is told of its mistake."""
    mailbox = Mailbox()
    first = asyncio.create_task(mailbox.take())
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="being awaited already"):
        await mailbox.take()
    mailbox.put(states(1))
    await first


async def test_a_reader_that_is_cancelled_loses_nothing() -> None:
    """The next one gets what came."""
    mailbox = Mailbox()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await mailbox.take()
    mailbox.put(states(1))
    assert (await mailbox.take()).waiting == 0


def test_the_end_of_one_whose_loop_is_gone_disturbs_nobody() -> None:
    """Its reader was left in a loop that never ran on."""
    mailbox = Mailbox()

    async def begin() -> None:
        mailbox.joined(Teller())

    asyncio.run(begin())
    mailbox.end()
    assert mailbox.ended
