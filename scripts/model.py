"""Have Spin check the model of the protocol: all states of what must hold, an error in each mutant.

Standard library only. Spin turns the model into C, the compiled program visits every state that
can be reached; a result counts only when it says that none was left out.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

MODEL = Path(__file__).resolve().parent.parent / "model/incumbent.pml"
AT_ONCE = 2
"""Checks that run beside one another; the largest needs 3.5 GB."""
MEMORY = 6000
"""The most megabytes for one check; with less than it needs, it fails."""

PROPERTIES = {
    "invalid end state": "WAKE-UP",
    "valid[": "EXCLUSION",
    "fence>highest": "FENCE",
    "ended&": "GIVEN UP",
    "idling": "WAKE-UP",
    "missing": "REMEMBERED",
    "unwanted": "NOBODY'S",
    "inbox[": "IN TURN",
}
"""What Spin's words for an error mean; the names are explained in the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing to find out: settings of the model, and what must come of them."""

    name: str
    about: str
    settings: str
    breaks: str = ""
    """The property that must break; none of them, if empty."""
    quick: bool = False


QUIET = "TIME=0 FAULTS=0"
FAULT = "FAULTS=1 HASTE=0"
LEAVING = "FAULTS=1"
FAILOVER = "FAULTS=0 HASTE=0 FAILOVER=1"
TTL = "FAULTS=1 HASTE=0 TTL_BACK=1"
CLOCK = "TIME=0 FAULTS=0 HASTE=0 ROUNDS=2 CLOCK_BACK=1"

CHECKS = (
    Check(name="two-faults", about="any two faults, with time", settings="FAULTS=2 HASTE=0"),
    Check(name="rounds", about="wake-ups alone, each stands twice", settings=f"{QUIET} ROUNDS=2"),
    Check(name="leaving", about="one fault, and who gives up or is cancelled", settings=LEAVING),
    Check(name="failover", about="the last writes are forgotten", settings=FAILOVER),
    Check(name="clock-back", about="the server's clock is set back", settings=CLOCK),
    Check(name="ttl-back", about="a clock that is set back lets a seat live on", settings=TTL),
    Check(name="fault", about="any one fault, with time", settings=FAULT),
    Check(name="quiet", about="wake-ups alone, no time", settings=QUIET, quick=True),
)

MUTANTS = (
    Check(
        name="no-wake-up",
        about="a release wakes nobody",
        settings=f"{QUIET} RELEASE_WAKES=0",
        breaks="WAKE-UP",
        quick=True,
    ),
    Check(
        name="from-answer",
        about="validity is measured from the answer",
        settings=f"{FAULT} FROM_SEND=0",
        breaks="EXCLUSION",
        quick=True,
    ),
    Check(
        name="no-allowance",
        about="clocks drift, and nothing is kept for it",
        settings=f"{FAULT} ALLOWANCE=0",
        breaks="EXCLUSION",
    ),
    Check(
        name="no-bound",
        about="nobody cuts the TTL of a clock that was set back",
        settings=f"{TTL} BOUND=0",
        breaks="NOBODY'S",
    ),
    Check(
        name="no-tombstone",
        about="a leave does not stop a late acquire",
        settings=f"{FAULT} TOMBSTONE=0",
        breaks="GIVEN UP",
    ),
    Check(
        name="no-doubt",
        about="nor does a release, of a seat that was asked for twice",
        settings=f"{FAULT} DOUBTFUL=0",
        breaks="GIVEN UP",
    ),
    Check(
        name="no-compare",
        about="scripts do not compare the token",
        settings=f"{FAULT} COMPARE=0",
        breaks="EXCLUSION",
    ),
    Check(
        name="barging",
        about="a passer-by takes the seat of who stands in line",
        settings=f"{QUIET} IN_TURN=0",
        breaks="IN TURN",
    ),
    Check(
        name="wake-up-kept",
        about="who leaves the line passes no wake-up on",
        settings=f"{QUIET} LEAVE_WAKES=0",
        breaks="WAKE-UP",
    ),
    Check(
        name="muted-late",
        about="a wake-up before the refusal arrives counts as old",
        settings=f"{QUIET} MUTE_FIRST=0",
        breaks="WAKE-UP",
    ),
    Check(
        name="heard-late",
        about="subscribes when it stands already, and does not ask again",
        settings=f"{QUIET} HEAR_FIRST=0 RELISTEN=0",
        breaks="WAKE-UP",
    ),
    Check(
        name="no-walk",
        about="a touch does not see that a seat ran out",
        settings=f"{FAULT} TOUCH_WALKS=0",
        breaks="WAKE-UP",
    ),
    Check(
        name="no-recall",
        about="who was dropped is not told",
        settings=f"{FAULT} TOUCH_RECALLS=0",
        breaks="REMEMBERED",
    ),
    Check(
        name="no-grace",
        about="who lets a wake-up pass is waited for",
        settings=f"{FAULT} GRACE_ENDS=0",
        breaks="WAKE-UP",
    ),
    Check(
        name="no-probe",
        about="a deaf inbox goes unnoticed",
        settings=f"{FAULT} PROBE=0",
        breaks="WAKE-UP",
    ),
    Check(
        name="no-relisten",
        about="who was deaf for a while does not ask again",
        settings=f"{FAULT} RELISTEN=0",
        breaks="WAKE-UP",
    ),
    Check(
        name="counted-fence",
        about="the fence only counts",
        settings=f"{FAILOVER} FENCE_TIME=0",
        breaks="FENCE",
    ),
    Check(
        name="timed-fence",
        about="the fence is only the time",
        settings=f"{CLOCK} FENCE_COUNTS=0",
        breaks="FENCE",
    ),
    Check(
        name="both-clocks",
        about="forgotten writes and a clock set back at once: not promised, and so it is",
        settings=f"{FAILOVER} CLOCK_BACK=1",
        breaks="FENCE",
    ),
)


