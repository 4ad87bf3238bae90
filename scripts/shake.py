"""Get an environment with all that the tests need, and run `kit.shake` of the tests in it.

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
    """Become the run; only a failed set-up ends here."""
    try:
        env, lock = bootstrap.prepare("shake")
    except (subprocess.CalledProcessError, OSError) as error:
        sys.exit(f"set-up failed ({error}); the next run tries again")
    os.set_inheritable(lock.fileno(), True)  # the environment is in use until we end
    variables = bootstrap.environment(env) | {"PYTHONPATH": str(ROOT / "tests")}
    python = str(env / "bin/python")
    os.chdir(ROOT)
    os.execve(python, [python, "-m", "kit.shake", *sys.argv[1:]], variables)


if __name__ == "__main__":
    main()
