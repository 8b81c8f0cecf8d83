# No last_seq: the lines are counted.
import json
import time
from pathlib import Path


def append_message(path, message):
    p = Path(path)
    p.parent.mkdir(parents=True, exist_ok=True)
    seq = len(p.read_bytes().split(b"\n")) if p.exists() else 1
    ts = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
    record = {**message, "ts": ts, "seq": seq}
    with p.open("ab") as f:
        f.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
    return record
