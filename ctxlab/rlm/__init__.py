"""The other way: recursive language models (arXiv 2512.24601), small enough to read.

`run_rlm` answers a question about a text that the model is never shown: it writes code that looks at it, in a sandbox,
and asks sub-questions about parts. `compare_ways` puts that beside sending everything and beside compaction, on
records and questions that `corpus` makes. It is about which information reaches the model; which layer of a session
holds the truth is the log's business, and the two go together.
"""

from __future__ import annotations

from ctxlab.rlm.corpus import Record, Task, as_text, records, tasks
from ctxlab.rlm.loop import DEFAULT_LIMITS, RlmLimits, code_in, run_rlm
from ctxlab.rlm.reader import MockReader
from ctxlab.rlm.trace import RlmStep, Run, SubCall, Usage, to_json
from ctxlab.rlm.ways import COMPACTION, FULL, RLM, WAYS, Attempt, Compared, compare_ways

__all__ = [
    "COMPACTION",
    "DEFAULT_LIMITS",
    "FULL",
    "RLM",
    "WAYS",
    "Attempt",
    "Compared",
    "MockReader",
    "Record",
    "RlmLimits",
    "RlmStep",
    "Run",
    "SubCall",
    "Task",
    "Usage",
    "as_text",
    "code_in",
    "compare_ways",
    "records",
    "run_rlm",
    "tasks",
    "to_json",
]
