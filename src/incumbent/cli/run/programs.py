"""Whether a program can be run, as a shell would say it before it tries."""

import errno
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path


def refusal(program: str) -> int:
    """The number of the error (`errno`) for which `program` cannot be run; 0 if it seems it can.

    ENOENT if there is none of that name, EISDIR if it is a folder, EACCES if it may not be run.
    """
    if shutil.which(program) is not None:
        return 0
    if os.path.dirname(program):  # noqa: PTH120 - a Path would lose the "./"
        try:
            folder = stat.S_ISDIR(Path(program).stat().st_mode)
        except OSError as error:
            return errno.EACCES if isinstance(error, PermissionError) else errno.ENOENT
        return errno.EISDIR if folder else errno.EACCES
    for folder_of_path in os.get_exec_path():
        with suppress(OSError):  # one that may not be searched has nothing for us
            if (Path(folder_of_path) / program).is_file():
                return errno.EACCES
    return errno.ENOENT
