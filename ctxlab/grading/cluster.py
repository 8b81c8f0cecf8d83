"""Grade on a Dask cluster: each submission is one task, and each task is what one machine does for one submission.

``local`` starts a cluster of processes on this machine, ``tcp://...`` is a scheduler that runs already, whose workers
have this version of ctxlab and see the submissions under the same paths. A worker that dies loses nothing: its task is
given to another one. A result is taken once, from its task, so nobody is graded into the results twice.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from ctxlab import __version__
from ctxlab.errors import CtxlabError
from ctxlab.grading.batch import grade_one, ungraded
from ctxlab.grading.exercises import EXERCISES
from ctxlab.grading.model import SubmissionResult
from ctxlab.grading.results import from_line, to_line
from ctxlab.grading.submissions import Submission
from ctxlab.sandbox import Limits

DASK = "distributed"  # the module; imported when a cluster is asked for
AHEAD = 2  # tasks a thread of the cluster, so that none waits for the next one; picked
WAIT = 10  # seconds for a scheduler to answer; picked


class ClusterRefused(CtxlabError, RuntimeError):
    """A cluster that cannot be used: not installed, not reached, or of another version. ``scheduler``."""


def stream_on_cluster(
    submissions: Sequence[Submission], exercise: str | None, seed: int, scheduler: str, jobs: int, limits: Limits
) -> Iterator[tuple[int, SubmissionResult]]:
    """As `batch.stream`, on a cluster. Raises `ClusterRefused`."""
    try:
        dask = importlib.import_module(DASK)
    except ImportError:
        hint = "pip install 'ctxlab[cluster]'"
        raise ClusterRefused("distributed is not installed", hint=hint, scheduler=scheduler) from None
    with ExitStack() as stack:
        client = _client(dask, stack, scheduler, jobs)
        threads = sum(client.nthreads().values()) or jobs
        coming = iter(enumerate(submissions))
        places: dict[str, int] = {}

        def submit(count: int) -> list[Any]:
            made = []
            for place, one in itertools.islice(coming, count):
                made.append(client.submit(task, one, exercise, seed, limits, pure=False))
                places[made[-1].key] = place
            return made

        done = dask.as_completed(submit(AHEAD * threads), raise_errors=False)
        for future in done:
            place = places.pop(future.key)
            if future.status == "error":
                chosen = None if exercise is None else EXERCISES[exercise]
                yield place, ungraded(submissions[place], chosen, future.exception())
            else:
                yield place, from_line(future.result())
            done.update(submit(1))


def task(submission: Submission, exercise: str | None, seed: int, limits: Limits) -> dict[str, Any]:
    """What a worker does: one submission's result, as a line of the results."""
    return to_line(grade_one(submission, None if exercise is None else EXERCISES[exercise], seed, limits))


def version() -> str:
    """The version of ctxlab that a worker has."""
    return __version__


def _client(dask: Any, stack: ExitStack, scheduler: str, jobs: int) -> Any:
    if scheduler == "local":
        cluster = dask.LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address=None)
        return stack.enter_context(dask.Client(stack.enter_context(cluster)))
    try:
        client = stack.enter_context(dask.Client(scheduler, timeout=WAIT))
    except (OSError, ValueError) as error:
        raise ClusterRefused(
            f"no Dask scheduler answers at {scheduler}: {error}",
            hint="'local', or the address that dask scheduler printed, such as tcp://10.0.0.5:8786",
            scheduler=scheduler,
        ) from None
    others = {found for found in client.run(version).values() if found != __version__}
    if others:
        raise ClusterRefused(
            f"workers of {scheduler} have ctxlab {', '.join(sorted(map(str, others)))}, and this is {__version__}",
            hint="install the same version on all of them",
            scheduler=scheduler,
        )
    return client
