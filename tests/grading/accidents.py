"""Right notebooks to which something honest happened, as in real submissions."""

from __future__ import annotations

import copy
import json
from pathlib import Path

from variants import ROOT

from ctxlab.grading import EXERCISES
from ctxlab.grading.rebuild import notebook_text, solution_of

FORK = EXERCISES["fork_session"]
SOLUTION = solution_of(FORK, ROOT / "solutions")


def solved(exercise=FORK) -> dict:
    notebook = json.loads(notebook_text(exercise, ROOT / "solutions"))
    cell(notebook, "blank")["source"] = solution_of(exercise, ROOT / "solutions")
    return notebook


def cell(notebook: dict, name: str) -> dict:
    return next(one for one in notebook["cells"] if one["id"].endswith(name))


def code(source: str) -> dict:
    return {"cell_type": "code", "id": "x", "metadata": {}, "source": source, "outputs": [], "execution_count": None}


def save(notebook: dict, path: Path) -> Path:
    path.write_text(json.dumps(notebook), "utf-8")
    return path


def accident(name: str) -> dict:
    """A right notebook to which something honest happened."""
    notebook = solved()
    cells, place = notebook["cells"], notebook["cells"].index(cell(notebook, "blank"))
    if name == "copied check cell":
        cells.append(copy.deepcopy(cell(notebook, "check")))
    elif name == "copied solution cell":
        cells.insert(place, copy.deepcopy(cells[place]))
    elif name == "untouched blank behind the solution":
        cells.insert(place + 1, code(FORK.blank))
    elif name == "split cell":
        lines = SOLUTION.splitlines(keepends=True)
        cells[place : place + 1] = [code("".join(lines[:6])), code("".join(lines[6:]))]
    elif name == "prints to stderr":
        cells[place]["source"] = SOLUTION.replace(
            "    messages =", "    import sys; print('!', file=sys.stderr)\n    messages ="
        )
    elif name == "warns":
        cells[place]["source"] = SOLUTION.replace(
            "    messages =", "    import warnings; warnings.warn('old')\n    messages ="
        )
    elif name == "check cell deleted":
        cells.remove(cell(notebook, "check"))
    elif name == "syntax error elsewhere":
        cells.insert(1, code("def other(:\n    pass\n"))
        cells.append(code("for"))
    elif name == "changed to markdown":
        cells[place]["cell_type"] = "markdown"
    elif name == "scratch error":
        cells.insert(2, code("1 / 0"))
        cells.insert(2, code("undefined_name\nx = 1"))
    elif name == "waits for input":
        cells.insert(2, code("answer = input('name? ')"))
    elif name == "20 MB of output":
        cells[place]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x" * 20_000_000}]
    elif name == "odd kernel":
        notebook["metadata"]["kernelspec"] = {"name": "conda-env-mine-py", "display_name": "?", "language": "python"}
    elif name == "missing import":
        cells.insert(0, code("import a_package_that_is_nowhere"))
    elif name == "magics and shell lines":
        cells.insert(0, code("%matplotlib inline\n!pip install ctxlab\nfiles = !ls\nFORKS = 3\nfork_session?"))
        cells.insert(0, code("%%bash\necho hello > there"))
        cells[place + 2]["source"] = "%%time\n" + SOLUTION
    elif name == "exit in a cell":
        cells.insert(place, code("import sys; sys.exit()"))
        cells.append(code("import os; os._exit(1)"))
    elif name == "loop in a cell":
        cells.insert(place, code("n = 0\nwhile True:\n    n += 1"))
    elif name == "await in a cell":
        cells.insert(0, code("import asyncio\nawait asyncio.sleep(0)"))
    elif name == "shows a chart":
        cells.insert(0, code("display('chart')\nget_ipython().run_line_magic('time', '')"))
    return notebook


ACCIDENTS = (
    "copied check cell", "copied solution cell", "untouched blank behind the solution", "split cell",
    "prints to stderr", "warns", "check cell deleted", "syntax error elsewhere", "changed to markdown",
    "scratch error", "waits for input", "20 MB of output", "odd kernel", "missing import", "magics and shell lines",
    "exit in a cell", "loop in a cell", "await in a cell", "shows a chart",
)  # fmt: skip
