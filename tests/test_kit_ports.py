"""Ports of the test kit: nobody answers in place of a server that is down."""

import os
import subprocess
import sys
from pathlib import Path

from kit import ports
from kit.ports import EACH, free_port

DRAWS = """
from kit.ports import own_ports
print(own_ports()[0], flush=True)
input()
"""


def test_no_two_processes_have_a_port_in_common() -> None:
    """Also when they belong to two test runs; who has ended has none."""
    env = os.environ | {"PYTHONPATH": str(Path(ports.__file__).parents[1])}

    def start() -> "subprocess.Popen[str]":
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [sys.executable, "-c", DRAWS], stdin=pipe, stdout=pipe, env=env, text=True
        )

    firsts = [ports.own_ports()[0]]
    with start() as one, start() as other:
        for process in (one, other):
            assert process.stdout is not None
            firsts.append(int(process.stdout.readline()))
        for process in (one, other):
            process.communicate("\n")
    assert len(set(firsts)) == 3


def test_a_port_is_not_drawn_again_soon() -> None:
    """Whoever had it may be down, and come back."""
    drawn = [free_port() for _ in range(EACH // 4)]
    assert len(set(drawn)) == len(drawn)
