"""A certificate authority for one test run, since none of the servers' wheels speaks TLS."""

import ssl
import tempfile
from pathlib import Path
from typing import Self

import trustme


class Authority:
    """Issues a certificate for 127.0.0.1 and localhost; use as a context manager."""

    def __init__(self) -> None:
        self._authority = trustme.CA()
        self._folder = tempfile.TemporaryDirectory(prefix="incumbent-ca-")
        self.ca_file = Path(self._folder.name) / "ca.pem"
        self._authority.cert_pem.write_to_path(str(self.ca_file))

    def server_context(self) -> ssl.SSLContext:
        """For a listener that ends TLS."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
        return context

    def close(self) -> None:
        """Remove the file."""
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
