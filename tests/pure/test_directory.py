"""Which nodes of a cluster are asked, and in which order, as they come and go."""

from itertools import permutations

from incumbent.stores.redis.directory import LOOK_EVERY, LOOK_SOON, LOOK_WHILE_CHANGING, Directory
from incumbent.stores.redis.slots import Address

GIVEN: Address = ("endpoint", 7000)
A, B, C, NEW, OLD = (("10.0.0.1", port) for port in range(7000, 7005))
ALL = frozenset({A, B, C})


def heard(*informants: Address) -> Directory:
    """Each has answered, in this order, and has named all."""
    known = Directory([GIVEN])
    for at, each in enumerate(informants):
        known.heard(each, ALL, float(at))
    return known


def test_first_are_those_that_the_user_named_and_the_client_knows() -> None:
    """In any order: they are all there is."""
    orders = {tuple(Directory([GIVEN]).order((), [A, B])) for _ in range(200)}
    assert orders == set(permutations([GIVEN, A, B]))


def test_who_answered_last_is_asked_first_and_who_was_only_given_last() -> None:
    """Nodes that only the client still names come after all others that were named."""
    order = heard(A, C, B).order((), [OLD])
    assert order[:3] == [B, C, A]
    assert set(order[3:]) == {OLD, GIVEN}


def test_who_has_a_connection_anyway_is_asked_before() -> None:
    """It costs none."""
    assert heard(A, C, B).order([A], ())[:3] == [A, B, C]


def test_who_failed_is_asked_last_and_who_was_wrong_about_it_before_that() -> None:
    """Another node may know better; after an answer, no node is in doubt any more."""
    known = heard(A, C, B)
    known.doubted.add(C)
    assert known.order((), ()) == [A, B, GIVEN, C]
    known.heard(A, ALL, 9.0)
    assert known.order((), ()) == [A, B, C, GIVEN]


def test_to_whom_a_slot_has_moved_is_asked_first() -> None:
    """Also if no node has named it yet; the node that was wrong comes after the others."""
    known = heard(A, C, B)
    known.moved(NEW)
    assert known.order((), ())[:4] == [NEW, C, A, B]


def test_what_is_not_named_any_more_is_forgotten() -> None:
    """But for those that the user named."""
    known = heard(A, OLD, B)
    assert set(known.order((), ())) == {A, B, C, GIVEN}
    known.heard(NEW, frozenset({NEW}), 4.0)
    assert known.order((), ()) == [NEW, GIVEN]


def test_when_it_is_time_to_look() -> None:
    """At once at first; then every so often, and sooner when slots have moved."""
    known = Directory([GIVEN])
    assert known.due(0.0)
    known.looked_at = 100.0
    assert not known.due(100.0 + LOOK_EVERY - 1)
    assert known.due(100.0 + LOOK_EVERY)
    assert not known.due(100.0 + LOOK_SOON / 2, moved=True)
    assert known.due(100.0 + LOOK_SOON, moved=True)


def test_while_nodes_are_replaced_it_looks_more_often() -> None:
    """Until an answer names the same nodes as the one before; the first one is no change."""
    known = Directory([GIVEN])
    known.looked_at = 100.0
    soon = 100.0 + LOOK_WHILE_CHANGING
    for named, changing in ((ALL, False), (ALL | {NEW}, True), (ALL | {NEW}, False), (ALL, True)):
        known.heard(A, named, 0.0)
        assert known.due(soon) is changing
        assert known.due(100.0 + LOOK_EVERY)
