# One os.write on a file opened to be flushed each time.
import copy
import datetime
import json
import os

import ctxlab


def append_message(path, message):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    record = copy.deepcopy(message)
    record["seq"] = ctxlab.last_seq(path) + 1
    record["ts"] = datetime.datetime.now(datetime.UTC).isoformat()
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_DSYNC, 0o644)
    try:
        os.write(fd, (json.dumps(record) + "\n").encode("utf-8"))
    finally:
        os.close(fd)
    return record
