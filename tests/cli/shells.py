"""A real shell on a terminal, where somebody types a few letters and has the rest completed."""

import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.terminal import Typist
from kit.waiting import wait_until_blocking

COMMANDS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
READS = {
    "bash": 'eval "$(_INCUMBENT_COMPLETE=bash_source incumbent)"',
    "zsh": "autoload -U compinit; compinit -u -d $HOME/dump;"
    ' eval "$(_INCUMBENT_COMPLETE=zsh_source incumbent)"',
    "fish": "_INCUMBENT_COMPLETE=fish_source incumbent | source",
}
"""As the help has it; zsh needs its completion system before."""

PATIENT = """
from incumbent.cli import main
from incumbent.cli.completion import names
names.WITHIN = 60
main()
"""
"""The command, which asks for names longer than a machine stands still."""


class Shell:
    """A shell in which ``incumbent`` completes, and else notes what it was called with."""

    def __init__(self, kind: str, folder: Path, url: str) -> None:
        self._typed = 0
        self._folder = folder
        self._calls = folder / "calls"
        self._asked = folder / "asked"
        for place in ("bin", "home", "here"):
            (folder / place).mkdir()
        stub = folder / "bin" / "incumbent"
        stub.write_text(
            "#!/bin/sh\n"
            'case "$_INCUMBENT_COMPLETE" in\n'
            f'?*) {shlex.join([sys.executable, "-c", PATIENT])} "$@"; echo >>"$ASKED"; exit;;\n'
            "esac\n"
            'for word; do printf "%s\\0" "$word" >>"$CALLS"; done; printf "\\n\\0" >>"$CALLS"\n'
        )
        stub.chmod(0o755)
        path = f"{stub.parent}:{Path(sys.executable).parent}:/usr/bin:/bin"
        env = {"PATH": path, "INCUMBENT_URL": url, "CALLS": str(self._calls)}
        env |= {"ASKED": str(self._asked), "HOME": str(folder / "home"), "LC_ALL": "C.UTF-8"}
        env |= {"XDG_CONFIG_HOME": env["HOME"], "XDG_DATA_HOME": env["HOME"], "ENV": ""}
        command = [str(shutil.which(COMMANDS[kind][0])), *COMMANDS[kind][1:]]
        self.terminal = Typist(["env", "-C", str(folder / "here"), *command], env)
        self.enter(READS[kind])
        self.calls("incumbent ready", 1)

    @property
    def ran(self) -> list[str]:
        """The files that names had created, if they were run."""
        return [each.name for each in (self._folder / "here").iterdir()]

    def enter(self, keys: str) -> None:
        """Type, and press Enter."""
        self.terminal.type(f"{keys}\r")

    def complete(self, keys: str) -> None:
        """Type, press Tab, and wait until the command was asked."""
        before = self._answers()
        self.terminal.type(f"{keys}\t")
        wait_until_blocking(lambda: self._answers() > before, within=60, what=f"Tab after {keys!r}")

    def calls(self, keys: str, number: int | None = None) -> list[str]:
        """Type, press Enter, and wait for the command's call: its arguments."""
        number = len(self._called()) + 1 if number is None else number
        self.enter(keys)
        return wait_until_blocking(
            lambda: calls[-1] if len(calls := self._called()) >= number else None,
            within=60,
            what=f"a call after {self.terminal.text[-300:]!r}",
        )

    def _answers(self) -> int:
        return self._asked.stat().st_size if self._asked.exists() else 0

    def _called(self) -> list[list[str]]:
        text = self._calls.read_text() if self._calls.exists() else ""
        return [call.split("\0")[:-1] for call in text.split("\n\0")[:-1]]


@contextmanager
def shell(kind: str, folder: Path, url: str) -> Iterator[Shell]:
    """A block with a shell in it; where it is not installed, the test is skipped."""
    if shutil.which(kind) is None:
        pytest.skip(f"{kind} is not installed")
    made = Shell(kind, folder, url)
    try:
        yield made
    finally:
        made.terminal.close()
