# fails: ts-utc
# The local time with a Z behind it.
import json
from datetime import UTC, datetime
from pathlib import Path

from ctxlab import last_seq

import fcntl
import os


def append_message(path: str, message: dict) -> dict:
    """Append the message to the session file as one JSON line; return the record that was written."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # another writer waits here, so no number is given twice
        record = {"seq": last_seq(path) + 1, **message, "ts": datetime.now().isoformat() + "Z"}
        line = json.dumps(record).encode() + b"\n"
        if file.seek(0, os.SEEK_END) > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                line = b"\n" + line  # a crash left half a line: end it, so that it does not swallow this one
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
    return record