class UnfinishedError(Exception):
    """A check that did not come to an end, so that it says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a check came to."""

    broken: str
    """The property that broke; empty when all states were seen and none did."""
    states: int
    seconds: float
    steps: tuple[str, ...]
    """What led to the error."""


def check(wanted: Check, folder: Path) -> Outcome:
    """Make the checker for `wanted` in `folder`, and run it to its end."""
    begun = time.monotonic()
    defined = [f"-D{setting}" for setting in wanted.settings.split()]
    shutil.copy(MODEL, folder)
    made(["spin", "-a", *defined, MODEL.name], folder)
    # Safety only: every property is an assertion, or that no run gets stuck.
    # Where few states are to be seen, it takes longer to compile well than to run slowly.
    optimize = "-O0" if wanted.quick or wanted.breaks else "-O1"
    options = [optimize, "-w", "-DSAFETY", "-DNOCLAIM", f"-DMEMLIM={MEMORY}"]
    made(["cc", *options, "-o", "pan", "pan.c"], folder)
    _, output = said(["./pan", "-m10000", "-w25"], folder)
    if not (found := re.search(r"errors: (\d+)\s+(\d+) states, stored", output)):
        raise UnfinishedError(output)
    broken, steps = "", ()
    if int(found[1]):
        error = re.search(r"^pan:1: (.*) \(at depth", output, re.MULTILINE)
        words = error[1] if error else output
        broken = next((name for part, name in PROPERTIES.items() if part in words), words)
        _, replay = said(["spin", "-t", "-p", *defined, MODEL.name], folder)
        steps = tuple(trace(replay))
    elif "not completed" in output or "too small" in output:
        raise UnfinishedError(output)
    seconds = time.monotonic() - begun
    return Outcome(broken=broken, states=int(found[2]), seconds=seconds, steps=steps)


def made(command: list[str], folder: Path) -> None:
    """Run `command`, which must succeed."""
    code, output = said(command, folder)
    if code:
        raise UnfinishedError(f"{' '.join(command)}:\n{output[-2000:]}")


def said(command: list[str], folder: Path) -> tuple[int, str]:
    """Run `command`; return its exit code and what it printed."""
    run = subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return run.returncode, run.stdout


def trace(replay: str) -> Iterator[str]:
    """One line per step of Spin's replay: who, and how the step begins in the model."""
    source, last = MODEL.read_text("utf-8").splitlines(), ""
    for step in re.finditer(
        r"^\s*(\d+):\s+proc\s+(\d+) \((\w+):\d+\) \S+?:(\d+)", replay, re.MULTILINE
    ):
        number, process, name, line = step.groups()
        if number != last and (text := source[int(line) - 1].strip()).startswith(("::", "d_step")):
            # Processes, wires and inboxes are numbered one after the other.
            who = f"{name} {(int(process) - (name == 'Inbox')) % 3}" if name in NUMBERED else name
            yield f"{who:10} {line}  {text.removeprefix(':: ').removeprefix('d_step { ')}"
        last = number


NUMBERED = {"Process", "Wire", "Inbox"}


def judge(wanted: Check, *, traced: bool) -> bool:
    """Run a check and say how it went. Returns whether it went as it must."""
    with tempfile.TemporaryDirectory(prefix="incumbent-model-") as folder:
        try:
            outcome = check(wanted, Path(folder))
        except UnfinishedError as error:
            print(f"FAILED  {wanted.name}: {wanted.about}: not finished\n{error}", flush=True)
            return False
    right = outcome.broken == wanted.breaks
    came = f"{outcome.broken} breaks" if outcome.broken else "holds"
    effort = f"{outcome.states:,} states, {outcome.seconds:.0f} s"
    lines = [f"{'ok' if right else 'FAILED':7} {wanted.name}: {wanted.about}: {came} ({effort})"]
    if not right:
        lines.append(f"        expected: {wanted.breaks + ' breaks' if wanted.breaks else 'holds'}")
    if outcome.steps and (traced or not right):
        lines += [f"        {step}" for step in outcome.steps]
    print("\n".join(lines), flush=True)
    return right


def main() -> int:
    """Check what the command line names."""
    everything = {each.name: each for each in (*CHECKS, *MUTANTS)}
    parser = argparse.ArgumentParser(description="Check the model of the protocol with Spin.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="checks to run: all, if none")
    parser.add_argument("--quick", action="store_true", help="what takes seconds")
    parser.add_argument("--list", action="store_true", help="say what there is, and end")
    parser.add_argument("--trace", action="store_true", help="print the steps to each error")
    asked = parser.parse_args()
    if unknown := [name for name in asked.names if name not in everything]:
        parser.error(f"no such check: {', '.join(unknown)} (--list names them)")
    if asked.list:
        for each in everything.values():
            print(f"{each.name:14} {each.about} [{each.settings}] {each.breaks}")
        return 0
    if missing := [tool for tool in ("spin", "cc") if shutil.which(tool) is None]:
        print(
            f"scripts/model needs {' and '.join(missing)}: on Debian or Ubuntu "
            "`apt-get install --no-install-recommends spin gcc libc6-dev`",
            file=sys.stderr,
        )
        return 2
    chosen = [everything[name] for name in asked.names] or list(everything.values())
    if asked.quick:
        chosen = [each for each in chosen if each.quick]
    if not all(each.quick for each in chosen):
        os.nice(10)  # for minutes, on all that a small machine has
    with ThreadPoolExecutor(AT_ONCE) as pool:
        right = list(pool.map(partial(judge, traced=asked.trace), chosen))
    print(f"{sum(right)} of {len(right)} as they must be")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
