"""A file as one sees it who reads it while another process writes to it."""

import io


def growing(*pieces: bytes) -> io.BufferedReader:
    """What is read of it, piece by piece: an empty one is its end, until there is more."""
    return io.BufferedReader(_Growing(*pieces))


class _Growing(io.RawIOBase):
    def __init__(self, *pieces: bytes) -> None:
        super().__init__()
        self._pieces = iter(pieces)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # is one
        piece = next(self._pieces, b"")
        buffer[: len(piece)] = piece
        return len(piece)
