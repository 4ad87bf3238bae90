"""`docs/protocol.md` names all that the scripts have: a new key or message needs a word there."""

import re
from pathlib import Path

import pytest

from contract.headers import parse

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "protocol.md").read_text()
REDIS = ROOT / "src" / "incumbent" / "stores" / "redis"
FILES = {path.stem: path.read_text() for path in (REDIS / "lua").glob("*.lua")}
SCRIPTS = {name: text for name, text in FILES.items() if "-- KEYS:" in text}
CODE = "\n".join(re.sub(r"--.*", "", text) for text in FILES.values())

KEYS = {key.removesuffix("+") for text in SCRIPTS.values() for key in parse(text).keys}
FIELDS = {
    field
    for names in (
        *re.findall(r"redis\.p?call\('H(?:M?GET|SET|DEL)', ([^)]*)", CODE),
        *re.findall(r"LOOKED_AT = (.*)", CODE),
    )
    for field in re.findall(r"'(\w*[a-z]\w*)'", names)
}
CHANNELS = set(re.findall(r"publish\([^,]+, [^,]+, '(\w+)", CODE))
MESSAGES = {*re.findall(r"'(\w+) '", CODE), *re.findall(r"line\.tell\(\w+, '(\w+)'\)", CODE)}
COMMANDS = {name.lower() for name in re.findall(r"redis\.p?call\('(\w+)'", CODE)}


def section(heading: str) -> str:
    """What stands below one heading of the page."""
    _, found, rest = PAGE.partition(f"\n## {heading}\n")
    assert found, heading
    return rest.partition("\n## ")[0]


def missing(names: set[str], text: str, pattern: str = r"`{}`") -> list[str]:
    """Those of `names` that `text` does not have in this form."""
    return [name for name in sorted(names) if not re.search(pattern.format(name), text)]


def test_each_key_is_named() -> None:
    """In the table of keys, as it stands on the server."""
    assert missing(KEYS, section("Keys"), r"`P:\{{N\}}:{}\b") == []


def test_each_field_of_a_seat_is_named() -> None:
    """In the table of keys as well."""
    assert missing(FIELDS, section("Keys")) == []


def test_each_channel_and_each_message_is_named() -> None:
    """As they are published."""
    assert missing(CHANNELS, section("Channels"), r"`P:\{{N\}}:db<d>:{}\b") == []
    assert missing(MESSAGES, section("Channels"), r"`{}\b") == []


def test_each_script_is_named_and_each_answer() -> None:
    """Also the parts that scripts share."""
    assert missing(set(FILES), section("Scripts")) == []
    for name, text in SCRIPTS.items():
        (row,) = re.findall(rf"^\| `{name}` .*$", section("Scripts"), re.MULTILINE)
        assert missing(set(parse(text).answers), row) == [], name


def test_each_right_is_named() -> None:
    """A user of the server needs all commands of the scripts."""
    assert missing(COMMANDS, section("Rights")) == []


@pytest.mark.parametrize("number", range(1, 12))
def test_each_promise_is_named_and_has_its_tests(number: int) -> None:
    """And the page says how these are run."""
    (paragraph,) = re.findall(rf"^\*\*P{number} (?:.+\n)+", section("Promises"), re.MULTILINE)
    assert f"`pytest -k test_p{number}_`" in paragraph
    assert list((ROOT / "tests" / "promises").glob(f"test_p{number}_*.py"))


def test_the_patterns_find_what_there_is() -> None:
    """They are no better than what they find; what is published is what somebody listens for."""
    listening = (REDIS / "line.py").read_text() + (REDIS / "watching.py").read_text()
    assert set(re.findall(r'word == b"(\w+)"', listening)) == MESSAGES
    assert {"events", "inbox"} == CHANNELS
    assert {"token", "leader", "fence", "since", "asked", "longest"} == FIELDS
    assert {"seat", "fence", "gone", "candidates", "queue", "alive", "tick"} == KEYS
    assert len(SCRIPTS) == 12
