"""Runs the command in this process: for what it says and how it ends, where no process is needed.

A process costs a second of a core, most of it for its imports. What warns or leaks does not pass
here, because warnings are errors to these tests.
"""

import json
import sys
from typing import Any, NamedTuple

import pytest

from incumbent.cli import main


class Said(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        """The JSON on stdout."""
        return json.loads(self.out)


class Inside:
    """Calls the command, on the server at `url` unless told otherwise."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], url: str
    ) -> None:
        self._monkeypatch = monkeypatch
        self._capfd = capfd
        self._url = url

    def __call__(self, *arguments: str, url: str | None = None) -> Said:
        """Run ``incumbent ARGUMENTS`` to its end."""
        self._capfd.readouterr()
        with self._monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["incumbent", *arguments])
            patch.setenv("INCUMBENT_URL", url or self._url)
            with pytest.raises(SystemExit) as end:
                main()
        out, err = self._capfd.readouterr()
        code = end.value.code
        assert isinstance(code, int)
        assert "Traceback" not in err
        return Said(code, out, err)
