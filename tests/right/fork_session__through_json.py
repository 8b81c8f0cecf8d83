# A deep copy by way of JSON.
import json
import secrets
from datetime import datetime, timezone

import ctxlab


def fork_session(parent, at_index):
    cut = ctxlab.align_to_turn_start(parent["messages"], at_index)
    child = json.loads(json.dumps(parent))
    child["messages"] = child["messages"][:cut]
    child.update(
        id=secrets.token_hex(8),
        parent_id=parent["id"],
        forked_at=cut,
        created_at=datetime.now(timezone.utc).isoformat().replace("+00:00", "Z"),
    )
    return child
