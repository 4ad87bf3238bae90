"""A command line as bash reads it, up to the cursor, and how a word goes on there. Pure.

Source: https://www.gnu.org/software/bash/manual/bash.html#Quoting
"""

import re
from dataclasses import dataclass, field
from typing import Final

_BLANK: Final = " \t\n"
_QUOTES: Final = "'\""
_ESCAPED_IN_DOUBLE_QUOTES: Final = '$`"\\\n'
_NEEDS_ESCAPE: Final = re.compile(r"[^A-Za-z0-9_@%+=:,./\-\u0080-\U0010ffff]")
"""Outside of quotes: any character of ASCII that is not known to be harmless everywhere."""


@dataclass(slots=True)
class Line:
    """The words of a line; the last one is unfinished, and empty when nothing of it is there."""

    words: list[str] = field(default_factory=lambda: [""])
    quote: str = ""
    """The quotation mark within which the line ends; empty outside of quotes."""

    def continued(self, word: str) -> str:
        """What has to follow on this line, so that the last word becomes `word`."""
        rest = word.removeprefix(self.words[-1])
        if not self.quote:
            return _NEEDS_ESCAPE.sub(r"\\\g<0>", rest)
        if self.quote == "'":
            rest = rest.replace("'", r"'\''")
        else:
            # History is expanded within these quotes, too, and a backslash there would stay.
            rest = re.sub(r'([$`"\\])', r"\\\1", rest).replace("!", '"\\!"')
        # Readline puts the closing mark itself, but not behind one that is there.
        return rest + self.quote if rest.endswith(self.quote) else rest


def read(text: str) -> Line:
    """The words of `text`, without their quotes; nothing in them is expanded."""
    line, escaped, between = Line(), False, True
    for character in text:
        if escaped:
            escaped = False
            if line.quote and character not in _ESCAPED_IN_DOUBLE_QUOTES:
                line.words[-1] += "\\"
            line.words[-1] += character
        elif character == "\\" and line.quote != "'":
            escaped, between = True, False
        elif line.quote:
            if character == line.quote:
                line.quote = ""
            else:
                line.words[-1] += character
        elif character in _QUOTES:
            line.quote, between = character, False
        elif character not in _BLANK:
            line.words[-1] += character
            between = False
        elif not between:
            line.words.append("")
            between = True
    return line
