"""Run somebody's Python apart: a worker process with limits, and questions and answers over a pipe.

`Worker` starts one and ends it with everything that it left; its ``channel`` asks. What the answers are worth is the
asker's business: nothing in here judges. `beside` asks a fork of the present process instead, for a notebook.
"""

from ctxlab.sandbox.fork import Fork, Here, beside
from ctxlab.sandbox.host import Broken, Channel, Limits, Service, ServiceRaised, Worker, WorkerError
from ctxlab.sandbox.jail import Isolation, isolation

__all__ = [
    "Broken",
    "Channel",
    "Fork",
    "Here",
    "Isolation",
    "Limits",
    "Service",
    "ServiceRaised",
    "Worker",
    "WorkerError",
    "beside",
    "isolation",
]
