"""An endpoint on loopback in the shape of OpenAI's and of Anthropic's, as strict as they are.

It refuses what the real ones refuse, in their words; counts tokens; overflows at a window that you choose; streams; and
calls tools in parallel. The scripted model answers. Point your own code at it, with any key:

    OPENAI_BASE_URL=http://127.0.0.1:8765/v1   ANTHROPIC_BASE_URL=http://127.0.0.1:8765

A refused history also gets the header ``x-ctxlab-rule`` with the id of the rule that it broke (`ctxlab.RULES`), which
the real endpoints do not send.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from ctxlab.errors import CtxlabError
from ctxlab.mock_api.server import HOST, Exchange, MockAPI, serve
from ctxlab.mock_api.wire import Settings

__all__ = ["HOST", "PORT", "Exchange", "MockAPI", "Settings", "run", "serve"]

PORT = 8765
"""The port of ``ctxlab mock-api`` (picked)."""


def run(port: int = PORT, *, echo: Callable[[str], object] | None = None, **options: Any) -> None:
    """Serves until Ctrl-C: what ``ctxlab mock-api`` does. ``options`` are those of `serve`.

    ``echo`` gets the lines to show: where it listens, and one a request, with the rule that a refused one broke. Raises
    `CtxlabError` where the port is taken.
    """
    say = echo or _to_stderr
    try:
        with serve(port, on_exchange=lambda exchange: say(str(exchange)), **options) as api:
            say(f"OPENAI_BASE_URL={api.openai_base_url}  ANTHROPIC_BASE_URL={api.anthropic_base_url}  (any key)")
            say(f"window {api.settings.window:,} tokens; Ctrl-C ends it")
            threading.Event().wait()
    except KeyboardInterrupt:
        say("ended")
    except OSError as error:
        raise CtxlabError(f"cannot listen on {HOST}:{port}: {error.strerror}", hint="choose another --port") from None


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
