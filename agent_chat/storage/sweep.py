"""Remove what crashed processes left in `.tmp/`; nothing reads it, so this may happen at any time, or never."""

from __future__ import annotations

import time

from agent_chat.storage import disk

STALE = 3600.0  # seconds


def sweep_temporaries(folder: disk.Folder) -> None:
    """Remove what has lain in the folder's `.tmp/` for over an hour, as far as that is possible."""
    try:
        with folder.sub(disk.TMP) as temporaries:
            for name in temporaries.names():
                try:
                    if time.time() - temporaries.lstat(name).st_mtime > STALE:
                        temporaries.remove(name)
                except OSError:
                    continue  # its owner, or another sweeper, was quicker
    except OSError:
        pass  # another time
