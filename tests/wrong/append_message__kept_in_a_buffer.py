# fails: one-line, seq, ts-utc, keys-kept, text-round-trips, visible, folder-made, returns-record, torn-line, two-writers, flushed, cost-flat
# The file stays open, and the line in its buffer.
import json
from datetime import UTC, datetime
from pathlib import Path

FILES = {}
SEQS = {}


def append_message(path: str, message: dict) -> dict:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    if path not in FILES:
        FILES[path] = open(path, "a+")
        FILES[path].seek(0)
        SEQS[path] = len(FILES[path].readlines())
    SEQS[path] += 1
    record = {"seq": SEQS[path], **message, "ts": datetime.now(UTC).isoformat()}
    FILES[path].write(json.dumps(record) + "\n")
    return record
