# Its own walk back, and a copy by hand; the time with the local offset.
from datetime import datetime
from uuid import uuid4


def own(value):
    if isinstance(value, dict):
        return {k: own(v) for k, v in value.items()}
    if isinstance(value, list):
        return [own(v) for v in value]
    return value


def fork_session(parent, at_index):
    messages = parent["messages"]
    cut = at_index
    while 0 < cut < len(messages) and messages[cut]["role"] == "tool":
        cut -= 1
    return {
        "id": str(uuid4()),
        "parent_id": parent["id"],
        "forked_at": cut,
        "messages": [own(m) for m in messages[:cut]],
        "created_at": datetime.now().astimezone().isoformat(),
    }
