"""The kit's sample conversation: a library's desk agent. Synthetic: written by hand, never recorded."""

from __future__ import annotations

from functools import cache

from ctxlab.formats import Conversation, load
from ctxlab.kit import folder

FILE = "data/library_desk.synthetic.json"


@cache
def library_desk() -> Conversation:
    """A library's desk agent with twelve tools, in OpenAI chat form. Raises `KitMissing` where it is not installed."""
    return load(folder("notebooks") / FILE)
