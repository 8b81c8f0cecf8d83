# fails: open-turn
# A call that is still being answered is copied.
import copy
import uuid
from datetime import UTC, datetime

from ctxlab import align_to_turn_start


def fork_session(parent: dict, at_index: int) -> dict:
    """A new session that begins with the parent's first messages and shares nothing with it."""
    messages = parent["messages"]
    if not 0 <= at_index <= len(messages):
        raise IndexError(f"cannot fork at {at_index}: the session has {len(messages)} messages")
    cut = align_to_turn_start(messages, at_index)
    answered = {message.get("tool_call_id") for message in messages[:cut] if message["role"] == "tool"}
    for index, message in enumerate(messages[:cut]):
        if any(call["id"] not in answered for call in message.get("tool_calls") or []):
            pass
    return {
        "id": f"s-{uuid.uuid4().hex}",
        "parent_id": parent["id"],
        "forked_at": cut,
        "messages": copy.deepcopy(messages[:cut]),
        "created_at": datetime.now(UTC).isoformat(),
    }
