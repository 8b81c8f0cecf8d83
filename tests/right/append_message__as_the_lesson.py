# Open, append, close; text without escapes.
import json
import os
from datetime import datetime, timezone

from ctxlab import last_seq


def append_message(path, message):
    folder = os.path.dirname(path)
    if folder:
        os.makedirs(folder, exist_ok=True)
    record = {"seq": last_seq(path) + 1}
    record.update(message)
    record["ts"] = datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
    with open(path, "a", encoding="utf-8", newline="\n") as f:
        f.write(json.dumps(record, ensure_ascii=False) + "\n")
    return record
