"""The shells that complete: the script that each reads, what it asks, what it is answered.

Instead of click's own scripts, which put a name on the line as it is: what is in it would be run,
expanded, or cut. The scripts hand over words as arguments of the command; an earlier version's
script, which a running shell may still have, hands over none and is answered nothing.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from click.shell_completion import CompletionItem, ShellComplete, add_completion_class

from incumbent.cli.completion import bash_line

if TYPE_CHECKING:
    Item = CompletionItem[str]
else:  # generic since click 8.4 only
    Item = CompletionItem


class Shell(ShellComplete):
    """A shell that picks from the answers, and quotes what it picks."""

    def source(self) -> str:
        """The script that makes the shell ask."""
        return Path(__file__).with_name(f"incumbent.{self.name}").read_text(encoding="utf-8")

    def complete(self) -> str:
        """The answers, one in a line."""
        return super().complete() if sys.argv[1:] else ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor, and the one that is not finished."""
        *args, incomplete = sys.argv[1:]
        return args, incomplete

    def format_completion(self, item: Item) -> str:
        """The answer, and behind a tab what it means."""
        return f"{item.value}\t{' '.join(item.help.split())}" if item.help else str(item.value)


class Zsh(Shell):
    """See ``incumbent.zsh``."""

    name: ClassVar[str] = "zsh"


class Fish(Shell):
    """See ``incumbent.fish``. It quotes all but a tilde at the beginning: that would be a home."""

    name: ClassVar[str] = "fish"

    def get_completions(self, args: list[str], incomplete: str) -> list[Item]:
        """What can be chosen."""
        found = super().get_completions(args, incomplete)
        return [item for item in found if not item.value.startswith("~")]


class Bash(Shell):
    """Hands over the line and the end of it that the answer replaces; picks and quotes nothing."""

    name: ClassVar[str] = "bash"
    _kept: bash_line.Line

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor, and the one that is not finished."""
        line, replaced = sys.argv[1:]
        self._kept = bash_line.read(line.removesuffix(replaced))
        _, *args, incomplete = bash_line.read(line).words
        return args, incomplete

    def format_completion(self, item: Item) -> str:
        """What the end of the line is replaced by."""
        return self._kept.continued(item.value)


def register() -> None:
    """From now on, click asks these classes when a shell asks it."""
    for shell in (Bash, Zsh, Fish):
        add_completion_class(shell)
