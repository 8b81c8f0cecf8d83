# Characters weighed by what they are: 0.25 for ASCII, 0.75 for others.
def weigh(value):
    if value is None:
        return 0
    if isinstance(value, str):
        return sum(0.25 if ord(c) < 128 else 0.75 for c in value)
    if isinstance(value, list):
        return sum(map(weigh, value))
    if isinstance(value, dict):
        return sum(weigh(v) for k, v in value.items() if k not in ("type", "role", "id", "tool_call_id"))
    return 1


estimate_tokens = lambda history: round(sum(4 + weigh(m) for m in history))
