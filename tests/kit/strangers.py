"""Servers of other protocols, which a wrong host or port in a URL may lead to."""

import socketserver
from typing import Final, NamedTuple

from kit.listener import Listener


class Manners(NamedTuple):
    """What a server says to whoever comes, and to the first thing that it is told."""

    greeting: bytes
    answer: bytes
    """It closes the connection afterwards."""
    patient: bool = True
    """Whether it waits to be told something."""


STRANGERS: Final = {
    "HTTP": Manners(b"", b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n400 Bad Request"),
    "SSH": Manners(b"SSH-2.0-OpenSSH_9.2p1\r\n", b"Invalid SSH identification string.\r\n"),
    "SMTP": Manners(b"220 mail ESMTP\r\n", b"500 unrecognized\r\n"),
    "POP3": Manners(b"+OK POP3 ready\r\n", b"-ERR unknown command\r\n"),
    "IMAP": Manners(b"* OK IMAP4rev1 ready\r\n", b"* BAD\r\n"),
    "IRC": Manners(b":irc NOTICE * :*** Looking up your hostname\r\n", b""),
    "MySQL": Manners(b"J\x00\x00\x00\n8.0.36\x00\x08\x00\x00\x00", b""),
    "PostgreSQL": Manners(b"", b"E\x00\x00\x00\x8eSFATAL\x00"),
    # OpenSSL answers what it does not understand by an alert: "protocol version".
    "TLS": Manners(b"", b"\x15\x03\x01\x00\x02\x02\x46"),
    "closing": Manners(b"", b"", patient=False),
}


class Stranger(Listener):
    """One of `STRANGERS`."""

    def __init__(self, kind: str) -> None:
        manners = STRANGERS[kind]

        class Talk(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                self.request.sendall(manners.greeting)
                if manners.patient and self.request.recv(65536):
                    self.request.sendall(manners.answer)

        super().__init__(Talk)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign] # it was reset

    @property
    def url(self) -> str:
        """With a password, which nobody should see."""
        return f"redis://user:S3CRET@{self.host}:{self.port}/0"
