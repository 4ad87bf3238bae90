"""Options and types that several commands have in common."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from incumbent import durations
from incumbent.cli.connection import DEFAULT_URL
from incumbent.cli.endings import UnavailableError, in_options
from incumbent.periods import OncePer

if TYPE_CHECKING:
    FloatType = click.ParamType[float]
    OncePerType = click.ParamType[OncePer]
else:  # generic since click 8.4 only
    FloatType = OncePerType = click.ParamType


F = TypeVar("F", bound=Callable[..., Any])


class DurationType(FloatType):
    """Seconds, or a number with a unit."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """`value` as seconds."""
        try:
            return value if isinstance(value, float) else durations.parse(value)
        except ValueError as error:
            self.fail(in_options(str(error)), param, ctx)


class WaitType(DurationType):
    """A duration, or ``forever``, which is infinity."""

    name = "duration|forever"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """`value` as seconds."""
        return float("inf") if value == "forever" else super().convert(value, param, ctx)


class PeriodType(OncePerType):
    """How often: a duration, or a cron expression, which is known by its blanks."""

    name = "period"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> OncePer:
        """`value` as what an elector understands."""
        if isinstance(value, OncePer):
            return value
        text = str(value).strip()
        try:
            return OncePer.of(text, "a period")
        except ValueError as error:
            self.fail(in_options(str(error)), param, ctx)
        except ImportError as error:
            raise UnavailableError(str(error)) from None


DURATION: Final = DurationType()
WAIT: Final = WaitType()
PERIOD: Final = PeriodType()

url_option: Final = click.option(
    "--url",
    envvar="INCUMBENT_URL",
    default=DEFAULT_URL,
    show_default=True,
    metavar="URL",
    help="The server: redis://, rediss://, unix://, redis+sentinel://h1,h2/service/db,"
    " redis+cluster://h1,h2 (rediss+... for TLS), or embedded:// for one of this command's own, to"
    " try things. Also by INCUMBENT_URL, which shows no password in the list of processes.",
)

prefix_option: Final = click.option(
    "--prefix",
    default="incumbent",
    show_default=True,
    metavar="TEXT",
    help="What every key on the server begins with.",
)

timeout_option: Final = click.option(
    "--timeout",
    type=DURATION,
    default=5.0,
    metavar="DURATION",
    help="How long to wait for an answer of the server. [default: 5s]",
)

json_option: Final = click.option(
    "--json", "as_json", is_flag=True, help="For programs: JSON instead of text."
)


def asks(function: F) -> F:
    """Add what every command takes that asks a server about elections."""
    for decorate in (timeout_option, prefix_option, url_option):
        function = decorate(function)
    return function
