"""Run somebody's Python apart: a worker process with limits, and questions and answers over a pipe.

`Worker` starts one and ends it with everything that it left; its ``channel`` asks. What the answers are worth is the
asker's business: nothing in here judges. `beside` asks a fork of the present process instead, for a notebook.
`isolation` says how far a worker is shut off on this machine, and `require_isolation` refuses less.
"""

from ctxlab.sandbox.fork import Fork, Here, beside
from ctxlab.sandbox.guard import hide_argument
from ctxlab.sandbox.host import Broken, Channel, Limits, Service, ServiceRaised, Worker, WorkerError
from ctxlab.sandbox.jail import LEVELS, Isolation
from ctxlab.sandbox.levels import IsolationTooWeak, at_level, available, isolation, require_isolation

__all__ = [
    "LEVELS",
    "Broken",
    "Channel",
    "Fork",
    "Here",
    "Isolation",
    "IsolationTooWeak",
    "Limits",
    "Service",
    "ServiceRaised",
    "Worker",
    "WorkerError",
    "at_level",
    "available",
    "beside",
    "hide_argument",
    "isolation",
    "require_isolation",
]
