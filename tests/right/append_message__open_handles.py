# A class that keeps its file open and unbuffered.
import json
from datetime import datetime, timezone
from pathlib import Path


class SessionFile:
    files = {}

    def __init__(self, path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self.file = open(path, "ab+", buffering=0)
        self.file.seek(0)
        self.seq = sum(1 for _ in self.file)

    def append(self, message):
        self.seq += 1
        record = dict(message, seq=self.seq, ts=datetime.now(tz=timezone.utc).isoformat())
        self.file.write(json.dumps(record).encode() + b"\n")
        return record


def append_message(path: str, message: dict) -> dict:
    if path not in SessionFile.files:
        SessionFile.files[path] = SessionFile(path)
    return SessionFile.files[path].append(message)
