"""Ends a stack when its owner is gone, however that came about.

A Guard is a small process that waits on a pipe which only the owner holds open: a kill -9 of the
owner closes it as surely as a clean exit does. It sits in a session of its own, so that a Ctrl-C
which ends the owner does not end the guard before its work. It ends only the very stack that it
was started for, never a later one in the same folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from deploy.local.services import base_environment


class Guard:
    """Has the stack ``instance`` in ``root`` ended when this process ends."""

    def __init__(self, root: Path, instance: str) -> None:
        read_end, self._write_end = os.pipe()
        child = subprocess.Popen(
            [sys.executable, "-m", "deploy.local.reaper", str(root), instance, str(read_end)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=base_environment(),
            pass_fds=(read_end,),
            start_new_session=True,
        )
        os.close(read_end)
        self._child = child

    def release(self) -> None:
        """Let the guard go, once the stack has ended; it finds nothing and exits."""
        os.close(self._write_end)
        self._child.wait()


def main(root: Path, instance: str, read_end: int) -> None:
    """Wait for the end of the owner, then end the stack."""
    os.read(read_end, 1)
    from deploy.local.ending import down

    down(root, instance)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
