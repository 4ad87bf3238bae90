"""incumbent.names: what may be a name, and that tenants are kept apart."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from incumbent.names import MAX_BYTES, election_name, key_prefix, leader_name, tenant_scope

Check = Callable[[Any], str]

CHECKS = [
    pytest.param(election_name, "an election's name", id="election"),
    pytest.param(tenant_scope, "a tenant's name", id="tenant"),
    pytest.param(key_prefix, "the key prefix", id="prefix"),
    pytest.param(leader_name, "leader_id", id="leader"),
]
C0, DEL, C1 = range(0x20), range(0x7F, 0x80), range(0x80, 0xA0)

TEXT = st.text(
    st.characters(
        codec="utf-8",
        categories=("L", "M", "N", "P", "S", "Z", "Cf", "Co", "Cn"),
        exclude_characters="{}",
    ),
    max_size=12,
)
TENANTS = st.lists(TEXT | st.text("@:%a", max_size=4), max_size=3)
"""Any text, and much of the characters by which names of tenants are made."""


@pytest.mark.parametrize(("check", "what"), CHECKS)
@pytest.mark.parametrize("name", [None, b"job", 7, ["job"]], ids=["None", "bytes", "int", "list"])
def test_a_name_is_a_str(check: Check, what: str, name: object) -> None:
    """Another type is a TypeError that says which name and which type."""
    with pytest.raises(TypeError) as said:
        check(name)
    assert str(said.value) == f"{what} must be a str, not {type(name).__name__}"


@pytest.mark.parametrize(("check", "what"), CHECKS)
@pytest.mark.parametrize("name", ["", " ", "\t \n", "\u3000\u00a0"], ids=ascii)
def test_a_name_is_not_blank(check: Check, what: str, name: str) -> None:
    """Nothing but white space, of whichever alphabet, is no name."""
    with pytest.raises(ValueError, match=f"^{what} must not be blank: ") as said:
        check(name)
    assert repr(name) in str(said.value)


@pytest.mark.parametrize(("check", "what"), CHECKS)
@pytest.mark.parametrize("name", ["{", "a}b", "{job}", "job{"])
def test_case_64_a_name_has_no_braces(check: Check, what: str, name: str) -> None:
    """Braces would end the cluster's hash tag; the message says so and shows the name."""
    with pytest.raises(ValueError, match=f"^{what} must have no braces") as said:
        check(name)
    assert repr(name) in str(said.value)


@pytest.mark.parametrize(("check", "what"), CHECKS)
def test_a_name_has_no_control_characters(check: Check, what: str) -> None:
    """Neither C0 nor DEL nor C1 passes, and the message shows them escaped."""
    for number in (*C0, *DEL, *C1):
        name = f"a{chr(number)}b"
        with pytest.raises(ValueError, match=f"^{what} must have no control characters: ") as said:
            check(name)
        assert repr(name) in str(said.value)
        assert chr(number) not in str(said.value)


@pytest.mark.parametrize("number", [0x20, 0x7E, 0xA0, 0xAD], ids=hex)
def test_the_neighbours_of_control_characters_pass(number: int) -> None:
    """The ranges end where they should."""
    assert election_name(f"a{chr(number)}b") == f"a{chr(number)}b"


@pytest.mark.parametrize(("check", "what"), CHECKS)
def test_a_name_can_be_written_as_utf8(check: Check, what: str) -> None:
    """A lone surrogate, as a badly decoded file name has it, is refused before any I/O."""
    with pytest.raises(ValueError, match=f"^{what} must be text that UTF-8 can carry: ") as said:
        check("caf\udce9")
    assert "'caf\\udce9'" in str(said.value)


@pytest.mark.parametrize(
    ("check", "what"), [check for check in CHECKS if check.values[0] is not tenant_scope]
)
@pytest.mark.parametrize(
    ("fits", "too_long"),
    [
        ("a" * 255, "a" * 256),
        ("a" + "é" * 127, "é" * 128),
        ("€" * 85, "€" * 85 + "a"),
        ("a" * 251 + "\U0001f389", "a" * 252 + "\U0001f389"),
    ],
    ids=["1-byte", "2-byte", "3-byte", "4-byte"],
)
def test_a_name_has_255_bytes_at_most(check: Check, what: str, fits: str, too_long: str) -> None:
    """The bytes of UTF-8 count, not the characters; the message tells both numbers."""
    assert len(fits.encode()) == MAX_BYTES
    assert check(fits) == fits
    with pytest.raises(
        ValueError, match=f"^{what}.* must have 255 bytes at most in UTF-8, not 256"
    ):
        check(too_long)


