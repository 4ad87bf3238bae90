"""Get an environment that has the rivals as well, and run the benchmark in it.

Standard library only: runs before anything is installed.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import bootstrap  # noqa: E402 # found by the line above


def main() -> None:
    """Become the benchmark; only a failed set-up ends here."""
    try:
        env, lock = bootstrap.prepare("bench")
    except subprocess.CalledProcessError as error:
        sys.exit(f"set-up failed (pip exited with {error.returncode}); the next run tries again")
    os.set_inheritable(lock.fileno(), True)  # the environment is in use until we end
    variables = bootstrap.environment(env)
    variables["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    python = str(env / "bin/python")
    os.execve(python, [python, "-m", "bench", *sys.argv[1:]], variables)


if __name__ == "__main__":
    main()
