"""kit.records: what a process wrote down is read back, also when it was killed in the middle."""

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from kit.growing import growing
from kit.records import Record, Recorder, now, read_records

TESTS = Path(__file__).parent


def test_read_back_by_time(tmp_path: Path) -> None:
    """Records of several files come in the order of their times, with all fields."""
    late = Record(process="a", kind="stopped", at=2.0, election="x", seat=1, fence=7)
    early = Record(process="b", kind="elected", at=1.0, valid_until=3.5, detail="é")
    for name, record in (("a", late), ("b", early)):
        with Recorder(tmp_path / f"{name}.jsonl") as recorder:
            recorder.write(record)
    assert read_records(tmp_path) == [early, late]
    assert read_records([tmp_path / "a.jsonl"]) == [late]


def test_half_a_line_is_not_counted(tmp_path: Path) -> None:
    """What a kill left of the last line is no record."""
    whole = Record(process="a", kind="work", at=1.0)
    (tmp_path / "a.jsonl").write_bytes(whole.line() + whole.line()[:-5])
    assert read_records(tmp_path) == [whole]


@pytest.mark.parametrize("cut", [1, 40, -1])
def test_a_line_that_is_being_written(
    cut: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rest, which comes while the file is read, is not taken for a line of its own."""
    first, second = (Record(process="a", kind="work", at=at) for at in (1.0, 2.0))
    line = second.line()
    file = growing(first.line() + line[:cut], b"", line[cut:])
    monkeypatch.setattr(Path, "open", lambda *_: file)
    assert read_records([tmp_path / "a.jsonl"]) == [first]


def test_records_outlive_a_kill(tmp_path: Path) -> None:
    """What was written before SIGKILL is there, without any closing."""
    script = textwrap.dedent(
        """
        import os, sys
        from pathlib import Path
        from kit.records import Record, Recorder, now
        Recorder(Path(sys.argv[1])).write(Record(process="a", kind="work", at=now()))
        os.kill(os.getpid(), 9)
        """
    )
    before = now()
    command = [sys.executable, "-c", script, str(tmp_path / "a.jsonl")]
    assert subprocess.run(command, env={"PYTHONPATH": str(TESTS)}).returncode == -9
    (record,) = read_records(tmp_path)
    assert before < record.at < now()  # two processes, one clock


def test_an_unknown_kind_is_refused() -> None:
    """A typing error in a test is no silent hole in its proof."""
    with pytest.raises(ValueError, match="kind must be one of"):
        Record(process="a", kind="electd", at=0.0)  # type: ignore[arg-type] # that is the point


def test_the_clock_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no wall clock: stepping that one changes nothing."""
    monkeypatch.setattr(time, "time", lambda: 0.0)
    first = now()
    assert now() >= first > 0