def test_the_message_about_a_long_name_is_short() -> None:
    """A megabyte that was given as a name by mistake does not end up in the log."""
    with pytest.raises(ValueError, match="1000000") as said:
        election_name("a" * 1_000_000)
    assert len(str(said.value)) < 200


@pytest.mark.parametrize("name", ["@", "@job", "@a:job"])
def test_a_name_does_not_begin_like_a_tenants(name: str) -> None:
    """The at sign at the start is kept for tenants; elsewhere it is like any other."""
    with pytest.raises(ValueError, match=r"^an election's name must not begin with '@'") as said:
        election_name(name)
    assert repr(name) in str(said.value)
    assert election_name("job@eu") == "job@eu"
    assert key_prefix("@p") == "@p"
    assert leader_name("@me") == "@me"


@pytest.mark.parametrize(
    "name", ["job", "a b", "  x  ", "täglich", "日次", "🎉", "a:b%c", "*?[]\\"]
)
def test_a_usual_name_is_taken_as_it_is(name: str) -> None:
    """Spaces, other alphabets and the characters of globs mean nothing and change nothing."""
    for check in (election_name, key_prefix, leader_name):
        assert check(name) == name


# -- tenants ---------------------------------------------------------------------------------


def full_name(tenants: list[str], name: str) -> str:
    """The name of `name` for the innermost of `tenants`."""
    return election_name(
        name, reduce(lambda scope, tenant: tenant_scope(tenant, scope), tenants, "")
    )


def test_a_tenants_name_can_be_read() -> None:
    """A person at redis-cli recognises tenant and election."""
    assert full_name(["acme"], "report") == "@acme:report"
    assert full_name(["acme", "eu"], "report") == "@acme:@eu:report"
    assert full_name(["a:b%"], "c") == "@a%3Ab%25:c"


def test_a_tenants_names_share_the_bytes() -> None:
    """Tenant and election together have 255 bytes, so that no key is longer than others'."""
    scope = tenant_scope("acme")
    assert election_name("x" * (255 - len(scope)), scope)
    with pytest.raises(ValueError, match=r"^an election's name \(with its tenant\) .* not 256"):
        election_name("x" * (256 - len(scope)), scope)
    with pytest.raises(ValueError, match=r"^a tenant's name .* not 257"):
        tenant_scope("x" * 255)


def test_a_tenants_name_may_not_smuggle_in_another_tenant() -> None:
    """The election's own name is checked before the tenant is put in front of it."""
    with pytest.raises(ValueError, match="must not begin with '@'"):
        full_name(["acme"], "@eu:report")
    with pytest.raises(ValueError, match="must not be blank"):
        full_name(["acme"], " ")


@settings(deadline=None, max_examples=300)
@given(TENANTS, TEXT, TENANTS, TEXT)
@example(["a"], "b:c", ["a:b"], "c")
@example(["a", "b"], "c", ["a:@b"], "c")
@example(["a%3Ab"], "c", ["a:b"], "c")
@example(["@a"], "b", ["", "a"], "b")
@example([], "a:b", ["a"], "b")
def test_no_two_pairs_of_tenants_and_name_meet(
    tenants: list[str], name: str, others: list[str], other: str
) -> None:
    """Different lists of tenants, or different names, never give one election."""
    assume((tenants, name) != (others, other))
    try:
        assert full_name(tenants, name) != full_name(others, other)
    except ValueError:
        assume(False)


@settings(deadline=None, max_examples=300)
@given(TENANTS, st.text(max_size=8) | TEXT)
def test_what_is_accepted_is_fit_for_a_key(tenants: list[str], name: str) -> None:
    """Every full name is UTF-8 of 1 to 255 bytes with neither braces nor control characters."""
    try:
        full = full_name(tenants, name)
    except ValueError:
        return
    assert 0 < len(full.encode()) <= 255
    assert not {"{", "}"} & set(full)
    assert not any(ord(character) in (*C0, *DEL, *C1) for character in full)
    assert full.startswith("@") == bool(tenants)
