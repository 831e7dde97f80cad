"""Ends a stack when its owner is gone, however that came about.

`guard` starts a small process that waits on a pipe which only the owner holds open: a kill -9 of
the owner closes it as surely as a clean exit does. It sits in a session of its own, so that a
Ctrl-C which ends the owner does not end the reaper before its work.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from deploy.local.services import base_environment


def guard(root: Path) -> None:
    """Have the stack in ``root`` ended when this process ends."""
    read_end, write_end = os.pipe()
    os.set_inheritable(write_end, False)
    child = subprocess.Popen(
        [sys.executable, "-m", "deploy.local.reaper", str(root), str(read_end)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=base_environment(),
        pass_fds=(read_end,),
        start_new_session=True,
    )
    child.returncode = 0  # it outlives this process on purpose
    os.close(read_end)


def main(root: Path, read_end: int) -> None:
    """Wait for the end of the owner, then end the stack."""
    os.read(read_end, 1)
    from deploy.local.stack import down

    down(root)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
