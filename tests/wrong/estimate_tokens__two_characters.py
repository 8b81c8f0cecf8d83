# fails: band-english, within-10-percent
# Two characters a token.
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
            total += len(part.get("text") or "") // 2 if part.get("type") == "text" else IMAGE
        for call in message.get("tool_calls") or []:
            total += FRAME + len(call["function"]["name"] + call["function"]["arguments"]) // 2
        total += FRAME
    return total
