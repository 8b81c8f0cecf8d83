# Four bytes of UTF-8 a token: near enough in the languages that are asked.
def estimate_tokens(history):
    size = 0
    for m in history:
        content = m.get("content")
        if isinstance(content, list):
            content = "".join(p.get("text", "") for p in content)
        size += len((content or "").encode("utf-8", "replace"))
        for call in m.get("tool_calls", []):
            size += len(call["function"]["name"]) + len(call["function"]["arguments"])
        size += 12
    return size // 4
