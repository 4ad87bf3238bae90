"""kit.resp: a stream of RESP is cut into whole messages, wherever the network cut it."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kit.resp import Splitter, command_name, is_push


def _line(kind: str) -> st.SearchStrategy[bytes]:
    text = st.text(st.characters(codec="ascii", exclude_characters="\r\n"), max_size=8)
    return text.map(lambda word: f"{kind}{word}\r\n".encode())


def _bulk(kind: str) -> st.SearchStrategy[bytes]:
    return st.binary(max_size=20).map(
        lambda data: b"%s%d\r\n%s\r\n" % (kind.encode(), len(data), data)
    )


def _aggregates(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    def several(kind: str, each: int) -> st.SearchStrategy[bytes]:
        return st.lists(
            st.lists(values, min_size=each, max_size=each).map(b"".join), max_size=3
        ).map(lambda items: f"{kind}{len(items)}\r\n".encode() + b"".join(items))

    with_attribute = st.tuples(several("|", 2), values).map(b"".join)
    return st.one_of(
        several("*", 1), several("~", 1), several(">", 1), several("%", 2), with_attribute
    )


SIMPLE = st.one_of(
    *[_line(kind) for kind in "+-:,#("],
    *[_bulk(kind) for kind in "$=!"],
    st.sampled_from([b"$-1\r\n", b"*-1\r\n", b"_\r\n", b"*0\r\n"]),
)
MESSAGES = st.lists(st.recursive(SIMPLE, _aggregates, max_leaves=8), max_size=6)


@given(messages=MESSAGES, cuts=st.lists(st.integers(0, 300), max_size=8))
def test_messages_come_out_as_they_went_in(messages: list[bytes], cuts: list[int]) -> None:
    """Every message comes out whole and alone, for any nesting and any chunks."""
    stream = b"".join(messages)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    splitter = Splitter()
    out = [
        message for start, end in pairwise(edges) for message in splitter.feed(stream[start:end])
    ]
    assert out == messages


@given(messages=MESSAGES)
def test_nothing_comes_out_early(messages: list[bytes]) -> None:
    """Fed byte by byte, a message appears with its last byte and not before."""
    splitter = Splitter()
    for message in messages:
        early = [out for byte in message[:-1] for out in splitter.feed(bytes([byte]))]
        assert early == []
        assert list(splitter.feed(message[-1:])) == [message]


def test_names_of_commands() -> None:
    """The first word counts, in capitals, also of an inline command."""
    assert command_name(b"*2\r\n$7\r\nevalsha\r\n$1\r\nx\r\n") == "EVALSHA"
    assert command_name(b"ping now\r\n") == "PING"
    assert command_name(b"*0\r\n") == ""
    assert command_name(b"\r\n") == ""


def test_pushes() -> None:
    """A push of RESP3 is one, and so is a message to a subscriber in RESP2; an array is not."""
    assert is_push(b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n")
    assert is_push(b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n")
    assert not is_push(b"*1\r\n$1\r\nx\r\n")
    assert not is_push(b"*0\r\n")
    assert not is_push(b"$7\r\nmessage\r\n")
