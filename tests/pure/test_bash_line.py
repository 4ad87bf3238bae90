"""incumbent.cli.completion.bash_line: lines as a real bash reads them, and how words go on."""

import shutil
import subprocess
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from incumbent.cli.completion.bash_line import Line, read
from incumbent.printable import is_printable

SPECIAL = " !\"#$%&'()*,-:;<=>?@[\\]^`{|}~"
WORDS = st.text(st.sampled_from(f"{SPECIAL}ab/é"), min_size=1, max_size=8) | st.text(
    st.characters(codec="utf-8"), min_size=1, max_size=8
).filter(is_printable)

QUOTES = st.sampled_from(["", "'", '"'])


@cache
def bash() -> str:
    """The shell."""
    found = shutil.which("bash")
    if found is None:
        pytest.skip("bash is not installed")
    return found


def words_of(line: str) -> list[str]:
    """The words that bash finds in `line`; it would run what is in them."""
    script = f"set -H; shopt -s extglob; cd /usr; printf '%s\\0' {line}"
    done = subprocess.run([bash(), "-c", script], capture_output=True, check=True, text=True)
    assert done.stderr == ""
    return done.stdout.split("\0")[:-1]


@pytest.mark.parametrize(
    ("text", "words", "quote"),
    [
        ("incumbent ", ["incumbent", ""], ""),
        ("incumbent  status te", ["incumbent", "status", "te"], ""),
        (r"incumbent a\ b\$\'", ["incumbent", "a b$'"], ""),
        ("incumbent 'a b\\", ["incumbent", "a b\\"], "'"),
        ('incumbent "a \\" \\$ \\x \'', ["incumbent", "a \" $ \\x '"], '"'),
        ("incumbent 'a'\\''b'\"c\"", ["incumbent", "a'bc"], ""),
        ("incumbent ''", ["incumbent", ""], ""),
        ("incumbent '' x", ["incumbent", "", "x"], ""),
        ("incumbent a\\", ["incumbent", "a"], ""),
    ],
)
def test_lines(text: str, words: list[str], quote: str) -> None:
    """Quotes are taken away, and an open one is known."""
    assert read(text) == Line(words, quote)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(WORDS, st.integers(0, 8), QUOTES), min_size=1, max_size=30))
def test_a_word_that_goes_on_is_that_word(cases: list[tuple[str, int, str]]) -> None:
    """Whatever is in it, wherever the user stopped, within whatever quotes: nothing is expanded."""
    lines: list[str] = []
    for word, stop, quote in cases:
        typed = quote + Line(["", ""], quote).continued(word[:stop])
        kept = read(f"x {typed}")
        assert kept.words[-1] == word[:stop]
        line = typed + kept.continued(word)
        # As readline does it.
        lines.append(line if line.endswith(kept.quote) else line + kept.quote)
    assert words_of(" ".join(lines)) == [word for word, _, _ in cases]


def test_no_mark_is_left_open() -> None:
    """Readline closes an open one, unless the same mark is just before."""
    assert Line([""], "'").continued("a'") == "a'\\'''"
    assert Line([""], '"').continued('a"') == 'a\\""'
    assert Line([""], '"').continued("a!") == 'a"\\!""'
