# The whole parent is copied first, then shortened.
from copy import deepcopy
from datetime import datetime, timezone
from itertools import count

from ctxlab import align_to_turn_start

NUMBERS = count(1)


def fork_session(parent: dict, at_index: int) -> dict:
    fork = deepcopy(parent)
    fork["parent_id"] = fork["id"]
    fork["id"] = f"fork-{next(NUMBERS)}-{datetime.now().timestamp()}"
    fork["forked_at"] = align_to_turn_start(fork["messages"], at_index)
    del fork["messages"][fork["forked_at"] :]
    fork["created_at"] = datetime.now(timezone.utc).isoformat()
    return fork
